"""Values as people write them in settings: durations, sizes, addresses.

YAML, environment or option -> seconds, bytes, HOST:PORT; ValueError says what was expected.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from onpath_collector.downstream.endpoint import parse_endpoint

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def _duration(value: object) -> object:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h)\s*", value)
        if not found:
            raise ValueError("expected a duration such as 500ms, 2s, 10m or 1h")
        return float(found[1]) * _UNITS[found[2]]
    if isinstance(value, bool) or not isinstance(value, int | float) or value != 0:
        raise ValueError("expected a duration with its unit, such as 500ms, 2s, 10m or 1h")
    return float(value)


def _size(value: object) -> object:
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(B|KiB|MiB|GiB|KB|MB|GB)\s*", value)
        if not found:
            raise ValueError("expected a size such as 64MiB or 1GiB")
        return int(float(found[1]) * _SIZES[found[2]])
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("expected a size with its unit, such as 64MiB, or a number of bytes")
    return value


def worker_count(value: object) -> object:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)  # from the environment
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ValueError("expected auto, or the number of worker processes (0: judge in the collector's own process)")
    return value


def _address(value: str) -> str:
    """HOST:PORT, the host of IPv6 in brackets."""
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("expected HOST:PORT, such as 127.0.0.1:4317 (port 0: any free port)")
    return value


def _target(value: str) -> str:
    try:
        parse_endpoint(value)
    except ValueError as error:
        raise ValueError(f"{error}; expected grpc://HOST:PORT, http://HOST:PORT or https://HOST:PORT") from None
    return value


Duration = Annotated[float, BeforeValidator(_duration), Field(ge=0)]
Time = Annotated[float, BeforeValidator(_duration), Field(gt=0)]  # a duration that something takes
Size = Annotated[int, BeforeValidator(_size), Field(ge=0)]
Address = Annotated[str, AfterValidator(_address)]
Target = Annotated[str, AfterValidator(_target)]

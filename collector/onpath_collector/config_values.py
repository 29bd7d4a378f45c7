"""Values as people write them in settings: durations, sizes, addresses.

YAML, environment or option -> seconds, bytes, HOST:PORT; ValueError says what was expected.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from onpath.units import byte_count, duration_text, seconds, size_text
from onpath_collector.downstream.endpoint import parse_endpoint


def _duration(value: object) -> object:
    if isinstance(value, str):
        return seconds(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != 0:
        raise ValueError("expected a duration with its unit, such as 500ms, 2s, 10m or 1h")
    return float(value)


def _size(value: object) -> object:
    if isinstance(value, str):
        return byte_count(value)
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
    parse_endpoint(value)
    return value


# In JSON, which is what is shown of settings, they are written as they are read.
_Seconds = Annotated[float, BeforeValidator(_duration), PlainSerializer(duration_text, when_used="json")]
Duration = Annotated[_Seconds, Field(ge=0)]
Time = Annotated[_Seconds, Field(gt=0)]  # a duration that something takes
Size = Annotated[int, BeforeValidator(_size), Field(ge=0), PlainSerializer(size_text, when_used="json")]
Address = Annotated[str, AfterValidator(_address)]
Target = Annotated[str, AfterValidator(_target)]

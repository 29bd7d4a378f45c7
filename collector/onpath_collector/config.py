"""Settings of the collector: one YAML file, environment variables over it, command-line options over both.

Data flow: file -> (${env:...} filled in) -> pydantic-settings, which lays `ONPATH_*` variables and options over it ->
frozen `Settings`. All problems are reported at once, each with the place it was written. Durations are seconds and
sizes are bytes once loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from onpath.policy.yaml import Document, read_text

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_ENV: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ConfigError(ValueError):
    """A configuration that is not used; `problems` are all that is wrong with it, one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


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


def _address(value: str) -> str:
    """HOST:PORT, the host of IPv6 in brackets."""
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("expected HOST:PORT, such as 127.0.0.1:4317 (port 0: any free port)")
    return value


def _target(value: str) -> str:
    if not re.fullmatch(r"(?:grpc|http|https)://[^/\s]+(?:/\S*)?", value):
        raise ValueError("expected grpc://HOST:PORT, http://HOST:PORT or https://HOST:PORT")
    return value


Duration = Annotated[float, BeforeValidator(_duration), Field(ge=0)]
Size = Annotated[int, BeforeValidator(_size), Field(ge=0)]
Address = Annotated[str, AfterValidator(_address)]
Target = Annotated[str, AfterValidator(_target)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GrpcReceiverSettings(_Part):
    endpoint: Address = "127.0.0.1:4317"
    max_request: Size = 64 << 20
    max_in_flight: Size = 256 << 20


class ReceiversSettings(_Part):
    grpc: GrpcReceiverSettings = GrpcReceiverSettings()


class BufferConfig(_Part):
    settle_delay: Duration = 2.0
    orphan_delay: Duration = 10.0
    idle_timeout: Duration = 120.0
    max_age: Duration = 1800.0
    span_limit: Annotated[int, Field(ge=1)] = 20_000
    trace_bytes_limit: Size = 32 << 20
    memory_limit: Size | None = None  # None: 70 % of what the cgroup or the machine allows
    late_window: Duration = 600.0
    late_bytes: Size = 64 << 20
    settled_memory: Annotated[int, Field(ge=1)] = 1_000_000
    group_by: str | None = None
    session_idle: Duration = 600.0
    root_attributes: dict[str, str] = {}


class QueueConfig(_Part):
    requests: Annotated[int, Field(ge=1)] = 1000
    bytes: Size = 256 << 20


class RetryConfig(_Part):
    initial: Duration = 5.0
    multiplier: Annotated[float, Field(ge=1)] = 1.5
    max: Duration = 30.0
    elapsed: Duration = 300.0  # 0: for ever


class ForwardConfig(_Part):
    endpoint: Target | None = None
    protocol: Literal["grpc"] = "grpc"
    headers: dict[str, str] = {}
    compression: Literal["none", "gzip"] = "none"
    timeout: Duration = 10.0
    queue: QueueConfig = QueueConfig()
    retry: RetryConfig = RetryConfig()


class EvaluateConfig(_Part):
    workers: Literal["auto"] | Annotated[int, Field(ge=0)] = "auto"
    timeout: Duration = 5.0
    queue: Annotated[int, Field(ge=1)] = 1000

    @property
    def processes(self) -> int:
        """`auto` is cores minus one, at least one process; 0 judges in the collector's own process."""
        if self.workers == "auto":
            return max(1, len(os.sched_getaffinity(0)) - 1)
        return self.workers


class ResultsConfig(_Part):
    endpoint: Target | None = None
    protocol: Literal["grpc"] = "grpc"
    headers: dict[str, str] = {}
    spans: Literal["clamped", "realtime", "linked", "off"] = "clamped"
    report_file: str | None = None


class LogConfig(_Part):
    format: Literal["auto", "console", "json"] = "auto"  # auto: console on a terminal, else json
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(BaseSettings):
    """All of the collector's settings; see collector/README.md for what each does."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix="ONPATH_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
    )
    _file: ClassVar[Mapping[str, Any]] = {}

    receivers: ReceiversSettings = ReceiversSettings()
    buffer: BufferConfig = BufferConfig()
    forward: ForwardConfig = ForwardConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    results: ResultsConfig = ResultsConfig()
    policy: str | dict[str, Any] | list[Any] | None = None
    shutdown_timeout: Duration = 20.0
    log: LogConfig = LogConfig()

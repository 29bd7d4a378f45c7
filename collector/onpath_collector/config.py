"""Settings of the collector: one YAML file, environment variables over it, command-line options over both.

Data flow: file -> (${env:...} filled in) -> pydantic-settings, which lays `ONPATH_*` variables and options over it ->
frozen `Settings`. All problems are reported at once, each with the place it was written. Durations are seconds and
sizes are bytes once loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    HttpUrl,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from onpath.policy.problems import pointer
from onpath.policy.yaml import Document, read_text
from onpath.results_presets import Preset
from onpath_collector.buffer import BufferSettings
from onpath_collector.downstream.endpoint import parse_endpoint
from onpath_collector.listening import is_loopback

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


def _workers(value: object) -> object:
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


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerTlsConfig(_Part):
    """PEM files of a port: its certificate chain and key; with `client_ca`, who connects must show a certificate."""

    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key go together")
        if self.client_ca is not None and self.cert is None:
            raise ValueError("client_ca needs cert and key")
        return self


class PortConfig(_Part):
    """What guards a port."""

    tls: ServerTlsConfig = ServerTlsConfig()
    bearer_token_files: list[Path] = []  # one token a line; any of them opens the port


class _Receiver(PortConfig):
    max_request: Size = 64 << 20
    max_in_flight: Size = 256 << 20


class GrpcReceiverSettings(_Receiver):
    endpoint: Address = "127.0.0.1:4317"
    keepalive_time: Duration = 7200.0
    keepalive_timeout: Duration = 20.0
    keepalive_min_time: Duration = 10.0  # who pings more often is cut off
    max_connection_idle: Duration | None = None
    max_connection_age: Duration | None = None
    max_connection_age_grace: Duration | None = None


class HttpReceiverSettings(_Receiver):
    endpoint: Address = "127.0.0.1:4318"


class ReceiversSettings(_Part):
    grpc: GrpcReceiverSettings = GrpcReceiverSettings()
    http: HttpReceiverSettings = HttpReceiverSettings()


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

    def buffer_settings(self) -> BufferSettings:
        limit = memory_allowed() if self.memory_limit is None else self.memory_limit
        return BufferSettings(**{**self.model_dump(), "memory_limit": limit})


def memory_allowed() -> int:
    """70 % of the memory that the cgroup, else the machine, allows; bytes."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # not there, or "max"
            machine = min(machine, int(Path(path).read_text()))
    return machine * 7 // 10


class QueueConfig(_Part):
    requests: Annotated[int, Field(ge=1)] = 1000
    bytes: Size = 256 << 20


class RetryConfig(_Part):
    initial: Duration = 5.0
    multiplier: Annotated[float, Field(ge=1)] = 1.5
    max: Duration = 30.0
    elapsed: Duration = 300.0  # 0: for ever


class TlsConfig(_Part):
    """PEM files; without `ca` the system's authorities are trusted."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None  # when it is not the endpoint's host


class ForwardConfig(_Part):
    endpoint: Target | None = None
    protocol: Literal["grpc", "http"] | None = None  # None: as the endpoint's scheme says
    headers: dict[str, str] = {}
    compression: Literal["none", "gzip"] = "none"
    tls: TlsConfig = TlsConfig()
    timeout: Duration = 10.0
    queue: QueueConfig = QueueConfig()
    retry: RetryConfig = RetryConfig()


class DurabilityConfig(_Part):
    mode: Literal["memory", "journal"] = "memory"
    directory: Path | None = None
    fsync: Literal["always", "interval", "never"] = "interval"
    interval: Duration = 0.1
    max_bytes: Size = 1 << 30

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.mode == "journal") != (self.directory is not None):
            raise ValueError("mode: journal and a directory go together")
        return self


class EvaluateConfig(_Part):
    workers: Annotated[Literal["auto"] | int, BeforeValidator(_workers)] = "auto"
    timeout: Duration = 5.0
    queue: Annotated[int, Field(ge=1)] = 1000

    @property
    def processes(self) -> int:
        """`auto` is cores minus one, at least one process; 0 judges in the collector's own process."""
        if self.workers == "auto":
            return max(1, len(os.sched_getaffinity(0)) - 1)
        return self.workers


class ResultSignalConfig(_Part):
    """Where one signal of the results goes; without `endpoint`, where all results go, with these headers too."""

    enabled: bool = True
    endpoint: Target | None = None
    protocol: Literal["grpc", "http"] | None = None
    headers: dict[str, str] = {}


class ResultMetricsConfig(ResultSignalConfig):
    interval: Time = 60.0


SinkType: TypeAlias = Literal["phoenix", "mlflow", "langfuse", "langsmith", "datadog", "webhook"]


class SinkConfig(_Part):
    """A dashboard with an API of its own for scores. What isn't set here comes from the environment."""

    type: SinkType
    url: HttpUrl | None = None
    timeout: Time = 5.0  # for one request


class StoreConfig(_Part):
    """Reports kept for the results API and the status page."""

    path: Path | None = None  # None: in memory
    reports: Annotated[int, Field(ge=1)] = 1000


class ResultsConfig(_Part):
    endpoint: Target | None = None
    protocol: Literal["grpc", "http"] | None = None
    headers: dict[str, str] = {}
    traces: ResultSignalConfig = ResultSignalConfig()
    logs: ResultSignalConfig = ResultSignalConfig()
    metrics: ResultMetricsConfig = ResultMetricsConfig()
    spans: Literal["clamped", "realtime", "linked", "off"] = "clamped"
    presets: list[Preset] = []
    sinks: list[SinkConfig] = []
    report_file: str | None = None
    store: StoreConfig = StoreConfig()


class JudgeConfig(_Part):
    """An OpenAI-compatible endpoint for `prompt!`, `semantic!`, `rubric!`, `language!`; none without `base_url`."""

    base_url: HttpUrl | None = None
    model: str | None = None
    api_key_env: str = "ONPATH_JUDGE_KEY"
    timeout: Time = 30.0
    concurrency: Annotated[int, Field(ge=1)] = 2
    sample: Annotated[float, Field(ge=0, le=1)] = 1.0
    cache: Annotated[int, Field(ge=0)] = 1000

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.base_url is None) != (self.model is None):
            raise ValueError("base_url and model go together")
        return self

    @property
    def destination(self) -> str | None:
        """Where values that are judged go; None: nowhere."""
        return None if self.base_url is None else f"{self.base_url} (model {self.model})"


class AdminConfig(PortConfig):
    endpoint: Address = "127.0.0.1:13133"

    @model_validator(mode="after")
    def _closed(self) -> Self:
        if not self.bearer_token_files and not is_loopback(self.endpoint):
            raise ValueError("an admin port that others can reach needs bearer_token_files")
        return self


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
        validate_default=False,
    )

    receivers: ReceiversSettings = ReceiversSettings()
    buffer: BufferConfig = BufferConfig()
    forward: ForwardConfig = ForwardConfig()
    durability: DurabilityConfig = DurabilityConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    results: ResultsConfig = ResultsConfig()
    judge: JudgeConfig = JudgeConfig()
    admin: AdminConfig = AdminConfig()
    policy: str | dict[str, Any] | list[Any] | None = None
    shutdown_timeout: Duration = 20.0
    log: LogConfig = LogConfig()


def load_settings(path: Path | None, options: Mapping[str, Any]) -> Settings:
    """The settings in force: options over `ONPATH_*` variables over the file at `path` over defaults.

    `options` are nested like the file. Raises ConfigError with all problems, OSError where the file can't be read.
    """
    document = Document("")
    if path is not None:
        document = read_text(path.read_text(encoding="utf-8"), str(path))
    data, problems = _filled_in(document)
    if document.problems or problems:
        raise ConfigError([str(p) for p in document.problems] + problems)

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (init_settings, env_settings, InitSettingsSource(settings_cls, init_kwargs=data))

    try:
        return Loaded(**options)
    except ValidationError as error:
        raise ConfigError(sorted({_told(e, document, options) for e in error.errors()})) from None
    except SettingsError as error:
        raise ConfigError([f"environment: {error}"]) from None


def checked(path: Path) -> tuple[list[str], list[str]]:
    """What `onpath validate` prints of a configuration: its problems; of a good one, what to know. Raises OSError."""
    try:
        settings = load_settings(path, {})
    except ConfigError as error:
        return error.problems, []
    return [], [f"judged values go to {settings.judge.destination}"] if settings.judge.destination else []


def shown(settings: Settings) -> dict[str, Any]:
    """What is in force, for `--print-config`: header values and paths of sinks may be secrets and stay hidden."""
    found = settings.model_dump(mode="json")
    results = found["results"]
    for part in (found["forward"], results, results["traces"], results["logs"], results["metrics"]):
        part["headers"] = dict.fromkeys(part["headers"], "(hidden)")
    for sink in results["sinks"]:
        sink["url"] = sink["url"] and _open_part(sink["url"])
    return found


def _open_part(url: str) -> str:
    """Of a URL that may hold a secret in any part but its host."""
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return origin if url.rstrip("/") == origin else f"{origin}/(hidden)"


def _filled_in(document: Document) -> tuple[dict[str, Any], list[str]]:
    problems: list[str] = []

    def fill(value: Any, at: str) -> Any:
        if isinstance(value, dict):
            return {k: fill(v, at + pointer(k)) for k, v in value.items()}
        if isinstance(value, list):
            return [fill(v, at + pointer(i)) for i, v in enumerate(value)]
        return _ENV.sub(lambda m: variable(m, at), value) if isinstance(value, str) else value

    def variable(found: re.Match[str], at: str) -> str:
        default: str | None = found[2]
        value = os.environ.get(found[1], default)
        if value is None:
            problems.append(f"{_place(document, at)}: {at}: the environment variable {found[1]} is not set")
            return ""
        return value

    if document.data is None:
        return {}, problems
    if not isinstance(document.data, dict):
        return {}, [f"{document.name}:1: expected a mapping of settings"]
    return fill(document.data, ""), problems


def _told(error: ErrorDetails, document: Document, options: Mapping[str, Any]) -> str:
    """One problem in one line: where it was written, which setting, what was meant."""
    path = [str(p) for p in error["loc"] if isinstance(p, int) or p not in _UNION_BRANCHES]
    at = pointer(*path)
    if error["type"] == "extra_forbidden":
        known = sorted(_known(path[:-1]))
        close = get_close_matches(path[-1], known, 1)
        message = "unknown setting" + (f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(known)}")
    else:
        message = error["msg"].removeprefix("Value error, ")
    variable = "ONPATH_" + "__".join(path).upper()
    if _holds(options, path):
        place = "command line"
    elif variable in os.environ:
        place = f"environment variable {variable}"
    else:
        place = _place(document, at)
    return f"{place}: {at}: {message}"


_UNION_BRANCHES: Final = frozenset({"literal['auto']", "int", "str", "dict[str,any]", "list[any]"})


def _holds(data: Any, path: list[str]) -> bool:
    for part in path:
        if not isinstance(data, Mapping) or part not in data:
            return False
        data = data[part]
    return True


def _place(document: Document, at: str) -> str:
    place = document.place(at)
    return f"{document.name}:{place.line}" if place else document.name or "settings"


def _known(path: list[str]) -> Iterator[str]:
    """Names of the settings below a path."""
    here: Any = Settings
    for part in path:
        if get_origin(here) is list:
            (here,) = get_args(here)
        else:
            here = here.model_fields[part].annotation if part in getattr(here, "model_fields", ()) else None
    if isinstance(here, type) and issubclass(here, BaseModel):
        yield from here.model_fields

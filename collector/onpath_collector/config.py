"""Settings of the collector: one YAML file, environment variables over it, command-line options over both.

Data flow: file -> (${env:...} filled in) -> pydantic-settings, which lays `ONPATH_*` variables and options over it ->
frozen `Settings`. All problems are reported at once, each with the place it was written. Durations are seconds and
sizes are bytes once loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from onpath.policy.problems import pointer
from onpath.policy.yaml import Document, read_text
from onpath_collector.config_kafka import KafkaReceiverSettings, KafkaResultsConfig, hidden
from onpath_collector.config_parts import (
    AdminConfig,
    BufferConfig,
    DurabilityConfig,
    EvaluateConfig,
    ForwardConfig,
    GatewayConfig,
    GrpcReceiverSettings,
    HttpReceiverSettings,
    JudgeConfig,
    LogConfig,
    PortConfig,
    QueueConfig,
    ReceiversSettings,
    ResultMetricsConfig,
    ResultsConfig,
    ResultSignalConfig,
    RetryConfig,
    ServerTlsConfig,
    SinkConfig,
    SinkType,
    StoreConfig,
    TlsConfig,
)
from onpath_collector.config_values import Duration
from onpath_collector.downstream.endpoint import without_secrets

__all__ = [
    "AdminConfig",
    "BufferConfig",
    "ConfigError",
    "DurabilityConfig",
    "EvaluateConfig",
    "ForwardConfig",
    "GatewayConfig",
    "GrpcReceiverSettings",
    "HttpReceiverSettings",
    "JudgeConfig",
    "KafkaReceiverSettings",
    "KafkaResultsConfig",
    "LogConfig",
    "PortConfig",
    "QueueConfig",
    "ReceiversSettings",
    "ResultMetricsConfig",
    "ResultSignalConfig",
    "ResultsConfig",
    "RetryConfig",
    "ServerTlsConfig",
    "Settings",
    "SinkConfig",
    "SinkType",
    "StoreConfig",
    "TlsConfig",
    "checked",
    "load_settings",
    "shown",
]

_TLS_FILES: Final = frozenset({"cert", "key", "ca", "client_ca"})
_ENV: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class ConfigError(ValueError):
    """A configuration that is not used; `problems` are all that is wrong with it, one line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


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
    gateway: GatewayConfig = GatewayConfig()
    policy: str | dict[str, Any] | list[Any] | None = None
    shutdown_timeout: Duration = 20.0
    log: LogConfig = LogConfig()

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        if self.gateway.members is not None and self.buffer.settle_delay <= self.gateway.interval:
            raise ValueError("gateway.interval must be below buffer.settle_delay: changes have to be seen in time")
        return self

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.receivers.kafka.brokers and self.durability.mode == "journal":
            raise ValueError("receivers.kafka and a journal don't go together: Kafka itself keeps what is not settled")
        if self.receivers.kafka.brokers and self.receivers.kafka.forward and self.forward.hold:
            raise ValueError("forward.hold is not for what comes from Kafka: set receivers.kafka.forward to false")
        return self


def load_settings(path: Path | None, options: Mapping[str, Any]) -> Settings:
    """The settings in force: options over `ONPATH_*` variables over the file at `path` over defaults.

    `options` are nested like the file. Raises ConfigError with all problems, OSError where the file can't be read.
    """
    document = Document("")
    if path is not None:
        document = read_text(path.read_text(encoding="utf-8"), str(path))
    data, problems = _filled_in(document)
    if "workflows" in data and not data.keys() & Settings.model_fields.keys():
        raise ConfigError([f"{document.name}: this is a policy, which goes into --policy; expected settings"])
    if document.problems or problems:
        raise ConfigError([str(p) for p in document.problems] + problems)
    if path is not None:
        data = {name: _beside(path.parent, name, value) for name, value in data.items()}

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
        raise ConfigError(sorted({_told(e, document, options) for e in error.errors()}, key=_in_order)) from None
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
    """What is in force, for `--print-config`, without what may be secret: header values, paths of sinks."""
    found = settings.model_dump(mode="json")
    forward, results = found["forward"], found["results"]
    signals = [part[name] for part in (forward, results) for name in ("traces", "logs", "metrics") if name in part]
    for part in (forward, results, *signals):
        part["headers"] = dict.fromkeys(part["headers"], "(hidden)")
    hidden(found["receivers"]["kafka"])
    hidden(results["kafka"])
    base_url = found["judge"]["base_url"]
    found["judge"]["base_url"] = base_url and without_secrets(base_url)
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


def _beside(folder: Path, name: str, value: Any) -> Any:
    """Of the file's settings: the files it names to be read are found from where it is itself, not from where it runs.

    Names of files to be written stay as they are.
    """
    if name == "policy":
        return str(folder / value) if isinstance(value, str) and value else value
    if name == "bearer_token_files" and isinstance(value, list):
        return [str(folder / v) if isinstance(v, str) else v for v in value]
    if name == "tls" and isinstance(value, dict):
        return {k: str(folder / v) if isinstance(v, str) and k in _TLS_FILES else v for k, v in value.items()}
    return {k: _beside(folder, k, v) for k, v in value.items()} if isinstance(value, dict) else value


def _in_order(told: str) -> list[str | int]:
    """Sorts lines of a file by their numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", told)]


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
    if path and _holds(options, path):
        place = "command line"
    elif variable in os.environ:
        place = f"environment variable {variable}"
    else:
        place = _place(document, at)
    return ": ".join(filter(None, (place, at, message)))


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

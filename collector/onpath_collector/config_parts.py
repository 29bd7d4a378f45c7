"""The parts of the settings, one model each: their names, defaults and bounds. `config` puts them together."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, HttpUrl, model_validator

from onpath.results_presets import Preset
from onpath_collector.allowed import cores_allowed
from onpath_collector.buffer import BufferSettings
from onpath_collector.config_kafka import KafkaReceiverSettings, KafkaResultsConfig
from onpath_collector.config_values import Address, Duration, Size, Target, Time, worker_count
from onpath_collector.downstream.endpoint import without_secrets
from onpath_collector.listening import is_loopback


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
    kafka: KafkaReceiverSettings = KafkaReceiverSettings()


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


class ForwardSignalConfig(_Part):
    """Where one signal goes on to; what isn't set here is as for all, but for the headers of another endpoint."""

    endpoint: Target | None = None
    protocol: Literal["grpc", "http"] | None = None
    headers: dict[str, str] = {}
    compression: Literal["none", "gzip"] | None = None
    tls: TlsConfig | None = None
    timeout: Duration | None = None


class ForwardConfig(_Part):
    endpoint: Target | None = None
    protocol: Literal["grpc", "http"] | None = None  # None: as the endpoint's scheme says
    headers: dict[str, str] = {}
    compression: Literal["none", "gzip"] = "none"
    tls: TlsConfig = TlsConfig()
    timeout: Duration = 10.0
    queue: QueueConfig = QueueConfig()
    retry: RetryConfig = RetryConfig()
    hold: bool = False  # spans wait for their verdict and carry it on
    drop_invalid: bool = False  # spans with wrong ids don't go on
    metrics: ForwardSignalConfig = ForwardSignalConfig()
    logs: ForwardSignalConfig = ForwardSignalConfig()

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.hold and self.endpoint is None:
            raise ValueError("hold needs an endpoint to pass on to")
        return self


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
    workers: Annotated[Literal["auto"] | int, BeforeValidator(worker_count)] = "auto"
    timeout: Duration = 5.0
    queue: Annotated[int, Field(ge=1)] = 1000

    @property
    def processes(self) -> int:
        """`auto` is cores allowed minus one, at least one process; 0 judges in the collector's own process."""
        if self.workers == "auto":
            return max(1, cores_allowed() - 1)
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
    kafka: KafkaResultsConfig = KafkaResultsConfig()
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
        return None if self.base_url is None else f"{without_secrets(str(self.base_url))} (model {self.model})"


class AdminConfig(PortConfig):
    endpoint: Address = "127.0.0.1:13133"

    @model_validator(mode="after")
    def _closed(self) -> Self:
        if not self.bearer_token_files and not is_loopback(self.endpoint):
            raise ValueError("an admin port that others can reach needs bearer_token_files")
        return self


class GatewayConfig(_Part):
    """One of several collectors among which a load balancer shares the traces."""

    members: str | None = None  # a name that resolves to the addresses of all of them
    interval: Time = 1.0  # between looks at it
    lag: Duration = 10.0  # by how much the load balancer may know of a change later, clocks included


class LogConfig(_Part):
    format: Literal["auto", "console", "json"] = "auto"  # auto: console on a terminal, else json
    level: Literal["debug", "info", "warning", "error"] = "info"

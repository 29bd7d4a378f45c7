"""What leaves the collector, made of the settings: forward queues, results over OTLP, sinks. Nothing is sent yet.

Settings -> Downstream (where, how) -> Forwarder a signal; results go to their own place, else where telemetry goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from onpath_collector.config import Settings
from onpath_collector.config_parts import (
    ForwardConfig,
    ForwardSignalConfig,
    ResultsConfig,
    ResultSignalConfig,
    TlsConfig,
)
from onpath_collector.downstream import Downstream, Signal, TlsSettings, connect
from onpath_collector.exporters.otlp import NO_SERVICE, OtlpResults
from onpath_collector.forward import Forwarder, ForwardSettings, RetrySettings
from onpath_collector.security import read_secret

if TYPE_CHECKING:
    from onpath_collector.exporters.otlp_metrics import ResultMetrics
    from onpath_collector.exporters.sinks import SinkExporter

_SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics", "logs")


def forwarders(config: ForwardConfig) -> dict[Signal, Forwarder]:
    """One a signal; none without a downstream. Raises ValueError, OSError and SecretError for one that can't be."""
    places = {signal: _onward(config, signal) for signal in _SIGNALS}
    limits = _limits(config)
    return {signal: Forwarder(limits, connect(place, signal)) for signal, place in places.items() if place is not None}


def otlp_results(settings: Settings, resource: Mapping[str, str]) -> OtlpResults | None:
    """None without anywhere to send them. Raises as `forwarders` does."""
    own = settings.results
    limits = replace(_limits(settings.forward), quiet=NO_SERVICE)
    places = {signal: _place(settings, config) for signal, config in _signals(own).items()}
    made = {signal: Forwarder(limits, connect(place, signal)) for signal, place in places.items() if place is not None}
    if not made:
        return None
    return OtlpResults(made, _metrics(resource) if "metrics" in made else None, own.metrics.interval)


def endpoints(settings: Settings) -> Iterator[str]:
    """Every place that OTLP goes to."""
    places = [_place(settings, config) for config in _signals(settings.results).values()]
    onward = [_onward(settings.forward, signal) for signal in _SIGNALS]
    yield from dict.fromkeys(place.endpoint for place in (*onward, *places) if place is not None)


def sinks(config: ResultsConfig) -> list[SinkExporter]:
    """Raises ValueError that names every sink without a place or credentials."""
    if not config.sinks:
        return []
    from onpath_collector.exporters.sinks import SinkSettings, open_sinks  # aiohttp is only for those who need it

    settings = [
        SinkSettings(type=each.type, url=None if each.url is None else str(each.url), timeout=each.timeout)
        for each in config.sinks
    ]
    return open_sinks(settings, os.environ)


def _metrics(resource: Mapping[str, str]) -> ResultMetrics:
    from onpath_collector.exporters.otlp_metrics import ResultMetrics  # so is the SDK that counts

    return ResultMetrics(resource)


def _signals(config: ResultsConfig) -> dict[Signal, ResultSignalConfig]:
    return {"traces": config.traces, "logs": config.logs, "metrics": config.metrics}


def _place(settings: Settings, signal: ResultSignalConfig) -> Downstream | None:
    """The signal's own endpoint, else that of all results, else that of the agent's telemetry."""
    forward, results = settings.forward, settings.results
    if not signal.enabled:
        return None
    if signal.endpoint is not None:
        found = _downstream(forward, signal.endpoint)
        return replace(found, protocol=signal.protocol, headers=signal.headers)
    if results.endpoint is not None:
        found = _downstream(forward, results.endpoint)
        return replace(found, protocol=results.protocol, headers={**results.headers, **signal.headers})
    if forward.endpoint is not None:
        found = _downstream(forward, forward.endpoint)
        return replace(found, headers={**forward.headers, **results.headers, **signal.headers})
    return None


def _onward(config: ForwardConfig, signal: Signal) -> Downstream | None:
    """The signal's own downstream, else that of all. Raises SecretError."""
    own = {"metrics": config.metrics, "logs": config.logs}.get(signal, ForwardSignalConfig())
    endpoint = own.endpoint or config.endpoint
    if endpoint is None:
        return None
    found = _downstream(config, endpoint, own.tls or config.tls)
    elsewhere = own.endpoint is not None
    return replace(
        found,
        protocol=own.protocol if elsewhere else own.protocol or config.protocol,
        headers=own.headers if elsewhere else {**config.headers, **own.headers},
        compression=own.compression or config.compression,
        timeout=config.timeout if own.timeout is None else own.timeout,
    )


def _downstream(config: ForwardConfig, endpoint: str, tls: TlsConfig | None = None) -> Downstream:
    """Raises SecretError for a private key that everyone may read."""
    tls = tls or config.tls
    if tls.key is not None:
        read_secret(tls.key)
    return Downstream(
        endpoint=endpoint,
        protocol=config.protocol,
        headers=config.headers,
        compression=config.compression,
        timeout=config.timeout,
        tls=TlsSettings(**tls.model_dump()),
    )


def _limits(config: ForwardConfig) -> ForwardSettings:
    retry = RetrySettings(**config.retry.model_dump())
    return ForwardSettings(queue_requests=config.queue.requests, queue_bytes=config.queue.bytes, retry=retry)

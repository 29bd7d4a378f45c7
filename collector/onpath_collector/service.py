"""The collector put together: which parts there are, how they are wired, what starts and stops in which order.

    receiver -> Intake.traces(bytes) -> split -> (journal) -> forward queue, TraceBuffer
    TraceBuffer -> released traces -> Judging -> Judge (worker processes) -> Outcome -> exporters

What decides by time is given its clock here.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from onpath.policy.load import PolicyError
from onpath.policy.model import Policy
from onpath.results import version
from onpath.results_metrics import step_names
from onpath_collector.admin import Health, reading
from onpath_collector.admin_port import PROTOCOLS, AdminPort
from onpath_collector.buffer import TraceBuffer
from onpath_collector.config import DurabilityConfig, PortConfig, Settings
from onpath_collector.counts import Ledger
from onpath_collector.downstream import Signal, is_own_endpoint
from onpath_collector.exporters.base import ResultExporter
from onpath_collector.exporters.console import Console
from onpath_collector.exporters.own_spans import OwnSpans
from onpath_collector.exporters.prometheus import PrometheusResults
from onpath_collector.exporters.report_file import ReportFile
from onpath_collector.forward import Forwarder
from onpath_collector.hold import Hold
from onpath_collector.http_server import Answer
from onpath_collector.journal import Journal, JournalSettings
from onpath_collector.judges import at_once, hurry, new_judge
from onpath_collector.judging import Setup
from onpath_collector.kafka_parts import KafkaParts
from onpath_collector.listening import ListenError
from onpath_collector.members import Addresses, Members
from onpath_collector.otlp import Wanted
from onpath_collector.outlets import endpoints, forwarders, otlp_results, sinks
from onpath_collector.own_metrics import OwnMetrics, Parts
from onpath_collector.policy_source import PolicySource
from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from onpath_collector.record_intake import RecordIntake
from onpath_collector.release import Release
from onpath_collector.replay import Replay
from onpath_collector.reports import Reports
from onpath_collector.security import Certificates, Tokens, Watched, refresh_for_ever
from onpath_collector.telemetry import Telemetry
from onpath_collector.told import named, told, warn

log: Final = logging.getLogger("onpath")

_WATCH: Final = 2.0  # seconds between looks at the policy's files
_GUARD: Final = {"tls", "bearer_token_files"}  # of a port's settings


class StartError(Exception):
    """The collector can't start. `exit_code`: 2 for its configuration, 1 for a port or file that can't be had."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Service:
    """One collector on one event loop. `stop` is safe without `start`, and twice."""

    def __init__(self, settings: Settings, source: PolicySource | None) -> None:
        """Raises onpath.policy.load.PolicyError; ValueError and OSError for a downstream that can't be."""
        self._settings = settings
        self._source = source
        self.policy = source.load() if source is not None else None
        self._seen = source.state() if source is not None else None  # of its files: from here on changes are noticed
        self.journal = _journal(settings.durability)
        self._instance = str(uuid.uuid4()) if self.journal is None else self.journal.instance
        self.forwarders = forwarders(settings.forward)
        self.telemetry = Telemetry()
        self.health = Health()
        self.buffer = TraceBuffer(settings.buffer.buffer_settings())
        self._report_file: ReportFile | None = None
        self._otlp_results = otlp_results(settings, _resource(self._instance))
        self._sinks = sinks(settings.results)
        self._kafka = KafkaParts(settings)
        self._hold = _hold(settings, self.forwarders) if self.policy is not None else None
        store = settings.results.store
        self.reports = Reports(store.path, store.reports, parts=bool(settings.buffer.root_attributes))
        self._judge = new_judge(settings, self._setup(self.policy)) if self.policy is not None else None
        self.release = Release(
            self.buffer,
            self._judge,
            clock=time.monotonic,
            wall_clock=time.time_ns,
            parallel=at_once(settings, self._judge),
            queue=settings.evaluate.queue,
            observer=self.telemetry,
            journal=self.journal or self._kafka.keeper,
            hold=self._hold,
        )
        self._own_spans = OwnSpans()
        self._wanted = Wanted(
            settings.buffer.root_attributes, settings.buffer.group_by, self._instance, self._own_spans
        )
        self.intake = RecordIntake(
            self.buffer,
            self.forwarders,
            self._wanted,
            self.release.schedule,
            clock=time.monotonic,
            journal=self.journal,
            hold=self._hold,
            drop_invalid=settings.forward.drop_invalid,
        )
        self._kafka.wire(self.intake, self.buffer, self.release.counts)
        self._secrets: list[Watched] = []
        self.receivers = self._new_receivers()
        self._admin = self._new_admin()
        self._stopped = False

    async def start(self) -> dict[str, str]:
        """Starts everything; the addresses by transport. Raises StartError, and then nothing is left running."""
        try:
            addresses = await self._start()
        except StartError:
            await self.stop()
            raise
        except ListenError as error:
            await self.stop()
            raise StartError(str(error), 1) from None
        self.health.state = "ready"
        return addresses

    async def _start(self) -> dict[str, str]:
        """Raises StartError, ListenError."""
        admin = await self._admin.start()  # first, so that probes are answered
        exporters = self._new_exporters()
        if self._otlp_results is not None:
            self._otlp_results.start()
        for forwarder in self.forwarders.values():
            forwarder.start()
        if self.journal is not None:
            self.journal.start()
        self.release.start(exporters)
        addresses = {receiver.transport: await receiver.start() for receiver in self.receivers} | {"admin": admin}
        for endpoint in endpoints(self._settings):
            if is_own_endpoint(endpoint, addresses.values()):
                raise StartError(f"the downstream {endpoint} is this collector itself ({named(addresses)})", 2)
        if self.journal is not None:
            await self._bring_back(self.journal)
        try:
            await self._kafka.start()
        except ValueError as error:
            raise StartError(str(error), 2) from None
        return addresses

    def _new_exporters(self) -> list[ResultExporter]:
        """Where results go. Raises StartError."""
        exporters: list[ResultExporter] = [Console(), PrometheusResults(self.telemetry.registry)]
        exporters += [self._own_spans, self.reports]
        if self._settings.results.report_file is not None:
            try:
                self._report_file = ReportFile(self._settings.results.report_file)
            except OSError as error:
                raise StartError(f"report file {error.filename}: {error.strerror}", 1) from None
            exporters.append(self._report_file)
        if self._otlp_results is not None:
            exporters.append(self._otlp_results)
        return [*exporters, *self._sinks, *self._kafka.exporters]

    async def _bring_back(self, journal: Journal) -> None:
        """Until it is done senders are told to come back later."""
        if journal.requests:
            log.info("%d requests that were not settled are brought back from the journal", journal.requests)
        parts = (journal, self.buffer, self.intake, self.release, self._wanted, self._own_spans)
        recovered = await Replay(*parts, clock=time.monotonic).run()
        if recovered.requests:
            told = "%d requests that were not settled are back from the journal, %d of them not yet forwarded"
            log.info(told, recovered.requests, recovered.unsent)
        self.intake.closed = False

    async def stop(self) -> None:
        """Stops accepting, judges what is open as `shutdown`, sends results, drains the queues, closes; in time.

        With a journal what is left stays for the next start; so does what was open before it was all back.
        """
        if self._stopped:
            return
        self._stopped = True
        leave = self.journal is not None and not self.health.ready
        self.health.state = "stopping"
        deadline = time.monotonic() + self._settings.shutdown_timeout
        share = self._settings.shutdown_timeout / 4  # kept for the results, when judging or the downstream drag on
        await asyncio.gather(*(each.stop(min(5.0, share)) for each in (*self.receivers, self._kafka)))
        forwarding = asyncio.gather(*(f.drain(deadline - share / 2) for f in self.forwarders.values()))
        hurry(self._judge)
        await self.release.stop(deadline - share, leave=leave)
        if self._hold is not None and self.journal is None:
            self._hold.let_go()
        held = asyncio.gather(*(f.drain(deadline - share / 2) for f in self.forwarders.values()))  # has come since
        results = () if self._otlp_results is None else (self._otlp_results,)
        await asyncio.gather(*(each.close(deadline - share / 2) for each in (*results, *self._sinks, self._kafka)))
        await asyncio.gather(forwarding, held)
        await asyncio.gather(*(f.close(None if self.journal else "shutdown") for f in self.forwarders.values()))
        if self.journal is not None:
            await self.journal.close()
        if self._report_file is not None:
            self._report_file.close()
        await self._admin.stop()
        await self.reports.close()

    def ledger(self) -> Ledger:
        return Ledger(**self.release.sums(), **self.intake.sums())

    async def reload(self) -> bool:
        """Takes the policy as its files are now; whether it did. One with a problem is told, and the old one stays.

        Traces that are open are judged by the policy in force when they are released.
        """
        if self._source is None or self._judge is None:
            return False
        try:
            policy = await asyncio.to_thread(self._source.load)
        except PolicyError as error:
            for problem in error.problems:
                for line in f"onpath: {problem}".splitlines():  # as `onpath validate` prints it; records have no breaks
                    log.error("%s", line)
            log.error("the policy was not reloaded; the one before stays in force")
            return False
        self.policy = policy
        await self._judge.set_up(self._setup(policy))
        warn(policy)
        log.info("policy reloaded: %s", told(policy), extra={"fields": {"policy_fingerprint": policy.fingerprint}})
        return True

    async def watch(self) -> None:
        """Looks at what may change: policy, certificates, tokens, who shares the traces; until cancelled."""
        await asyncio.gather(self._watch_policy(), refresh_for_ever(self._secrets), self._watch_members())

    async def _watch_members(self) -> None:
        gateway = self._settings.gateway
        if gateway.members is not None:
            self._divide()  # by this one's coming
            await Members(gateway.members, gateway.interval, self._members_changed).watch()

    def _members_changed(self, before: Addresses, now: Addresses) -> None:
        told = "gateways were %d and are %d; traces that are open, or begin within %g s, are unknown"
        log.info(told, len(before), len(now), self._settings.gateway.lag)
        self._divide()

    def _divide(self) -> None:
        """Other collectors get traces than before: those that this may cut are not judged as whole ones."""
        lag = self._settings.gateway.lag
        self.buffer.divide(time.monotonic(), time.time_ns() + int(lag * 1e9), lag)

    async def _watch_policy(self) -> None:
        if self._source is None:
            return
        while True:
            await asyncio.sleep(_WATCH)
            now = await asyncio.to_thread(self._source.state)
            if now != self._seen:
                self._seen = now
                await self.reload()

    def _new_receivers(self) -> tuple[GrpcReceiver, HttpReceiver]:
        """Raises SecretError."""
        grpc, http = self._settings.receivers.grpc, self._settings.receivers.http
        grpc_settings = GrpcSettings(**grpc.model_dump(exclude=_GUARD))
        http_settings = HttpSettings(**http.model_dump(exclude=_GUARD))
        return (
            GrpcReceiver(grpc_settings, self.intake, *self._guarded(grpc)),
            HttpReceiver(http_settings, self.intake, *self._guarded(http)),
        )

    def _new_admin(self) -> AdminPort:
        """Raises SecretError."""
        parts = Parts(
            receivers=(*self.receivers, *self._kafka.receivers),
            intake=self.intake,
            buffer=self.buffer,
            release=self.release,
            forwarders=self.forwarders,
            results=self._otlp_results,
            sinks=self._sinks,
            journal=self.journal,
            evaluate_queue=self._settings.evaluate.queue,
        )
        self.telemetry.registry.register(OwnMetrics(parts))
        self.telemetry.registry.register(self._kafka.metrics)
        pages = {"/metrics": reading(lambda accept: Answer(200, *self.telemetry.page(accept)))}
        admin = self._settings.admin
        guard = self._guarded(admin, PROTOCOLS)
        return AdminPort(admin, self.health, pages, parts, self.reports, self._end, *guard)

    def _end(self, trace_id: bytes) -> bool:
        """Lets go of an open trace as complete; whether there was one."""
        found = self.buffer.complete(time.monotonic(), trace_id)
        self.release.schedule()
        return found

    def _guarded(self, port: PortConfig, protocols: Sequence[str] = ()) -> tuple[Certificates | None, Tokens | None]:
        """What a port is guarded by, watched from now on."""
        tls, files = port.tls, port.bearer_token_files
        certificates = None
        if tls.cert and tls.key:
            certificates = Certificates(tls.cert, tls.key, tls.client_ca, protocols)
        tokens = Tokens(files) if files else None
        self._secrets += [each for each in (certificates, tokens) if each is not None]
        return certificates, tokens

    def _setup(self, policy: Policy) -> Setup:
        own = self._settings.results
        return Setup(
            policy,
            _resource(self._instance),
            own.spans,
            step_names(policy),
            tuple(own.presets),
            marks=self._hold is not None,
            root_attributes=self._settings.buffer.root_attributes,
        )


def _hold(settings: Settings, forwarders: Mapping[Signal, Forwarder]) -> Hold | None:
    return Hold(forwarders["traces"]) if settings.forward.hold else None


def _resource(instance: str) -> Mapping[str, str]:
    return {"service.name": "onpath", "service.version": version(), "service.instance.id": instance}


def _journal(config: DurabilityConfig) -> Journal | None:
    """Raises JournalError."""
    if config.directory is None:
        return None
    return Journal.open(
        JournalSettings(
            directory=config.directory,
            fsync=config.fsync,
            interval=config.interval,
            max_bytes=config.max_bytes,
        )
    )

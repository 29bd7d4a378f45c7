"""Runs a collector for as long as its process is meant to live: signals, what it says on the way, how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Mapping
from typing import Any, Final

from onpath.policy.load import PolicyError
from onpath_collector.allocation import keep_little
from onpath_collector.config import Settings
from onpath_collector.journal import JournalError
from onpath_collector.listening import open_more_files
from onpath_collector.policy_source import PolicySource
from onpath_collector.reports import StoreError
from onpath_collector.service import Service, StartError
from onpath_collector.told import ready, warn

__all__ = ["StartError", "serve"]

log: Final = logging.getLogger("onpath")
_KINDS: Final = 100  # of trouble that are told
_GARBAGE: Final = 20_000  # objects made between searches for cycles; the parts of the collector make hardly any


class _Once:
    """Tells of each kind of trouble that the loop has once: connections that can't be taken come a hundred a second."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def tell(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        kind = (str(context.get("message")), repr(context.get("exception")))
        if kind not in self._told and len(self._told) < _KINDS:
            self._told.add(kind)
            loop.default_exception_handler(context)


def _leave_what_stays_alone() -> None:
    """What is there after the start is there to stay: looking through it for garbage again and again is for nothing."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE, 50, 100)


async def serve(settings: Settings, source: PolicySource | None) -> None:
    """Runs a collector until SIGTERM or SIGINT; a third signal ends the process at once; SIGHUP reloads the policy.

    Raises StartError, and onpath.policy.load.PolicyError.
    """
    open_more_files()
    keep_little()
    try:
        service = Service(settings, source)
    except PolicyError:
        raise
    except (JournalError, StoreError) as error:
        raise StartError(str(error), 1) from None
    except (ValueError, OSError) as error:  # a downstream that can't be: header, certificate file
        raise StartError(str(error), 2) from None
    asked = asyncio.Event()
    asyncio.get_running_loop().set_exception_handler(_Once().tell)
    _on_signals(asked, service)
    starting = asyncio.create_task(service.start())
    await _first(starting, asked)
    if starting.done():
        _leave_what_stays_alone()
        await _run(settings, service, starting.result(), asked)
    else:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    log.info("stopping: open traces are judged, queues are sent (at most %g s)", settings.shutdown_timeout)
    await service.stop()
    ledger = service.ledger()
    log.info("stopped; %s", ledger, extra={"fields": ledger.fields()})


async def _run(settings: Settings, service: Service, addresses: Mapping[str, str], asked: asyncio.Event) -> None:
    """Until asked to stop."""
    log.info("%s", ready(settings, service.policy, addresses), extra={"fields": addresses})
    if service.policy is None:
        log.warning("no policy: traces are passed on and counted, not judged (--policy PATH)")
    else:
        warn(service.policy)
    watching = asyncio.create_task(service.watch())
    await asked.wait()
    watching.cancel()


async def _first(starting: asyncio.Task[dict[str, str]], asked: asyncio.Event) -> None:
    """Until it is started or asked to stop."""
    asking = asyncio.create_task(asked.wait())
    await asyncio.wait({starting, asking}, return_when=asyncio.FIRST_COMPLETED)
    asking.cancel()


def _on_signals(asked: asyncio.Event, service: Service) -> None:
    count = 0
    reloads: set[asyncio.Task[bool]] = set()  # a task that nobody holds may be collected before it is done

    def on_stop() -> None:
        nonlocal count
        count += 1
        asked.set()
        if count >= 3:
            signal.raise_signal(signal.SIGKILL)

    def on_reload() -> None:
        task = asyncio.ensure_future(service.reload())
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_stop)
    loop.add_signal_handler(signal.SIGHUP, on_reload)

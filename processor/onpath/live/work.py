"""What is to be done with traces, put together from what the user gave: judge them by a policy, or hand them on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from pkgutil import resolve_name
from typing import Any, Final, TypeAlias

from onpath.live.counts import Counts
from onpath.live.hand_on import EndpointError, HandOn, check, exporter_for
from onpath.live.judge import Judge, OnViolation
from onpath.live.outlets import OnReport, Outlets
from onpath.live.policies import PolicyLike, load, load_or_tell
from onpath.live.settings import Settings
from onpath.live.thread import Guard, Work
from onpath.results_metrics import step_names

MakeWork: TypeAlias = Callable[[Counts, Guard], Work]

_log: Final = logging.getLogger("onpath")


def work_of(
    policy: PolicyLike | None,
    settings: Settings,
    *,
    starts: bool,
    strict: bool = False,
    endpoint: str | None = None,
    on_report: OnReport | str | None = None,
    on_violation: OnViolation | str | None = None,
    **providers: Any,
) -> MakeWork | None:
    """What makes the work of one process; None, told by one line in the log, when there is nothing to be done.

    With `strict`, PolicyError or EndpointError is raised instead. `providers` are those of `Outlets`.
    """
    if endpoint is not None:
        return _handing_on(endpoint, strict)
    if policy is None:
        _log.error("onpath: no trace is judged: there is neither a policy nor an endpoint")
        return None
    loaded = load(policy) if strict else load_or_tell(policy)
    if loaded is None:
        return None
    report_to, tell_to = _callback(on_report), _callback(on_violation)
    steps = step_names(loaded)

    def make(counts: Counts, guard: Guard) -> Work:
        outlets = Outlets(settings, steps, guard=guard, on_report=report_to, **providers)
        return Judge(loaded, outlets, counts, starts=starts, guard=guard, on_violation=tell_to)

    return make


def _handing_on(endpoint: str, strict: bool) -> MakeWork | None:
    try:
        check(endpoint)
    except EndpointError as error:
        if strict:
            raise
        _log.error("onpath: no trace is handed on: %s", error)
        return None
    return lambda counts, guard: HandOn(partial(exporter_for, endpoint), counts)


def check_callback(name: str, given: Any) -> None:
    """Raises TypeError for what can't be called on the judging thread, where no event loop is."""
    if iscoroutinefunction(given):
        raise TypeError(f"{name} is called on a thread of its own: a function, not a coroutine function")
    if not (given is None or isinstance(given, str) or callable(given)):
        raise TypeError(f"{name} is a function or its name, package.module:function; got {type(given).__name__}")


def _callback(given: Any) -> Any:
    """A function, or its name, which is looked up when it is first called: the application may not be loaded yet."""
    if not isinstance(given, str):
        return given
    found: list[Any] = []

    def call(*arguments: Any) -> Any:
        if not found:
            found.append(resolve_name(given))
        return found[0](*arguments)

    return call

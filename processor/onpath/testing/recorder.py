"""Records the spans of this process in memory while a test runs, whichever provider makes them.

Every TracerProvider gets one tap: those that are there when recording first begins, and each that is made afterwards.
A tap passes spans to the recorders that are under way, and costs two calls a span when there are none.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

from opentelemetry import trace as trace_api
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from onpath.live.records import span_of
from onpath.model import Trace

_recorders: Final[list[Recorder]] = []
_tapped: Final[weakref.WeakSet[TracerProvider]] = weakref.WeakSet()
_original: Callable[..., None] | None = None


class Recorder:
    """Spans in the order in which they started; one that ends takes the place of its open self."""

    def __init__(self) -> None:
        self._spans: dict[tuple[int, int], ReadableSpan] = {}

    def take(self, span: ReadableSpan) -> None:
        if span.context is not None:
            self._spans[span.context.trace_id, span.context.span_id] = span

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.values())

    def clear(self) -> None:
        self._spans.clear()

    def traces(self) -> list[Trace]:
        """One for each trace id, complete if all its spans have ended; open spans have no end."""
        found: dict[str, list[Any]] = {}
        for span in map(span_of, self.spans):
            found.setdefault(span.trace_id, []).append(span)
        return [
            Trace(spans, release_reason="root_ended" if all(s.end_ns is not None for s in spans) else "idle")
            for spans in found.values()
        ]


class _Tap(SpanProcessor):
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        for recorder in _recorders:
            recorder.take(span)

    def on_end(self, span: ReadableSpan) -> None:
        for recorder in _recorders:
            recorder.take(span)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Records until left. Where the application has set no tracer provider, one is set, and stays."""
    _install()
    recorder = Recorder()
    _recorders.append(recorder)
    try:
        yield recorder
    finally:
        _recorders.remove(recorder)


def _install() -> None:
    global _original
    if _original is None:
        _original = TracerProvider.__init__
        TracerProvider.__init__ = _tapping(_original)  # type: ignore[method-assign]
        for candidate in gc.get_objects():
            if issubclass(type(candidate), TracerProvider):
                _tap(candidate)
    if not isinstance(trace_api.get_tracer_provider(), TracerProvider):
        trace_api.set_tracer_provider(TracerProvider(shutdown_on_exit=False))


def uninstall() -> None:
    """New providers get no tap any more; taps that are there stay and do nothing."""
    global _original
    if _original is not None:
        TracerProvider.__init__ = _original  # type: ignore[method-assign]
        _original = None


def _tapping(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def init(self: TracerProvider, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _tap(self)

    return init


def _tap(provider: TracerProvider) -> None:
    if provider not in _tapped:
        _tapped.add(provider)
        provider.add_span_processor(_Tap())

"""librdkafka by its Python client: whether it is there, what its options are made of, what it has to say.

brokers, options as people write them -> connection -> options of one client
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from onpath.results import version

log: Final = logging.getLogger("onpath")
_KINDS: Final = 50  # of trouble that are told
EXTRA: Final = "Kafka needs more than the collector: pip install 'onpath[collector,kafka]'"


def library() -> Any:
    """The module `confluent_kafka`. Raises ValueError that names the extra."""
    try:
        import confluent_kafka
    except ModuleNotFoundError:
        raise ValueError(EXTRA) from None
    return confluent_kafka


def connection(name: str, brokers: Sequence[str], options: Mapping[str, str], own: Mapping[str, Any]) -> dict[str, Any]:
    """Of one client, told apart in logs by `name`. `own` are the options that nobody may change."""
    return {
        "client.id": f"onpath-{version()}",
        "log.connection.close": False,  # brokers close what is idle
        **options,
        "bootstrap.servers": ",".join(brokers),
        "logger": OnceLog(name),
        **own,
    }


class OnceLog:
    """Takes librdkafka's log lines: each kind of trouble is told once, it comes again with every attempt.

    Those of one kind have the same words, those with digits left out: addresses, times, threads.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._told: set[tuple[str, ...]] = set()

    def log(self, level: int, message: str, *args: object) -> None:
        if "CONFWARN" in args:
            return  # options of a consumer go to the producer of its dead letters too, and mean nothing there
        words = (message % args if args else message).split()
        kind = tuple([word for word in words if not any(map(str.isdigit, word))])
        if kind not in self._told and len(self._told) < _KINDS:
            self._told.add(kind)
            log.log(level, f"{self._name}: {message}; further ones of this kind are not logged", *args)

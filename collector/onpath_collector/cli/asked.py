"""The admin port of a collector that is already running, as commands ask it: where it is, a connection, no answer.

Light to import: probes run `onpath health` again and again.
"""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import click

from onpath_collector.listening import parse_address

if TYPE_CHECKING:
    import ssl

FAILURES: Final = (OSError, ValueError, http.client.HTTPException)
"""What a collector that can't be reached, or isn't one, comes to."""
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # listening on all addresses, it is here too


def address(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """An option's HOST:PORT, as it is."""
    if value is not None and not is_address(value):
        raise click.BadParameter(f"{value!r} is not HOST:PORT, such as 127.0.0.1:13133")
    return value


def is_address(text: str) -> bool:
    try:
        host, port = parse_address(text)
    except ValueError:
        return False
    return bool(host) and 0 < port < 65536


@dataclass(frozen=True, slots=True)
class Place:
    """`context`: of TLS; None without."""

    host: str
    port: int
    context: ssl.SSLContext | None = None

    @classmethod
    def of(cls, endpoint: str, context: ssl.SSLContext | None = None) -> Self:
        """Raises ValueError."""
        host, port = parse_address(endpoint)
        return cls(_ANY.get(host, host), port, context)

    def connection(self, patience: float) -> http.client.HTTPConnection:
        """One that waits so many seconds at most for each thing."""
        if self.context is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=patience)
        return http.client.HTTPSConnection(self.host, self.port, timeout=patience, context=self.context)

    def no_answer(self, error: BaseException) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"no answer from {host}:{self.port}: {failure(error)}"


def failure(error: BaseException) -> str:
    """What went wrong, with the file where it is about one."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror

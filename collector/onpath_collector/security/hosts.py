"""Whom a request means: the Host that it names, against pages of others that have a browser ask in their stead.

Such a page can have its name lead here (DNS rebinding), and then the browser takes our answers for its own. The Host
still says which name it was.
"""

from __future__ import annotations

import ipaddress

from onpath_collector.listening import is_loopback, parse_address


class Hosts:
    """Of a port bound to HOST:PORT. With `guarded` a token is needed anyway, which no browser adds by itself."""

    def __init__(self, endpoint: str, guarded: bool) -> None:
        self._own, _ = parse_address(endpoint)
        self._guarded = guarded

    def may_read(self, host: bytes | None) -> bool:
        """The name is an address, this machine's own, or the one that was bound."""
        if self._guarded:
            return True
        name, _ = _split(host)
        return name in (self._own, "localhost") or _is_address(name)

    def may_change(self, host: bytes | None, server: tuple[str, int] | None) -> bool:
        """It is the bound address. `server` is where the connection came in."""
        name, port = _split(host)
        if server is None or port != server[1]:
            return False
        here = {self._own, server[0]}
        if is_loopback(f"{server[0]}:0"):
            here |= {"localhost", "127.0.0.1", "::1"}
        return name in here


def _split(host: bytes | None) -> tuple[str, int]:
    """Name and port; port 80 unless it is said, -1 for what is none."""
    text = (host or b"").decode("latin-1").lower()
    name, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = text, "80"
    return name.strip("[]"), int(port) if port.isascii() and port.isdigit() and len(port) < 6 else -1


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

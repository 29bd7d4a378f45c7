"""Where the collector listens: HOST:PORT as sockets, and an error that says what is in the way.

Also how many connections it may take: a process has so many files, and what can't be opened is not only connections.
"""

from __future__ import annotations

import errno
import ipaddress
import resource
import socket
from typing import Any, Final

BACKLOG: Final = 256
_FILES: Final = 2048  # that all connections of all ports may take together where the process may open so many ...
_OTHER_FILES: Final = 64  # ... besides these, for journal, reports, workers, downstreams
_FEWEST: Final = 4
_NOT_HERE: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})  # IPv6, often


class ListenError(OSError):
    """A port cannot be had; the message says which, what for, and why."""


def parse_address(address: str) -> tuple[str, int]:
    """The host, without the brackets of IPv6, and the port of HOST:PORT."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether HOST:PORT is reached from this machine alone."""
    host, _ = parse_address(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def open_more_files() -> None:
    """Has the process open as many files as it may be given without asking anyone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = _FILES + _OTHER_FILES
    if soft not in (hard, resource.RLIM_INFINITY) and soft < enough:
        most = enough if hard == resource.RLIM_INFINITY else min(hard, enough)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def fitting(connections: int) -> int:
    """So many connections of one port, or in proportion fewer where the process may open few files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return connections
    return min(connections, max(_FEWEST, connections * (files - _OTHER_FILES) // _FILES))


def bind(endpoint: str, what: str) -> tuple[str, list[socket.socket]]:
    """HOST:PORT with the port that it got, and listening sockets: one for each address of the host that is here.

    Raises ListenError, which says that `what` cannot be received.
    """
    bound: list[socket.socket] = []
    try:
        host, port = parse_address(endpoint)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for number, (family, _, _, _, address) in enumerate(dict.fromkeys(found)):
            try:
                bound.append(_listen(family, (address[0], port, *address[2:])))
            except OSError as error:
                if error.errno not in _NOT_HERE or (not bound and number == len(found) - 1):
                    raise
            port = bound[0].getsockname()[1] if bound else port
    except OSError as error:
        for each in bound:
            each.close()
        raise ListenError(f"cannot receive {what} on {endpoint}: {error.strerror or error}") from None
    return f"{endpoint.rpartition(':')[0]}:{port}", bound


def _listen(family: int, address: tuple[Any, ...]) -> socket.socket:
    # With the protocol named, asyncio sends without delay; else an answer in two parts waits for the sender's ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port just left may be had again
        if family == socket.AF_INET6:  # as gRPC does: the address that means any means IPv4's too
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        listening.bind(address)
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening

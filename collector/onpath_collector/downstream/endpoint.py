"""Endpoints as people write them: taken apart, and compared with the addresses that the collector itself listens on."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

_PORTS: Final = {"grpc": 4317, "grpcs": 4317, "http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    scheme: str
    host: str  # without the brackets of IPv6
    port: int
    path: str = ""  # without a slash at its end

    @property
    def secure(self) -> bool:
        return self.scheme in ("grpcs", "https")

    @property
    def protocol(self) -> Literal["grpc", "http"]:
        return "grpc" if self.scheme.startswith("grpc") else "http"

    @property
    def target(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(endpoint: str) -> Endpoint:
    """Raises ValueError, whose message says what an endpoint looks like, and holds no credentials."""
    url = urlsplit(endpoint)
    if "@" in url.netloc or url.query or url.fragment:
        raise ValueError(f"{without_secrets(endpoint)!r} takes no user, password or query: credentials go into headers")
    if url.scheme not in _PORTS or not url.hostname:
        raise ValueError(
            f"{without_secrets(endpoint)!r} is not an endpoint such as grpc://HOST:PORT, http://HOST:PORT or https://HOST:PORT"
        )
    try:
        port = url.port
    except ValueError as error:
        raise ValueError(f"{endpoint!r} has no usable port: {error}") from None
    return Endpoint(url.scheme, url.hostname, port or _PORTS[url.scheme], url.path.rstrip("/"))


def without_secrets(url: str) -> str:
    """A URL as it may be shown: without user, password, query and fragment."""
    shown = url.partition("?")[0].partition("#")[0]
    scheme, found, rest = shown.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{found}{host.rpartition('@')[2]}{slash}{path}"


def is_own_endpoint(endpoint: str, own_addresses: Iterable[str]) -> bool:
    """Whether `endpoint` (a URL) leads to one of `own_addresses` (HOST:PORT), by whatever name.

    Names are resolved. An own address of 0.0.0.0 or [::] is reached by every address of this machine. A name that does
    not resolve leads nowhere, so not here.
    """
    downstream = parse_endpoint(endpoint)
    target = {_loopback_if_any(ip) for ip in _resolve(downstream.host)}
    for address in own_addresses:
        own_host, _, own_port = address.rpartition(":")
        if int(own_port) != downstream.port:
            continue
        own = _resolve(own_host.strip("[]"))
        if target & own or (own & {"0.0.0.0", "::"} and any(_is_local(ip) for ip in target)):
            return True
    return False


def _resolve(host: str) -> set[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(address[0]).removeprefix("::ffff:") for *_, address in found}


def _loopback_if_any(ip: str) -> str:
    """Connecting to the unspecified address reaches loopback."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(ip, ip)


def _is_local(ip: str) -> bool:
    """Whether the address is one of this machine's: only such can be bound."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, 0))
        except OSError:
            return False
    return True

"""The certificate a port shows and the authority its clients are known by: for asyncio's servers and for gRPC's."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from onpath_collector.security.files import SecretError, Watched, read_secret


class Certificates(Watched):
    """PEM files: a certificate chain with its private key; with `client_ca`, clients must show a certificate too.

    New connections get what was read last; those that stand are left alone.
    """

    def __init__(self, cert: Path, key: Path, client_ca: Path | None = None, protocols: Sequence[str] = ()) -> None:
        """`protocols` are offered by ALPN, the first one preferred. Raises SecretError."""
        self._protocols = list(protocols)
        self._cert, self._key, self._client_ca = cert, key, client_ca
        self._context: ssl.SSLContext
        self._for_grpc: grpc.ServerCertificateConfiguration
        super().__init__([p for p in (cert, key, client_ca) if p is not None], self._read)

    def _read(self) -> None:
        key = read_secret(self._key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            cert = self._cert.read_bytes()
            context.load_cert_chain(self._cert, self._key, password=_no_password)
            if cert != self._cert.read_bytes():
                raise ValueError("changed while they were read")
        except (OSError, ValueError) as error:  # SSLError is an OSError
            raise SecretError(f"{self._cert} and {self._key} are no certificate and its key: {error}") from None
        authority = None
        if self._client_ca is not None:
            try:
                authority = self._client_ca.read_bytes()
                context.load_verify_locations(cadata=authority.decode("ascii"))
            except (OSError, ValueError) as error:
                raise SecretError(f"{self._client_ca} holds no certificates: {error}") from None
            context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(self._protocols)
        self._for_grpc = grpc.ssl_server_certificate_configuration([(key, cert)], authority)
        self._context = context

    def server_context(self) -> ssl.SSLContext:
        """For a server that keeps one context: it hands each connection on to the context that was read last."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = self._context.verify_mode
        context.set_alpn_protocols(self._protocols)

        def hand_on(connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
            connection.context = self._context

        context.sni_callback = hand_on
        return context

    def grpc_credentials(self) -> grpc.ServerCredentials:
        given = self._for_grpc

        def newer() -> grpc.ServerCertificateConfiguration | None:
            """gRPC asks at each handshake; None keeps what it has."""
            nonlocal given
            if given is self._for_grpc:
                return None
            given = self._for_grpc
            return given

        require = self._client_ca is not None
        return grpc.dynamic_ssl_server_credentials(given, newer, require)  # type: ignore[arg-type]  # None: see above


def _no_password() -> str:
    raise ValueError("the key is encrypted")  # OpenSSL would ask on the terminal

"""Certificates for tests: an authority, what it issues, and the files that settings name."""

from __future__ import annotations

import ssl
from pathlib import Path

import grpc
import trustme

HOST = "127.0.0.1"


class Authority:
    """Issues certificates for loopback, to files in a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._ca = trustme.CA()
        self.path = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.path))

    def issue(self, name: str = "server", *, mode: int = 0o600) -> tuple[Path, Path]:
        """Paths of a certificate chain and its key; files of the same name are replaced."""
        issued = self._ca.issue_cert(HOST, "localhost")
        cert, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        key.unlink(missing_ok=True)
        key.touch(mode)
        key.chmod(mode)
        key.write_bytes(issued.private_key_pem.bytes())
        cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        return cert, key

    def client_context(self, pair: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """Trusts this authority, and shows the certificate of `pair`."""
        context = ssl.create_default_context(cafile=str(self.path))
        if pair is not None:
            context.load_cert_chain(*pair)
        return context

    def channel_credentials(self, pair: tuple[Path, Path] | None = None) -> grpc.ChannelCredentials:
        cert, key = (path.read_bytes() for path in pair) if pair else (None, None)
        return grpc.ssl_channel_credentials(self.path.read_bytes(), key, cert)


def secret(path: Path, content: str, mode: int = 0o600) -> Path:
    """A file that nobody else may read, or as `mode` says."""
    path.unlink(missing_ok=True)
    path.touch(mode)
    path.chmod(mode)
    path.write_text(content, encoding="utf-8")
    return path

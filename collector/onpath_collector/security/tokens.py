"""Bearer tokens: one a line, from any number of files, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from onpath_collector.security.files import SecretError, Watched, read_secret


class Tokens(Watched):
    """The tokens that open a port."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises SecretError."""
        self._digests: tuple[bytes, ...] = ()
        super().__init__(paths, self._read)

    def _read(self) -> None:
        digests: list[bytes] = []
        for path in self._paths:
            lines = [line.strip() for line in read_secret(path).splitlines()]
            if not any(lines):
                raise SecretError(f"{path}: no token in it")
            digests += [hashlib.sha256(line).digest() for line in lines if line]
        self._digests = tuple(digests)

    def allow(self, authorization: str | bytes | None) -> bool:
        """Whether an `authorization` header carries one of the tokens.

        Digests are compared, all of them each time: neither the length of a token nor which one it was shows in the
        time it takes.
        """
        if authorization is None:
            return False
        header = authorization.encode("utf-8", "replace") if isinstance(authorization, str) else authorization
        scheme, _, token = header.strip().partition(b" ")
        given = hashlib.sha256(token.strip()).digest()
        found = False
        for digest in self._digests:
            found |= hmac.compare_digest(digest, given)
        return found and scheme.lower() == b"bearer"

"""A way to a downstream that breaks: TCP connections are reset as told, or pass."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType

_CHUNK = 1 << 16
_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets


class Proxy:
    """`with Proxy(target, resets) as proxy`: `resets` is asked on each chunk of bytes to the target, by its number."""

    def __init__(self, target: str, resets: Callable[[int], bool]) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._resets = resets
        self._lock = threading.Lock()
        self._chunks = 0
        self.broken = 0  # connections
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listening.getsockname())

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(self._target)
            threading.Thread(target=self._copy, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client, False), daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, watched: bool) -> None:
        with source, target:
            while True:
                try:
                    data = source.recv(_CHUNK)
                    if not data:
                        return
                    if watched and self._breaks():
                        for end in (source, target):
                            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                        return
                    target.sendall(data)
                except OSError:  # the other side has gone
                    return

    def _breaks(self) -> bool:
        with self._lock:
            self._chunks += 1
            broken = self._resets(self._chunks)
            self.broken += broken
            return broken

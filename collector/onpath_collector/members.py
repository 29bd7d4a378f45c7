"""Of several collectors that share the traces, each watches the name that all of them have: whose addresses it is.

When the addresses change, a load balancer gives some traces to another collector than before, in the middle. What has
to be done about that is the owner's; this says when.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

log: Final = logging.getLogger("onpath")

Addresses: TypeAlias = frozenset[str]


async def addresses_of(name: str) -> Addresses:
    """Raises OSError where the name is not known, or nobody can be asked."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return frozenset(str(address[4][0]) for address in found)


class Members:
    """`changed` is called with the addresses before (none at first) and now. Without an answer those before stand."""

    def __init__(
        self,
        name: str,
        interval: float,
        changed: Callable[[Addresses, Addresses], None],
        resolve: Callable[[str], Awaitable[Addresses]] = addresses_of,
    ) -> None:
        self._name = name
        self._interval = interval
        self._changed = changed
        self._resolve = resolve
        self._known: Addresses = frozenset()
        self._unanswered = False

    async def watch(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._interval)

    async def look(self) -> None:
        try:
            found = await self._resolve(self._name)
        except OSError as error:
            if not self._unanswered:
                log.warning("gateway.members: %s can't be resolved (%s); those known before stand", self._name, error)
            self._unanswered = True
            return
        self._unanswered = False
        if found != self._known:
            before, self._known = self._known, found
            self._changed(before, found)

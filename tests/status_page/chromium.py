"""Headless Chromium, driven over its DevTools protocol: as much of it as looking at a page takes."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--remote-debugging-port=0"),
)


class Page:
    """One tab. `problems` are what the browser complained about: blocked by a policy, not loaded."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.problems: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._events: list[str] = []

    async def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._next()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    async def _next(self) -> Any:
        message = await self._socket.receive_json(timeout=30)
        self._events.append(message.get("method", ""))
        if message.get("method") == "Log.entryAdded":
            self.problems.append(message["params"]["entry"]["text"])
        return message

    async def open(self, address: str, *, width: int, height: int, dark: bool, scripts: bool = True) -> None:
        await self.call("Log.enable")
        await self.call("Page.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._events.clear()
        await self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._events:
            await self._next()

    async def find(self, expression: str) -> Any:
        """The value of a JavaScript expression, which the page's own policy does not hinder."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            event = {"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
            await self.call("Input.dispatchKeyEvent", **event, **({"text": "\r"} if key == "Enter" else {}))

    async def until(self, expression: str, patience: float = 120) -> None:
        """Until its value counts as true."""
        deadline = asyncio.get_running_loop().time() + patience
        while not await self.find(expression):
            assert asyncio.get_running_loop().time() < deadline, f"{expression} never came true"
            await asyncio.sleep(0.2)

    async def picture(self, height: int | None = None, width: int | None = None) -> bytes:
        """A PNG of the page down to `height` and as wide as `width`, or all of it."""
        size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": width or size["width"], "height": height or size["height"], "scale": 1}
        taken = await self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(taken["data"])


def program() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@asynccontextmanager
async def browser() -> AsyncIterator[Page]:
    path = program()
    assert path is not None
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        nowhere = asyncio.subprocess.DEVNULL
        arguments = [*_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        process = await asyncio.create_subprocess_exec(path, *arguments, stdout=nowhere, stderr=nowhere)
        try:
            port = await _port(Path(folder) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    tabs = [tab for tab in await answer.json() if tab["type"] == "page"]
                async with session.ws_connect(tabs[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    yield Page(socket)
        finally:
            process.terminate()
            await process.wait()


async def _port(told: Path) -> str:
    async with asyncio.timeout(60):
        while True:
            lines = await asyncio.to_thread(_lines, told)
            if lines:
                return lines[0]
            await asyncio.sleep(0.05)


def _lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []

"""An OpenAI-compatible endpoint on loopback that answers as a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answering = Callable[[dict[str, Any]], "Reply"]


class Reply:
    """What the endpoint sends: the content of the message, or a status of its own; after a delay."""

    def __init__(
        self,
        content: str | None = None,
        *,
        refusal: str | None = None,
        finish_reason: str = "stop",
        status: int = 200,
        delay: float = 0,
        choices: bool = True,
    ) -> None:
        message = {"role": "assistant", "content": content, "refusal": refusal}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
        self.body: dict[str, Any] = {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice] if choices else [],
        }
        self.status = status
        self.delay = delay


def judged(answer: str, reason: str = "so it is", **options: Any) -> Reply:
    return Reply(json.dumps({"reason": reason, "answer": answer}), **options)


class Endpoint:
    """`answering` gets a request's body. `requests` holds all bodies, `most_at_once` how many were open together."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self._open = 0
        self._lock = threading.Lock()
        self.base_url = ""

    def handle(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        try:
            reply = self.answering(body)
            time.sleep(reply.delay)
            return reply
        finally:
            with self._lock:
                self._open -= 1


@contextmanager
def endpoint(answering: Answering) -> Iterator[Endpoint]:
    served = Endpoint(answering)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = served.handle(body, {name.lower(): value for name, value in self.headers.items()})
            data = json.dumps(reply.body).encode()
            try:
                self.send_response(reply.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the caller did not wait

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are looked at by the test."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served.base_url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

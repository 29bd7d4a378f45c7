"""A model behind an OpenAI-compatible server on loopback: chat completions and the Responses API, no streaming.

The model's name says the scenario (`refund-SCENARIO`), the history in each request says how far it has come, so the
server keeps nothing between requests and any number of programs may talk to it at once.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.agents.programs import refund

CREATED = 1_700_000_000


def chat_completion(request: dict[str, Any]) -> dict[str, Any]:
    made = sum(len(message.get("tool_calls") or ()) for message in request["messages"])
    calls = [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for i, (name, args) in enumerate(_asked_for(request, made), made)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    if not calls:
        message = {"role": "assistant", "content": refund.DONE}
    return {
        "id": f"chatcmpl-{made}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request["model"],
        "choices": [{"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30},
    }


def response(request: dict[str, Any]) -> dict[str, Any]:
    history = request["input"] if isinstance(request["input"], list) else []
    made = sum(item.get("type") == "function_call" for item in history)
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{i}",
            "call_id": f"call_{i}",
            "name": name,
            "arguments": json.dumps(args),
            "status": "completed",
        }
        for i, (name, args) in enumerate(_asked_for(request, made), made)
    ]
    if not output:
        text = {"type": "output_text", "text": refund.DONE, "annotations": []}
        output = [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}]
    return {
        "id": f"resp_{made}",
        "object": "response",
        "created_at": CREATED,
        "model": request["model"],
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "usage": {
            "input_tokens": 20,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 30,
        },
    }


def _asked_for(request: dict[str, Any], made: int) -> list[refund.Call]:
    return refund.asked_for(request["model"].removeprefix("refund-"), made)


ANSWERS = {"/v1/chat/completions": chat_completion, "/v1/responses": response}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = ANSWERS.get(self.path)
        status, document = (200, answer(body)) if answer else (404, {"error": {"message": f"no {self.path} here"}})
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Says nothing: what matters is in the answers."""


class OpenAIStub:
    """`with OpenAIStub() as url`: the base URL for a client."""

    def __enter__(self) -> str:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

"""A WSGI application whose every request is one run of the agent: /good or /bad; the answer is process and trace id."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import watched


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    tools = watched.BAD if environ["PATH_INFO"] == "/bad" else watched.GOOD
    answer = {"pid": os.getpid(), "trace": watched.run(*tools), "verdict": "fail" if tools is watched.BAD else "pass"}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]

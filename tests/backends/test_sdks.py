"""What is sent to backends that don't run here is valid by the models of their own SDKs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.collector.sinks.backend import Backend, document, evaluation, outcome

pytestmark = pytest.mark.backends

VALIDATE = Path(__file__).resolve().parent / "programs" / "validate.py"
RESULTS = [
    document(evaluation(), evaluation("elapsed", None, "unknown", key="a" * 32), evaluation("all", 1.0, "pass")),
    document(evaluation("workflow_adherence", 0.0, "fail"), session="s-1"),
    document(evaluation("tool.args", None, "pass"), service=None, revision=2),
]


@pytest.mark.parametrize("kind", ["langfuse", "langsmith", "datadog"])
@pytest.mark.parametrize("root", [True, False])
async def test_the_sdks_models_take_it(sdks: Path, kind: str, root: bool) -> None:
    bodies = await _sent(kind, root)
    assert bodies
    done = subprocess.run(  # noqa: ASYNC221 - nothing else is going on
        [str(sdks), str(VALIDATE)], input=json.dumps({kind: bodies}), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


async def _sent(kind: str, root: bool) -> list[Any]:
    async with Backend() as backend:
        sink = backend.sink(kind)
        for each in RESULTS:
            sink.export(outcome(each, root=root))
            await sink._idle.wait()
        await sink.close(sink._clock() + 10)
        return [request.json for request in backend.requests]

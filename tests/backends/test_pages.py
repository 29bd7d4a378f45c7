"""The pages of Phoenix and MLflow in headless Chromium: whoever opens the agent's trace there sees its scores.

With ONPATH_PICTURES=DIR the pictures stay there; deploy/pictures has them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.backends.support.servers import MLflow, Phoenix, Server
from tests.backends.test_servers import EXPERIMENT, PROJECT, judged, scores_of
from tests.status_page.chromium import Page, browser, program
from tests.support.collector import PATIENCE
from tests.support.waiting import until

pytestmark = [
    pytest.mark.backends,
    pytest.mark.skipif(program() is None, reason="needs Chromium: apt-get install chromium"),
]

SIZE = (1440, 640)
TEXT = "document.body ? document.body.innerText : ''"
ASSESS = "[...document.querySelectorAll('button')].find(b => b.innerText.trim().startsWith('Assess'))"


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    async with browser() as found:
        yield found


async def seen(page: Page, wanted: dict[str, str]) -> None:
    """Waits until each name stands on the page with its score behind it."""

    def looked(text: str) -> bool:
        last_words = [line.split()[-1] for line in text.splitlines() if line.strip()]
        return set(wanted.items()) <= set(pairwise(last_words))

    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not looked(text := await page.find(TEXT)):
        assert asyncio.get_running_loop().time() < deadline, f"{wanted} is not on the page:\n{text[-3000:]}"
        await asyncio.sleep(0.5)


async def keep(page: Page, name: str, folder: Path, width: int) -> None:
    await asyncio.sleep(1)  # what moves has come to rest
    picture = Path(os.environ.get("ONPATH_PICTURES", folder)) / name
    picture.write_bytes(await page.picture(SIZE[1], width))


async def scored(server: Server, settings: dict[str, Any], folder: Path, openai: str) -> dict[str, Any]:
    resource = f"openinference.project.name={PROJECT}"
    result, _ = await asyncio.to_thread(judged, folder, settings, openai, resource)
    return result


async def test_phoenix(phoenix: Phoenix, page: Page, openai: str, tmp_path: Path) -> None:
    settings = {
        "forward": {"endpoint": phoenix.grpc},
        "results": {"sinks": [{"type": "phoenix", "url": phoenix.url}], "metrics": {"interval": "1s"}},
    }
    result = await scored(phoenix, settings, tmp_path, openai)
    path = f"/v1/projects/{PROJECT}/trace_annotations?trace_ids={result['trace_id']}"
    await asyncio.to_thread(until, lambda: phoenix.get(path)["data"], lambda: "annotations", PATIENCE)
    (project,) = [each["id"] for each in phoenix.get("/v1/projects")["data"] if each["name"] == PROJECT]
    address = f"{phoenix.url}/projects/{project}/traces/{result['trace_id']}"
    await page.open(address, width=SIZE[0], height=SIZE[1], dark=False)
    await seen(page, {name: f"{score:.2f}" for name, score in scores_of(result).items()})
    await page.until(f"{TEXT}.includes('onpath.evaluate refund')")
    await keep(page, "phoenix.png", tmp_path, SIZE[0])


async def test_mlflow(mlflow: MLflow, page: Page, openai: str, tmp_path: Path) -> None:
    settings = {
        "forward": {"endpoint": mlflow.url, "headers": EXPERIMENT},
        "results": {"sinks": [{"type": "mlflow", "url": mlflow.url, "timeout": "30s"}], "metrics": {"interval": "1s"}},
    }
    result = await scored(mlflow, settings, tmp_path, openai)
    address = f"{mlflow.url}/#/experiments/0/traces?selectedEvaluationId=tr-{result['trace_id']}"
    await page.open(address, width=SIZE[0], height=SIZE[1], dark=False)
    await page.until(f"!!{ASSESS}")
    await page.find(f"{ASSESS}.click()")
    await seen(page, {name: f"{score:g}" for name, score in scores_of(result).items()})
    assert "onpath.evaluate refund" in await page.find(TEXT)
    await keep(page, "mlflow.png", tmp_path, 1008)

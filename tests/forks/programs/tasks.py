"""A Celery application: `worker` starts a prefork worker on a filesystem broker, `send` gives it runs of the agent."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import watched
from celery import Celery

FOLDER = Path(os.environ["FORKS_FOLDER"])
app = Celery("tasks", broker="filesystem://", backend=f"file://{FOLDER / 'results'}")
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(FOLDER / "broker"),
        "data_folder_out": str(FOLDER / "broker"),
        "control_folder": str(FOLDER / "control"),
    },
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
)


@app.task
def refund(tools: list[str]) -> dict[str, Any]:
    verdict = "fail" if "override" in tools else "pass"
    return {"pid": os.getpid(), "trace": watched.run(*tools), "verdict": verdict}


if __name__ == "__main__":
    for name in ("broker", "control", "results"):
        (FOLDER / name).mkdir(exist_ok=True)
    if sys.argv[1] == "worker":
        app.worker_main(["worker", "--pool=prefork", "--concurrency=2", "--loglevel=WARNING", "--without-mingle"])
    else:
        sent = [refund.delay(list(tools)) for tools in (watched.GOOD, watched.BAD) * 4]
        print(json.dumps([result.get(timeout=60) for result in sent]), flush=True)

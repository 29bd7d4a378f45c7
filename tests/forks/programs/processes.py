"""Runs the agent in processes of multiprocessing, made in the way that the first argument says, and tells what ran."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from typing import Any

import watched


def work(tools: tuple[str, ...]) -> dict[str, Any]:
    return {"pid": os.getpid(), "trace": watched.run(*tools), "verdict": "fail" if "override" in tools else "pass"}


def alone(tools: tuple[str, ...], answers: Any) -> None:
    """A process that ends as soon as its run does."""
    answers.put(work(tools))


if __name__ == "__main__":
    made = multiprocessing.get_context(sys.argv[1])
    runs = [watched.GOOD, watched.BAD] * 4
    with made.Pool(2) as pool:
        told = pool.map(work, runs, chunksize=1)
        pool.close()
        pool.join()
    answers = made.SimpleQueue()
    processes = [made.Process(target=alone, args=(tools, answers)) for tools in runs[:2]]
    for process in processes:
        process.start()
    told += [answers.get() for _ in processes]
    for process in processes:
        process.join()
    print(json.dumps(told), flush=True)

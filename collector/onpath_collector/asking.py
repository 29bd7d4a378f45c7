"""Has a model answer what a policy leaves to a judge, off the path of everything else.

Release -> Asking.run(job) -> workers -> Outcome with open questions -> onpath.judge -> the same job with answers

While a trace waits for its answers no worker waits with it. At most `AT_ONCE` traces wait; the checks of further ones
are unknown, and say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from onpath.report import Answer, Question
from onpath_collector.judging import Job, Outcome, Setup
from onpath_collector.workers import Judge

AT_ONCE: Final = 64
ROUNDS: Final = 5  # an answer can bring up another question, as values choose between divisions of the steps


class Model(Protocol):
    """What answers: `onpath.judge.Judge`."""

    async def answers(self, questions: Sequence[Question]) -> dict[str, Answer]: ...
    async def aclose(self) -> None: ...


class Asking:
    """A Judge whose outcomes have the model's answers in them. Never raises for what the model does."""

    def __init__(self, workers: Judge, model: Model) -> None:
        self._workers = workers
        self._model = model
        self._waiting = 0
        self._hurry = asyncio.Event()

    async def set_up(self, setup: Setup) -> None:
        await self._workers.set_up(setup)

    async def run(self, job: Job) -> Outcome:
        outcome = await self._workers.run(job)
        answers: dict[str, Answer] = {}
        for _ in range(ROUNDS):
            questions = [q for q in outcome.questions if q.id not in answers]
            if not questions:
                break
            answers |= await self._answers(questions)
            outcome = await self._workers.run(replace(job, answers=answers))
        return outcome

    def hurry(self) -> None:
        """The collector is stopping: what is not answered by now stays unknown."""
        self._hurry.set()

    async def close(self) -> None:
        await self._workers.close()
        await self._model.aclose()

    async def _answers(self, questions: Sequence[Question]) -> dict[str, Answer]:
        if self._waiting >= AT_ONCE:
            return _none(questions, "too many traces wait for the judge")
        self._waiting += 1
        asking = asyncio.ensure_future(self._model.answers(questions))
        stopping = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else _none(questions, "the collector was stopping")
        finally:
            self._waiting -= 1
            for task in (asking, stopping):
                task.cancel()


def _none(questions: Sequence[Question], reason: str) -> dict[str, Answer]:
    return {question.id: Answer(holds=None, reason=reason) for question in questions}

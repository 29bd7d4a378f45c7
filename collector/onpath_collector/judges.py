"""Who judges, made of the settings: worker processes or a thread, and behind them a model, if one is set."""

from __future__ import annotations

from onpath_collector.asking import AT_ONCE, Asking
from onpath_collector.config import JudgeConfig, Settings
from onpath_collector.judging import Setup
from onpath_collector.workers import JOBS_AHEAD, Judge, Pool, Threaded


def new_judge(settings: Settings, setup: Setup) -> Judge:
    """Raises ValueError where the extra is missing that a model needs."""
    own = settings.evaluate
    workers: Judge
    if own.processes == 0:
        workers = Threaded(setup, own.timeout)
    else:
        workers = Pool(setup, own.timeout, own.processes)
    return _asking(workers, settings.judge)


def at_once(settings: Settings, judge: Judge | None) -> int:
    """How many releases may be on their way to a verdict: as many as workers take, and those that wait for a model."""
    waiting = AT_ONCE if isinstance(judge, Asking) else 0
    return max(1, settings.evaluate.processes) * JOBS_AHEAD + waiting


def hurry(judge: Judge | None) -> None:
    """The collector is stopping: what a model has not answered by now stays unknown."""
    if isinstance(judge, Asking):
        judge.hurry()


def _asking(workers: Judge, config: JudgeConfig) -> Judge:
    if config.base_url is None or config.model is None:
        return workers
    try:
        from onpath.judge import Judge as Model
        from onpath.judge import JudgeSettings
    except ModuleNotFoundError:
        raise ValueError("a judge needs more than the collector: pip install 'onpath[collector,judge]'") from None
    return Asking(workers, Model(JudgeSettings(**{**config.model_dump(), "base_url": str(config.base_url)})))

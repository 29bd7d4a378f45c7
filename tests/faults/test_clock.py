"""The clock goes back an hour: only what results say of when they were judged goes by it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.durable import Lives, assert_nothing_lost
from tests.support.load import Load
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until

# Stands before the C library: the wall clock is behind by an hour as soon as the file is there.
BEHIND = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long behind(void) {
    const char *file = getenv("CLOCK_IS_BEHIND");
    return file && access(file, F_OK) == 0 ? 3600 : 0;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, found);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) found->tv_sec -= behind();
    return result;
}

int gettimeofday(struct timeval *found, void *zone) {
    int (*real)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(found, zone);
    if (result == 0) found->tv_sec -= behind();
    return result;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that puts the clock of child processes back, once it is there."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, to put something before the C library's clock")
    source, library = tmp_path / "behind.c", tmp_path / "behind.so"
    source.write_text(BEHIND, encoding="utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CLOCK_IS_BEHIND", str(tmp_path / "behind"))
    return tmp_path / "behind"


def test_the_clock_goes_back_an_hour(tmp_path: Path, sink: OtlpSink, shim: Path, tell: Callable[..., None]) -> None:
    lives = Lives(tmp_path, sink.address, "--settle-delay", "300ms")
    with lives.start() as collector:
        os.environ.pop("LD_PRELOAD")  # of this process's own children from now on
        load = Load(lives.address, threads=3, rate=40).__enter__()
        until(lambda: len(lives.judged) > 50, lambda: "verdicts before")
        before = len(lives.results)
        shim.touch()
        until(lambda: len(lives.results) > before + 200, lambda: "verdicts after")
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace")
    told = [datetime.fromisoformat(result["judged_at"]).timestamp() for result in lives.results]
    assert max(a - b for a, b in pairwise(told)) > 3500  # it did go back
    assert {result["verdict"] for result in lives.results} == {"pass"}
    assert {result["release_reason"] for result in lives.results} <= {"root_ended", "shutdown"}
    assert_nothing_lost(lives, load.acknowledged, sink)
    tell(collector.ledger)

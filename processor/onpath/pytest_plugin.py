"""The pytest plugin: the fixture `onpath` and the marker `@pytest.mark.onpath(POLICY)`.

    def test_refund(onpath):
        agent.run("refund order 4711")
        assert onpath.check("policy.yaml").passed

pytest loads this module at its start, so it imports nothing of onpath; a test that uses it does.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from onpath.policy.model import Policy
    from onpath.testing.checks import Checked, OnPath

_MARKER: Final = "onpath(policy=None, workflow=None): the agent runs of this test must pass the policy"
_MADE: Final = pytest.StashKey[list["Checked"]]()
_LOADED: Final = pytest.StashKey[dict[Any, "Policy"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("onpath_policy", "the policy of tests that name none, relative to the root folder")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    config.stash[_LOADED] = {}


def pytest_unconfigure() -> None:
    recorder = sys.modules.get("onpath.testing.recorder")
    if recorder is not None:
        recorder.uninstall()


@pytest.fixture(name="onpath")
def onpath_fixture(request: pytest.FixtureRequest) -> Iterator[OnPath]:
    """Records the spans of this test; `onpath.check(policy)` judges them."""
    with ExitStack() as stack:
        yield _start(request.node, stack)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A marked test that has passed by itself is checked."""
    marker = item.get_closest_marker("onpath")
    if marker is None:
        return (yield)
    with ExitStack() as stack:
        fixture = getattr(item, "funcargs", {}).get("onpath") or _start(item, stack)
        result = yield
        checked = fixture.check(*marker.args, **marker.kwargs)
    if not checked.passed:
        pytest.fail(str(checked), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """An assertion on a check fails with what the check has to say."""
    made = item.stash.get(_MADE, [])
    error = call.excinfo.value if call.excinfo is not None else None
    if made and isinstance(error, AssertionError):
        said = str(error)
        told = [str(checked) for checked in made if not checked.passed and (repr(checked) in said or not said)]
        if told:
            error.args = ("\n".join([*told, *([said] if said else [])]),)
    return (yield)


def _start(item: Any, stack: ExitStack) -> OnPath:
    from onpath.testing.checks import OnPath
    from onpath.testing.recorder import recording

    made = item.stash.setdefault(_MADE, [])
    return OnPath(stack.enter_context(recording()), lambda given: _policy(given, item), made)


def _policy(given: Any, item: pytest.Item) -> Policy:
    """A path is looked for beside the test, then in the root folder; it is read once a session while it is the same."""
    from onpath.live.policies import load

    if given is None:
        given = item.config.getini("onpath_policy")
        if not given:
            raise pytest.UsageError("onpath: name a policy, or set onpath_policy in the pytest settings")
        given = item.config.rootpath / given
    if not isinstance(given, str | Path):
        return load(given)
    path = _found(Path(given), item)
    if not path.is_file():
        return load(path)
    key = (path, path.stat().st_mtime_ns)
    loaded = item.config.stash[_LOADED]
    if key not in loaded:
        loaded[key] = load(path)
    return loaded[key]


def _found(path: Path, item: pytest.Item) -> Path:
    for folder in (item.path.parent, item.config.rootpath):
        if (folder / path).exists():
            return folder / path
    return path

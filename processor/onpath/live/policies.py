"""The policy of a guest: what was given -> Policy, or one line in the log that says why there is none.

Nothing here raises unless it is asked to: an application does not fail because what watches it was set up wrongly.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from onpath.policy.model import Policy
from onpath.policy.problems import PolicyError

PolicyLike: TypeAlias = Policy | str | Path | Sequence[str | Path] | Mapping[str, Any]

_log: Final = logging.getLogger("onpath")
_told: Final[set[str]] = set()


def load(given: PolicyLike) -> Policy:
    """From a file, a folder, several of them, or plain values. Raises PolicyError."""
    if isinstance(given, Policy):
        return given
    from onpath.policy.load import load_data, load_policy  # pydantic is for those who load a policy

    if isinstance(given, Mapping):
        return load_data(given)
    return load_policy([given] if isinstance(given, str | Path) else list(given))


def load_or_tell(given: PolicyLike) -> Policy | None:
    """As `load`; where that fails, None and one line in the log."""
    try:
        return load(given)
    except PolicyError as error:
        problems = [line for problem in error.problems for line in str(problem).splitlines()[:1]]
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        _tell(f"{problems[0] if problems else error}{more}; `onpath validate` shows all")
    except Exception as error:  # noqa: BLE001 - a library that is missing or broken must not stop the application
        _tell(f"{type(error).__name__}: {error}")
    return None


def _tell(why: str) -> None:
    """Once: the exporter and the processor may both have been given the same policy."""
    told = " ".join(why.split())
    if told not in _told:
        _told.add(told)
        _log.error("onpath: no trace is judged, the policy was not loaded: %s", told)


def paths(text: str) -> list[str]:
    """Those in an environment variable, separated as in PATH."""
    return [path for path in text.split(os.pathsep) if path]

"""A digest of what a policy means, the same however its files are written.

The order of keys, comments, YAML or JSON, files or folders, and defaults that are written out make no difference; a
contract file counts with its content. What is for people only (descriptions, metadata) does not count.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from onpath.policy.schema import WorkflowModel


def fingerprint(meanings: Iterable[Mapping[str, Any]]) -> str:
    """32 hex digits over workflows as `meaning` gives them, in any order."""
    ordered = sorted(meanings, key=lambda m: str(m["name"]))
    text = json.dumps(_canonical(ordered), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def meaning(
    name: str, model: WorkflowModel, match: Mapping[str, Any] | None, prompt: str | None, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """What of a workflow decides a verdict. `asked` is what it asks, by key, as written; `match` None: not given."""
    return {
        "name": name,
        "match": match,
        "prompt": prompt,
        "agent": model.agent,
        "nested": model.nested,
        "spans": sorted(set(model.spans)),
        "ignore": sorted(set(model.ignore)),
        "aliases": {key: sorted(set(others)) for key, others in model.aliases.items()},
        "principal": [model.principal.attribute, {k: sorted(set(v)) for k, v in model.principal.labels.items()}],
        "severity": model.severity,
        "sample": model.sample,
        "capture_content": model.capture_content,
        "asked": asked,
    }


def _canonical(value: Any) -> Any:
    """Numbers by value: 1 and 1.0 are one. Infinities and NaN, which JSON has no word for, become text."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return f"float {value}"
        return int(value) if value.is_integer() else value
    if isinstance(value, Mapping):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(inner) for inner in value]
    return value

"""Policies written as text in a test, without a file."""

from __future__ import annotations

from pathlib import Path

from onpath.policy.load import load_document
from onpath.policy.model import Policy
from onpath.policy.yaml import read_text


def load_text(text: str, name: str, folder: Path | None = None, *, strict_inputs: bool = True) -> Policy:
    """The policy in a text that would lie under the file name `name` in `folder`. Raises PolicyError."""
    return load_document(read_text(text, name), folder, strict_inputs=strict_inputs)

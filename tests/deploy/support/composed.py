"""deploy/compose read as data, and what it takes to run its configurations here, where no containers are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml

from tests.conftest import ROOT

FOLDER: Final = ROOT / "deploy" / "compose"
COMPOSE: Final[dict[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: Final[dict[str, Any]] = COMPOSE["services"]


def mounts(service: str) -> dict[str, str]:
    """Sources by where the service has them; named volumes by their name."""
    return {target: source for source, target, *_ in (m.split(":") for m in SERVICES[service].get("volumes", ()))}


def environment(folder: Path, policy: Path) -> dict[str, str]:
    """Variables that put this machine's paths into onpath.yaml, in place of the container's; a token is made."""
    token = folder / "token"
    token.write_text("open sesame", encoding="utf-8")
    token.chmod(0o440)
    return {
        "ONPATH_ADMIN__BEARER_TOKEN_FILES": json.dumps([str(token)]),
        "ONPATH_POLICY": str(policy),
        "ONPATH_DURABILITY__DIRECTORY": str(folder / "journal"),
        "ONPATH_BUFFER__SETTLE_DELAY": "500ms",
    }

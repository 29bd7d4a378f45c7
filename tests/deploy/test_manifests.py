"""The manifests of deploy/kubernetes: what is in them loads, fits together, and asks for no more than it needs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from onpath_collector.config import Settings
from tests.conftest import ROOT
from tests.deploy.support import checks
from tests.deploy.support.manifests import Rendered, kustomized

KUBERNETES = ROOT / "deploy" / "kubernetes"
WAYS = ("sidecar", "sidecar-older", "gateway", "sharded")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def read(way: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Rendered, Settings]:
    found = kustomized(KUBERNETES / way)
    for variable in found.collector.get("env", ()):
        monkeypatch.setenv(variable["name"], variable["value"])
    return found, found.settings(folder)


@pytest.mark.parametrize("way", WAYS)
def test_it_fits_together(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, settings = read(way, tmp_path, monkeypatch)
    checks.check_everything(found, settings, tmp_path)
    assert settings.forward.endpoint == "grpc://phoenix.observability:4317"
    assert found.collector["image"] == f"onpath:{VERSION}"


def test_a_native_sidecar_is_there_before_the_agent_and_after_it() -> None:
    found = kustomized(KUBERNETES / "sidecar")
    (first, *_) = found.pod["initContainers"]
    assert first is found.collector
    assert first["restartPolicy"] == "Always"
    assert "preStop" not in first.get("lifecycle", {})  # the kubelet ends it last by itself


def test_the_older_form_waits_for_the_agents_last_spans() -> None:
    found = kustomized(KUBERNETES / "sidecar-older")
    assert found.pod["containers"][0] is found.collector
    assert "restartPolicy" not in found.collector
    assert checks.waits_before_it_ends(found.collector) >= 10


def test_both_sidecars_are_set_up_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, native = read("sidecar", tmp_path, monkeypatch)
    _, older = read("sidecar-older", tmp_path, monkeypatch)
    assert native.model_dump() == older.model_dump()


def test_shards_have_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks.check_shards(*read("sharded", tmp_path, monkeypatch))


@pytest.mark.parametrize("way", ["gateway", "sharded"])
def test_nobody_is_told_to_stop_sending_to_one_that_has_gone(way: str) -> None:
    """A service forgets a pod that ends; who sends has to hear of that first."""
    assert checks.waits_before_it_ends(kustomized(KUBERNETES / way).collector) >= 5


def test_a_changed_policy_keeps_its_name() -> None:
    """With a digest in it, pods would be replaced where a reload does."""
    (policy,) = [o for o in kustomized(KUBERNETES / "policy").objects if o["metadata"]["name"] == "onpath-policy"]
    assert list(policy["data"]) == ["policy.yaml"]
    assert "disableNameSuffixHash: true" in (KUBERNETES / "policy" / "kustomization.yaml").read_text(encoding="utf-8")

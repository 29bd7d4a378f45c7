"""Manifests carried out: their container by runc, from the image, with their volumes, limits and probes (-m peers)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.deploy.support import image
from tests.deploy.support.manifests import kustomized
from tests.deploy.support.pod import TOKEN, running, verdicts
from tests.support.waiting import until

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("way", ["sidecar", "gateway"])
def test_a_manifest_does_what_it_says(
    way: str, onpath_image: image.Image, open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = kustomized(ROOT / "deploy" / "kubernetes" / way)
    for variable in found.collector["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    settings = found.settings(tmp_path)
    with running(onpath_image, found, settings, open_folder, tmp_path / "runtime") as pod:
        pod.start()
        assert pod.probe("readinessProbe")
        assert pod.probe("livenessProbe")
        if settings.admin.bearer_token_files:
            assert (pod.status("/metrics"), pod.status("/metrics", TOKEN)) == (401, 200)
        policy = pod.config_maps["onpath-policy"]
        text = found.file("/etc/onpath/policy", "policy.yaml")
        policy.change({"policy.yaml": text.replace("service: refund-*", "service: '*'")})
        pod.child.wait_for_line("policy reloaded")
        failed = pod.send("lookup_user", "process_payment")
        until(lambda: failed in verdicts(pod.child.output), lambda: f"a verdict:\n{pod.child.output}")
        assert verdicts(pod.child.output)[failed] == "fail"
        pod.child.send(signal.SIGTERM)
        assert pod.child.wait(found.pod["terminationGracePeriodSeconds"]) == 0  # the backend is not there all the time
    assert (pod.data / "journal" / "journal.sqlite3").stat().st_mode & 0o777 == 0o600

"""What Kubernetes mounts, as it mounts it: ConfigMaps and Secrets whose links are swapped, volumes of another owner."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onpath_collector.policy_source import PolicySource
from onpath_collector.security import SecretError, Tokens, read_secret
from tests.deploy.support.mounted import Mounted
from tests.support.collector import Collector
from tests.support.onpath import onpath

POLICY = """
version: 1
workflows:
  - name: {name}
    adherence: {{expected_steps: [lookup_user], required_steps: [lookup_user], extract_from: tool_calls}}
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to others and become someone else")


def policy(name: str) -> dict[str, str]:
    return {"policy.yaml": POLICY.format(name=name)}


@pytest.mark.parametrize("named", ["policy.yaml", "."])
def test_a_swapped_config_map_is_a_changed_policy(tmp_path: Path, named: str) -> None:
    mounted = Mounted(tmp_path / "policy", policy("refund"))
    source = PolicySource(str(mounted.folder / named))
    assert [w.name for w in source.load().workflows] == ["refund"]
    before = source.state()
    assert source.state() == before
    mounted.change(policy("refunds"))
    assert source.state() != before
    assert [w.name for w in source.load().workflows] == ["refunds"]


def test_a_running_collector_takes_the_swapped_policy(tmp_path: Path) -> None:
    mounted = Mounted(tmp_path / "policy", policy("refund"))
    with Collector(mounted.folder / "policy.yaml", tmp_path) as collector:
        mounted.change({"policy.yaml": "version: 1\nworkflows: [{name: refund, adherance: {}}]\n"})
        collector.process.wait_for_line("did you mean")
        collector.process.wait_for_line("not reloaded")
        mounted.change(policy("refunds"))
        collector.process.wait_for_line("policy reloaded")


def test_a_swapped_secret_is_a_new_token(tmp_path: Path) -> None:
    mounted = Mounted(tmp_path / "secret", {"token": "former\n"}, mode=0o440)
    tokens = Tokens([mounted.folder / "token"])
    assert tokens.allow("Bearer former")
    mounted.change({"token": "newer\n"})
    tokens.refresh()
    assert tokens.allow("Bearer newer")
    assert not tokens.allow("Bearer former")


def test_a_secret_for_the_group_is_taken_and_one_for_all_is_not(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret", encoding="utf-8")
    token.chmod(0o440)  # defaultMode of the manifests
    assert read_secret(token) == b"secret"
    token.chmod(0o444)
    with pytest.raises(SecretError, match="everyone may read"):
        read_secret(token)


AS_IN_A_POD = """
import os, sys
from pathlib import Path
from onpath_collector.journal.core import Journal
from onpath_collector.journal import JournalError, JournalSettings
from onpath_collector.security import SecretError, read_secret

token, volume = map(Path, sys.argv[1:3])
os.setgroups([int(sys.argv[4])])
os.setgid(int(sys.argv[4]))
os.setuid(10001)
try:
    read_secret(token)
    Journal.open(JournalSettings(directory=volume / sys.argv[3], fsync="interval", interval=0.1, max_bytes=1 << 20))
except (SecretError, JournalError) as error:
    sys.exit(str(error))
print(oct((volume / sys.argv[3]).stat().st_mode & 0o777))
"""


def in_a_pod(folder: Path, group: int, journal: str = "journal") -> subprocess.CompletedProcess[str]:
    """As user 10001 in `group`, with a secret and a volume that belong to root, and to fsGroup 10001."""
    token, volume = folder / "token", folder / "volume"
    token.write_text("secret", encoding="utf-8")
    token.chmod(0o440)
    os.chown(token, 0, 10001)
    volume.mkdir()
    os.chown(volume, 0, 10001)
    volume.chmod(0o2775)
    command = [sys.executable, "-c", AS_IN_A_POD, str(token), str(volume), journal, str(group)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@needs_root
def test_by_its_group_a_pod_reads_secrets_and_keeps_a_journal(open_folder: Path) -> None:
    done = in_a_pod(open_folder, group=10001)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0o700\n"


@needs_root
def test_a_volume_itself_can_not_be_made_private(open_folder: Path) -> None:
    done = in_a_pod(open_folder, group=10001, journal=".")
    assert done.returncode == 1
    assert "it belongs to another user: name a folder in it" in done.stderr


@needs_root
def test_without_the_group_it_says_what_it_may_not_read(open_folder: Path) -> None:
    done = in_a_pod(open_folder, group=10002)
    assert done.returncode == 1
    assert "Permission denied" in done.stderr


def test_variables_that_kubernetes_sets_for_services_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service named onpath or onpath-admin gives every pod of its namespace variables that begin as ours do."""
    for name in ("ONPATH", "ONPATH_ADMIN", "ONPATH_BUFFER"):
        monkeypatch.setenv(f"{name}_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv(f"{name}_SERVICE_PORT", "4317")
        monkeypatch.setenv(f"{name}_PORT", "tcp://10.0.0.1:4317")
        monkeypatch.setenv(f"{name}_PORT_4317_TCP_ADDR", "10.0.0.1")
    done = onpath("collector", "--print-config")
    assert done.returncode == 0, done.stderr

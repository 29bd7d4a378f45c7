"""Settings: defaults, file, environment, options; all problems at once with their places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from onpath_collector.config import ConfigError, load_settings, shown


def written(folder: Path, text: str) -> Path:
    path = folder / "onpath.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(path: Path | None, **options: object) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load_settings(path, options)
    return refused.value.problems


def test_defaults_listen_on_loopback_only() -> None:
    settings = load_settings(None, {})
    assert settings.receivers.grpc.endpoint == "127.0.0.1:4317"
    assert settings.receivers.http.endpoint == "127.0.0.1:4318"
    assert settings.receivers.grpc.max_request == settings.receivers.http.max_request == 64 << 20
    assert settings.buffer.settle_delay == 2.0
    assert settings.buffer.idle_timeout == 120.0
    assert settings.forward.endpoint is None
    assert settings.shutdown_timeout == 20.0


def test_options_beat_environment_beats_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "buffer: {settle_delay: 1s, orphan_delay: 1s, max_age: 10min}\nlog: {level: debug}\n")
    monkeypatch.setenv("ONPATH_BUFFER__ORPHAN_DELAY", "2s")
    monkeypatch.setenv("ONPATH_BUFFER__MAX_AGE", "2m")
    settings = load_settings(path, {"buffer": {"max_age": "3h"}})
    assert (settings.buffer.settle_delay, settings.buffer.orphan_delay, settings.buffer.max_age) == (1, 2, 10800)
    assert settings.log.level == "debug"


def test_every_scalar_has_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONPATH_POLICY", "policy.yaml")
    monkeypatch.setenv("ONPATH_EVALUATE__WORKERS", "3")
    monkeypatch.setenv("ONPATH_FORWARD__ENDPOINT", "grpc://backend:4317")
    monkeypatch.setenv("ONPATH_RECEIVERS__GRPC__MAX_REQUEST", "1MiB")
    settings = load_settings(None, {})
    assert settings.policy == "policy.yaml"
    assert settings.evaluate.processes == 3
    assert settings.forward.endpoint == "grpc://backend:4317"
    assert settings.receivers.grpc.max_request == 1 << 20


def test_environment_inside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKEND", "tempo")
    path = written(tmp_path, "forward: {endpoint: 'grpc://${env:BACKEND}:${env:PORT:-4317}'}\n")
    assert load_settings(path, {}).forward.endpoint == "grpc://tempo:4317"
    missing = written(tmp_path, "forward:\n  headers: {authorization: 'Bearer ${env:NO_SUCH_TOKEN}'}\n")
    told = f"{missing}:2: /forward/headers/authorization: the environment variable NO_SUCH_TOKEN is not set"
    assert problems(missing) == [told]


def test_files_to_be_read_are_found_from_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    path = written(
        folder,
        "policy: policies/a.yaml\n"
        "receivers: {grpc: {tls: {cert: a.pem, key: /keys/a.pem}, bearer_token_files: [token]}}\n"
        "forward: {endpoint: 'grpcs://a:1', tls: {ca: ca.pem, server_name: a}}\n"
        "durability: {mode: journal, directory: journal}\n",
    )
    settings = load_settings(path, {})
    grpc = settings.receivers.grpc
    assert settings.policy == str(folder / "policies/a.yaml")
    assert (grpc.tls.cert, grpc.tls.key) == (folder / "a.pem", Path("/keys/a.pem"))
    assert grpc.bearer_token_files == [folder / "token"]
    assert (settings.forward.tls.ca, settings.forward.tls.server_name) == (folder / "ca.pem", "a")
    assert settings.durability.directory == Path("journal")  # what is written stays with who runs it
    assert load_settings(path, {"policy": "b.yaml"}).policy == "b.yaml"
    monkeypatch.setenv("ONPATH_POLICY", "c.yaml")
    assert load_settings(path, {}).policy == "c.yaml"


@pytest.mark.parametrize(("size", "read"), [("64MiB", 64 << 20), ("1.5KiB", 1536), ("1024", 1024), ("2 GB", 2 * 10**9)])
def test_sizes(tmp_path: Path, size: str, read: int) -> None:
    path = written(tmp_path, f"buffer: {{late_bytes: {size}}}\n")
    assert load_settings(path, {}).buffer.late_bytes == read


def test_all_problems_at_once_with_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(
        tmp_path,
        "forward:\n  endpont: grpc://a:1\nbuffer: {settle_delay: 5}\nevaluate: {workers: -1}\nlog: {level: loud}\n",
    )
    monkeypatch.setenv("ONPATH_SHUTDOWN_TIMEOUT", "soon")
    assert problems(path, receivers={"grpc": {"endpoint": "4317"}}) == [
        f"{path}:2: /forward/endpont: unknown setting; did you mean endpoint?",
        f"{path}:3: /buffer/settle_delay: expected a duration with its unit, such as 500ms, 2s, 10m or 1h",
        f"{path}:4: /evaluate/workers: expected auto, or the number of worker processes"
        " (0: judge in the collector's own process)",
        f"{path}:5: /log/level: Input should be 'debug', 'info', 'warning' or 'error'",
        "command line: /receivers/grpc/endpoint: expected HOST:PORT, such as 127.0.0.1:4317 (port 0: any free port)",
        "environment variable ONPATH_SHUTDOWN_TIMEOUT: /shutdown_timeout: 'soon' is not a duration such as"
        " 500ms, 2s, 10m or 1h",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- a\n", "expected a mapping of settings"),
        ("buffer: {a: 1, a: 2}\n", "given twice"),
        ("buffer: [\n", "not YAML"),
        ("nonsense: {mode: journal}\n", "/nonsense: unknown setting"),
        ("version: 1\nworkflows: []\n", "this is a policy"),
    ],
)
def test_what_is_no_configuration(tmp_path: Path, text: str, told: str) -> None:
    assert any(told in p for p in problems(written(tmp_path, text)))


@pytest.mark.parametrize("value", ["2", "2 weeks", "-1s", "s", "1e3s", "nan"])
def test_durations_need_a_unit(tmp_path: Path, value: str) -> None:
    assert problems(written(tmp_path, f"shutdown_timeout: {value}\n"))


def test_problems_are_told_in_their_order(tmp_path: Path) -> None:
    text = "shutdown_timeout: 2\n" + "\n" * 8 + "nonsense: 1\nbuffer: {late: 2}\n"
    found = problems(written(tmp_path, text))
    assert [re.findall(r":(\d+): ", each)[0] for each in found] == ["1", "10", "11"]


def test_header_values_are_secrets() -> None:
    settings = load_settings(None, {"forward": {"headers": {"authorization": "Bearer abc"}}})
    assert "abc" not in str(shown(settings))


def test_what_is_shown_can_be_used(tmp_path: Path) -> None:
    settings = load_settings(None, {"buffer": {"settle_delay": "1500ms", "late_bytes": "1000"}, "policy": "p.yaml"})
    text = yaml.safe_dump({**shown(settings), "policy": None}, sort_keys=False)
    assert load_settings(written(tmp_path, text), {"policy": "p.yaml"}).model_dump() == settings.model_dump()
    assert shown(settings)["buffer"]["settle_delay"] == "1.5s"
    assert shown(settings)["buffer"]["trace_bytes_limit"] == "32MiB"


def test_what_guards_a_port_goes_together(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "receivers:\n  grpc: {tls: {cert: a.pem}}\n"
        "  http:\n    tls: {client_ca: ca.pem}\n    bearer_token_files: token\n",
    )
    assert problems(path) == [
        f"{path}:2: /receivers/grpc/tls: cert and key go together",
        f"{path}:4: /receivers/http/tls: client_ca needs cert and key",
        f"{path}:5: /receivers/http/bearer_token_files: Input should be a valid list",
    ]


@pytest.mark.parametrize("endpoint", ["0.0.0.0:13133", "[::]:13133", "10.0.0.1:1", "collector.example:1"])
def test_an_admin_port_that_others_can_reach_needs_a_token(tmp_path: Path, endpoint: str) -> None:
    told = "/admin: an admin port that others can reach needs bearer_token_files"
    path = written(tmp_path, f"admin: {{endpoint: '{endpoint}'}}\n")
    assert problems(path) == [f"{path}:1: {told}"]
    load_settings(None, {"admin": {"endpoint": endpoint, "bearer_token_files": ["token"]}})


@pytest.mark.parametrize("endpoint", ["127.0.0.1:13133", "[::1]:13133", "127.1.2.3:1", "localhost:0"])
def test_an_admin_port_on_loopback_needs_none(endpoint: str) -> None:
    assert load_settings(None, {"admin": {"endpoint": endpoint}}).admin.endpoint == endpoint

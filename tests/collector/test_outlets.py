"""Settings of results: where each signal goes, sinks and presets, and what is said of those that can't be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onpath_collector.config import ConfigError, Settings, load_settings, shown
from onpath_collector.outlets import _onward, _place, endpoints, forwarders, otlp_results, sinks
from onpath_collector.told import ready


def settings(**parts: Any) -> Settings:
    return load_settings(None, parts)


def place(loaded: Settings, signal: str) -> tuple[str, str | None, dict[str, str]] | None:
    found = _place(loaded, getattr(loaded.results, signal))
    return None if found is None else (found.endpoint, found.protocol, dict(found.headers))


def test_results_go_where_telemetry_goes_unless_told_otherwise() -> None:
    forward = {"endpoint": "http://a:4318", "headers": {"x": "1"}, "protocol": "http"}
    assert place(settings(forward=forward), "logs") == ("http://a:4318", "http", {"x": "1"})
    own = {"headers": {"y": "2"}, "logs": {"headers": {"z": "3"}}}
    assert place(settings(forward=forward, results=own), "logs") == (
        "http://a:4318",
        "http",
        {"x": "1", "y": "2", "z": "3"},
    )
    named = {"endpoint": "grpc://b:4317", **own}
    assert place(settings(forward=forward, results=named), "logs") == ("grpc://b:4317", None, {"y": "2", "z": "3"})
    single = {"endpoint": "grpc://b:4317", "metrics": {"endpoint": "http://c:9090/otlp", "headers": {"m": "4"}}}
    loaded = settings(forward=forward, results=single)
    assert place(loaded, "metrics") == ("http://c:9090/otlp", None, {"m": "4"})
    assert place(loaded, "traces") == ("grpc://b:4317", None, {})
    assert list(endpoints(loaded)) == ["http://a:4318", "grpc://b:4317", "http://c:9090/otlp"]
    assert place(settings(results={"logs": {"endpoint": "grpc://b:1"}}), "traces") is None


def test_a_signal_goes_on_to_a_place_of_its_own() -> None:
    forward = {
        "endpoint": "grpc://a:4317",
        "headers": {"x": "1"},
        "compression": "gzip",
        "metrics": {"endpoint": "http://m:9090/otlp", "headers": {"y": "2"}, "timeout": "3s"},
        "logs": {"headers": {"z": "3"}, "compression": "none", "tls": {"server_name": "b"}},
    }
    loaded = settings(forward=forward)
    traces, metrics, logs = (_onward(loaded.forward, signal) for signal in ("traces", "metrics", "logs"))  # type: ignore[arg-type]
    assert traces is not None
    assert metrics is not None
    assert logs is not None
    assert (traces.endpoint, traces.headers, traces.compression) == ("grpc://a:4317", {"x": "1"}, "gzip")
    assert (metrics.endpoint, metrics.headers, metrics.timeout) == ("http://m:9090/otlp", {"y": "2"}, 3.0)
    assert metrics.compression == "gzip"
    assert (logs.endpoint, logs.headers, logs.compression) == ("grpc://a:4317", {"x": "1", "z": "3"}, "none")
    assert (logs.tls.server_name, logs.timeout) == ("b", 10.0)
    assert list(endpoints(loaded)) == ["grpc://a:4317", "http://m:9090/otlp"]
    assert "'1'" not in str(shown(loaded)["forward"])
    assert "'2'" not in str(shown(loaded)["forward"])


async def test_a_signal_without_a_place_has_no_queue() -> None:
    made = forwarders(settings(forward={"logs": {"endpoint": "grpc://127.0.0.1:1"}}).forward)
    assert list(made) == ["logs"]
    for forwarder in made.values():
        await forwarder.close()
    assert forwarders(settings().forward) == {}


async def test_signals_that_are_off_have_no_queue() -> None:
    off = {"traces": {"enabled": False}, "metrics": {"enabled": False}}
    made = otlp_results(settings(forward={"endpoint": "grpc://127.0.0.1:1"}, results=off), {})
    assert made is not None
    assert list(made.forwarders) == ["logs"]
    await made.close(0)
    assert otlp_results(settings(), {}) is None
    every = {**off, "logs": {"enabled": False}}
    assert otlp_results(settings(forward={"endpoint": "grpc://127.0.0.1:1"}, results=every), {}) is None


def test_all_problems_of_sinks_at_once_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "onpath.yaml"
    path.write_text(
        "results:\n"
        "  presets: [logfire, brain]\n"
        "  metrics: {interval: 0s}\n"
        "  sinks:\n"
        "    - {type: pheonix}\n"
        "    - {type: mlflow, url: 'ftp://x'}\n"
        "    - {type: webhook, secret: abc}\n"
        "    - {type: webhook, timout: 5s}\n"
        "    - {url: 'http://x'}\n"
        "    - {type: mlflow, timeout: 5}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as refused:
        load_settings(path, {})
    told = refused.value.problems
    lines = sorted(int(problem.removeprefix(f"{path}:").split(":")[0]) for problem in told)
    assert lines == [2, 3, 5, 6, 7, 8, 9, 10], told
    assert any("did you mean timeout?" in problem for problem in told)
    assert any("known here: timeout, type, url" in problem for problem in told)


def test_sinks_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONPATH_RESULTS__SINKS", '[{"type": "phoenix", "url": "http://127.0.0.1:6006"}]')
    loaded = settings()
    assert [(s.type, str(s.url), s.timeout) for s in loaded.results.sinks] == [
        ("phoenix", "http://127.0.0.1:6006/", 5.0)
    ]
    (made,) = sinks(loaded.results)
    assert made.label == "phoenix"


def test_two_sinks_of_a_type_are_told_apart() -> None:
    both = [{"type": "phoenix", "url": "http://a"}, {"type": "phoenix", "url": "http://b"}]
    assert [sink.label for sink in sinks(settings(results={"sinks": both}).results)] == ["phoenix/0", "phoenix/1"]


def test_secrets_in_urls_are_not_shown() -> None:
    urls = ["http://a:6006", "http://user:pass@b:5000", "https://hooks.example/T0/secret?token=1"]
    loaded = settings(
        results={"sinks": [{"type": "webhook", "url": url} for url in urls], "logs": {"headers": {"k": "secret"}}}
    )
    text = str(shown(loaded))
    assert "secret" not in text
    assert "pass@" not in text
    assert [sink["url"] for sink in shown(loaded)["results"]["sinks"]] == [
        "http://a:6006",
        "http://b:5000/(hidden)",
        "https://hooks.example/(hidden)",
    ]


@pytest.mark.parametrize("part", ["forward", "results"])
@pytest.mark.parametrize("url", ["http://me:hunter2@a:4318", "https://a/v1?key=hunter2", "me:hunter2@a:4317"])
def test_endpoints_take_no_secrets_and_what_is_said_of_them_has_none(part: str, url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        settings(**{part: {"endpoint": url}})
    (said,) = refused.value.problems
    assert f"{part}/endpoint" in said
    assert "hunter2" not in said


def test_a_model_behind_a_password_is_told_of_without_it() -> None:
    loaded = settings(judge={"base_url": "https://me:hunter2@models.example/v1?key=hunter3", "model": "m"})
    told = f"{shown(loaded)} {loaded.judge.destination} {ready(loaded, None, {})}"
    assert "https://models.example/v1 (model m)" in told
    assert "hunter" not in told
    assert "hunter2" in str(loaded.judge.base_url), "it is asked with it"

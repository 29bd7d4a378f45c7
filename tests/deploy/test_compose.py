"""The Compose file: its configurations load, its parts find each other, and nothing listens beyond this machine."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from onpath.policy.load import load_policy
from onpath_collector.config import load_settings
from onpath_collector.listening import is_loopback, parse_address
from tests.deploy.support.composed import COMPOSE, FOLDER, SERVICES, mounts

SETTINGS = load_settings(FOLDER / "onpath.yaml", {})


def test_the_configuration_names_what_is_there() -> None:
    assert SETTINGS.forward.endpoint is not None
    (sink,) = SETTINGS.results.sinks
    assert urlsplit(SETTINGS.forward.endpoint).hostname == urlsplit(str(sink.url)).hostname == "phoenix"
    assert "phoenix" in SERVICES
    policies = FOLDER / mounts("onpath")[str(SETTINGS.policy)]
    assert load_policy([policies]).workflows
    (token,) = SETTINGS.admin.bearer_token_files
    assert mounts("onpath")[str(token.parent)] == mounts("token")[str(token.parent)] == "secrets"
    assert mounts("onpath")[str(SETTINGS.durability.directory)] == "journal"
    assert SERVICES["onpath"]["command"] == ["collector", "--config", "/etc/onpath/onpath.yaml"]


@pytest.mark.parametrize("service", SERVICES)
def test_every_source_is_there(service: str) -> None:
    for target, source in mounts(service).items():
        assert source in COMPOSE["volumes"] or (FOLDER / source).exists(), target


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_of_this_machine_alone(service: str) -> None:
    for port in SERVICES[service].get("ports", ()):
        host, _ = port.rsplit(":", 1)
        assert is_loopback(host)


def test_published_ports_are_the_collectors() -> None:
    endpoints = (SETTINGS.receivers.grpc.endpoint, SETTINGS.receivers.http.endpoint, SETTINGS.admin.endpoint)
    bound = {parse_address(endpoint)[1] for endpoint in endpoints}
    assert {int(port.rsplit(":", 1)[1]) for port in SERVICES["onpath"]["ports"]} == bound
    assert not any(is_loopback(endpoint) for endpoint in endpoints)


def test_it_can_write_to_what_is_mounted_and_nowhere_else() -> None:
    service = SERVICES["onpath"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    writable = [m for m in service["volumes"] if not m.endswith(":ro")]
    assert writable == ["journal:/var/lib/onpath/journal"]


def test_it_has_time_to_stop() -> None:
    assert int(SERVICES["onpath"]["stop_grace_period"].rstrip("s")) > SETTINGS.shutdown_timeout


def test_the_agent_sends_to_the_collector_and_is_matched_by_the_policy() -> None:
    sent_to = urlsplit(SERVICES["agent"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"])
    assert (sent_to.hostname, sent_to.port) == ("onpath", parse_address(SETTINGS.receivers.grpc.endpoint)[1])
    policy = yaml.safe_load((FOLDER / "../policies/refund.yaml").read_text(encoding="utf-8"))
    assert policy["workflows"][0]["match"]["service"] == "refund-*"
    assert SERVICES["agent"]["environment"]["OTEL_SERVICE_NAME"].startswith("refund-")


def test_prometheus_scrapes_the_admin_port_with_the_token() -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    assert job["job_name"] == "onpath"  # the alert rules name it
    assert job["static_configs"] == [{"targets": [f"onpath:{parse_address(SETTINGS.admin.endpoint)[1]}"]}]
    assert mounts("prometheus")["/etc/prometheus/secrets"] == "secrets"
    assert job["authorization"]["credentials_file"] == "secrets/token"
    assert f"/etc/prometheus/{config['rule_files'][0]}" in mounts("prometheus")
    assert "10001" in SERVICES["prometheus"]["group_add"]


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    (source,) = yaml.safe_load((FOLDER / "grafana" / "datasources.yaml").read_text(encoding="utf-8"))["datasources"]
    assert urlsplit(source["url"]).hostname == "prometheus"
    (provider,) = yaml.safe_load((FOLDER / "grafana" / "dashboards.yaml").read_text(encoding="utf-8"))["providers"]
    dashboard = f"{provider['options']['path']}/onpath.json"
    assert json.loads((FOLDER / mounts("grafana")[dashboard]).read_text(encoding="utf-8"))["panels"]
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard


def test_the_token_is_made_once_and_for_the_group(tmp_path: Path) -> None:
    assert SERVICES["token"]["entrypoint"] == ["python", "-c"]
    program = SERVICES["token"]["command"][0].replace("/var/lib/onpath/secrets", str(tmp_path))
    exec(program, {})
    token = tmp_path / "token"
    assert token.stat().st_mode & 0o777 == 0o440
    made = token.read_text(encoding="utf-8")
    assert len(made) > 40
    exec(program, {})
    assert token.read_text(encoding="utf-8") == made

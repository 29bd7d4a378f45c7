"""What Helm, kustomize, kubeconform, hadolint, Compose's loader and Prometheus say of deploy/ (`pytest -m peers`)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from onpath.policy.load import load_policy
from tests.conftest import ROOT
from tests.deploy.support import checks, composed, tools
from tests.deploy.support.manifests import CONFIG, Rendered, rendered
from tests.support import otelcol
from tests.support.onpath import onpath

pytestmark = pytest.mark.peers

KUBERNETES = ROOT / "deploy" / "kubernetes"
CHART = ROOT / "deploy" / "helm" / "onpath"
CASES = sorted(path.stem.removesuffix("-values") for path in (CHART / "ci").glob("*-values.yaml"))
OBJECTS = {"sidecar": 4, "sidecar-older": 3, "gateway": 5, "sharded": 11}


def had(tool: Callable[[], object]) -> str:
    try:
        return str(tool())
    except tools.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def helm() -> str:
    return had(lambda: tools.go_program("helm"))


@pytest.fixture(scope="session")
def conforms() -> Callable[[str, int], None]:
    """Whether kubeconform takes so many objects, for each version of Kubernetes."""
    program = had(lambda: tools.go_program("kubeconform"))
    schemas = had(tools.kubernetes_schemas)

    def check(text: str, objects: int) -> None:
        for version in tools.KUBERNETES:
            command = [program, "-strict", "-summary", "-kubernetes-version", version, "-schema-location", schemas, "-"]
            done = tools.run(command, given=text)
            assert done.returncode == 0, f"{version}: {done.stdout}{done.stderr}"
            assert f"Valid: {objects}, Invalid: 0, Errors: 0, Skipped: 0" in done.stdout

    return check


@pytest.mark.parametrize("way", OBJECTS)
def test_kustomize_builds_what_kubernetes_takes(way: str, conforms: Callable[[str, int], None]) -> None:
    kustomize = had(lambda: tools.go_program("kustomize"))
    done = tools.run([kustomize, "build", str(KUBERNETES / way)])
    assert done.returncode == 0, done.stderr
    conforms(done.stdout, OBJECTS[way])
    found = rendered(done.stdout)
    names = {o["metadata"]["name"] for o in found.of_kind("ConfigMap")}
    assert "onpath-policy" in names  # it keeps its name when it changes
    assert "onpath-config" not in names  # this one gets another, and so the pods are replaced


def test_kubeconform_sees_a_slip_of_the_pen(conforms: Callable[[str, int], None]) -> None:
    text = (KUBERNETES / "gateway" / "gateway.yaml").read_text(encoding="utf-8")
    conforms(text, 2)
    with pytest.raises(AssertionError, match="peridSeconds"):
        conforms(text.replace("periodSeconds", "peridSeconds"), 2)


def template(helm: str, case: str, *options: str) -> str:
    values = CHART / "ci" / f"{case}-values.yaml"
    done = tools.run(
        [helm, "template", "watch", str(CHART), "--namespace", "agents", "--values", str(values), *options]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("case", CASES)
def test_the_chart_renders_what_fits_together(
    case: str, helm: str, conforms: Callable[[str, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linted = tools.run([helm, "lint", "--strict", str(CHART), "--values", str(CHART / "ci" / f"{case}-values.yaml")])
    assert linted.returncode == 0, linted.stdout + linted.stderr
    text = template(helm, case)
    found = rendered(text)
    conforms(text, len(found.objects))
    monkeypatch.setenv("PHOENIX_KEY", "secret")
    settings = found.settings(tmp_path)
    checks.check_everything(found, settings, tmp_path)
    if case == "sharded":
        checks.check_shards(found, settings)
    _printed_alike(found, tmp_path)


def _printed_alike(found: Rendered, folder: Path) -> None:
    path = folder / "printed.yaml"
    path.write_text(found.file(CONFIG, "onpath.yaml"), encoding="utf-8")
    done = onpath("collector", "--config", str(path), "--print-config")
    assert done.returncode == 0, done.stderr
    printed, given = yaml.safe_load(done.stdout), yaml.safe_load(path.read_text(encoding="utf-8"))
    assert printed["forward"]["endpoint"] == given["forward"].get("endpoint")
    assert printed["buffer"]["span_limit"] == given["buffer"].get("span_limit", 20_000)


def test_settings_of_the_user_win(helm: str, tmp_path: Path) -> None:
    given = "config.buffer.memory_limit=64MiB,config.buffer.span_limit=2000000,config.shutdown_timeout=90s"
    found = rendered(template(helm, "sidecar", "--set", given))
    settings = found.settings(tmp_path)
    assert (settings.buffer.memory_limit, settings.buffer.span_limit) == (64 << 20, 2_000_000)
    assert settings.buffer.late_bytes == 32 << 20  # of the mode, beside them
    checks.check_time_to_end(found, settings)


@pytest.mark.parametrize("duration", ["20s", "1500ms", "1m", "2min", "0.5h"])
def test_there_is_time_to_end_however_it_is_written(helm: str, duration: str, tmp_path: Path) -> None:
    found = rendered(template(helm, "sharded", "--set-string", f"config.shutdown_timeout={duration}"))
    checks.check_time_to_end(found, found.settings(tmp_path))


def test_a_policy_in_a_file_arrives_as_it_is(helm: str, tmp_path: Path) -> None:
    policy = ROOT / "deploy" / "policies" / "refund.yaml"
    found = rendered(template(helm, "gateway", "--set-file", f"policy={policy}"))
    arrived = found.file("/etc/onpath/policy", "policy.yaml")
    assert arrived.strip() == policy.read_text(encoding="utf-8").strip()
    path = tmp_path / "policy.yaml"
    path.write_text(arrived, encoding="utf-8")
    assert len(load_policy([path]).workflows) == 2


def test_a_changed_policy_restarts_nothing_and_a_changed_setting_does(helm: str) -> None:
    def pod(*options: str) -> object:
        return rendered(template(helm, "gateway", *options)).workload["spec"]["template"]

    assert pod() == pod("--set", "policy=version: 1")
    assert pod() != pod("--set", "config.buffer.settle_delay=5s")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("replica=3", "additional properties 'replica' not allowed"),
        ("config.bufer.span_limit=3", "additional properties 'bufer' not allowed"),
        ("mode=daemonset", "value must be one of"),
        ("terminationGracePeriodSeconds=30", "must be more than the collector waits"),
        ("existingPolicy=mine", "policy and existingPolicy: only one of them"),
        ("mode=sidecar", "a sidecar needs agent.containers"),
        ("data.persistence.enabled=true", "data.persistence is for mode sharded"),
        ("policy=", "there is no policy"),
        ("config.shutdown_timeout=${env:T}", "set terminationGracePeriodSeconds"),
    ],
)
def test_what_cannot_be_is_refused(helm: str, values: str, told: str) -> None:
    case = str(CHART / "ci" / "gateway-values.yaml")
    done = tools.run([helm, "template", "watch", str(CHART), "--values", case, "--set", values])
    assert done.returncode != 0
    assert told in done.stderr


def test_an_older_cluster_is_told_of_the_older_form(helm: str) -> None:
    older = ["--kube-version", "1.28.9"]
    assert rendered(template(helm, "sidecar-older", *older)).collector
    case = str(CHART / "ci" / "sidecar-values.yaml")
    done = tools.run([helm, "template", "watch", str(CHART), "--values", case, *older])
    assert "before it, sidecarOlder" in done.stderr


def blocks(readme: Path) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", readme.read_text(encoding="utf-8"), re.M | re.S)


def test_the_charts_readme_shows_values_that_it_takes(
    helm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOENIX_API_KEY", "secret")
    policy = f"policy={ROOT / 'deploy' / 'policies' / 'refund.yaml'}"
    shown = blocks(CHART / "README.md")
    assert len(shown) == 2
    for block in shown:
        values = tmp_path / "values.yaml"
        values.write_text(block, encoding="utf-8")
        done = tools.run([helm, "template", "watch", str(CHART), "--values", str(values), "--set-file", policy])
        assert done.returncode == 0, done.stderr
        found = rendered(done.stdout)
        checks.check_everything(found, found.settings(tmp_path), tmp_path)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus: apt-get install prometheus")
def test_prometheus_takes_what_the_readme_shows(tmp_path: Path) -> None:
    (block,) = blocks(KUBERNETES / "README.md")
    (tmp_path / "token").write_text("open sesame", encoding="utf-8")
    config = tmp_path / "prometheus.yml"
    block = block.replace("/etc/prometheus/onpath/token", str(tmp_path / "token"))
    discovery = "kubernetes_sd_configs: [{role: pod}]"  # which Debian's Prometheus is built without
    assert discovery in block
    config.write_text(block.replace(discovery, 'static_configs: [{targets: ["onpath:13133"]}]'), encoding="utf-8")
    done = tools.run(["promtool", "check", "config", str(config)])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", ["deploy/Dockerfile", "deploy/compose/agent/Dockerfile"])
def test_hadolint_has_nothing_to_say(file: str) -> None:
    done = tools.run([had(tools.hadolint), str(ROOT / file)])
    assert (done.returncode, done.stdout) == (0, "")


def test_compose_takes_the_file() -> None:
    program = had(lambda: tools.go_program("compose"))
    done = tools.run([program, str(composed.FOLDER / "compose.yaml")])
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == set(composed.SERVICES)


def test_compose_refuses_a_slip_of_the_pen(tmp_path: Path) -> None:
    program = had(lambda: tools.go_program("compose"))
    text = (composed.FOLDER / "compose.yaml").read_text(encoding="utf-8")
    (tmp_path / "compose.yaml").write_text(text.replace("mem_limit", "mem_limt"), encoding="utf-8")
    done = tools.run([program, str(tmp_path / "compose.yaml")])
    assert done.returncode != 0
    assert "mem_limt" in done.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus: apt-get install prometheus")
def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    shutil.copy(composed.FOLDER / "prometheus.yml", tmp_path)
    shutil.copy(ROOT / "deploy" / "prometheus" / "alerts.yaml", tmp_path)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("open sesame", encoding="utf-8")
    done = tools.run(["promtool", "check", "config", str(tmp_path / "prometheus.yml")])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_load_balancer_takes_its_configuration() -> None:
    done = tools.run([str(otelcol.program()), "validate", "--config", str(KUBERNETES / "sharded" / "otelcol.yaml")])
    assert done.returncode == 0, done.stdout + done.stderr

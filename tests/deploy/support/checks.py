"""What holds of every way to run onpath in Kubernetes, whether a manifest or the chart says it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from onpath.policy.load import load_policy
from onpath_collector.config import Settings
from onpath_collector.listening import is_loopback, parse_address
from tests.deploy.support.manifests import CONFIG, POLICY, Object, Rendered, pod_of, size

USER: Final = 10001
OWN: Final = 75 << 20  # bytes that a collector has for itself ...
OF_A_WORKER: Final = 55 << 20  # ... and each process that judges


def check_everything(found: Rendered, settings: Settings, folder: Path) -> None:
    check_files(found, settings, folder)
    check_time_to_end(found, settings)
    check_memory(found, settings)
    check_privileges(found)
    check_writing(found, settings)
    check_secrets(found)
    check_probes(found, settings)
    check_ports(found, settings)


def check_files(found: Rendered, settings: Settings, folder: Path) -> None:
    """The policy loads, and comes as a folder: a subPath would never change."""
    assert settings.policy == f"{POLICY}/policy.yaml"
    volume = found.volume_at(POLICY)["configMap"]["name"]
    if any(o["metadata"]["name"] == volume for o in found.of_kind("ConfigMap")):
        path = folder / "policy.yaml"
        path.write_text(found.file(POLICY, "policy.yaml"), encoding="utf-8")
        assert load_policy([path]).workflows
    assert not [mount for mount in found.collector["volumeMounts"] if "subPath" in mount]
    assert found.collector["args"] == ["collector", "--config", f"{CONFIG}/onpath.yaml"]


def check_time_to_end(found: Rendered, settings: Settings) -> None:
    waits = waits_before_it_ends(found.collector)
    assert found.pod["terminationGracePeriodSeconds"] > waits + settings.shutdown_timeout


def waits_before_it_ends(container: Object) -> int:
    command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
    if command is None:
        return 0
    assert command[:2] == ["python", "-c"]  # there is no shell in the image, and no sleep
    found = re.fullmatch(r"import time; time\.sleep\(([0-9]+)\)", command[2])
    assert found is not None
    return int(found[1])


def check_memory(found: Rendered, settings: Settings) -> None:
    """All that may be held at the same time fits into what the container gets."""
    receivers = settings.receivers
    assert settings.buffer.memory_limit is not None
    held = settings.buffer.memory_limit + settings.buffer.late_bytes + settings.forward.queue.bytes
    held += receivers.grpc.max_in_flight + receivers.http.max_in_flight
    held += OWN + OF_A_WORKER * settings.evaluate.processes
    limits = found.collector["resources"]["limits"]
    assert held <= size(limits["memory"])
    assert float(limits["cpu"]) >= settings.evaluate.processes


def check_privileges(found: Rendered) -> None:
    pod, collector = found.pod["securityContext"], found.collector["securityContext"]
    both = {**pod, **collector}
    assert both["runAsNonRoot"] is True
    assert both["runAsUser"] == both["runAsGroup"] == pod["fsGroup"] == USER
    assert both["seccompProfile"] == {"type": "RuntimeDefault"}
    assert collector["readOnlyRootFilesystem"] is True
    assert collector["allowPrivilegeEscalation"] is False
    assert collector["capabilities"] == {"drop": ["ALL"]}


def check_writing(found: Rendered, settings: Settings) -> None:
    """Only to /tmp, and to the journal, which makes its own private folder: that of the volume isn't its own."""
    writable = [mount["mountPath"] for mount in found.collector["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/var/lib/onpath", "/tmp"]
    journal = settings.durability.directory
    assert journal is not None
    assert journal.parent == Path("/var/lib/onpath")
    volume = found.volume_at("/var/lib/onpath")
    if "emptyDir" in volume:
        assert size(volume["emptyDir"]["sizeLimit"]) > settings.durability.max_bytes
    assert found.volume_at("/tmp")["emptyDir"]["medium"] == "Memory"


def check_secrets(found: Rendered) -> None:
    for volume in found.pod["volumes"]:
        if "secret" in volume:
            assert volume["secret"]["defaultMode"] == 0o440


def check_probes(found: Rendered, settings: Settings) -> None:
    collector = found.collector
    host, port = parse_address(settings.admin.endpoint)
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = collector[name]
        live = name == "livenessProbe"
        if "exec" in probe:
            command = probe["exec"]["command"]
            assert command[:2] == ["onpath", "health"]
            assert ("--live" in command) is live
            assert probe["timeoutSeconds"] > 3  # what the command itself waits
        else:
            assert not is_loopback(f"{host}:{port}"), "the kubelet can't reach it"
            assert probe["httpGet"]["path"] == ("/livez" if live else "/healthz")
            assert _ports(collector)[probe["httpGet"]["port"]] == port


def _ports(container: Object) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container.get("ports", ())}


def check_ports(found: Rendered, settings: Settings) -> None:
    """Those that are said are those that others can reach, and nothing else is let in, or led to."""
    endpoints = {
        "otlp-grpc": settings.receivers.grpc.endpoint,
        "otlp-http": settings.receivers.http.endpoint,
        "admin": settings.admin.endpoint,
    }
    open_ports = {name: parse_address(e)[1] for name, e in endpoints.items() if not is_loopback(e)}
    assert _ports(found.collector) == open_ports
    labels = found.workload["spec"]["template"]["metadata"]["labels"]
    for service in found.of_kind("Service"):
        if service["spec"]["selector"].items() <= labels.items():
            assert {p["targetPort"] for p in service["spec"]["ports"]} <= open_ports.keys()
    let_in = [p for p in found.of_kind("NetworkPolicy") if _selects(p, labels)]
    assert {port for policy in let_in for port in _ingress(policy)} <= set(open_ports.values())


def _selects(policy: Object, labels: dict[str, str]) -> bool:
    selector: dict[str, str] = policy["spec"]["podSelector"]["matchLabels"]
    return selector.items() <= labels.items()


def _ingress(policy: Object) -> Iterable[int]:
    for rule in policy["spec"].get("ingress", ()):
        yield from (port["port"] for port in rule["ports"])


def check_shards(found: Rendered, settings: Settings) -> None:
    """One name for all of them: of the headless service, for the load balancer, and for themselves."""
    name = found.workload["spec"]["serviceName"]
    assert settings.gateway.members == name
    headless = found.named("Service", name)
    assert headless["spec"]["clusterIP"] == "None"
    labels = found.workload["spec"]["template"]["metadata"]["labels"]
    assert headless["spec"]["selector"].items() <= labels.items()
    (balancer,) = [o for o in found.of_kind("Deployment") if pod_of(o)["containers"][0]["name"] == "otelcol"]
    config = otelcol_of(found, balancer)
    exporter = config["exporters"]["load_balancing"]
    assert exporter["routing_key"] == "traceID"
    assert exporter["resolver"]["dns"]["hostname"] == name
    assert exporter["resolver"]["dns"]["port"] == str(parse_address(settings.receivers.grpc.endpoint)[1])


def otelcol_of(found: Rendered, balancer: Object) -> dict[str, Any]:
    (volume,) = pod_of(balancer)["volumes"]
    text = found.named("ConfigMap", volume["configMap"]["name"])["data"]["otelcol.yaml"]
    config: dict[str, Any] = yaml.safe_load(text)
    return config

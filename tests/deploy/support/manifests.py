"""Kubernetes objects as plain data, with what tests ask of them: pods, the collector's container, its files.

a kustomization's folder, or the text that Helm renders -> Deployment: objects, and the configuration in them
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from onpath_collector.config import Settings, load_settings

Object: TypeAlias = dict[str, Any]

SIZES: Final = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
CONFIG: Final = "/etc/onpath/config"
POLICY: Final = "/etc/onpath/policy"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What is given to a cluster."""

    objects: list[Object]

    def of_kind(self, kind: str) -> list[Object]:
        return [found for found in self.objects if found["kind"] == kind]

    def named(self, kind: str, name: str) -> Object:
        return next(found for found in self.of_kind(kind) if found["metadata"]["name"] == name)

    @property
    def workload(self) -> Object:
        """The one whose pods have the collector in them."""
        (found,) = [o for o in self.objects if "template" in o.get("spec", {}) and collectors(pod_of(o))]
        return found

    @property
    def pod(self) -> Object:
        return pod_of(self.workload)

    @property
    def collector(self) -> Object:
        (found,) = collectors(self.pod)
        return found

    def volume_at(self, mount_path: str) -> Object:
        """The volume that the collector has there."""
        (mount,) = [m for m in self.collector["volumeMounts"] if m["mountPath"] == mount_path]
        claims = [c["metadata"]["name"] for c in self.workload["spec"].get("volumeClaimTemplates", ())]
        if mount["name"] in claims:
            return {"name": mount["name"], "claim": True}
        return next(volume for volume in self.pod["volumes"] if volume["name"] == mount["name"])

    def file(self, mount_path: str, name: str) -> str:
        """What the collector reads there, from a ConfigMap among the objects."""
        text: str = self.named("ConfigMap", self.volume_at(mount_path)["configMap"]["name"])["data"][name]
        return text

    def settings(self, folder: Path) -> Settings:
        """By the collector's own loader. Variables of its container have to be set."""
        path = folder / "onpath.yaml"
        path.write_text(self.file(CONFIG, "onpath.yaml"), encoding="utf-8")
        return load_settings(path, {})


def pod_of(workload: Object) -> Object:
    found: Object = workload["spec"]["template"]["spec"]
    return found


def collectors(pod: Object) -> list[Object]:
    containers = [*pod.get("initContainers", ()), *pod["containers"]]
    return [container for container in containers if container["name"] == "onpath"]


def kustomized(folder: Path) -> Rendered:
    """What `kubectl apply -k` gives, but for the digests in names."""
    return Rendered(list(_kustomized(folder)))


def _kustomized(folder: Path) -> Iterator[Object]:
    (kustomization,) = rendered((folder / "kustomization.yaml").read_text(encoding="utf-8")).objects
    for name in kustomization.get("resources", ()):
        path = folder / name
        if path.is_dir():
            yield from _kustomized(path)
        else:
            yield from rendered(path.read_text(encoding="utf-8")).objects
    for generator in kustomization.get("configMapGenerator", ()):
        files = {name: (folder / name).read_text(encoding="utf-8") for name in generator["files"]}
        yield {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": generator["name"]}, "data": files}


def rendered(text: str) -> Rendered:
    return Rendered([found for found in yaml.safe_load_all(text) if found])


def size(quantity: str) -> int:
    """Bytes of a quantity as Kubernetes writes it."""
    found = re.fullmatch(r"([0-9]+)(Ki|Mi|Gi|)", quantity)
    assert found is not None, quantity
    return int(found[1]) * SIZES[found[2]]

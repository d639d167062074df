"""The chart, rendered by Helm's own engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import helm_python
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "helm" / "portico"
RELEASE: Final = "demo"
NAMESPACE: Final = "kafka"
Manifest = dict[str, Any]

PRODUCTION: Final[Manifest] = yaml.safe_load((CHART / "ci" / "production.yaml").read_text())
TRIAL_CLUSTER: Final[Manifest] = {
    "broker": {"replicas": 3},
    "master": {"replicas": 1},
    "gateway": {"workers": 2, "replicas": 1},
    "zookeeper": {"mode": "bundled"},
    "postgres": {"mode": "bundled"},
    "redis": {"mode": "bundled"},
    "control": {"replicas": 2},
}
NODE_PORTS: Final[Manifest] = {
    "gateway": {
        "advertisedHost": "203.0.113.7",
        "vports": {"first": 30100, "last": 30219},
        "service": {"type": "NodePort"},
    }
}


def render(values: Manifest | None = None) -> list[Manifest]:
    """All manifests of a release, those of `crds/` not among them. Raises: HelmError."""
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values or {}, name=RELEASE, namespace=NAMESPACE)
    found = [
        document
        for name, text in sorted(files.items())
        if not name.endswith("NOTES.txt")
        for document in yaml.safe_load_all(text)
        if document
    ]
    assert found
    return found


def one(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """The manifest of this kind whose name ends so."""
    found = [m for m in manifests if m["kind"] == kind and m["metadata"]["name"].endswith(name)]
    assert len(found) == 1, (kind, name, [m["metadata"]["name"] for m in manifests])
    return found[0]


def pods(manifests: list[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Every workload with its pod template (a pod is its own)."""
    for manifest in manifests:
        match manifest["kind"]:
            case "Deployment" | "StatefulSet" | "Job":
                yield manifest, manifest["spec"]["template"]
            case "CronJob":
                yield manifest, manifest["spec"]["jobTemplate"]["spec"]["template"]
            case "Pod":
                yield manifest, manifest
            case "ConfigMap" if "pod.yaml" in manifest["data"]:
                yield manifest, yaml.safe_load(manifest["data"]["pod.yaml"])

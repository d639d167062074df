"""What the chart makes for the Prometheus operator, held to the operator's own CRDs: no unknown field, no
value of another type."""

import copy
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from tests.kubernetes.chart import PRODUCTION, Manifest, render
from tests.kubernetes.test_monitoring import WATCHED

OPERATOR: Final = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
CHECKSUM: Final = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
pytestmark = pytest.mark.go


class Crds(yaml.SafeLoader):
    """They list `=`, which YAML 1.1 takes for something else."""


Crds.add_constructor("tag:yaml.org,2002:value", lambda loader, node: loader.construct_scalar(node))


def strict(schema: Any) -> Any:
    """A schema of a CRD as JSON Schema that knows no other fields than it names."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if made.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if isinstance(made.get("pattern"), str):  # of Go, whose flags may follow an anchor
        made["pattern"] = made["pattern"].replace("^(?i)", "(?i)^")
    is_open = made.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in made
    if isinstance(made.get("properties"), dict) and made.get("type") == "object" and not is_open:
        made["additionalProperties"] = False
    return made


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    """By kind."""
    assert shutil.which("go"), "this tier needs a Go toolchain: install one, or leave the tier out"
    told = subprocess.run(["go", "mod", "download", "-json", OPERATOR], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    module = json.loads(told.stdout)
    assert module["Sum"] == CHECKSUM
    found = {}
    for path in (Path(module["Dir"]) / "example" / "prometheus-operator-crd").glob("*.yaml"):
        crd = yaml.load(path.read_text(), Crds)
        for version in crd["spec"]["versions"]:
            name = f"{crd['spec']['group']}/{version['name']} {crd['spec']['names']['kind']}"
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"].pop("additionalProperties", None)
            found[name] = schema
    return found


def watched(manifests: list[Manifest]) -> list[Manifest]:
    return [each for each in manifests if each["apiVersion"].startswith("monitoring.coreos.com/")]


@pytest.mark.parametrize("values", [WATCHED, PRODUCTION | WATCHED], ids=["default", "production"])
def test_what_the_operator_reads_is_what_it_knows(schemas: dict[str, Any], values: Manifest) -> None:
    found = watched(render(values))
    assert {each["kind"] for each in found} == {"PodMonitor", "PrometheusRule"}
    for manifest in found:
        schema = schemas[f"{manifest['apiVersion']} {manifest['kind']}"]
        jsonschema.validate(manifest, schema)
        assert manifest["spec"], manifest["kind"]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("PodMonitor", lambda spec: spec["podMetricsEndpoints"][0].update(honourLabels=True)),
        ("PodMonitor", lambda spec: spec["podMetricsEndpoints"][0].update(interval="often")),
        ("PodMonitor", lambda spec: spec.pop("selector")),
        ("PrometheusRule", lambda spec: spec["groups"][0]["rules"][0].update({"for": "soon"})),
        ("PrometheusRule", lambda spec: spec["groups"][0]["rules"][0].pop("expr")),
        ("PrometheusRule", lambda spec: spec["groups"][1]["rules"][0]["labels"].update(level=1)),
    ],
)
def test_the_check_finds_what_is_wrong(schemas: dict[str, Any], kind: str, change: Any) -> None:
    (manifest,) = (each for each in watched(render(WATCHED)) if each["kind"] == kind)
    broken = copy.deepcopy(manifest)
    change(broken["spec"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schemas[f"{manifest['apiVersion']} {kind}"])

"""Alerts and rules as the chart renders them, in promtool: each speaks when it should, and not otherwise."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.kubernetes.chart import Manifest, one, render
from tests.kubernetes.test_monitoring import WATCHED

CASES: Final[dict[str, list[dict[str, Any]]]] = yaml.safe_load(
    (Path(__file__).parent / "alert_cases.yaml").read_text()
)
RUNBOOKS: Final = WATCHED["monitoring"]["rules"]["runbookUrl"]
GO: Final = Path(__file__).parent / "go"


def rules() -> list[Manifest]:
    """Groups of the rendered PrometheusRule."""
    groups: list[Manifest] = one(render(WATCHED), "PrometheusRule", "portico")["spec"]["groups"]
    return groups


def alerts() -> dict[str, Manifest]:
    return {rule["alert"]: rule for group in rules() for rule in group["rules"] if "alert" in rule}


def _expected(name: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    if "quiet" in case:
        return []
    rule = alerts()[name]
    return [
        {
            "exp_labels": {**case["labels"], "severity": rule["labels"]["severity"]},
            "exp_annotations": {
                "summary": case["summary"],
                "description": rule["annotations"]["description"],
                "runbook_url": RUNBOOKS + name,
            },
        }
    ]


def unit_tests(rule_file: str) -> dict[str, Any]:
    """What `promtool test rules` reads."""
    return {
        "rule_files": [rule_file],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": f"{name} {'fires' if 'fires' in case else 'quiet'} {number}",
                "interval": "1m",
                "input_series": [{"series": one, "values": values} for one, values in case["series"].items()],
                "alert_rule_test": [
                    {
                        "eval_time": case.get("fires", case.get("quiet")),
                        "alertname": name,
                        "exp_alerts": _expected(name, case),
                    }
                ],
            }
            for name, cases in CASES.items()
            for number, case in enumerate(cases)
        ],
    }


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert shutil.which("go"), "this tier needs a Go toolchain: install one, or leave the tier out"
    program = tmp_path_factory.mktemp("promtool") / "promtool"
    build = subprocess.run(
        ["go", "build", "-o", str(program), "github.com/prometheus/prometheus/cmd/promtool"],
        cwd=GO,
        capture_output=True,
        text=True,
        env=os.environ | {"GOFLAGS": "-mod=readonly"},
    )
    assert build.returncode == 0, build.stderr
    return program


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    assert CASES.keys() == alerts().keys()
    for name, cases in CASES.items():
        assert {"fires", "quiet"} <= {key for case in cases for key in case}, name


@pytest.mark.go
@pytest.mark.long
@pytest.mark.timeout(1500)
def test_alerts_fire_when_they_should_and_name_their_runbook(promtool: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": rules()}))
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(unit_tests("rules.yaml")))
    checked = subprocess.run(
        [str(promtool), "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    told = subprocess.run(
        [str(promtool), "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stdout + told.stderr
    broken = unit_tests("rules.yaml")
    for test in broken["tests"]:  # what promtool would say of an alert that does not speak
        test["input_series"] = []
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(broken))
    refused = subprocess.run(
        [str(promtool), "test", "rules", "broken.yaml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 1
    said = refused.stdout + refused.stderr
    assert [name for name in alerts() if f"alertname: {name}" not in said] == []

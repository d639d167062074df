"""A collector of OpenLineage hears what a job read and wrote; jobs run without one, too."""

import json
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from contracts.pipeline import JobState
from ctl.pipeline import lineage
from ctl.pipeline.lineage import Dataset, Lineage, table, topic
from tests.servers.webhook_sink import Sink, webhook_sink

_RUN = str(uuid.uuid4())


def _run(job: str, url: str, said: list[str]) -> Lineage:
    return Lineage(job, _RUN, said.append, {"OPENLINEAGE_URL": url})


def _events(sink: Sink) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in sink.came]


def test_datasets_have_the_names_that_openlineage_gives_them(tmp_path: Path) -> None:
    assert topic("10.0.0.7:9093,10.0.0.8:9093", "orders") == Dataset("kafka://10.0.0.7:9093", "orders")
    assert table(tmp_path / "t") == Dataset("file", f"{tmp_path}/t")
    assert table("s3a://lake/a/b", 3, 40) == Dataset("s3a://lake", "a/b", 3, 40)


def test_a_run_is_told_with_what_it_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with webhook_sink() as sink:
        url = sink.url.removesuffix("/hook")
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "key-1")
        run = _run("load", url, said)
        run.began()
        run.moved(topic("127.0.0.1:9093", "orders"), table("s3a://lake/orders", 3, 40))
        run.moved(topic("127.0.0.1:9093", "orders"), table("s3a://lake/orders", 3, 40))
        run.ended(JobState.SUCCEEDED, "")
        failed = _run("decode", url, said)
        failed.ended(JobState.FAILED, "the topic is gone")
        stopped = _run("load", url, said)
        stopped.ended(JobState.STOPPED, "")
        events = _events(sink)
        assert {headers["Authorization"] for headers, _ in sink.came} == {"Bearer key-1"}
    assert not said
    assert sorted(each["eventType"] for each in events) == ["ABORT", "COMPLETE", "FAIL", "START"]
    [whole] = [each for each in events if each["eventType"] == "COMPLETE"]
    assert whole["run"]["runId"] == _RUN
    assert (whole["job"]["namespace"], whole["job"]["name"]) == ("portico", "portico.load")
    [read] = whole["inputs"]
    assert (read["namespace"], read["name"]) == ("kafka://127.0.0.1:9093", "orders")
    [written] = whole["outputs"]
    assert (written["namespace"], written["name"]) == ("s3a://lake", "orders")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 3
    [fault] = [each for each in events if each["eventType"] == "FAIL"]
    assert fault["run"]["facets"]["errorMessage"]["message"] == "the topic is gone"


def test_a_job_does_not_wait_for_a_collector_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with webhook_sink() as sink:
        url = sink.url.removesuffix("/hook")
    monkeypatch.setenv("OPENLINEAGE_URL", url)
    monkeypatch.setattr(lineage, "_WAIT_S", 0.1)
    run = _run("load", url, said)
    run.began()
    run.ended(JobState.SUCCEEDED, "")
    for telling in [each for each in threading.enumerate() if each.name == "lineage"]:
        telling.join(120)
    assert said and all("is not told of this job" in each for each in said)


def test_without_a_collector_nothing_is_told() -> None:
    run = Lineage("load", _RUN, pytest.fail, {})
    run.began()
    run.ended(JobState.SUCCEEDED, "")
    assert not [each for each in threading.enumerate() if each.name == "lineage"]

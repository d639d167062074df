"""Activity through a real instance into tables: every event once, whatever happens to the run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipeline.activity import intake, tables
from pipeline.activity.events import Lane
from pipeline.activity.generator import generate
from pipeline.activity.jobs import Source, moves, run_activity
from pipeline.activity.records import Truth
from pipeline.activity.report import report
from pipeline.activity.topics import INPUT_TOPICS, PARTITIONS
from pipeline.errors import PipelineError
from pipeline.ingest.lease import LEASE_S
from pipeline.ingest.offsets import KafkaSource, SourceOffsets
from pipeline.ingest.staging import StagingError
from pipeline.layout import PipelineLayout
from pipeline.progress import Silent
from pipeline.store import StorePath
from tests.integration.stack import ROOT, Stack
from tests.pipeline.activity_results import (
    JOBS,
    counted,
    feeds_of,
    read_topic,
    results_of,
    rows_of,
    views_of,
)
from tests.pipeline.hdfs_server import hdfs_server
from tests.pipeline.killed import KilledJob
from tests.pipeline.s3_server import s3_server
from tests.pipeline.standalone import standalone_cluster
from tests.pipeline.store_servers import StoreServer, use

HOUR_MS = 3_600_000
T0 = 1_790_000_040_000


class Recorded(Silent):
    """Keeps what a query tells."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}

    def planned(self, units: int, unit: str = "records") -> None:
        self.told["planned"] = units

    def done(self, units: int) -> None:
        self.told["done"] = units

    def figures(self, **totals: int) -> None:
        self.told |= totals


class Crash(Silent):
    """Fails once events are committed: before results, and before Spark notes that the batch is done."""

    def figures(self, **totals: int) -> None:
        if "events" in totals:
            raise MemoryError("the test pulled the plug")


def source_of(stack: Stack, name: str) -> Source:
    instance = stack.create_instance(name)
    return Source(instance["bootstrap_servers"], instance["id"])


def send(source: Source, events: int, seed: int, start_ms: int, span_h: float) -> Truth:
    return generate(source.bootstrap_servers, 1, events, seed, span_h=span_h, start_ms=start_ms, paced=False)


def test_lineage_is_from_topics_to_results(layout: PipelineLayout) -> None:
    told = moves(layout, Source("127.0.0.1:1", "somebody"), ["feed", "abuse"])
    assert {(topic, path.name) for topic, path in told} == {
        *((topic, table) for topic in ("posts", "follows") for table in ("following", "feed")),
        ("logins", "abuse_alerts"),
    }


@pytest.mark.long
@pytest.mark.timeout(900)
def test_results_are_what_was_sent_over_two_runs(
    spark: SparkSession, layout: PipelineLayout, stack: Stack
) -> None:
    source = source_of(stack, "activity")
    now_ms = int(time.time() * 1000)
    start_ms = now_ms - 24 * HOUR_MS
    first = send(source, 6000, 3, start_ms, 12)
    told = {job: Recorded() for job in JOBS}
    totals = run_activity(spark, source, layout, told.__getitem__)
    check_first_run(spark, layout, source, first, totals, told)

    second = send(source, 6000, 4, start_ms + 6 * HOUR_MS, 12)
    totals = run_activity(spark, source, layout)
    results = results_of(layout, source.instance_id)
    in_time, late = counted(results["views_minute"]), counted(results["views_late"])
    assert in_time + late == views_of(first, second)
    assert late and late.total() == totals["views"]["late"]
    assert not views_of(first) - in_time, "what was counted stays counted"
    newest = max(minute for minute, _ in views_of(first))
    assert max(minute for minute, _ in late) < newest - 9 * 60_000
    assert sum(row[3] for row in results["views_sessions"]) == in_time.total()
    feed = [(row[5], row[2], row[0], row[4]) for row in results["feed"]]
    assert set(feed) == feeds_of(source.bootstrap_servers)
    for job, topics in zip(
        JOBS, (["page_views"], ["posts", "follows"], ["logins"], ["service_metrics"]), strict=True
    ):
        damaged = sum(truth.damaged[topic] for truth in (first, second) for topic in topics)
        assert len(results[f"{job}_dead_letters"]) == damaged
    check_alerts(source, results)

    assert run_activity(spark, source, layout) == {job: {} for job in JOBS}
    assert results_of(layout, source.instance_id) == results


def check_first_run(
    spark: SparkSession,
    layout: PipelineLayout,
    source: Source,
    sent: Truth,
    totals: Any,
    told: dict[str, Recorded],
) -> None:
    assert counted(rows_of(layout, source.instance_id, "views_minute")) == views_of(sent)
    assert totals["views"] == {
        "events": sent.events["page_views"],
        "dead_letters": sent.damaged["page_views"],
    }
    assert told["views"].told["rows"] == told["views"].told["planned"] == sent.records["page_views"]
    assert told["views"].told["lag_records"] == 0
    alerts = rows_of(layout, source.instance_id, "abuse_alerts")
    assert {(rule, of) for _, rule, of, *_ in alerts} == {
        (attack.rule, attack.source) for attack in sent.attacks
    }
    incidents = rows_of(layout, source.instance_id, "ops_alerts")
    [error_rate] = [row for row in incidents if "error_rate" in row]
    opened_ms, resolved_ms = error_rate[1], error_rate[2]
    assert sent.incident.service in error_rate
    assert abs(opened_ms - sent.incident.start_ms) <= 10 * 60_000
    assert abs(resolved_ms - sent.incident.end_ms) <= 20 * 60_000
    paths = report(layout, source.instance_id)
    assert sorted(path.suffix for path in paths) == [".html", ".md", *[".png"] * 4]
    assert all(path.stat().st_size > 500 for path in paths)
    assert f"{sent.events['page_views']:,}" in paths[0].read_text()


def check_alerts(source: Source, results: dict[str, list[tuple[Any, ...]]]) -> None:
    told = {key: json.loads(value) for key, value in read_topic(source.bootstrap_servers, "abuse_alerts")}
    assert set(told) == {f"{row[1]}/{row[2]}/{row[5]}" for row in results["abuse_alerts"]}
    assert all(alert["attempts"] >= alert["threshold"] for alert in told.values())
    newest = {
        key: json.loads(value)["state"] for key, value in read_topic(source.bootstrap_servers, "ops_alerts")
    }
    assert newest == {
        f"{row[3]}/{row[4]}/{row[1]}": "open" if row[2] is None else "resolved"
        for row in results["ops_alerts"]
    }


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_crash_between_events_and_results_and_a_fresh_topic(
    spark: SparkSession, layout: PipelineLayout, stack: Stack
) -> None:
    source = source_of(stack, "activity-crash")
    sent = send(source, 1500, 5, T0 - 10_000 * HOUR_MS, 2)
    for _ in range(2):
        with pytest.raises(PipelineError, match="activity-views"):
            run_activity(spark, source, layout, lambda _: Crash(), only=["views"])
    assert run_activity(spark, source, layout, only=["views"])["views"]["events"] == sent.events["page_views"]
    assert counted(rows_of(layout, source.instance_id, "views_minute")) == views_of(sent)

    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    for future in admin.delete_topics(list(INPUT_TOPICS)).values():
        future.result(20)
    with pytest.raises(PipelineError, match="has no topic page_views"):
        run_activity(spark, source, layout, only=["views"])
    wait_until_gone(source)
    again = send(source, 1500, 6, T0 - 9_000 * HOUR_MS, 2)
    assert (
        run_activity(spark, source, layout, only=["views"])["views"]["events"] == again.events["page_views"]
    )
    assert counted(rows_of(layout, source.instance_id, "views_minute")) == views_of(sent, again)


def test_results_need_a_disk_that_all_machines_see(spark: SparkSession, elsewhere: Path) -> None:
    """Delta's own writer commits what tasks wrote on disks of theirs, and nobody could read it."""
    layout = PipelineLayout(elsewhere, is_spark_here=False)
    with pytest.raises(StagingError, match="--lake has to name a store"):
        run_activity(spark, Source("127.0.0.1:1", "somebody"), layout)


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("kind", ["s3", "hdfs"])
def test_a_cluster_and_a_store_have_the_same_results_after_a_kill(
    spark: SparkSession,
    layout: PipelineLayout,
    stack: Stack,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = source_of(stack, f"activity-{kind}")
    send(source, 6000, 31, T0 - 10_000 * HOUR_MS, 6)
    run_activity(spark, source, layout)
    store: AbstractContextManager[StoreServer]
    store = s3_server() if kind == "s3" else hdfs_server(tmp_path / "hdfs")
    with store as server, standalone_cluster(tmp_path / "cluster") as cluster:
        use(server, monkeypatch)
        root = StorePath(server.root, "lake")
        stored = PipelineLayout(tmp_path / "elsewhere", root)
        words = ("activity", "run", source.instance_id, "--available-now", "--lake", str(root))
        run = KilledJob(stack.data_dir, "", *words, *cluster.options)
        run.start()
        while not (stored.activity(source.instance_id) / "views_events" / "_delta_log").is_dir():
            run.must_run()
            time.sleep(0.05)
        run.kill_now()
        time.sleep(LEASE_S)
        run.start()
        run.finish()
        assert results_of(stored, source.instance_id) == results_of(layout, source.instance_id)
        monkeypatch.setenv("PORTICO_LAKE", str(root))
        report = KilledJob(stack.data_dir, "", "activity", "report", source.instance_id)
        report.start()
        assert "Page views" in Path(report.finish()[0]).read_text()
    assert not (stack.data_dir / "pipeline" / "activity" / source.instance_id).exists()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_run_that_was_killed_before_its_first_batch_begins_anew(
    layout: PipelineLayout, stack: Stack
) -> None:
    """Spark has made the folders of its positions by then."""
    source = source_of(stack, "activity-early")
    send(source, 300, 5, T0 - 10_000 * HOUR_MS, 2)
    run = KilledJob(
        stack.data_dir, "", "activity", "run", source.instance_id, "--available-now", "--only", "abuse"
    )
    run.start()
    of_stack = PipelineLayout(stack.data_dir)
    while not [*of_stack.checkpoint(f"activity/{source.instance_id}").rglob("commits")]:
        run.must_run()
        time.sleep(0.005)
    run.kill_now()
    assert not (of_stack.activity(source.instance_id) / "abuse_events").exists()
    run.start()
    assert run.finish()["abuse"]["events"]


def wait_until_gone(source: Source) -> None:
    for _ in range(100):
        try:
            SourceOffsets(source.kafka).ensure(INPUT_TOPICS, PARTITIONS)
        except PipelineError:
            time.sleep(0.1)
        else:
            return


@pytest.mark.long
@pytest.mark.timeout(900)
def test_alerts_of_a_running_stream(
    spark: SparkSession, layout: PipelineLayout, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch after batch: what sliding windows over several batches tell is told once, in few files."""
    monkeypatch.setattr(intake, "_FILES_MAX", 1)
    monkeypatch.setitem(tables._TABLE, "delta.deletedFileRetentionDuration", "interval 0 seconds")
    source = source_of(stack, "activity-running")
    SourceOffsets(KafkaSource(source.bootstrap_servers)).ensure(INPUT_TOPICS, PARTITIONS)
    for number in range(2):
        sent = send(source, 6000, 8 + number, T0 - 10_000 * HOUR_MS + number * 3 * HOUR_MS, 3)
        run_activity(spark, source, layout, only=["abuse"])
        alerts = rows_of(layout, source.instance_id, "abuse_alerts")
        assert {(a.rule, a.source) for a in sent.attacks} <= {(row[1], row[2]) for row in alerts}
    run_activity(spark, source, layout, only=["abuse"], available_now=False, for_s=1)
    assert rows_of(layout, source.instance_id, "abuse_alerts") == alerts
    keys = [key for key, _ in read_topic(source.bootstrap_servers, "abuse_alerts")]
    assert len(keys) == len(set(keys)) == len(alerts)
    for name in ("abuse_events", "abuse_alerts"):
        path = layout.activity(source.instance_id) / name
        live = [Path(each).name for each in DeltaTable(str(path)).file_uris()]
        assert len(live) <= len(Lane)
        assert len([*path.rglob("part-*.parquet")]) <= len(live) + len(Lane), "what was replaced is gone"


def start_run(stack: Stack, instance: str, jobs: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "runtime.start", "ctl.main", "pipeline", "activity", "run", instance]
    command += ["--available-now", "--only", ",".join(jobs), "--data-dir", str(stack.data_dir)]
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)


def killed_after(
    stack: Stack, instance: str, jobs: Sequence[str], commit: Path, within_s: float = 600.0
) -> None:
    """kill -9 of a run and its JVM as soon as a commit of a table is there."""
    process = start_run(stack, instance, jobs)
    deadline = time.monotonic() + within_s
    while not commit.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert commit.exists(), "the run was killed where it was meant to be"


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_a_killed_run_goes_on(spark: SparkSession, layout: PipelineLayout, stack: Stack) -> None:
    killed_and_resumed(spark, layout, stack, ("views",), ["views_minute"])


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_runs_killed_between_all_their_writes(
    spark: SparkSession, layout: PipelineLayout, stack: Stack
) -> None:
    tables = [
        "views_events",
        "feed_events",
        "abuse_events",
        "abuse_alerts",
        "views_sessions",
        "ops_minute",
        "feed",
    ]
    killed_and_resumed(spark, layout, stack, JOBS, tables)


def killed_and_resumed(
    spark: SparkSession, layout: PipelineLayout, stack: Stack, jobs: Sequence[str], tables: Sequence[str]
) -> None:
    source = source_of(stack, f"activity-killed-{len(tables)}")
    sent = send(source, 4000, 21, int(time.time() * 1000) - 30 * HOUR_MS, 6)
    of_stack = PipelineLayout(stack.data_dir)
    log = of_stack.root / "activity" / source.instance_id
    for table in tables:
        commit = log / table / "_delta_log" / f"{0:020}.json"
        if not commit.exists():
            killed_after(stack, source.instance_id, jobs, commit)
    run_activity(spark, source, of_stack, only=jobs)
    results = results_of(of_stack, source.instance_id)
    assert counted(results["views_minute"]) + counted(results["views_late"]) == views_of(sent)

    run_activity(spark, source, layout, only=jobs)  # the same topics, undisturbed
    assert results_of(layout, source.instance_id) == results

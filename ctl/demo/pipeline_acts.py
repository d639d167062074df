"""The acts of `portico pipeline demo`: each runs real jobs on real topics and returns what was seen."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from contracts.billing import Bill
from contracts.names import SYSTEM_INSTANCE_ID
from contracts.pipeline import TABLES_DIR
from contracts.units import format_bytes
from contracts.usage_records import USAGE_TOPIC
from ctl.cluster_client import Reach
from ctl.console_client import Console, instance_path
from ctl.demo.acts import Seen
from ctl.demo.pipeline_place import TENANT, DemoPlace
from ctl.demo.usage_copy import UsageCopy
from ctl.demo.usage_history import DAYS, send_history, usage_history
from ctl.errors import CommandError
from ctl.pipeline.advising import advise_into
from ctl.pipeline.metering import MeterSteps
from ctl.pipeline.run import JobRun, job_run
from pipeline.layout import PipelineLayout
from pipeline.store import spark_url
from runtime.clock import epoch_ms
from tenants.pipeline_tables import DeltaTables
from tenants.usecases.bills import BillReports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.activity.records import Truth

PRODUCE_RATE: Final = 20_000_000
CONSUME_RATE: Final = 80_000_000
CAPACITY: Final = 2_000_000_000
SECONDS: Final = 30
EVENTS_PER_S: Final = 1_500
SEED: Final = 1
_VIEWS_TOPIC: Final = "page_views"
_VIEWS_SCHEMA: Final = {
    "version": 1,
    "fields": "id string not null, ts bigint not null, user string, session string, page string, kind string",
}
_RANKED: Final = 5
_METERED_WITHIN_S: Final = 90.0


@dataclass
class Demo:
    """What the acts share."""

    console: Console
    """Acts for the demo's own tenant."""
    data_dir: Path
    instance: Any
    layout: PipelineLayout
    spark: "SparkSession | None" = None
    truth: "Truth | None" = None
    pictures: list[Path] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The instance's name."""
        return str(self.instance["name"])

    @contextmanager
    def job(self, name: str, subject: str = "") -> Iterator[JobRun]:
        """A run in the demo's session, as the command of that name makes it, on the demo's own tables."""
        with job_run(name, subject or self.name, self.data_dir, TENANT, self.spark) as run:
            yield replace(run, layout=self.layout)


def provision(console: Console, data_dir: Path) -> tuple[Demo, Seen]:
    """A fresh instance, and a past for it in a topic `usage` of its own."""
    place = DemoPlace(console, data_dir)
    place.clean()
    instance = place.provision(
        produce_rate_bytes_per_s=PRODUCE_RATE,
        consume_rate_bytes_per_s=CONSUME_RATE,
        capacity_bytes=CAPACITY,
    )
    demo = Demo(console, data_dir, instance, place.layout(instance["id"]))
    console.call("POST", instance_path(instance["id"], "topics"), {"name": USAGE_TOPIC, "partitions": 1})
    records = usage_history(instance["id"], (PRODUCE_RATE, CONSUME_RATE, CAPACITY), epoch_ms())
    sent = send_history(instance["bootstrap_servers"], records)
    seen = (
        f"{demo.name} of tenant {TENANT} at {instance['bootstrap_servers']}; "
        f"{sent:,} made-up usage records of {DAYS} days before"
    )
    return demo, Seen("an instance with a past", seen)


def activity(demo: Demo) -> Seen:
    """People use a site; its servers send what they do to the instance."""
    from pipeline.activity.generator import generate

    demo.truth = generate(demo.instance["bootstrap_servers"], SECONDS, EVENTS_PER_S, SEED)
    total = sum(demo.truth.records.values())
    parts = ", ".join(f"{count:,} {topic}" for topic, count in demo.truth.records.items())
    return Seen("activity through the gateway", f"{total:,} events: {parts}")


def load(demo: Demo) -> Seen:
    """Every topic becomes a table, each record exactly once."""
    from pipeline.ingest.offsets import KafkaSource
    from pipeline.lake.load import Loader, LoadSettings
    from pipeline.lake.plan import LoadSource, OnDataLoss

    assert demo.truth is not None
    with demo.job("load") as run:
        kafka = KafkaSource(demo.instance["bootstrap_servers"])
        source = LoadSource(demo.instance["id"], demo.name, kafka, tuple(demo.truth.records))
        settings = LoadSettings(1_000_000, OnDataLoss.FAIL)
        done = Loader(lambda: run.spark, run.layout, [source], settings, run.progress).run()
        if done.failures:
            raise CommandError(done.failures)
    rows = {one.topic.name: one.rows for one in done.loads}
    size = format_bytes(sum(one.bytes for one in done.loads))
    return Seen(
        "the lake holds each record once",
        f"{sum(rows.values()):,} rows in {len(rows)} Delta tables, {size}",
        kept=rows == demo.truth.records,
    )


def decode(demo: Demo) -> Seen:
    """Bytes become columns; what does not parse is kept for another try."""
    from pipeline.lake.decode.job import OnError
    from pipeline.lake.decode.job import decode as decode_job
    from pipeline.lake.decode.schema import read_schema
    from pipeline.lake.lake_tables import lake_tables

    assert demo.truth is not None
    schema = read_schema(msgspec.json.encode(_VIEWS_SCHEMA), _VIEWS_TOPIC)
    [lake] = lake_tables(demo.layout, demo.instance["id"], [_VIEWS_TOPIC])
    with demo.job("decode", f"{demo.name} {_VIEWS_TOPIC}") as run:
        result = decode_job(run.spark, run.layout, lake, schema, OnError.DLQ, run.progress)
    unread = ", ".join(f"{count} {error}" for error, count in result.errors.items()) or "none"
    return Seen(
        "typed rows, and dead letters for the rest",
        f"{result.decoded:,} page views decoded; dead letters: {unread}",
        kept=result.decoded + result.dead_letters == demo.truth.records[_VIEWS_TOPIC],
    )


def streams(demo: Demo) -> Iterator[Seen]:
    """Counts, rankings, feeds and alerts by streaming queries, and the day's report."""
    from pipeline.activity.jobs import Source, run_activity
    from pipeline.activity.report import report

    assert demo.truth is not None
    with demo.job("activity") as run:
        source = Source(demo.instance["bootstrap_servers"], demo.instance["id"])
        run_activity(run.spark, source, run.layout, lambda name: run.part(f"activity-{name}", demo.name))
        ranking = _ranking(run, demo)
        sources = _abusive_sources(run, demo)
        demo.pictures = report(run.layout, demo.instance["id"])
    yield Seen("most viewed pages", ", ".join(f"{page} {views:,}" for page, views in ranking))
    attackers = {attack.source for attack in demo.truth.attacks}
    yield Seen(
        "abuse is noticed, and told on topic abuse_alerts",
        f"{', '.join(sorted(sources))}: all who attacked and nobody else",
        kept=sources == attackers,
    )


def _ranking(run: JobRun, demo: Demo) -> list[tuple[str, int]]:
    from pyspark.sql import functions as F  # noqa: N812

    views = run.spark.read.format("delta").load(
        spark_url(run.layout.root / "activity" / demo.instance["id"] / "views_minute")
    )
    top = views.groupBy("page").agg(F.sum("views").alias("views")).orderBy(F.desc("views"), "page")
    return [(row.page, row.views) for row in top.limit(_RANKED).collect()]


def _abusive_sources(run: JobRun, demo: Demo) -> set[str]:
    alerts = run.spark.read.format("delta").load(
        spark_url(run.layout.root / "activity" / demo.instance["id"] / "abuse_alerts")
    )
    return {row.source for row in alerts.select("source").distinct().collect()}


def meter(demo: Demo, since_ms: int) -> Seen:
    """What brokers reported of this instance becomes usage, beside its made-up past."""
    system = demo.console.get(instance_path(SYSTEM_INSTANCE_ID))["bootstrap_servers"]
    own = str(demo.instance["bootstrap_servers"])
    with UsageCopy(str(system), own, demo.instance["id"], since_ms) as copy:
        copy.copy_until(time.monotonic() + _METERED_WITHIN_S)
    with demo.job("meter") as run:
        done = MeterSteps(run, own).take()
    produced, consumed = (format_bytes(size) for size in (copy.produced_bytes, copy.consumed_bytes))
    quarantined = done.ingest.quarantined
    seen = f"of this demo: {produced} produced, {consumed} consumed; {quarantined} records quarantined"
    return Seen("what was used is metered", seen, kept=quarantined == 0)


def bill(demo: Demo) -> Seen:
    """The month before is closed for good; this one has a bill so far."""
    from pipeline.metering.billing import close_month

    now_ms = epoch_ms()
    this_month = datetime.fromtimestamp(now_ms / 1000, UTC).date().replace(day=1)
    last_month = f"{this_month - timedelta(days=1):%Y-%m}"
    with demo.job("bill") as run:
        close_month(
            run.layout,
            run.progress,
            now_ms=now_ms,
            month=last_month,
            grace_ms=0,
            instance_id=demo.instance["id"],
        )
    tables = BillReports(DeltaTables(demo.layout.root / TABLES_DIR))
    bills = asyncio.run(tables.of_instance(demo.instance["id"])) or []
    said = [f"{one.month} {one.state}: {_money(one)}" for one in bills]
    kept = {one.month: one.state for one in bills}.get(last_month) == "closed" and len(bills) > 1
    return Seen("a closed bill, and one so far", "; ".join(said), kept=kept)


def _money(one: Bill) -> str:
    digits = one.minor_unit_digits
    return f"{one.total_minor / 10**digits:,.{digits}f} {one.currency}"


def advise(demo: Demo) -> Seen:
    """A size that fits what is to come, with the reason."""
    with demo.job("advise") as run:
        given = advise_into(run, Reach(demo.data_dir, None, None), instance=demo.instance["id"])
    assert given is not None, "the demo has an instance"
    [row] = given.advised.advice
    return Seen("advice", row.reason)

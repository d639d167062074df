"""The acts of `portico pipeline demo`: each runs real jobs on real topics and returns what was seen."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from contracts.billing import SLOT_MS
from contracts.names import SYSTEM_INSTANCE_ID
from contracts.units import format_bytes
from ctl.cluster_client import Reach
from ctl.console_client import Console, instance_path
from ctl.demo.acts import Seen
from ctl.demo.usage_history import DAYS, send_history, usage_history
from ctl.errors import CommandError
from ctl.pipeline.advising import advise_into
from ctl.pipeline.metering import MeterSteps
from ctl.pipeline.run import JobRun, job_run
from pipeline.layout import PipelineLayout
from runtime.clock import epoch_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.activity.records import Truth

NAME: Final = "demo-activity"
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
_METERED_WITHIN_MS: Final = 90_000
_LOOK_AGAIN_S: Final = 3.0


@dataclass
class Demo:
    """What the acts share."""

    console: Console
    data_dir: Path
    tenant: str | None
    instance: Any
    spark: "SparkSession | None" = None
    truth: "Truth | None" = None
    pictures: list[Path] = field(default_factory=list)

    @property
    def layout(self) -> PipelineLayout:
        """Where the tables are."""
        return PipelineLayout(self.data_dir.resolve())

    def job(self, name: str, subject: str = NAME) -> Any:
        """A run in the demo's session, as the command of that name makes it."""
        return job_run(name, subject, self.data_dir, self.tenant, self.spark)


def provision(console: Console, data_dir: Path, tenant: str | None) -> tuple[Demo, Seen]:
    """A fresh instance, and a past for it."""
    for old in console.all_items("instances"):
        if old["name"] == NAME:
            console.call("DELETE", instance_path(old["id"]))
    body = {
        "name": NAME,
        "produce_rate_bytes_per_s": PRODUCE_RATE,
        "consume_rate_bytes_per_s": CONSUME_RATE,
        "capacity_bytes": CAPACITY,
        "whitelist": ["127.0.0.1/32"],
    }
    instance = console.wait_until_serving(console.call("POST", "instances", body)["id"])
    demo = Demo(console, data_dir, tenant, instance)
    records = usage_history(instance["id"], (PRODUCE_RATE, CONSUME_RATE, CAPACITY), epoch_ms())
    system = console.get(instance_path(SYSTEM_INSTANCE_ID))
    sent = send_history(system["bootstrap_servers"], records)
    seen = f"{instance['bootstrap_servers']}; {sent:,} made-up usage records of {DAYS} days before"
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
    from pipeline.lake.plan import LoadSource, OnDataLoss, failures

    assert demo.truth is not None
    with demo.job("load") as run:
        kafka = KafkaSource(demo.instance["bootstrap_servers"])
        source = LoadSource(demo.instance["id"], NAME, kafka, tuple(demo.truth.records))
        settings = LoadSettings(1_000_000, OnDataLoss.FAIL)
        loads = Loader(lambda: run.spark, run.layout, [source], settings, run.progress).run()
        if sentence := failures(loads):
            raise CommandError(sentence)
    rows = {one.topic.name: one.rows for one in loads}
    size = format_bytes(sum(one.bytes for one in loads))
    return Seen(
        "the lake holds each record once",
        f"{sum(rows.values()):,} rows in {len(rows)} Delta tables, {size}",
        kept=rows == demo.truth.records,
    )


def decode(demo: Demo) -> Seen:
    """Bytes become columns; what does not parse is kept for another try."""
    from pipeline.lake.decode import OnError
    from pipeline.lake.decode import decode as decode_job
    from pipeline.lake.decode_schema import read_schema
    from pipeline.lake.tables import lake_tables

    assert demo.truth is not None
    schema = read_schema(msgspec.json.encode(_VIEWS_SCHEMA), _VIEWS_TOPIC)
    [lake] = lake_tables(demo.layout, demo.instance["id"], [_VIEWS_TOPIC])
    with demo.job("decode", f"{NAME} {_VIEWS_TOPIC}") as run:
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
        run_activity(run.spark, source, run.layout, lambda name: run.part(f"activity-{name}", NAME))
        ranking = _ranking(run, demo)
        sources = _abusive_sources(run, demo)
        demo.pictures = report(run.spark, run.layout, demo.instance["id"])
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
        str(run.layout.root / "activity" / demo.instance["id"] / "views_minute")
    )
    top = views.groupBy("page").agg(F.sum("views").alias("views")).orderBy(F.desc("views"), "page")
    return [(row.page, row.views) for row in top.limit(_RANKED).collect()]


def _abusive_sources(run: JobRun, demo: Demo) -> set[str]:
    alerts = run.spark.read.format("delta").load(
        str(run.layout.root / "activity" / demo.instance["id"] / "abuse_alerts")
    )
    return {row.source for row in alerts.select("source").distinct().collect()}


def meter(demo: Demo, since_ms: int) -> Seen:
    """What brokers reported becomes usage; the made-up past and the minutes of this demo alike."""
    deadline_ms = epoch_ms() + _METERED_WITHIN_MS
    with demo.job("meter", "all instances") as run:
        steps = MeterSteps(run, None)
        while True:
            quarantined = steps.take().ingest.quarantined
            totals = _usage_since(demo, since_ms)
            if totals is not None and totals["produce_bytes"] > 0 and totals["consume_bytes"] > 0:
                break
            if epoch_ms() > deadline_ms:
                raise CommandError("the quota master's usage records did not arrive: see `portico doctor`")
            time.sleep(_LOOK_AGAIN_S)
    produced, consumed = (format_bytes(totals[f"{name}_bytes"]) for name in ("produce", "consume"))
    seen = f"of this demo: {produced} produced, {consumed} consumed; {quarantined} records quarantined"
    return Seen("usage, as the console shows it", seen, kept=quarantined == 0)


def _usage_since(demo: Demo, since_ms: int) -> Any:
    start = datetime.fromtimestamp((since_ms - since_ms % SLOT_MS) / 1000, UTC).isoformat()
    path = instance_path(demo.instance["id"], "usage")
    return demo.console.call("GET", path, params={"from": start, "resolution": "5m"})["totals"]


def bill(demo: Demo) -> Seen:
    """The month before is closed for good; this one has a bill so far."""
    from pipeline.metering.billing import close_month

    now_ms = epoch_ms()
    this_month = datetime.fromtimestamp(now_ms / 1000, UTC).date().replace(day=1)
    last_month = f"{this_month - timedelta(days=1):%Y-%m}"
    with demo.job("bill", NAME) as run:
        close_month(
            run.spark,
            run.layout,
            run.progress,
            now_ms=now_ms,
            month=last_month,
            grace_ms=0,
            instance_id=demo.instance["id"],
        )
    bills = demo.console.get(instance_path(demo.instance["id"], "bills"))["items"]
    said = [f"{one['month']} {one['state']}: {_money(one)}" for one in bills]
    kept = {one["month"]: one["state"] for one in bills}.get(last_month) == "closed" and len(bills) > 1
    return Seen("a closed bill, and one so far", "; ".join(said), kept=kept)


def _money(one: Any) -> str:
    digits = one["minor_unit_digits"]
    return f"{one['total_minor'] / 10**digits:,.{digits}f} {one['currency']}"


def advise(demo: Demo) -> Seen:
    """A size that fits what is to come, with the reason."""
    with demo.job("advise", NAME) as run:
        given = advise_into(run, Reach(demo.data_dir, None, None), instance=demo.instance["id"])
    [row] = given.advised.advice
    return Seen("advice", row.reason)

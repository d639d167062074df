"""One drill from its fault to its verdict."""

import json
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException

from ctl.drills.catalogue import Drill
from ctl.drills.faults import Sign
from ctl.drills.interrupts import heard_at_pauses
from ctl.drills.judge import Check, Facts, judge
from ctl.drills.load import NumberedProducer, read_all
from ctl.drills.site import PARTITIONS, TOPIC, GroupReader, Site, tenant_of
from ctl.drills.timeline import Timeline
from ctl.drills.watch import Watch
from ctl.errors import CommandError
from ctl.stack.own_stack import own_environment

_RATE_PER_S: Final = 150
_PADDING_BYTES: Final = 1000
_QUIET: Final = {"log_level": 0}
"""What a client says of broken connections is not the drill's story."""
_PERIOD_S: Final = 0.5
_WARM_RECORDS: Final = 200
_AFTER_RECORDS: Final = 100
_CALM_S: Final = 60.0
_DOCTOR_S: Final = 12.0


@dataclass(frozen=True, slots=True)
class Times:
    """How long a drill takes."""

    hold_s: float
    """The fault lasts at least so long."""
    sign_within_s: float
    """And at most so much longer, until alert and sign are seen."""
    recover_within_s: float


def run(drill: Drill, site: Site, times: Times, timeline: Timeline) -> tuple[Check, ...]:
    """Raises: CommandError when the drill cannot be done."""
    with tenant_of(site):
        try:
            return _under_load(drill, site, times, timeline)
        except (KafkaException, TimeoutError) as error:
            raise CommandError(f"the drill's client failed: {error}") from error


def _under_load(drill: Drill, site: Site, times: Times, timeline: Timeline) -> tuple[Check, ...]:
    with (
        NumberedProducer(
            site.bootstrap, TOPIC, PARTITIONS, _RATE_PER_S, padding=_PADDING_BYTES, config=_QUIET
        ) as producer,
        GroupReader(site.bootstrap, TOPIC, _QUIET) as reader,
    ):
        producer.wait_for_progress(_WARM_RECORDS)
        watch = _calm(site, timeline)
        timeline.begin()
        struck_s = time.monotonic()
        sign = _hold(drill, site, times, timeline, watch)
        recovered_after_s = _recover(site, times, watch, producer)
        pauses = [producer.silence_s(partition, struck_s) for partition in range(PARTITIONS)]
        read_pause_s = reader.silence_s(struck_s)
    timeline.tell(
        "clients",
        f"{producer.count():,} records acknowledged by all, {len(producer.failed)} given up; "
        f"longest pause {max(pauses):.1f} s for producers, {read_pause_s:.1f} s for consumers",
    )
    facts = Facts(
        acknowledged=producer.acknowledged,
        stored={
            partition: read_all(site.bootstrap, TOPIC, partition, _QUIET) for partition in range(PARTITIONS)
        },
        refused=producer.failed,
        alerts_wanted=drill.alerts,
        alerts_seen=watch.alerts.seen,
        sign=sign,
        recovered_after_s=recovered_after_s,
        within_s=times.recover_within_s,
    )
    return judge(facts)


def _calm(site: Site, timeline: Timeline) -> Watch:
    """A watch of a stack on which nothing is wrong that a drill could hide behind. Raises: CommandError."""
    deadline = time.monotonic() + _CALM_S
    while (watch := Watch(site.layout, timeline)).alerts.before:
        if time.monotonic() > deadline:
            raise CommandError(
                f"the stack is not well before the drill: {', '.join(sorted(watch.alerts.before))}"
            )
        time.sleep(_PERIOD_S)
    return watch


def _hold(drill: Drill, site: Site, times: Times, timeline: Timeline, watch: Watch) -> str | None:
    """The fault, for as long as it lasts; returns what the drill's own look saw."""
    seen: str | None = None
    with heard_at_pauses() as pause, ThreadPoolExecutor(2) as pool, drill.strike(site, timeline) as look:
        doctors = [pool.submit(_doctor, site)]
        if drill.brokers > 1:
            doctors.append(pool.submit(_doctor, site, "--cluster"))
        began_s = time.monotonic()
        while not _lasted(time.monotonic() - began_s, times, drill, watch, seen, doctors):
            watch.look()
            if seen is None and (seen := _seen(look)):
                timeline.tell("sign", seen)
            pause(_PERIOD_S)
        for finding in (each for doctor in doctors if doctor.done() for each in doctor.result()):
            timeline.tell("doctor", finding)
    return seen


def _lasted(
    lasted_s: float,
    times: Times,
    drill: Drill,
    watch: Watch,
    seen: str | None,
    doctors: "list[Future[list[str]]]",
) -> bool:
    if lasted_s < times.hold_s:
        return False
    is_seen = seen is not None and set(drill.alerts) <= watch.alerts.seen
    is_told = all(doctor.done() for doctor in doctors)
    return (is_seen and is_told) or lasted_s > times.hold_s + times.sign_within_s


def _seen(look: Sign) -> str | None:
    try:
        return look()
    except (OSError, ValueError, KeyError):  # a file that is just being replaced, an answer that is none
        return None


def _doctor(site: Site, *options: str) -> list[str]:
    """What `portico doctor` finds wrong, as an operator runs it."""
    command = [sys.executable, "-m", "runtime.start", "ctl.main", "doctor", "--json", *options]
    try:
        told = subprocess.run(
            [*command, "--data-dir", str(site.layout.data_dir)],
            capture_output=True,
            text=True,
            timeout=_DOCTOR_S,
            env=own_environment(),
            check=False,
        )
        findings: list[dict[str, object]] = json.loads(told.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return [f"`{' '.join(['portico doctor', *options])}` has no answer in {_DOCTOR_S:.0f} s"]
    return [f"{each['subject']}: {each['found']}" for each in findings if each["level"] == "bad"]


def _recover(site: Site, times: Times, watch: Watch, producer: NumberedProducer) -> float | None:
    """Seconds since the fault was undone until all is as it was; None: not in time."""
    undone_s = time.monotonic()
    target = producer.count() + _AFTER_RECORDS
    while (after_s := time.monotonic() - undone_s) < times.recover_within_s:
        watch.look()
        if watch.alerts.is_quiet() and producer.count() >= target and _is_healthy(site):
            return after_s
        time.sleep(_PERIOD_S)
    return None


def _is_healthy(site: Site) -> bool:
    health = site.ask("health")
    return health is not None and health.is_success and health.json()["status"] == "ok"

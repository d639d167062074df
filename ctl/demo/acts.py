"""The acts of the demo. Each shows one promise and returns what was seen, or raises CommandError."""

import socket
import time
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Final

from kafka import KafkaProducer
from kafka.errors import KafkaError

from contracts.units import format_bytes
from ctl.bench.measure import percentile
from ctl.console_client import Console, instance_path
from ctl.demo import clients
from ctl.errors import CommandError

RECORDS: Final = 100_000
TOPIC: Final = "orders"
GROUP: Final = "billing"
_GUEST: Final = "127.0.0.2"
_RESUME_WITHIN_S: Final = 5.0
_CUT_WITHIN_S: Final = 1.0
_NOISE_FACTOR_MAX: Final = 2.0
_ROUNDS: Final = 5


@dataclass(slots=True)
class Seen:
    """What an act showed."""

    promise: str
    seen: str
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Tenancy:
    """The two instances of the demo: `busy` gets the heavy hand, `calm` must not notice."""

    console: Console
    busy: Any
    calm: Any


def provision(console: Console) -> tuple[Tenancy, Seen]:
    """Two tenants, two instances, the same topic and group names."""
    busy = _instance(console, "demo-busy", 5_000_000, 20_000_000, 1_000_000_000)
    calm = _instance(console, "demo-calm", 50_000_000, 50_000_000, 150_000_000)
    for instance in (busy, calm):
        clients.create_topic(instance["bootstrap_servers"], TOPIC, 3)
    addresses = f"{busy['bootstrap_servers']} and {calm['bootstrap_servers']}"
    return Tenancy(console, busy, calm), Seen("two instances, equal topic names, own addresses", addresses)


def _instance(console: Console, name: str, produce_rate: int, consume_rate: int, capacity: int) -> Any:
    for old in console.all_items("instances"):
        if old["name"] == name:
            console.call("DELETE", instance_path(old["id"]))
    body = {
        "name": name,
        "produce_rate_bytes_per_s": produce_rate,
        "consume_rate_bytes_per_s": consume_rate,
        "capacity_bytes": capacity,
        "whitelist": ["127.0.0.1/32", f"{_GUEST}/32"],
    }
    return console.wait_until_serving(console.call("POST", "instances", body)["id"])


def _value(mark: bytes, number: int) -> bytes:
    return mark + b"%092d" % number


def carry(tenancy: Tenancy) -> Seen:
    """Produce and consume with confluent-kafka; no record meets the other tenant's."""
    parts = []
    for mark, instance in ((b"busy----", tenancy.busy), (b"calm----", tenancy.calm)):
        bootstrap = instance["bootstrap_servers"]
        produced_s = clients.produce(bootstrap, TOPIC, RECORDS, partial(_value, mark))
        consumed_s, origins = clients.consume(bootstrap, TOPIC, GROUP, RECORDS)
        if origins != {mark}:
            raise CommandError(f"instance {instance['name']} got records of another: {origins}")
        parts.append(f"{instance['name']}: in {produced_s:.1f} s, out {consumed_s:.1f} s")
    return Seen(f"{RECORDS:,} records each way, nothing mixed", "; ".join(parts))


def overdrive(tenancy: Tenancy) -> tuple[Seen, Seen]:
    """Drive one instance over its rate: its client is throttled, the other's latency stays.

    Alone and beside are measured in turns, so that a machine that slows down slows both.
    """
    busy, calm = tenancy.busy["bootstrap_servers"], tenancy.calm["bootstrap_servers"]
    clients.produce_latencies_ms(calm, TOPIC, 1.0)  # connections and caches are warm after this
    alone, beside = [], []
    throttle_ms = 0.0
    for _ in range(_ROUNDS):
        alone.append(percentile(clients.produce_latencies_ms(calm, TOPIC, 2.0), 0.99))
        with clients.Greedy(busy, TOPIC) as greedy:
            time.sleep(1.5)
            beside.append(percentile(clients.produce_latencies_ms(calm, TOPIC, 2.0), 0.99))
            view = tenancy.console.get(instance_path(tenancy.busy["id"], "quota"), seconds=3)
        throttle_ms = max(throttle_ms, greedy.throttle_ms_max)
    rates = [rate or 0 for rate in view["history"]["brokers"][0]["produce"]["rate_per_s"]]
    rate = round(sum(rates) / max(1, len(rates)))
    bought = tenancy.busy["produce_rate_bytes_per_s"]
    throttled = Seen(
        "a greedy producer is throttled as Kafka does it",
        f"{format_bytes(rate, rate=True)} of {format_bytes(bought, rate=True)}; "
        f"throttle time in the client's statistics up to {throttle_ms:.0f} ms",
        kept=throttle_ms > 0 and rate <= 1.1 * bought,
    )
    unharmed = Seen(
        f"the neighbour's produce p99 stays within {_NOISE_FACTOR_MAX:.0f} x its own",
        f"{median(alone):.2f} ms alone, {median(beside):.2f} ms beside the greedy one",
        kept=median(beside) <= _NOISE_FACTOR_MAX * median(alone),
    )
    return throttled, unharmed


def fill(tenancy: Tenancy) -> tuple[Seen, Seen]:
    """Fill an instance: produce is refused with a reason, consume goes on, DeleteRecords frees it."""
    bootstrap = tenancy.calm["bootstrap_servers"]
    message = _fill_until_refused(bootstrap)
    clients.consume(bootstrap, TOPIC, "still-reading", 1000)
    refused = Seen(
        "a full instance refuses producers and serves consumers", message, kept="is full" in message
    )
    clients.delete_all_records(bootstrap, TOPIC)
    started = time.perf_counter()
    while not _accepts(bootstrap):
        if time.perf_counter() - started > 4 * _RESUME_WITHIN_S:
            raise CommandError("produce did not resume after DeleteRecords")
        time.sleep(0.1)
    waited_s = time.perf_counter() - started
    kept = waited_s <= _RESUME_WITHIN_S
    return refused, Seen("DeleteRecords lets producers go on", f"after {waited_s:.1f} s", kept)


def _fill_until_refused(bootstrap: str) -> str:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        batch_size=500_000,
        linger_ms=20,
        compression_type=None,
        retries=0,
    )
    value = bytes(10_000)
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            futures = [producer.send(TOPIC, value) for _ in range(200)]
            for future in futures:
                try:
                    future.get(timeout=30)
                except KafkaError as error:
                    return str(error)
    finally:
        producer.close(timeout=2)
    raise CommandError("the instance took more than its capacity")


def _accepts(bootstrap: str) -> bool:
    try:
        clients.produce(bootstrap, TOPIC, 1, lambda _n: b"again")
    except CommandError:
        return False
    return True


def whitelist(tenancy: Tenancy) -> Seen:
    """Remove an address from a whitelist: its live connection is cut, others stay."""
    host, _, port = tenancy.busy["bootstrap_servers"].rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10, source_address=(_GUEST, 0)) as guest,
        socket.create_connection((host, int(port)), timeout=10, source_address=("127.0.0.1", 0)) as member,
    ):
        time.sleep(0.2)
        started = time.perf_counter()
        path = instance_path(tenancy.busy["id"], "whitelist")
        tenancy.console.call("PATCH", path, {"add": [], "remove": [f"{_GUEST}/32"]})
        cut = _is_closed(guest, 5.0)
        waited_s = time.perf_counter() - started
        unharmed = not _is_closed(member, 0.2)
    kept = cut and unharmed and waited_s <= _CUT_WITHIN_S
    others = "others stay" if unharmed else "another address was cut too"
    what = f"cut after {waited_s * 1000:.0f} ms, {others}" if cut else "its connection was not cut"
    return Seen("an address leaves the whitelist: its connections are cut", what, kept)


def _is_closed(connection: socket.socket, within_s: float) -> bool:
    connection.settimeout(within_s)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True

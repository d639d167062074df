"""All brokers end at once, and the disk of one is not what it was: nothing acknowledged is lost.

The damaged broker starts first and alone, and was the leader: it must not lead before it has fetched what it
lacks.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.broker.process import ROOT, BrokerProcess
from tests.integration.broker.raw import batch, fetch, produce, request
from tests.integration.cluster.brokers import Cluster, eventually
from wire.batch import iterate_batches
from wire.codec import duration

RECORDS = 60
_TOLD = "records of a log are lost or damaged"
_HEALED = "damaged records are fetched anew"


def _segment(directory: Path) -> Path:
    (segment,) = directory.glob("*.log")
    return segment


def _truncated(directory: Path) -> None:
    content = _segment(directory).read_bytes().rstrip(b"\0")
    _segment(directory).write_bytes(content[: 2 * len(content) // 3])


def _bit_flipped(directory: Path) -> None:
    content = bytearray(_segment(directory).read_bytes())
    content[2 * len(content.rstrip(b"\0")) // 3] ^= 4
    _segment(directory).write_bytes(content)


def _data_removed(directory: Path) -> None:
    shutil.rmtree(directory.parent.parent)


def _logs_removed(directory: Path) -> None:
    shutil.rmtree(directory.parent)


DAMAGES: list[Any] = [
    _bit_flipped,
    shutil.rmtree,
    *(pytest.param(each, marks=pytest.mark.long) for each in (_truncated, _logs_removed, _data_removed)),
]


def _fill(cluster: Cluster, topic: str, leader: int) -> None:
    with cluster.client(leader) as client:
        for number in range(RECORDS):
            answer = produce(client, topic, batch(b"%d" % number + b" " * 500))
            assert answer.error_code.value == 0


def _values(cluster: Cluster, topic: str) -> list[int]:
    with cluster.client(cluster.leader(topic)) as client:
        records = bytes(fetch(client, topic, 0, max_bytes=10_000_000).records)
    return [header.base_offset for _, header in iterate_batches(memoryview(records))]


def _leader(cluster: Cluster, topic: str, *, but: int) -> int:
    found = int(cluster.partition(topic).leader_id)
    assert found != but, "it waits for those who have everything"
    return found


def _checkpointed(directory: Path, topic: str, name: str = "replication-offset-checkpoint") -> bool:
    checkpoint = directory.parent / name
    return checkpoint.exists() and f"{topic} 0 {RECORDS}\n" in checkpoint.read_text()


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_the_leader_comes_back_first_with_a_damaged_disk(
    cluster: Cluster, damage: Callable[[Path], Any]
) -> None:
    topic = f"damage-{damage.__name__.strip('_')}"
    cluster.create(topic)
    cluster.until_in_sync(topic)
    leader = cluster.leader(topic)
    directory = cluster.brokers[leader].data_dir / "logs" / f"{topic}-0"
    _fill(cluster, topic, leader)
    eventually(lambda: _checkpointed(directory, topic))
    for broker in cluster.brokers.values():
        broker.kill()
    damage(directory)
    cluster.brokers[leader].start()
    # The others, whose sessions have not ended yet, may be elected; it may not.
    eventually(lambda: _leader(cluster, topic, but=leader), lambda found: found == -1)
    others = [broker for node_id, broker in cluster.brokers.items() if node_id != leader]
    for broker in others:
        broker.launch()
    for broker in others:
        broker.wait()
    eventually(lambda: _values(cluster, topic), lambda values: values == list(range(RECORDS)))
    cluster.until_in_sync(topic)
    assert len(_segment(directory).read_bytes().rstrip(b"\0")) > RECORDS * 500


def _verify(cluster: Cluster, topic: str) -> tuple[int, list[tuple[int, str | None]]]:
    """What `portico replica verify` says: its exit code, and a finding per replica."""
    told = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "runtime.start",
                "ctl.main",
                "replica",
                "verify",
                "--topics",
                topic,
                "--json",
            ),
            *("--bootstrap", cluster.addresses, "--secret-file", str(cluster.secret_file)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert told.stdout, told.stderr
    return told.returncode, [(each["replica"], each["fault"]) for each in json.loads(told.stdout)]


def _assert_found(cluster: Cluster, topic: str, damaged: int) -> None:
    code, found = _verify(cluster, topic)
    assert code == 1, found
    assert [replica for replica, fault in found if fault] == [damaged], found


def _lead_again(cluster: Cluster, topic: str) -> None:
    """Elect the preferred leader, which it was at first."""
    partitions = [{"topic": topic, "partitions": (0,)}]
    wanted = request(43, 1, election_type=0, topic_partitions=partitions, timeout=duration(10_000))
    assert cluster.call(cluster.controller_id(), wanted).error_code.value == 0


def test_a_bit_flips_in_what_no_recovery_looks_at(cluster: Cluster) -> None:
    """After a clean end nothing is read again at a start. `replica verify` finds it; to heal, remove the
    replica's directory while its broker is down."""
    topic = "flipped"
    cluster.create(topic, flush_messages="1")
    cluster.until_in_sync(topic)
    leader = cluster.leader(topic)
    broker = cluster.brokers[leader]
    directory = broker.data_dir / "logs" / f"{topic}-0"
    _fill(cluster, topic, leader)
    broker.stop()
    _bit_flipped(directory)
    broker.start()
    cluster.until_in_sync(topic)
    _assert_found(cluster, topic, leader)
    _lead_again(cluster, topic)
    assert cluster.leader(topic) == leader
    _assert_found(cluster, topic, leader)  # and does not take the others for damaged
    broker.stop()
    shutil.rmtree(directory)
    broker.start()
    cluster.until_in_sync(topic)
    code, found = _verify(cluster, topic)
    assert (code, len(found)) == (0, 3)


def _scrub(broker: BrokerProcess) -> tuple[int, list[dict[str, Any]]]:
    """Its exit code, and what it found, beside the running broker."""
    told = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "runtime.start",
                "ctl.main",
                "log",
                "scrub",
                str(broker.data_dir / "logs"),
            ),
            *("--rate", "100MB/s", "--json"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return told.returncode, [json.loads(line) for line in told.stdout.splitlines()]


@pytest.mark.parametrize(
    "damages_leader",
    [pytest.param(False, id="follower", marks=pytest.mark.long), pytest.param(True, id="leader")],
)
def test_a_scrub_finds_it_and_the_replica_is_fetched_anew(cluster: Cluster, damages_leader: bool) -> None:
    """While the broker runs. A leader serves on, for it may be the last one that has the rest; it heals once
    it follows, which a restart brings about."""
    topic = f"scrubbed-{damages_leader}"
    cluster.create(topic, flush_messages="1")
    cluster.until_in_sync(topic)
    leader = cluster.leader(topic)
    _fill(cluster, topic, leader)
    damaged = leader if damages_leader else next(each for each in cluster.brokers if each != leader)
    broker = cluster.brokers[damaged]
    directory = broker.data_dir / "logs" / f"{topic}-0"
    if not damages_leader:  # nothing is flushed by time here, but before a clean end
        eventually(lambda: _checkpointed(directory, topic))
        broker.stop()
        broker.start()
        cluster.until_in_sync(topic)
    eventually(lambda: _checkpointed(directory, topic, "recovery-point-offset-checkpoint"))
    _bit_flipped(directory)
    told, healed = (broker.log().count(line) for line in (_TOLD, _HEALED))  # of other topics before
    code, found = _scrub(broker)
    assert code == 1, found
    (one,) = [each for each in found if each["topic"] == topic]
    assert 0 < one["first_offset"] < one["next_offset"] <= RECORDS
    eventually(lambda: broker.log().count(_TOLD) > told)
    if damages_leader:
        with cluster.client(leader) as client:
            # no gap, and no damaged bytes, from the moment on when the broker has taken the finding
            eventually(
                lambda: fetch(client, topic, one["first_offset"]).error_code.name,
                lambda name: name == "corrupt_message",
            )
            assert fetch(client, topic, 0).error_code.value == 0
        broker.stop()
        broker.start()
        cluster.leader(topic, but=damaged)
    eventually(lambda: broker.log().count(_HEALED) > healed)
    cluster.until_in_sync(topic)
    _code, verified = _verify(cluster, topic)
    assert [fault for _, fault in verified] == [None] * 3
    assert _scrub(broker)[1] == []
    assert _values(cluster, topic) == list(range(RECORDS))

"""Makes `before.tar.xz`: a small data directory of the version before, with what its clients knew of it.

    python -m tests.release.make_before

Runs that version from this clone's history with this environment's packages, and takes half a minute.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.stack import Stack
from tests.release.trees import BEFORE, Trees, check_out

ARCHIVE: Final = Path(__file__).with_name("before.tar.xz")
VPORTS: Final = "29700-29719"
"""The addresses in the archive; no other test uses them."""
TOPICS: Final = {
    "plain": {},
    "kept": {"cleanup.policy": "compact"},
}


def main() -> None:
    """Replace the archive that is kept."""
    make(ARCHIVE)
    print(f"{ARCHIVE}: {ARCHIVE.stat().st_size / 1024:.0f} KB")


def make(archive: Path) -> None:
    """Run the version before for a while, and pack what it leaves."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "empty").mkdir()
        trees = Trees(scratch / "hook", check_out(BEFORE, scratch / "before"))
        stack = Stack(
            scratch / "data",
            *("--vports", VPORTS),
            directory=scratch / "empty",
            environment=trees.environment,
        ).start()
        try:
            known = _fill(stack)
        finally:
            stack.stop()
        for rubbish in ("logs", "run", "up.log", "ready.json"):
            subprocess.run(["rm", "-rf", str(scratch / "data" / rubbish)], check=True)
        (scratch / "known.json").write_text(json.dumps(known, indent=1))
        pack = ["tar", "-C", str(scratch), "--sort=name", "--owner=0", "--group=0", "--sparse"]
        subprocess.run([*pack, "-cJf", str(archive), "data", "known.json"], check=True)


def _fill(stack: Stack) -> dict[str, Any]:
    shop = stack.create_instance("shop", produce_rate_bytes_per_s=7_000_000, whitelist=["127.0.0.0/8"])
    gone = stack.create_instance("gone")
    stack.api("DELETE", f"instances/{gone['id']}")
    bootstrap = shop["bootstrap_servers"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(n, 2, config=dict(c)) for n, c in TOPICS.items()]).values():
        future.result(20)
    records = {topic: _produce(bootstrap, topic) for topic in TOPICS}
    _transactions(bootstrap)
    _commit(bootstrap)
    return {
        "admin_password": stack.admin_password,
        "api_key": stack.api("POST", "keys", {"name": "till", "role": "operator"})["secret"],
        "shop": stack.api("GET", f"instances/{shop['id']}"),
        "gone": gone["id"],
        "records": records,
        "committed": {"readers": 60},
    }


def _produce(bootstrap: str, topic: str) -> list[list[str]]:
    """The key and value of each record of partition 0, in order."""
    sent = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
        )
        for number in range(20):
            key, value = f"key-{codec}-{number}", f"{topic} {codec} {number} " + "x" * 100
            producer.produce(topic, value, key, partition=0)
            sent.append([key, value])
        assert producer.flush(20) == 0
    return sent


def _transactions(bootstrap: str) -> None:
    """One that is committed and one that is aborted, in partition 1 of `plain`."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shop-till"})
    producer.init_transactions(20)
    for value, ends in (("committed", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce("plain", value, partition=1)
        producer.flush(20)
        ends(20)


def _commit(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("plain", 0, 60)], asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main()

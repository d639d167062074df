"""kafka-python 2.0.2 in a process of its own: `python old_client.py JSON` does one thing and prints JSON.

It is not importable beside the newer kafka-python of the tests; the launcher installs it into
`.venv/old-clients`, which comes first on this process's path.
"""

import json
import sys
from typing import Any

import six

sys.modules["kafka.vendor.six.moves"] = six.moves  # the six it carries cannot be imported since Python 3.12

from kafka import KafkaConsumer, KafkaProducer, TopicPartition, __version__  # noqa: E402
from kafka.consumer.fetcher import RecordTooLargeError  # noqa: E402
from kafka.errors import KafkaError  # noqa: E402

CODECS = (None, "gzip", "snappy", "lz4")


def produce(task: dict[str, Any]) -> Any:
    """Some records with each codec; partition and offset of every one."""
    sent = []
    for codec in CODECS:
        producer = KafkaProducer(
            bootstrap_servers=task["bootstrap"],
            api_version=tuple(task["api_version"]),
            compression_type=codec,
            acks="all",
            linger_ms=20,
        )
        for number in range(task["count"]):
            text = f"{codec or 'none'} {number}"
            sent.append((text, producer.send(task["topic"], text.encode(), key=f"k{number}".encode())))
        producer.flush(20)
        producer.close()
    return {text: [future.get(10).partition, future.get(10).offset] for text, future in sent}


def produce_one(task: dict[str, Any]) -> Any:
    """One record that may be refused; the name of the error."""
    producer = KafkaProducer(
        bootstrap_servers=task["bootstrap"],
        api_version=tuple(task["api_version"]),
        retries=0,
        max_block_ms=5000,
    )
    key = None if task["key"] is None else task["key"].encode()
    future = producer.send(task["topic"], task["value"].encode(), key=key)
    try:
        future.get(5)
    except KafkaError as error:
        return type(error).__name__
    finally:
        producer.close(1)
    return None


def consume(task: dict[str, Any]) -> Any:
    """All there is for a member of a group, which commits at its end."""
    consumer = KafkaConsumer(
        task["topic"],
        bootstrap_servers=task["bootstrap"],
        api_version=tuple(task["api_version"]),
        group_id=task["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=task["quiet_ms"],
        heartbeat_interval_ms=500,
        **task.get("settings", {}),
    )
    found = []
    for record in consumer:
        found.append([record.partition, record.offset, record.timestamp, record.value.decode()])
        if len(found) == task["count"]:
            break
    consumer.commit()
    committed = {
        index: consumer.committed(TopicPartition(task["topic"], index))
        for index in consumer.partitions_for_topic(task["topic"])
    }
    consumer.close()
    return {"records": found, "committed": committed}


def offsets(task: dict[str, Any]) -> Any:
    """Where a partition begins and ends (ListOffsets 0)."""
    consumer = KafkaConsumer(bootstrap_servers=task["bootstrap"], api_version=tuple(task["api_version"]))
    partition = TopicPartition(task["topic"], 0)
    first, last = consumer.beginning_offsets([partition]), consumer.end_offsets([partition])
    consumer.close()
    return [first[partition], last[partition]]


def too_large(task: dict[str, Any]) -> Any:
    """What a consumer says that cannot take the next record."""
    consumer = KafkaConsumer(
        bootstrap_servers=task["bootstrap"],
        api_version=tuple(task["api_version"]),
        max_partition_fetch_bytes=task["bytes_max"],
        consumer_timeout_ms=20_000,
    )
    consumer.assign([TopicPartition(task["topic"], 0)])
    consumer.seek_to_beginning()
    try:
        return [record.offset for _, record in zip(range(task["count"]), consumer, strict=False)]
    except RecordTooLargeError:
        return "RecordTooLargeError"
    finally:
        consumer.close()


if __name__ == "__main__":
    assert __version__ == "2.0.2", __version__
    given = json.loads(sys.argv[1])
    done = {
        "produce": produce,
        "produce_one": produce_one,
        "consume": consume,
        "offsets": offsets,
        "too_large": too_large,
    }
    print(json.dumps(done[given["do"]](given)))

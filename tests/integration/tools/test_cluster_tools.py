"""The operator's tools against three brokers."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ctl.stack.layout import Layout
from tests.integration.broker.process import running_broker
from tests.integration.tools.conftest import Tools


def login(tools: Tools) -> dict[str, Any]:
    """How a client reaches the brokers themselves."""
    layout = Layout(tools.stack.data_dir)
    ports = json.loads(layout.ports_file.read_text())
    brokers = [f"127.0.0.1:{port}" for name, port in ports.items() if name.startswith("broker-")]
    return {
        "bootstrap.servers": ",".join(brokers),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "portico",
        "sasl.password": layout.secret_file.read_text().strip(),
    }


def produce(tools: Tools, topic: str, count: int, size: int = 1000) -> None:
    producer = Producer(login(tools) | {"batch.size": 20_000})
    for number in range(count):
        producer.produce(topic, f"{number}".ljust(size), partition=number % 2)
        producer.poll(0)
    assert producer.flush(30) == 0


def replicas_of(tools: Tools, topic: str) -> list[list[int]]:
    return [one["replicas"] for one in tools.json("cluster", "topic", "describe", topic)["partitions"]]


def until_complete(tools: Tools, plan: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        done = tools.finished("reassign", "verify", str(plan))
        if done.code == 0:
            return
        assert time.monotonic() < deadline, done.out + done.err
        time.sleep(0.2)


@pytest.fixture
def moved(tools: Tools, tmp_path: Path) -> tuple[Tools, Path]:
    """A topic on brokers 1 and 2, and a plan that takes its first partition to 3."""
    name = f"moved-{tmp_path.name}".replace("[", "-").replace("]", "")
    tools.run(
        "cluster",
        "topic",
        "create",
        name,
        "--replica-assignment",
        "1:2,2:1",
        "--config",
        "segment.bytes=200000",
    )
    plan = tmp_path / "plan.json"
    partitions = [{"topic": name, "partition": 0, "replicas": [3, 1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return tools, plan


def topic_of(plan: Path) -> str:
    return str(json.loads(plan.read_text())["partitions"][0]["topic"])


def test_topics_of_the_cluster(tools: Tools) -> None:
    tools.run("cluster", "topic", "create", "plain", "--partitions", "3", "--config", "retention.ms=60000")
    described = tools.json("cluster", "topic", "describe", "plain")
    assert [len(one["isr"]) for one in described["partitions"]] == [3, 3, 3]
    assert described["configs"]["plain"]["retention.ms"] == "60000"
    tools.run("cluster", "topic", "alter", "plain", "--partitions", "5", "--reset", "retention.ms")
    described = tools.json("cluster", "topic", "describe", "pl.*")
    assert len(described["partitions"]) == 5 and "retention.ms" not in described["configs"]["plain"]
    listed = {one["topic"]: one for one in tools.json("cluster", "topic", "list")}
    assert listed["plain"]["partitions"] == 5 and "__consumer_offsets" in listed
    tools.run("cluster", "topic", "delete", "plain")
    assert "plain" not in {one["topic"] for one in tools.json("cluster", "topic", "list")}
    assert "does not host" in tools.run("cluster", "topic", "delete", "plain", code=1)


SEED_CONFIGS = {
    "unclean.leader.election.enable": "true",
    "delete.retention.ms": "60000",
    "segment.jitter.ms": "1000",
    "retention.ms": "600000",
    "flush.ms": "5000",
    "segment.bytes": "2000000",
    "flush.messages": "100",
    "segment.ms": "60000",
    "retention.bytes": "90000000",
    "cleanup.policy": "compact,delete",
    "segment.index.bytes": "100000",
    "min.cleanable.dirty.ratio": "0.2",
    "max.message.bytes": "500000",
    "file.delete.delay.ms": "1000",
    "min.insync.replicas": "1",
    "index.interval.bytes": "8192",
}
"""Every config that Kafka's topic tool could set when it was described first."""


def test_every_config_of_a_topic(tools: Tools) -> None:
    tools.run("cluster", "topic", "create", "tuned")
    options = [part for key, value in SEED_CONFIGS.items() for part in ("--config", f"{key}={value}")]
    tools.run("cluster", "topic", "alter", "tuned", *options)
    described = tools.json("cluster", "topic", "describe", "tuned")["configs"]["tuned"]
    assert SEED_CONFIGS.items() <= described.items()
    resets = [part for key in SEED_CONFIGS for part in ("--reset", key)]
    tools.run("cluster", "topic", "alter", "tuned", *resets)
    assert (
        not SEED_CONFIGS.keys()
        & tools.json("cluster", "topic", "describe", "tuned")["configs"]["tuned"].keys()
    )


def test_where_topics_may_not_be_deleted_the_wish_is_recorded(tools: Tools, tmp_path: Path) -> None:
    with running_broker(tmp_path, "--no-delete-topic-enable") as broker:
        reach = ("--bootstrap", broker.address)
        elsewhere = tools.elsewhere(tmp_path)
        elsewhere.run("cluster", "topic", "create", *reach, "kept")
        assert "recorded for deletion" in elsewhere.run("cluster", "topic", "delete", *reach, "kept")
        assert "kept" in elsewhere.run("cluster", "topic", "list", *reach)


def test_a_topic_is_moved_and_moved_back(moved: tuple[Tools, Path]) -> None:
    tools, plan = moved
    topic = topic_of(plan)
    produce(tools, topic, 1000)
    begun = tools.json("reassign", "execute", str(plan), "--throttle", "100MB/s")
    assert begun["partitions"] == [{"topic": topic, "partition": 0, "error": None}]
    until_complete(tools, plan)
    assert replicas_of(tools, topic) == [[3, 1], [2, 1]]
    configs = tools.json("cluster", "topic", "describe", topic)["configs"][topic]
    assert not [key for key in configs if "throttled" in key], "taken off with the last move"
    assert "alike" in tools.run("replica", "verify", "--topics", topic, "--all")
    back = plan.with_name("back.json")
    back.write_text(json.dumps(begun["previous"]))
    tools.run("reassign", "execute", str(back))
    until_complete(tools, back)
    assert replicas_of(tools, topic) == [[1, 2], [2, 1]]
    story = tools.run("statelog", "merge", "--topic", topic, "--partitions", "0", "--json").splitlines()
    lines = [json.loads(line) for line in story]
    assert {line["request"] for line in lines} == {"LeaderAndIsr", "StopReplica"}
    assert [line["ts"] for line in lines] == sorted(line["ts"] for line in lines)


def test_a_move_is_held_back_and_cancelled(moved: tuple[Tools, Path]) -> None:
    tools, plan = moved
    topic = topic_of(plan)
    produce(tools, topic, 4000)
    tools.run("reassign", "execute", str(plan), "--throttle", "100KB/s")
    (state,) = tools.json("reassign", "verify", str(plan), code=1)
    assert state["state"] == "in progress" and "3" in state["detail"]
    assert "under way" in tools.run("reassign", "execute", str(plan), code=1)
    tools.run("reassign", "cancel", str(plan))
    assert replicas_of(tools, topic) == [[1, 2], [2, 1]]
    (state,) = tools.json("reassign", "verify", str(plan), code=1)
    assert state["state"] == "differs"
    assert not [
        one for one in tools.json("cluster", "topic", "describe", topic)["configs"][topic] if "thr" in one
    ]


def test_a_generated_plan_can_be_executed(moved: tuple[Tools, Path]) -> None:
    tools, plan = moved
    topic = topic_of(plan)
    wanted = plan.with_name("topics.json")
    wanted.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    options = ("reassign", "generate", "--brokers", "2,3", "--topics-file", str(wanted))
    made = tools.json(*options, "--out", str(plan))
    assert made["proposed"] == json.loads(plan.read_text())
    tools.run("reassign", "execute", str(plan))
    until_complete(tools, plan)
    assert all(set(replicas) == {2, 3} for replicas in replicas_of(tools, topic))
    assert "broker 9 is not registered" in tools.run(
        "reassign", "generate", "--brokers", "2,9", "--topics", topic, code=1
    )


def test_replicas_that_differ_are_found(moved: tuple[Tools, Path]) -> None:
    """A flipped bit in a follower's log, which Kafka's own checks only see when the record is read."""
    tools, plan = moved
    topic = topic_of(plan)
    produce(tools, topic, 200)
    path = Layout(tools.stack.data_dir).broker_dir(2) / "logs" / f"{topic}-0" / f"{0:020}.log"
    assert "alike" in tools.run("replica", "verify", "--topics", topic, "--all")
    with path.open("r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    found = tools.json("replica", "verify", "--topics", topic, code=1)
    (fault,) = [one for one in found if one["fault"]]
    assert (fault["partition"], fault["replica"]) == (0, 2) and "damaged" in fault["fault"]


def test_a_broker_that_is_away(tools: Tools) -> None:
    controller = re.search(r"ok +controller\W+broker (\d)", tools.run("doctor", "--cluster"))
    assert controller is not None
    away = min({1, 2, 3} - {int(controller[1])})  # a controller would be asked, and not answer
    tools.run("cluster", "topic", "create", "lonely", "--replica-assignment", str(away))
    broker = json.loads(Layout(tools.stack.data_dir).run_file(f"broker-{away}").read_text())["pid"]
    os.kill(broker, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 20
        while not tools.json("cluster", "topic", "describe", "lonely", "--unavailable")["partitions"]:
            assert time.monotonic() < deadline
        said = tools.run("doctor", "--cluster", code=1)
        assert f"broker {away}: not registered" in said and "without a leader: lonely-0" in said
        under = tools.json("cluster", "topic", "describe", "--under-replicated")["partitions"]
        assert under and all(away not in one["isr"] for one in under if one["topic"] != "lonely")
        missing = tools.json("replica", "verify", "--topics", "__consumer_offsets", code=1)
        assert {one["replica"] for one in missing if one["fault"]} == {away}
    finally:
        os.kill(broker, signal.SIGCONT)
    deadline = time.monotonic() + 30
    while tools.json("cluster", "topic", "describe", "--under-replicated")["partitions"]:
        assert time.monotonic() < deadline
    results = tools.json("leader", "elect-preferred", "--all")
    assert all(one["outcome"] in ("elected", "not needed") for one in results)
    rows = tools.json("cluster", "topic", "describe")["partitions"]
    assert all(one["leader"] == one["replicas"][0] for one in rows)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("cluster", "topic", "create", "a", "b"), "unexpected extra argument"),
        (("topic", "describe", "--under-replicated"), "No such option: --under-replicated"),
        (("cluster", "topic", "create", "a", "--replica-assignment", "1:1"), "names a broker twice"),
        (("leader", "elect-preferred"), "choose one of"),
        (
            ("leader", "elect-preferred", "--topic", "__consumer_offsets", "--partition", "99"),
            "no partition 99",
        ),
        (("reassign", "execute", "/none"), "cannot be read"),
        (("replica", "verify", "--topics", "("), "not a regular expression"),
        (("statelog", "merge", "--partitions", "x"), "is not like 0,1,2"),
    ],
)
def test_wrong_usage_is_one_sentence(tools: Tools, arguments: tuple[str, ...], says: str) -> None:
    said = tools.run(*arguments, code=2)
    assert says in said and len(said.strip().splitlines()) == 1

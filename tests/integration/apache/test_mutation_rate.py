"""Topics are made and removed no faster on an Apache Kafka; Java's client comes again by itself."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.integration.apache.test_backend import admin_of, made, produced, until
from tests.integration.broker.raw import RawClient
from tests.integration.kafka_jars import run_java
from tests.integration.mutating import QUOTA, create, delete, flood, grow, port_of
from tests.integration.stack import Stack

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]
LIMITS = {"controller_mutation_rate_max": 5, "partitions_max": 5_000}
NONE = ErrorCode.none
MAKES_AND_REMOVES = """
import java.util.*;
import org.apache.kafka.clients.admin.*;

public class MakesAndRemoves {
    public static void main(String[] args) throws Exception {
        List<NewTopic> wanted = new ArrayList<>();
        List<String> names = new ArrayList<>();
        for (int number = 0; number < 10; number++) {
            names.add("java-" + number);
            wanted.add(new NewTopic("java-" + number, 10, (short) -1));
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            admin.createTopics(wanted).all().get();
            listed(admin, 10);
            System.out.println("made " + admin.describeTopics(names).allTopicNames().get().size());
            admin.deleteTopics(names.subList(0, 2)).all().get();
            System.out.println("left " + listed(admin, 8));
        }
    }

    // A broker hears of what the controller has answered a moment later.
    static int listed(Admin admin, int wanted) throws Exception {
        int found = admin.listTopics().names().get().size();
        for (int tries = 0; tries < 300 && found != wanted; tries++) {
            Thread.sleep(100);
            found = admin.listTopics().names().get().size();
        }
        return found;
    }
}
"""


@pytest.fixture
def instance(stack: Stack) -> Iterator[dict[str, Any]]:
    """An instance with a small rate."""
    one = made(stack, limits=LIMITS)
    yield one
    stack.api("DELETE", f"instances/{one['id']}")


def test_a_flood_is_held_to_the_rate_while_a_neighbour_goes_on(stack: Stack) -> None:
    flooding = made(stack, limits={"controller_mutation_rate_max": 1})
    beside = made(stack)
    began = time.monotonic()
    codes = flood(port_of(flooding), connections=4, attempts=10)
    elapsed_s = time.monotonic() - began
    assert codes.keys() == {NONE, QUOTA}
    assert 11 < codes[NONE] <= 11 + elapsed_s + 4, "a charge of each connection may be under way"
    with RawClient(port_of(beside), timeout_s=60) as client:
        assert create(client, 7, {"orders": 100}) == ({"orders": NONE}, 0)
    produced(beside, "orders", [b"value"] * 100)


def test_what_is_deleted_and_added_counts_there_too(instance: dict[str, Any]) -> None:
    with RawClient(port_of(instance), timeout_s=60) as client:
        assert create(client, 7, {"a": 60, "b": 60}).codes == {"a": NONE, "b": QUOTA}
        assert create(client, 7, {"b": 60}).codes == {"b": NONE}, "not read before the time that was told"
        told = delete(client, 6, "a", "b")
        while told.codes["a"] is QUOTA:
            told = delete(client, 6, "a", "b")
        assert told.codes == {"a": NONE, "b": QUOTA}
        assert grow(client, 3, {"b": 70}).codes == {"b": NONE}
        told = delete(client, 4, "b", "nobody")
        assert told.codes == {"b": NONE, "nobody": ErrorCode.unknown_topic_or_partition}
        assert told.throttle_ms >= 2_900
    admin = admin_of(instance)
    until(lambda: not admin.list_topics(timeout=60).topics, "they are deleted")


def test_javas_client_comes_again_by_itself(instance: dict[str, Any], tmp_path: Path) -> None:
    source = tmp_path / "MakesAndRemoves.java"
    source.write_text(MAKES_AND_REMOVES)
    done = run_java(str(source), instance["bootstrap_servers"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split("\n")[:2] == ["made 10", "left 8"]

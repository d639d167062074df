"""Request time that an instance bought holds at the brokers of an Apache Kafka, by their request quota."""

import time
from typing import Any

import pytest

from contracts.names import client_id_at
from contracts.request_time import PERCENT_US_PER_S
from ctl.bench.apache_kafka import KafkaBroker
from tests.integration.apache.test_backend import made, until
from tests.integration.apache.test_quota import quotas_of
from tests.integration.broker.raw import RawClient, request
from tests.integration.stack import Stack
from wire.codec import decode_response, framed_request

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]
LEAST_PERCENT = 5
WINDOW = 16
COSTLY = request(
    32, 1, resources=[{"resource_type": 4, "resource_name": "1", "configuration_keys": None}] * 50
)
"""Settings of a broker, fifty times: some milliseconds of its threads."""
ALL_TOPICS = request(3, 4, topics=None, allow_auto_topic_creation=False)


def with_request_percent(stack: Stack, kafka: list[KafkaBroker], percent: int) -> dict[str, Any]:
    instance = made(stack, request_percent=percent)
    until(lambda: len(quotas_of(kafka, instance)) == len(kafka), "no quotas are set")
    return instance


def throttled_ms(port: int, client_id: str, question: Any, seconds: float) -> int:
    """What a broker, or a gateway, tells a client to wait in all who always has some requests unanswered."""
    frame, told_ms = framed_request(question, 1, client_id), 0
    with RawClient(port, timeout_s=60.0) as client:
        client.socket.sendall(frame * WINDOW)
        ends_s = time.monotonic() + seconds
        while time.monotonic() < ends_s:
            _, answer = decode_response(client.receive_frame(), question.__api_key__, question.__version__)
            told_ms += round(answer.throttle_time.total_seconds() * 1000)
            client.socket.sendall(frame)
    return told_ms


def test_each_broker_has_a_share_that_follows_what_was_bought(stack: Stack, kafka: list[KafkaBroker]) -> None:
    instance = with_request_percent(stack, kafka, 100)

    def percents() -> list[float]:
        found = quotas_of(kafka, instance).values()
        return [rates.request_us_per_s / PERCENT_US_PER_S for rates in found]

    # Half is the brokers', who lead nothing yet and are alike; a fourth more is the room of a backstop.
    assert percents() == pytest.approx([1.25 * 100 / 2 / len(kafka)] * len(kafka), rel=0.01)
    stack.api("PATCH", f"instances/{instance['id']}", {"request_percent": 400})
    until(lambda: min(percents()) > 80, "the change does not reach the brokers")


def test_a_broker_throttles_who_asks_for_more_whatever_it_is_and_nobody_else(
    stack: Stack, kafka: list[KafkaBroker]
) -> None:
    """As the gateways send it: to the brokers' ports, so that no gateway holds it up before."""
    instance = with_request_percent(stack, kafka, LEAST_PERCENT)
    neighbour = with_request_percent(stack, kafka, 10_000)
    broker = kafka[0]
    told = {
        one["id"]: throttled_ms(broker.port, client_id_at(one["id"], broker.node_id), COSTLY, 5.0)
        for one in (instance, neighbour)
    }
    assert told[instance["id"]] > 0
    assert told[neighbour["id"]] == 0


@pytest.mark.long
def test_a_flood_through_the_gateway_is_told_to_wait_and_a_neighbour_is_not(
    stack: Stack, kafka: list[KafkaBroker]
) -> None:
    instance = with_request_percent(stack, kafka, LEAST_PERCENT)
    neighbour = made(stack)
    ports = [int(one["bootstrap_servers"].rpartition(":")[2]) for one in (instance, neighbour)]
    assert throttled_ms(ports[0], "flood", ALL_TOPICS, 5.0) > 0
    with RawClient(ports[1], timeout_s=60.0) as client:
        assert client.call(ALL_TOPICS).throttle_time.total_seconds() == 0

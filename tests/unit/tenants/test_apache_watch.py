"""What the control plane makes of an Apache Kafka's answers, sensible ones and others."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from contracts.specs import BrokerAddress, ClusterSpec, Engine
from contracts.upstream import ClusterTrouble
from runtime.internal_http import InternalClient
from tenants.apache_watch import BROKERS_MAX, Seen
from tenants.config import ConsoleConfig
from tenants.console import Console
from tenants.metrics import ConsoleCollector
from tenants.rules.errors import Unavailable
from tenants.rules.vports import parse_vip
from tests.scenarios.fake_broker import FakeBroker, Received
from wire.api_table import ApiKey
from wire.build import response

KEY = "operator-key-of-this-test-and-no-other"
CLUSTER = "apache-1"


class Kafka(FakeBroker):
    """An Apache Kafka as far as it is looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster_id: str | None = "kafka-1"
        self.brokers: list[dict[str, Any]] | None = None
        self.apis = [3, 75]
        self.auto_create = "false"
        self.intercept(ApiKey.METADATA, self.described)
        self.intercept(ApiKey.API_VERSIONS, self._offered)
        self.intercept(ApiKey.DESCRIBE_CONFIGS, self._configured)

    def described(self, received: Received) -> Any:
        own = [{"node_id": 1, "host": "127.0.0.1", "port": self.port}]
        return response(
            ApiKey.METADATA,
            received.api_version,
            cluster_id=self.cluster_id,
            controller_id=1,
            brokers=own if self.brokers is None else self.brokers,
        )

    def _offered(self, received: Received) -> Any:
        offers = [{"api_key": key, "min_version": 0, "max_version": 0} for key in self.apis]
        return response(ApiKey.API_VERSIONS, received.api_version, api_keys=offers)

    def _configured(self, received: Received) -> Any:
        configs = [{"name": "auto.create.topics.enable", "value": self.auto_create}]
        result = {"resource_type": 4, "resource_name": "1", "configs": configs}
        return response(ApiKey.DESCRIBE_CONFIGS, received.api_version, results=[result])


@pytest.fixture
async def kafka() -> AsyncIterator[Kafka]:
    fake = Kafka()
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
async def console(kafka: Kafka, tmp_path: Path) -> AsyncIterator[Console]:
    config = ConsoleConfig(
        database_url=f"sqlite:///{tmp_path}/portico.db",
        vip_pool=parse_vip("127.0.0.1", 21000, 21999),
        default_cluster_id=CLUSTER,
        backend=f"127.0.0.1:{kafka.port}",
        secret="never told to others",
    )
    made = Console(config, InternalClient("http://master", "x"), is_free=lambda _: True)
    made.bootstrap(KEY)
    yield made
    made.close()


async def looked(console: Console) -> Seen:
    await console.apaches.look()
    return console.apaches.seen[CLUSTER]


def spec(console: Console) -> ClusterSpec:
    [found] = console.clusters()
    return found


def broker(node_id: int, port: int, host: str = "127.0.0.1") -> dict[str, Any]:
    return {"node_id": node_id, "host": host, "port": port}


async def test_a_cluster_that_answers_is_registered_like_ours(kafka: Kafka, console: Console) -> None:
    assert spec(console).engine is Engine.APACHE and spec(console).brokers == ()
    assert (await looked(console)).trouble is None
    assert spec(console).brokers == (BrokerAddress(node_id=1, host="127.0.0.1", port=kafka.port),)
    assert console.apaches.live() == 1
    revision = spec(console).revision
    await looked(console)
    assert spec(console).revision == revision, "nothing has changed"
    assert await (await console.cluster(CLUSTER)).topics("iaaaaaaaaaaa", ["t"]) == {}
    assert all(b"never told" not in one.frame for one in kafka.received)


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"cluster_id": None}, "does not say which cluster it is"),
        ({"cluster_id": "x" * 65}, "does not say which cluster it is"),
        ({"apis": [3]}, "older than Apache Kafka 3.9"),
        ({"auto_create": "true"}, "set auto.create.topics.enable=false"),
        ({"brokers": []}, "it names 0 brokers"),
        ({"brokers": [broker(1, 0)]}, "it names a broker 1 at '127.0.0.1':0"),
        ({"brokers": [broker(1, 70_000)]}, "it names a broker 1 at"),
        ({"brokers": [broker(-1, 9092)]}, "it names a broker -1 at"),
        ({"brokers": [broker(1, 9092, "")]}, "it names a broker 1 at ''"),
        ({"brokers": [broker(1, 9092), broker(1, 9093)]}, "it names a broker twice"),
        ({"brokers": [broker(one, 9092) for one in range(BROKERS_MAX + 1)]}, "it names 65 brokers"),
    ],
)
async def test_what_no_instance_could_live_on_is_told_and_not_taken(
    kafka: Kafka, console: Console, changes: dict[str, Any], trouble: str
) -> None:
    for name, value in changes.items():
        setattr(kafka, name, value)
    assert trouble in str((await looked(console)).trouble)
    assert spec(console).brokers == () and console.apaches.live() == 0


async def test_garbage_and_silence_have_names(kafka: Kafka, console: Console) -> None:
    kafka.intercept(ApiKey.METADATA, lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert "no broker answers: the broker gave no answer" in str((await looked(console)).trouble)
    kafka.intercept(ApiKey.METADATA, lambda _: b"\0\0\0\x06\0\0\0\x01\xff\xff")
    assert "no broker answers" in str((await looked(console)).trouble)
    kafka.intercept(ApiKey.METADATA, lambda _: kafka.drop_connections())
    assert "it closed the connection" in str((await looked(console)).trouble)
    await kafka.stop()
    assert "cannot be reached" in str((await looked(console)).trouble)
    assert console.illness(CLUSTER) == (ClusterTrouble.UNREACHABLE, console.apaches.seen[CLUSTER].trouble)
    text = generate_latest(_registry(console)).decode()
    assert f'portico_cluster_up{{cluster="{CLUSTER}"}} 0.0' in text
    assert f'portico_cluster_trouble{{cause="unreachable",cluster="{CLUSTER}"}} 1.0' in text
    await kafka.start()
    kafka.intercept(ApiKey.METADATA, kafka.described)
    await looked(console)
    text = generate_latest(_registry(console)).decode()
    assert f'portico_cluster_up{{cluster="{CLUSTER}"}} 1.0' in text
    assert (
        text.count("portico_cluster_trouble{") == text.count('cluster="apache-1"} 0.0') == len(ClusterTrouble)
    )


def _registry(console: Console) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(ConsoleCollector(console))
    return registry


async def test_another_cluster_at_the_same_address_is_a_stranger(kafka: Kafka, console: Console) -> None:
    await looked(console)
    before = spec(console)
    kafka.cluster_id, kafka.brokers = "kafka-2", [broker(1, kafka.port), broker(2, 9092)]
    assert "it calls itself kafka-2, and was kafka-1 before" in str((await looked(console)).trouble)
    assert spec(console) == before, "none of its brokers is registered"
    cluster = await console.cluster(CLUSTER)
    for ask in (cluster.topics("iaaaaaaaaaaa"), cluster.left_of("iaaaaaaaaaaa"), cluster.metadata(None)):
        with pytest.raises(Unavailable):
            await ask
    kafka.cluster_id, kafka.brokers = "kafka-1", None
    assert (await looked(console)).trouble is None


async def test_brokers_move_and_go(kafka: Kafka, console: Console) -> None:
    kafka.brokers = [broker(1, kafka.port), broker(2, 9092)]
    assert (await looked(console)).trouble is None
    kafka.brokers = [broker(1, kafka.port), broker(2, 9093, "localhost")]
    assert (await looked(console)).trouble is None
    assert [(one.node_id, one.host, one.port) for one in spec(console).brokers] == [
        (1, "127.0.0.1", kafka.port),
        (2, "localhost", 9093),
    ]
    kafka.brokers = [broker(1, kafka.port)]
    seen = await looked(console)
    assert seen.trouble == "broker 2 is not there"
    assert [one.node_id for one in seen.brokers] == [1]
    assert len(spec(console).brokers) == 2, "its vports are its own until it is back"

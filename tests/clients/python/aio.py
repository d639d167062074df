"""aiokafka."""

import asyncio
import ssl
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from tests.clients.python.program import Step, run, script, value

_TIMEOUT_S = 30.0
_TIMEOUT_MS = 30_000
_NO_CHANGE: tuple[int, ...] = (0,)
ASKED = script()


class Token(AbstractTokenProvider):  # type: ignore[misc]
    """The one that is given."""

    async def token(self) -> str:
        return str(ASKED["connection"]["sasl"]["token"])


def settings() -> dict[str, Any]:
    """What every client of this script is made with."""
    connection = ASKED["connection"]
    tls, sasl = connection["tls"], connection["sasl"]
    made: dict[str, Any] = {
        "bootstrap_servers": connection["bootstrap"],
        "security_protocol": ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT"),
    }
    if tls:
        made["ssl_context"] = ssl.create_default_context(cafile=tls["ca"])
        if tls["certificate"]:
            made["ssl_context"].load_cert_chain(tls["certificate"], tls["key"])
    if sasl:
        made["sasl_mechanism"] = sasl["mechanism"]
        if sasl["mechanism"] == "OAUTHBEARER":
            made["sasl_oauth_token_provider"] = Token()
        else:
            made |= {"sasl_plain_username": sasl["user"], "sasl_plain_password": sasl["password"]}
    return made


class Administrator:
    """An admin client while it is used."""

    async def __aenter__(self) -> AIOKafkaAdminClient:
        self._client = AIOKafkaAdminClient(**settings())
        await self._client.start()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


def _accepted(code: int, text: str | None = None) -> None:
    """Answers of administrators are given as they came."""
    if code not in _NO_CHANGE:
        raise for_code(code)(text)


async def create(step: Step) -> None:
    # It takes no -1 for the cluster's own replication factor.
    topic = NewTopic(step["topic"], step["partitions"], 1, topic_configs=step["configs"])
    async with Administrator() as admin:
        told = await admin.create_topics([topic], timeout_ms=_TIMEOUT_MS)
    for _, code, *text in told.topic_errors:
        _accepted(code, *text)


async def describe(step: Step) -> dict[str, int]:
    async with Administrator() as admin:
        (told,) = await admin.describe_topics([step["topic"]])
    _accepted(told["error_code"])
    return {"partitions": len(told["partitions"])}


async def describe_configs(step: Step) -> dict[str, str]:
    asked = ConfigResource(ConfigResourceType.TOPIC, step["topic"], dict.fromkeys(step["names"]))
    async with Administrator() as admin:
        (told,) = await admin.describe_configs([asked])
    ((code, text, _, _, entries),) = told.resources
    _accepted(code, text)
    return {entry[0]: entry[1] for entry in entries}


async def alter_configs(step: Step) -> None:
    asked = ConfigResource(ConfigResourceType.TOPIC, step["topic"], step["configs"])
    async with Administrator() as admin:
        (told,) = await admin.alter_configs([asked])
    for code, text, *_ in told.resources:
        _accepted(code, text)


async def delete(step: Step) -> None:
    async with Administrator() as admin:
        told = await admin.delete_topics([step["topic"]], timeout_ms=_TIMEOUT_MS)
    for _, code in told.topic_error_codes:
        _accepted(code)


async def produce(step: Step, transactional_id: str | None = None) -> None:
    codec = None if step["codec"] == "none" else step["codec"]
    async with AIOKafkaProducer(
        **settings(), compression_type=codec, linger_ms=100, transactional_id=transactional_id
    ) as producer:
        if transactional_id:
            await producer.begin_transaction()
        sent = [
            await producer.send(
                step["topic"],
                value(step, number).encode(),
                key=f"k{number}".encode(),
                partition=number % step["partitions"],
                headers=[("codec", step["codec"].encode())],
            )
            for number in range(step["count"])
        ]
        await asyncio.gather(*sent)
        if transactional_id:
            await (producer.commit_transaction() if step["end"] == "commit" else producer.abort_transaction())


async def transaction(step: Step) -> None:
    await produce(step, step["transactional_id"])


async def _taken(consumer: AIOKafkaConsumer, step: Step) -> list[list[Any]]:
    records: list[list[Any]] = []
    async with asyncio.timeout(_TIMEOUT_S):
        while len(records) < step["count"]:
            one = await consumer.getone()
            headers = dict(one.headers)
            records.append(
                [
                    *(one.partition, one.offset, one.key.decode(), one.value.decode()),
                    headers.get("codec", b"").decode(),
                ]
            )
    return records


async def consume(step: Step) -> dict[str, Any]:
    async with AIOKafkaConsumer(
        step["topic"],
        **settings(),
        group_id=step["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        records = await _taken(consumer, step)
        ends = {partition: offset + 1 for partition, offset, *_ in records}
        await consumer.commit({TopicPartition(step["topic"], one): end for one, end in ends.items()})
    return {"records": records}


async def read(step: Step) -> dict[str, Any]:
    async with AIOKafkaConsumer(
        **settings(), isolation_level=step["isolation"], auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(step["topic"], one) for one in range(step["partitions"])])
        return {"records": await _taken(consumer, step)}


def _made(step: Any) -> Any:
    return lambda asked: asyncio.run(step(asked))


if __name__ == "__main__":
    steps = (create, describe, describe_configs, alter_configs, delete, produce, transaction, consume, read)
    run({one.__name__: _made(one) for one in steps}, ASKED)

"""librdkafka, as confluent-kafka has it."""

import time
from functools import cache
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.clients.python.program import RefusedError, Step, run, script, value

_TIMEOUT_S = 30.0
ASKED = script()
_AUTHENTICATION: list[str] = []


def _seen(error: Any) -> None:
    if error.name() == "_AUTHENTICATION":
        _AUTHENTICATION.append(error.str())


def settings() -> dict[str, Any]:
    """What every client of this script is made with."""
    connection = ASKED["connection"]
    made: dict[str, Any] = {"bootstrap.servers": connection["bootstrap"], "error_cb": _seen}
    tls, sasl = connection["tls"], connection["sasl"]
    made["security.protocol"] = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
    if tls:
        made["ssl.ca.location"] = tls["ca"]
        if tls["certificate"]:
            made |= {"ssl.certificate.location": tls["certificate"], "ssl.key.location": tls["key"]}
    if sasl:
        made["sasl.mechanism"] = sasl["mechanism"]
        if sasl["mechanism"] == "OAUTHBEARER":
            made["oauth_cb"] = lambda _: (sasl["token"], time.time() + 600)
        else:
            made |= {"sasl.username": sasl["user"], "sasl.password": sasl["password"]}
    return made


def _refused(error: KafkaException) -> RefusedError:
    if _AUTHENTICATION:
        return RefusedError("SASL_AUTHENTICATION_FAILED", _AUTHENTICATION[0])
    return RefusedError(error.args[0].name(), error.args[0].str())


def done(future: Any) -> Any:
    """What a request of an administrator came to."""
    try:
        return future.result(_TIMEOUT_S)
    except KafkaException as error:
        raise _refused(error) from error


@cache
def administrator() -> AdminClient:
    """Kept: a client that goes takes its futures along. The poll is for a login by token."""
    admin = AdminClient(settings())
    admin.poll(0)
    return admin


def create(step: Step) -> None:
    topic = NewTopic(step["topic"], step["partitions"], config=step["configs"])
    done(administrator().create_topics([topic], operation_timeout=_TIMEOUT_S)[step["topic"]])


def describe(step: Step) -> dict[str, int]:
    try:
        told = administrator().list_topics(step["topic"], timeout=_TIMEOUT_S).topics[step["topic"]]
    except KafkaException as error:
        raise _refused(error) from error
    if told.error is not None:
        raise RefusedError(told.error.name(), told.error.str())
    return {"partitions": len(told.partitions)}


def describe_configs(step: Step) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, step["topic"])
    told = done(administrator().describe_configs([resource])[resource])
    return {name: told[name].value for name in step["names"]}


def alter_configs(step: Step) -> None:
    entries = [
        ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET)
        for name, text in step["configs"].items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, step["topic"], incremental_configs=entries)
    done(administrator().incremental_alter_configs([resource])[resource])


def delete(step: Step) -> None:
    done(administrator().delete_topics([step["topic"]], operation_timeout=_TIMEOUT_S)[step["topic"]])


def create_acl(step: Step) -> None:
    binding = AclBinding(
        ResourceType[step["type"]],
        step["name"],
        ResourcePatternType.LITERAL,
        step["principal"],
        "*",
        AclOperation[step["operation"]],
        AclPermissionType.ALLOW,
    )
    done(administrator().create_acls([binding])[binding])


def produce(step: Step, transactional_id: str | None = None) -> None:
    errors: list[Any] = []
    own: dict[str, Any] = {"transactional.id": transactional_id} if transactional_id else {}
    producer = Producer(
        settings() | {"compression.type": step["codec"], "linger.ms": 100, "message.timeout.ms": 30_000} | own
    )
    producer.poll(0)

    def wait() -> None:
        left = producer.flush(_TIMEOUT_S)
        if errors:
            raise RefusedError(errors[0].name(), errors[0].str())
        if left and _AUTHENTICATION:
            raise RefusedError("SASL_AUTHENTICATION_FAILED", _AUTHENTICATION[0])
        assert left == 0, f"{left} records are not acknowledged"

    try:
        if transactional_id:
            producer.init_transactions(_TIMEOUT_S)
            producer.begin_transaction()
        for number in range(step["count"]):
            producer.produce(
                step["topic"],
                value(step, number),
                key=f"k{number}",
                partition=number % step["partitions"],
                headers=[("codec", step["codec"].encode())],
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        wait()
        if transactional_id:
            (producer.commit_transaction if step["end"] == "commit" else producer.abort_transaction)(
                _TIMEOUT_S
            )
    except KafkaException as error:
        raise _refused(error) from error


def transaction(step: Step) -> None:
    produce(step, step["transactional_id"])


def _record(message: Message) -> list[Any]:
    headers = dict(message.headers() or [])
    return [
        message.partition(),
        message.offset(),
        (message.key() or b"").decode(),
        (message.value() or b"").decode(),
        headers.get("codec", b"").decode(),
    ]


def _taken(consumer: Consumer, step: Step) -> list[list[Any]]:
    records: list[list[Any]] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while len(records) < step["count"]:
        assert time.monotonic() < deadline, f"{len(records)} records came within {_TIMEOUT_S} s"
        if (message := consumer.poll(0.2)) is None:
            if _AUTHENTICATION:
                raise RefusedError("SASL_AUTHENTICATION_FAILED", _AUTHENTICATION[0])
            continue
        if (error := message.error()) is not None:
            raise RefusedError(error.name(), error.str())
        records.append(_record(message))
    return records


def consume(step: Step) -> dict[str, Any]:
    consumer = Consumer(
        settings() | {"group.id": step["group"], "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([step["topic"]])
    try:
        records = _taken(consumer, step)
        ends = {partition: offset + 1 for partition, offset, *_ in records}
        positions = [TopicPartition(step["topic"], *each) for each in ends.items()]
        consumer.commit(offsets=positions, asynchronous=False)
    except KafkaException as error:
        raise _refused(error) from error
    finally:
        consumer.close()
    return {"records": records}


def read(step: Step) -> dict[str, Any]:
    consumer = Consumer(
        settings() | {"group.id": "unused", "isolation.level": step["isolation"], "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(step["topic"], one, 0) for one in range(step["partitions"])])
    try:
        return {"records": _taken(consumer, step)}
    finally:
        consumer.close()


if __name__ == "__main__":
    run(
        {
            one.__name__: one
            for one in (
                *(create, describe, describe_configs, alter_configs, delete, create_acl),
                *(produce, transaction, consume, read),
            )
        },
        ASKED,
    )

"""Tenants of an Apache Kafka that has nothing before it: what a flood does to their neighbour there is the
engine's own doing, and the machine's.

Each is a client id with client quotas, and topics whose names begin with it: what an operator without
instances can do.
"""

import os
from collections.abc import Mapping
from typing import Final, Self

from kio.schema.alter_client_quotas.v0.request import AlterClientQuotasRequest

from contracts.request_time import default_request_percent
from ctl.bench.load import Endpoint, connected
from loadtests.floods import Tenant
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import duration, request_class

_EVERY_TOPIC: Final[dict[str, object]] = {"topics": None, "allow_auto_topic_creation": False}
_BROKERS_PART: Final = 2
"""Half of an instance's request time is its brokers' (`contracts.request_time`)."""


class Direct:
    """One broker, used as a context manager that removes what was made."""

    def __init__(self, host: str, port: int) -> None:
        self._endpoint = Endpoint(port, None, host)
        self._made: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for name in self._made:
            self._remove_topics(f"{name}.")
            self._set(name, dict.fromkeys(self._quotas(0, 0)))

    def tenant(self, name: str, bought: Mapping[str, int]) -> Tenant:
        """One with the quotas of an instance that bought this."""
        unique = f"{name}-{os.getpid()}"
        self._made.append(unique)
        rates = bought["produce_rate_bytes_per_s"], bought["consume_rate_bytes_per_s"]
        self._set(unique, self._quotas(*rates))
        return Tenant(self._endpoint._replace(client_id=unique), f"{unique}.")

    @staticmethod
    def _quotas(produce_bytes_per_s: int, consume_bytes_per_s: int) -> dict[str, float | None]:
        percent = default_request_percent(produce_bytes_per_s, consume_bytes_per_s)
        return {
            "producer_byte_rate": float(produce_bytes_per_s),
            "consumer_byte_rate": float(consume_bytes_per_s),
            "request_percentage": percent / _BROKERS_PART,
        }

    def _set(self, client_id: str, quotas: Mapping[str, float | None]) -> None:
        """Set quotas; None removes one. Raises: RuntimeError."""
        ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()]
        entity = {"entity_type": "client-id", "entity_name": client_id}
        wanted = {"entries": [{"entity": [entity], "ops": ops}]}
        with connected(self._endpoint) as client:
            answer = client.call(build(AlterClientQuotasRequest, wanted))
        refused = [each for each in answer.entries if each.error_code]
        if refused:
            raise RuntimeError(f"quotas of {client_id}: {refused[0].error_message or refused[0].error_code}")

    def _remove_topics(self, prefix: str) -> None:
        with connected(self._endpoint) as client:
            every = client.call(build(request_class(ApiKey.METADATA, 4), _EVERY_TOPIC))
            names = [topic.name for topic in every.topics if topic.name.startswith(prefix)]
            wanted = {"topic_names": names, "timeout": duration(30_000)}
            answer = client.call(build(request_class(ApiKey.DELETE_TOPICS, 3), wanted))
        refused = [each for each in answer.responses if each.error_code]
        if refused:
            raise RuntimeError(f"topic {refused[0].name}: {refused[0].error_code}")

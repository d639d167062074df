"""A transactional producer of version 2 (KIP-890) on a bare connection: what it asks, and with which
epoch."""

from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from tests.integration.broker.raw import RawClient, batch, request
from tests.integration.cluster.brokers import eventually
from wire.batch import TRANSACTIONAL_BIT
from wire.codec import duration

BY_ID_FROM = 13
_PASSING = (ErrorCode.concurrent_transactions, ErrorCode.not_enough_replicas)


class Epoch(NamedTuple):
    """A producer id in one of its epochs."""

    producer_id: int
    producer_epoch: int


class Writer:
    """One transactional id. `epoch` is what the broker has said last; `raw` may lead elsewhere each time."""

    raw: RawClient

    def __init__(self, raw: RawClient | None, transactional_id: str) -> None:
        if raw is not None:
            self.raw = raw
        self.transactional_id = transactional_id
        self.epoch = Epoch(-1, -1)

    def begin(self, timeout_ms: int = 60_000) -> None:
        """InitProducerId, as often as it takes."""
        wanted = request(
            22,
            5,
            transactional_id=self.transactional_id,
            transaction_timeout=duration(timeout_ms),
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = eventually(
            lambda: self.raw.call(wanted),
            lambda found: (
                found.error_code
                not in (
                    ErrorCode.concurrent_transactions,
                    ErrorCode.coordinator_load_in_progress,
                    ErrorCode.coordinator_not_available,
                    ErrorCode.not_coordinator,
                )
            ),
        )
        assert answer.error_code is ErrorCode.none
        self.epoch = Epoch(answer.producer_id, answer.producer_epoch)

    def produce(
        self,
        topic: str | UUID,
        value: bytes,
        *,
        sequence: int = 0,
        epoch: Epoch | None = None,
        indexes: tuple[int, ...] = (0,),
    ) -> list[ErrorCode]:
        """One record for each partition, by the topic's name or id; what is said of each."""
        version = 12 if isinstance(topic, str) else BY_ID_FROM
        called = {"name": topic} if isinstance(topic, str) else {"topic_id": topic}
        records = batch(
            value,
            producer_id=(epoch or self.epoch).producer_id,
            producer_epoch=(epoch or self.epoch).producer_epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )
        partitions = [{"index": index, "records": records} for index in indexes]
        answer = self.raw.call(
            request(
                0,
                version,
                transactional_id=self.transactional_id,
                acks=-1,
                timeout=duration(5_000),
                topic_data=[{**called, "partition_data": partitions}],
            )
        )
        return [one.error_code for one in answer.responses[0].partition_responses]

    def write(self, topic: str | UUID, value: bytes, **more: Any) -> None:
        """The same, again while what may pass has not."""
        errors = eventually(
            lambda: self.produce(topic, value, **more), lambda found: not set(found) & set(_PASSING)
        )
        assert set(errors) == {ErrorCode.none}, errors

    def end_once(self, *, commit: bool, epoch: Epoch | None = None) -> tuple[ErrorCode, Epoch]:
        """EndTxn 5; what is said."""
        answer = self.raw.call(
            request(
                26,
                5,
                transactional_id=self.transactional_id,
                producer_id=(epoch or self.epoch).producer_id,
                producer_epoch=(epoch or self.epoch).producer_epoch,
                committed=commit,
            )
        )
        return answer.error_code, Epoch(answer.producer_id, answer.producer_epoch)

    def end(self, *, commit: bool) -> None:
        """The same, again while it may pass; the writer goes on with what it is told."""
        error, epoch = eventually(
            lambda: self.end_once(commit=commit),
            lambda found: found[0] is not ErrorCode.concurrent_transactions,
        )
        assert error is ErrorCode.none
        self.epoch = epoch

    def commit_offset(self, group_id: str, topic: str, offset: int) -> ErrorCode:
        """TxnOffsetCommit 5 of partition 0."""
        one = {
            "partition_index": 0,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = self.raw.call(
            request(
                28,
                5,
                transactional_id=self.transactional_id,
                group_id=group_id,
                producer_id=self.epoch.producer_id,
                producer_epoch=self.epoch.producer_epoch,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[{"name": topic, "partitions": [one]}],
            )
        )
        error: ErrorCode = answer.topics[0].partitions[0].error_code
        return error

"""Transactions of the simulation: a producer that commits and aborts, a consumer that reads committed."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import kio.schema.add_partitions_to_txn.v1.request as add_partitions_v1
import kio.schema.end_txn.v1.request as end_txn_v1
import kio.schema.find_coordinator.v1.request as find_coordinator_v1
import kio.schema.init_producer_id.v1.request as init_producer_id_v1
import kio.schema.produce.v7.request as produce_v7

from runtime.kafka_client import KafkaUnavailable
from tests.simulation.client import Client, Refused, fetch_request, whole_batches
from wire.batch import Record, build_batch, decode_records, iterate_batches
from wire.codec import duration

_ADD: Any = add_partitions_v1
_END: Any = end_txn_v1
_FIND: Any = find_coordinator_v1
_INIT: Any = init_producer_id_v1
_PRODUCE: Any = produce_v7
_TRANSACTIONAL = 0x10
_TRANSACTION_KEY = 1
_PAUSE_S = 0.05
_READ_PAUSE_S = 0.3
_AGAIN = frozenset({3, 5, 6, 7, 14, 15, 16, 19, 20, 51})
"""What passes by itself: leaders and coordinators that move or load, too few replicas, an earlier end."""


class Transacting:
    """Puts one record into each partition per transaction. `fate` says what became of each record."""

    def __init__(self, client: Client, topic: str, partitions: int, chance: random.Random) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._chance = chance
        self._coordinator: int | None = None
        self.asked_to_commit: set[int] = set()
        """Transactions whose commit was asked for: from then on they may be seen."""
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.begun = 0

    async def run(self, until: Callable[[], bool]) -> None:
        """Begin, fill and end transactions until told to stop."""
        identity: tuple[int, int] | None = None
        sequence = 0
        while not until():
            if identity is None:
                identity, sequence = await self._retried(self._init, until), 0
                continue
            number = self.begun
            self.begun += 1
            commits = self._chance.random() < 0.7
            try:
                await self._fill(identity, sequence, number, until)
                if commits:
                    self.asked_to_commit.add(number)
                ended = await self._retried(lambda who=identity, how=commits: self._end(who, how), until)  # type: ignore[misc]
            except Refused:
                if number not in self.asked_to_commit:
                    self.aborted.add(number)  # fenced or refused before its end: it never commits
                identity = None
                continue
            if ended is None:
                return
            (self.committed if commits else self.aborted).add(number)
            sequence += 1
            await asyncio.sleep(self._chance.expovariate(1 / 0.5))

    async def _fill(
        self, identity: tuple[int, int], sequence: int, number: int, until: Callable[[], bool]
    ) -> None:
        """Raises: Refused."""
        await self._retried(lambda: self._add(identity), until)
        for partition in range(self._partitions):
            await self._retried(lambda at=partition: self._put(identity, sequence, number, at), until)  # type: ignore[misc]

    async def _retried(self, step: Callable[[], Any], until: Callable[[], bool]) -> Any:
        """None when the history is over before it worked. Raises: Refused for good."""
        while not until():
            try:
                return await step()
            except KafkaUnavailable:
                self._coordinator = None
                self._client.forget(self._topic)
            except Refused as refusal:
                if refusal.code not in _AGAIN:
                    raise
                self._coordinator = None
            await asyncio.sleep(_PAUSE_S)
        return None

    async def _ask_coordinator(self, request: Any) -> Any:
        if self._coordinator is None:
            asked = _FIND.FindCoordinatorRequest(key="simulated", key_type=_TRANSACTION_KEY)
            found = await self._client.ask_any(asked)
            _check(int(found.error_code))
            self._coordinator = int(found.port)
        return await self._client.ask(self._coordinator, request)

    async def _init(self) -> tuple[int, int]:
        request = _INIT.InitProducerIdRequest(
            transactional_id="simulated", transaction_timeout=duration(10_000)
        )
        answer = await self._ask_coordinator(request)
        _check(int(answer.error_code))
        return int(answer.producer_id), int(answer.producer_epoch)

    async def _add(self, identity: tuple[int, int]) -> bool:
        topic = _ADD.AddPartitionsToTxnTopic(name=self._topic, partitions=tuple(range(self._partitions)))
        request = _ADD.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="simulated",
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=(topic,),
        )
        answer = await self._ask_coordinator(request)
        for each in answer.results_by_topic_v3_and_below[0].results_by_partition:
            _check(int(each.partition_error_code))
        return True

    async def _put(self, identity: tuple[int, int], sequence: int, number: int, partition: int) -> bool:
        record = Record(0, 1_750_000_000_000, None, f"txn:{number}".encode())
        batch = build_batch(
            [record],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequence,
            attributes=_TRANSACTIONAL,
        )
        part = _PRODUCE.PartitionProduceData(index=partition, records=bytes(batch))
        request = _PRODUCE.ProduceRequest(
            transactional_id="simulated",
            acks=-1,
            timeout=duration(2_000),
            topic_data=(_PRODUCE.TopicProduceData(name=self._topic, partition_data=(part,)),),
        )
        answer = await self._client.ask_leader(self._topic, partition, request)
        code = int(answer.responses[0].partition_responses[0].error_code)
        if code in _AGAIN:
            self._client.forget(self._topic)
        _check(0 if code == 46 else code)
        return True

    async def _end(self, identity: tuple[int, int], commits: bool) -> bool:
        request = _END.EndTxnRequest(
            transactional_id="simulated",
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=commits,
        )
        answer = await self._ask_coordinator(request)
        _check(int(answer.error_code))
        return True


def _check(code: int) -> None:
    if code:
        raise Refused(code)


class ReadingCommitted:
    """Reads one partition as read_committed, dropping aborted transactions as clients do."""

    def __init__(self, client: Client, topic: str, partition: int) -> None:
        self._client = client
        self._topic = topic
        self._partition = partition
        self._offset = 0
        self.seen: list[int] = []
        """Numbers of transactions, in the order of their records."""

    async def run(self, until: Callable[[], bool], saw: Callable[[int], None]) -> None:
        """Read until told to stop."""
        while not until():
            try:
                await self.read(saw)
            except (KafkaUnavailable, Refused):
                self._client.forget(self._topic)
                await asyncio.sleep(_PAUSE_S)
            await asyncio.sleep(_READ_PAUSE_S)

    async def read(self, saw: Callable[[int], None]) -> int:
        """One fetch; how many records were new. Raises: KafkaUnavailable, Refused."""
        request = fetch_request(
            self._topic, self._partition, self._offset, max_wait_ms=100, isolation_level=1
        )
        answer = await self._client.ask_leader(self._topic, self._partition, request)
        _check(int(answer.error_code))
        got = answer.responses[0].partitions[0]
        if int(got.error_code):
            self._client.forget(self._topic)
        _check(int(got.error_code))
        before = len(self.seen)
        self._take(got.records or b"", got.aborted_transactions or (), saw)
        return len(self.seen) - before

    def _take(self, records: bytes, aborted: Any, saw: Callable[[int], None]) -> None:
        beginnings = sorted((int(each.first_offset), int(each.producer_id)) for each in aborted)
        ignored: set[int] = set()
        view = whole_batches(memoryview(records))
        for at, header in iterate_batches(view):
            while beginnings and beginnings[0][0] <= header.last_offset:
                ignored.add(beginnings.pop(0)[1])
            if header.is_control:
                ignored.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in ignored):
                for record in decode_records(header, view[at + 61 : at + header.size_bytes]):
                    if record.offset >= self._offset and (record.value or b"").startswith(b"txn:"):
                        number = int(bytes(record.value or b"").partition(b":")[2])
                        self.seen.append(number)
                        saw(number)
            self._offset = max(self._offset, header.next_offset)

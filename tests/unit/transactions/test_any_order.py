"""A random life of one transactional id: producers that fence each other, of transactions of version 1 and 2,
a log that refuses and dawdles, ids that expire, epochs that are used up, coordinators that fall over, markers
in any order. Everything random comes from one seed."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.transactions.messages import (
    AfterEnd,
    Append,
    EndRequest,
    EndResult,
    InitRequest,
    InitResult,
    Producer,
    SendMarkers,
)
from broker.transactions.records import TransactionRecord
from broker.transactions.state import (
    AT_REST,
    EPOCH_MAX,
    LAST_USABLE_EPOCH,
    State,
    TopicPartition,
    Transaction,
)
from tests.unit.transactions.world import World
from wire.control import BUMPS_EPOCH_FROM

PARTITIONS = [TopicPartition("t", index) for index in range(3)]
_RETRIED = {
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}


class Token:
    """Takes one answer."""

    def __init__(self, life: "Life", then: Callable[[Any], None]) -> None:
        self._life = life
        self._then = then
        self.is_answered = False
        life.waiting.append(self)

    def __call__(self, result: Any) -> None:
        assert not self.is_answered, "answered twice"
        self.is_answered = True
        self._life.waiting.remove(self)
        self._then(result)


class Client:
    """A producer that keeps trying; `producer` is None until it has begun."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.producer: Producer | None = None
        self.is_busy = False
        self.is_fenced = False


class Life:
    """The story of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(id_expiration_ms=15_000)
        self.world.hold = True
        self.clients = [Client(version) for version in (0, BUMPS_EPOCH_FROM, BUMPS_EPOCH_FROM)]
        self.random.shuffle(self.clients)
        self.waiting: list[Token] = []
        self.given: set[Producer] = set()
        self.promised: dict[Producer, bool] = {}
        """What was acknowledged of a producer's newest transaction: whether it commits."""
        self.ended = 0
        self.bumped = 0
        self.exhausted = 0
        if seed % 2:
            self._begin_late()

    def _begin_late(self) -> None:
        """The id has used up nearly all of its epochs before."""
        used = Transaction(
            *(7, LAST_USABLE_EPOCH - 1, 60_000, State.EMPTY, frozenset()),
            last_update_ms=self.world.now.epoch_ms,
        )
        self.world.write(Append(TransactionRecord("t", used), AfterEnd()))
        self.world.fail_over()

    def step(self) -> None:
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, self.act),
            (8, self.release),
            (1, self.refuse),
            (1, self.dawdle),
            (4, self.write_marker),
            (1, self.fail_over),
            (1, lambda: self.world.run(self.world.coordinator.sweep(self.world.now))),
            (1, lambda: self.world.pass_ms(self.random.choice((10, 500, 20_000)))),
        ]
        weights = [weight for weight, _ in actions]
        (chosen,) = self.random.choices([action for _, action in actions], weights)
        chosen()
        self.check()

    # -- clients

    def act(self) -> None:
        idle = [each for each in self.clients if not each.is_busy]
        if not idle:
            return
        client = self.random.choice(idle)
        client.is_busy = True
        if client.producer is None or client.is_fenced:
            what = self.init if self.random.random() < 0.1 or client is self.clients[0] else None
        else:
            what = self.random.choice((self.add, self.end, self.end))
        if what is None:
            client.is_busy = False
        else:
            what(client)

    def init(self, client: Client) -> None:
        def then(result: InitResult) -> None:
            client.is_busy = False
            assert result.error in _RETRIED | {ErrorCode.none}, result
            if result.error is ErrorCode.none:
                assert result.producer not in self.given, "an epoch is given once"
                self.given.add(result.producer)
                client.producer, client.is_fenced = result.producer, False

        request = InitRequest("t", 60_000, None)
        self.world.run(self.world.coordinator.init(request, Token(self, then), self.world.now))

    def add(self, client: Client) -> None:
        producer = client.producer
        assert producer is not None

        # Whatever the answer, it may begin another transaction.
        self.promised.pop(producer, None)
        wanted = frozenset(self.random.sample(PARTITIONS, self.random.randint(1, 3)))
        token = Token(self, lambda error: self._learn(client, error))
        core = self.world.coordinator
        self.world.run(core.add_partitions("t", producer, wanted, token, self.world.now, client.version))

    def end(self, client: Client) -> None:
        producer, commit = client.producer, self.random.random() < 0.6
        assert producer is not None
        if client.version == BUMPS_EPOCH_FROM:
            self.end_with_bump(client, producer, commit)
            return

        def then(error: ErrorCode) -> None:
            self._learn(client, error)
            if error is ErrorCode.none:
                assert self.promised.get(producer, commit) is commit, "one end per transaction"
                self.promised[producer] = commit

        token = Token(self, then)
        self.world.run(self.world.coordinator.end("t", producer, commit, token, self.world.now))

    def end_with_bump(self, client: Client, producer: Producer, commit: bool) -> None:
        def then(result: EndResult) -> None:
            self._learn(client, result.error)
            if result.error is not ErrorCode.none:
                return
            successor = result.producer
            if successor.producer_id == producer.producer_id:
                assert successor.producer_epoch == producer.producer_epoch + 1
            else:
                assert (producer.producer_epoch, successor.producer_epoch) == (LAST_USABLE_EPOCH, 0)
                self.exhausted += 1
            assert successor.producer_epoch < EPOCH_MAX, "the last epoch is nobody's"
            assert successor not in self.given, "an epoch is given once"
            self.given.add(successor)
            self.promised[successor] = commit
            client.producer = successor
            self.bumped += 1

        core = self.world.coordinator
        request = EndRequest("t", producer, commit)
        self.world.run(core.end_with_bump(request, Token(self, then), self.world.now))

    def _learn(self, client: Client, error: ErrorCode) -> None:
        client.is_busy = False
        assert not client.is_fenced or error is not ErrorCode.none, "who is fenced stays so"
        if error in (ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping):
            client.is_fenced = True
        else:
            assert error in _RETRIED | {ErrorCode.none, ErrorCode.invalid_txn_state}, error

    # -- the log and the markers

    def release(self) -> None:
        if self.world.held:
            self.world.release()

    def refuse(self) -> None:
        if self.world.held:
            self.world.refuse(ErrorCode.not_enough_replicas)

    def dawdle(self) -> None:
        if self.world.held:
            self.world.let_wait()

    def write_marker(self) -> None:
        """One of any command, also an old one; a partition may get its marker twice."""
        if not self.world.markers:
            return
        sent = self.random.choice(self.world.markers)
        self._check_marker(sent)
        written = [self.random.choice(sorted(sent.partitions))]
        core = self.world.coordinator
        self.world.run(core.markers_written("t", sent.producer, written, self.world.now))

    def _check_marker(self, sent: SendMarkers) -> None:
        described = self.world.coordinator.known.describe("t")
        if described is not None and described.producer == sent.producer and sent is self.world.markers[-1]:
            promised = self.promised.get(sent.producer)
            assert promised in (None, sent.is_commit), "what was promised is done"

    def fail_over(self) -> None:
        """Some of what was on its way is in the log all the same, from the front."""
        survivors = self.random.randint(0, len(self.world.held))
        for append in self.world.held[:survivors]:
            self.world.write(append)
        self.world.fail_over()

    # -- what always holds

    def check(self) -> None:
        described = self.world.coordinator.known.describe("t")
        if described is None:
            return
        if described.state in AT_REST:
            assert not described.partitions
        if described.state is State.ONGOING:
            assert described.partitions
        promised = self.promised.get(described.producer)
        ended = {State.COMPLETE_COMMIT: True, State.COMPLETE_ABORT: False}.get(described.state)
        if promised is not None and ended is not None:
            assert ended is promised, "a transaction ends as it was promised"
            self.ended += 1

    def settle(self) -> None:
        """Nothing fails any more: everyone is answered, and the transaction ends."""
        for _ in range(20):
            while self.world.held:
                self.world.release()
            self.world.pass_ms(60_000)
            if self.world.markers:
                sent = self.world.markers[-1]
                core = self.world.coordinator
                self.world.run(core.markers_written("t", sent.producer, sent.partitions, self.world.now))
        assert not self.waiting, "parked for ever"
        described = self.world.coordinator.known.describe("t")
        assert described is None or described.state in AT_REST


@pytest.mark.parametrize("block", range(5))
def test_a_random_life(block: int) -> None:
    ended = bumped = exhausted = 0
    for seed in range(40 * block, 40 * block + 40):
        life = Life(seed)
        try:
            for _ in range(500):
                life.step()
            life.settle()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        ended += life.ended
        bumped += life.bumped
        exhausted += life.exhausted
    assert min(ended, bumped) > 50 and exhausted > 0, "the lives are eventful"

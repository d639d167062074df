"""Who works when in the scanning process, on a clock that counts records."""

import pytest
from kio.schema.errors import ErrorCode

from broker.scanning import jobs
from broker.scanning.bench import BEGUN_MAX, Bench
from broker.scanning.messages import (
    Answer,
    CheckRecords,
    Convert,
    Converted,
    Failed,
    Refused,
    Request,
    Right,
)
from wire.batch import Record, encode_records, parse_header
from wire.compression import compress
from wire.legacy.message_set import write_message


def _check(
    count: int, *, codec: int = 0, payload: bytes | None = None, bytes_max: int = 1 << 25
) -> CheckRecords:
    plain = encode_records([Record(0, 0, b"k", b"v")] * count) if payload is None else payload
    return CheckRecords(compress(plain, codec), codec, count, needs_keys=True, bytes_max=bytes_max)


class _World:
    """A bench whose steps cost a millisecond each, by a clock that moves while they run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[Answer] = []
        self.now_ns = 0
        self.bench = Bench(lambda: self.now_ns, self.answers.append)
        begin = jobs.begun

        def begun(job: CheckRecords) -> jobs.Steps:
            steps = begin(job)
            while True:
                self.now_ns += 1_000_000
                try:
                    next(steps)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                yield

        monkeypatch.setattr("broker.scanning.bench.begun", begun)

    def run(self, *, until: int) -> int:
        """Until the job of this number is answered; after how many steps."""
        steps = 0
        while all(answer.number != until for answer in self.answers):
            self.bench.run_step()
            steps += 1
        return steps

    def run_all(self) -> None:
        while self.bench.is_busy:
            self.bench.run_step()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> _World:
    return _World(monkeypatch)


def test_a_small_job_waits_for_a_turn_not_for_a_large_job(world: _World) -> None:
    for number in range(20):
        world.bench.take(Request(number, "greedy", _check(50_000)))
    for _ in range(10):
        world.bench.run_step()
    world.bench.take(Request(100, "polite", _check(100)))
    assert world.run(until=100) <= 8, "of the 1,000 steps that the other has asked for"
    assert not any(isinstance(answer.result, Failed) for answer in world.answers)


def test_those_that_always_have_work_get_the_same(world: _World) -> None:
    for number in range(30):
        world.bench.take(Request(number, "ab"[number % 2], _check(20_000 if number % 2 else 1_000)))
    world.run(until=14)
    spent = {"a": 0, "b": 0}
    for answer in world.answers:
        spent["ab"[answer.number % 2]] += answer.steps
    assert abs(spent["a"] - spent["b"]) <= 25, "one job of the larger kind"


def test_one_job_of_an_instance_at_a_time_and_few_in_all(world: _World) -> None:
    """What begun jobs hold in memory is bounded, however many instances there are."""
    for number in range(3 * BEGUN_MAX):
        world.bench.take(Request(2 * number, f"i{number}", _check(5_000)))
        world.bench.take(Request(2 * number + 1, f"i{number}", _check(5_000)))
    most = 0
    while world.bench.is_busy:
        world.bench.run_step()
        most = max(most, world.bench.begun)
    assert most == BEGUN_MAX
    assert sorted(answer.number for answer in world.answers) == list(range(6 * BEGUN_MAX))
    order = {answer.number: place for place, answer in enumerate(world.answers)}
    assert all(order[2 * number] < order[2 * number + 1] for number in range(3 * BEGUN_MAX))


def test_a_debt_is_remembered(world: _World) -> None:
    """Asking for one job at a time, each when the last has its answer, buys nothing."""
    world.bench.take(Request(0, "greedy", _check(50_000)))
    world.run(until=0)
    world.bench.take(Request(1, "greedy", _check(50_000)))
    world.bench.take(Request(2, "polite", _check(100)))
    assert world.run(until=2) <= 4


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_what_jobs_find(world: _World, codec: int) -> None:
    keyless = encode_records([Record(0, 0, None if number == 7 else b"k", b"v") for number in range(1_500)])
    world.bench.take(Request(0, "", _check(1_500, codec=codec)))
    world.bench.take(Request(1, "", _check(1_500, codec=codec, payload=keyless)))
    world.bench.take(Request(2, "", _check(1_501, codec=codec, payload=keyless)))
    world.bench.take(Request(3, "", _check(1, codec=codec, payload=bytes(2_000_000), bytes_max=1_000_000)))
    world.run_all()
    found = {answer.number: answer.result for answer in world.answers}
    assert found[0] == Right()
    assert isinstance(found[1], Refused) and found[1].record_indexes == (7,)
    assert isinstance(found[2], Refused) and found[2].error_code == ErrorCode.invalid_record.value
    expected = ErrorCode.message_too_large if codec else ErrorCode.invalid_record
    assert isinstance(found[3], Refused) and found[3].error_code == expected.value


def test_bytes_that_do_not_decompress_are_invalid(world: _World) -> None:
    for codec in (1, 2, 3, 4):
        world.bench.take(Request(codec, "", CheckRecords(b"\x17" * 50, codec, 1, True, 1 << 20)))
    world.run_all()
    assert [answer.result.error_code for answer in world.answers if isinstance(answer.result, Refused)] == [
        ErrorCode.invalid_record.value
    ] * 4


def test_messages_of_old_clients_become_a_batch(world: _World) -> None:
    one = write_message(1, 0, 5, b"k", b"v")
    keyless = write_message(1, 0, 6, None, b"v")
    world.bench.take(Request(0, "", Convert(one * 3, needs_keys=True)))
    world.bench.take(Request(1, "", Convert(one + keyless, needs_keys=True)))
    world.bench.take(Request(2, "", Convert(one[:-1], needs_keys=False)))
    world.run_all()
    found = {answer.number: answer.result for answer in world.answers}
    assert isinstance(found[0], Converted) and parse_header(found[0].records).record_count == 3
    assert isinstance(found[1], Refused) and found[1].record_indexes == (1,)
    assert isinstance(found[2], Refused) and found[2].error_code == ErrorCode.corrupt_message.value

"""What a client's answers are worth: by the records, as somebody else reads them and as they are stored."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.clients.contract import CODECS, PARTITIONS, Answer, Record, records
from wire.batch import iterate_batches

HELD: Final = ""
_PADDING: Final = "x" * 100
Written = tuple[str, str, str]
"""Key, value and header of one record."""


def written(codec: str, prefix: str, count: int) -> dict[int, list[Written]]:
    """What a step to produce has to leave behind, by partition, in order."""
    left: dict[int, list[Written]] = {one: [] for one in range(PARTITIONS)}
    for number in range(count):
        left[number % PARTITIONS].append((f"k{number}", f"{prefix}-{number}-{_PADDING}", codec))
    return left


def joined(*parts: Mapping[int, Sequence[Written]]) -> dict[int, list[Written]]:
    """One behind the other."""
    return {one: [each for part in parts for each in part[one]] for one in range(PARTITIONS)}


def unlike(found: Iterable[Record], wanted: Mapping[int, Sequence[Written]]) -> str:
    """How records differ from those wanted: in number, order, or what is in them."""
    came: dict[int, list[Written]] = {one: [] for one in wanted}
    offsets: dict[int, int] = {}
    for one in found:
        if one.offset <= offsets.get(one.partition, -1):
            return f"offset {one.offset} of partition {one.partition} came behind {offsets[one.partition]}"
        offsets[one.partition] = one.offset
        came.setdefault(one.partition, []).append((one.key, one.value, one.header))
    for partition, those in came.items():
        if those != list(wanted.get(partition, [])):
            return f"partition {partition} has {_short(those)}, not {_short(wanted.get(partition, []))}"
    return HELD


def _short(some: Sequence[Written]) -> str:
    ends = (some[0], some[-1]) if some else ()
    return f"{len(some)} records ({', '.join(f'{key} {value[:24]} {header}' for key, value, header in ends)})"


def answered(answer: Answer) -> str:
    """What a client says that it could not do."""
    if answer.lacks is not None:
        return f"lacks {answer.lacks}"
    return HELD if answer.error is None else f"{answer.error}: {answer.text}"


def stored_codecs(replicas: Iterable[Path]) -> tuple[set[str], int]:
    """The codecs of the batches that one partition has in its log, and how many records those hold: of the
    replica that has most, which is the leader's if no other."""
    logs = [b"".join(one.read_bytes() for one in sorted(each.glob("*.log"))) for each in replicas]
    headers = [header for _, header in iterate_batches(max(logs, key=len))]
    data = [one for one in headers if not one.is_control]
    return {CODECS[one.codec] for one in data}, sum(one.record_count for one in data)


def consumed(
    answers: Sequence[Answer], counts: Sequence[int], given: Mapping[int, Sequence[Written]]
) -> list[str]:
    """What is to be said of each process of one group: it took what none before it had committed."""
    verdicts: list[str] = []
    taken = dict.fromkeys(given, 0)
    for answer, count in zip(answers, counts, strict=True):
        wrong = answered(answer)
        if not wrong:
            came = records(answer)
            ends = dict(taken)
            for one in came:
                ends[one.partition] += 1
            wanted = {one: given[one][taken[one] : ends[one]] for one in given}
            wrong = unlike(came, wanted) or (
                "" if len(came) == count else f"{len(came)} records, not {count}"
            )
            taken = ends
        verdicts.append(wrong)
    return verdicts

"""Every API in its most expensive shapes: how long one request holds the loop of a gateway and of a broker.

CPU time, not wall time: other processes on the machine are not the request's doing.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctl.bench.one_loop import Pair, metered, running_pair
from ctl.bench.request_shapes import Shape, largest_request
from gateway.apis import APIS

TOPICS = 300
_SETTLE_S = 0.05
_LOOKS = 3
"""At each request; the least counts, as the interpreter's own collections fall into some."""


def run(rounds: int, megabytes: int, note: Callable[[str], None]) -> dict[str, object]:
    """The longest turn in ms by API, shape and process."""
    del rounds, megabytes
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_measure(Path(directory), note))


async def _measure(directory: Path, note: Callable[[str], None]) -> dict[str, object]:
    results: dict[str, object] = {}
    async with running_pair(directory, TOPICS) as pair:
        gc.collect()
        gc.freeze()  # as the processes do at their start
        for key, row in APIS.items():
            found = {}
            for shape in Shape:
                request = largest_request(key, row.versions.highest, shape, pair.topics)
                if request is not None:
                    looks = [await _longest(pair, request) for _ in range(_LOOKS)]
                    found[shape.name.lower()] = {
                        whose: min(look[whose] for look in looks) for whose in looks[0]
                    }
            results[row.key.name] = found
            note(row.key.name)
    return results


async def _longest(pair: Pair, request: Any) -> dict[str, float]:
    with metered(_cpu_ms) as turns:
        await pair.answer(request)
        await asyncio.sleep(_SETTLE_S)
    return {
        whose: max((turn.cost for turn in turns if turn.whose == whose), default=0.0)
        for whose in ("gateway", "broker")
    }


def _cpu_ms(work: Callable[[], None]) -> float:
    started = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - started) / 1e6

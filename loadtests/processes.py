"""What the processes of a stack of this machine use: memory, CPU time, descriptors, sampled during a run."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import gevent

from ctl.bench.measure import cpu_seconds, rss_bytes
from ctl.stack.layout import Layout
from loadtests.report import Series

_PERIOD_S: Final = 0.5


class Sample(NamedTuple):
    """One process at one time."""

    at_s: float
    rss_bytes: int
    cpu_s: float
    descriptors: int


class Watch:
    """Samples every process of a stack in the background. Without a data directory there are none to see."""

    def __init__(self, data_dir: Path | None) -> None:
        self._data_dir = data_dir
        self._began_s = time.monotonic()
        self.samples: dict[str, list[Sample]] = {}
        """Samples by process, such as `brokers-0`, and its pid: one that was started again is another."""
        self._sampling = gevent.spawn(self._sample_for_ever)

    def stop(self) -> None:
        """Take the last sample."""
        self._sampling.kill()
        self._sample()

    def _sample_for_ever(self) -> None:
        while True:
            self._sample()
            gevent.sleep(_PERIOD_S)

    def _sample(self) -> None:
        if self._data_dir is None:
            return
        pids = json.loads(Layout(self._data_dir).stack_file.read_text())["pids"]
        for group, running in pids.items():
            for number, pid in enumerate(running):
                try:
                    sample = Sample(
                        time.monotonic() - self._began_s,
                        rss_bytes(pid),
                        cpu_seconds(pid),
                        len(list(Path(f"/proc/{pid}/fd").iterdir())),
                    )
                except OSError:
                    continue  # it has just ended
                self.samples.setdefault(f"{group}-{number} ({pid})", []).append(sample)

    def cpu_s(self) -> float:
        """CPU time of all processes together, over the run."""
        return sum(samples[-1].cpu_s - samples[0].cpu_s for samples in self.samples.values())

    def growth(self, what: str) -> float:
        """How much more of `rss_bytes` or `descriptors` a process holds at the end than after a quarter
        of the run, when caches are warm: of the one that has grown most, as a ratio. 1.0: none has."""
        grown = [1.0]
        for samples in self.samples.values():
            warm = samples[len(samples) // 4]
            grown.append(getattr(samples[-1], what) / max(1, getattr(warm, what)))
        return max(grown)

    def memory(self) -> list[Series]:
        """MB over time."""
        return self._series(lambda one: one.rss_bytes / 1e6)

    def descriptors(self) -> list[Series]:
        """How many are open, over time."""
        return self._series(lambda one: float(one.descriptors))

    def _series(self, figure: Callable[[Sample], float]) -> list[Series]:
        return [
            Series(name, [(one.at_s, figure(one)) for one in samples])
            for name, samples in sorted(self.samples.items())
        ]

"""Histories by hand: `python -m tests.simulation FIRST [COUNT] [--seconds S] [--events FILE]`.

Prints how many hours of the cluster's life one hour of this machine is worth; `--events` keeps all that
happened in the last history.
"""

import argparse
import shutil
import time
from pathlib import Path

from contracts import invariants
from tests.simulation.world import memory_directory, simulate


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--events", type=Path)
    asked = parser.parse_args()
    invariants.are_checked = True
    lived_s, faults, began_s = 0.0, 0, time.process_time()
    for seed in range(asked.first, asked.first + asked.count):
        directory = memory_directory()
        try:
            world = simulate(seed, directory, asked.seconds)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        lived_s += world.loop.time()
        faults += world.faults
        if asked.events is not None:
            asked.events.write_text("\n".join(world.events))
    took_s = time.process_time() - began_s
    print(
        f"{asked.count} histories, {faults} faults: {lived_s:.0f} s of a cluster in {took_s:.1f} s: "
        f"{lived_s / took_s:.0f} cluster-hours per hour"
    )


if __name__ == "__main__":
    main()

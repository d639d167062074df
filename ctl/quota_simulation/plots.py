"""One SVG per scenario: what was delivered in sum, and what each broker was allotted, under each policy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ctl.quota_simulation.table import Line

NEEDED: Final = "matplotlib"
_BROKERS_SHOWN: Final = 6


def is_possible() -> bool:
    """Whether the library that draws is installed."""
    try:
        import matplotlib  # noqa: F401 - only whether it is there
    except ImportError:
        return False
    return True


def draw(lines: Sequence[Line], directory: Path) -> list[Path]:
    """Write the plots; `is_possible` was asked before."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "portico"  # the same figures make the same file
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for scenario in dict.fromkeys(line.scenario for line in lines):
        shown = [line for line in lines if line.scenario == scenario]
        figure, axes = pyplot.subplots(
            len(shown), 2, figsize=(11, 2.4 * len(shown)), sharex=True, sharey="col", squeeze=False
        )
        figure.suptitle(scenario)
        for row, line in zip(axes, shown, strict=True):
            _draw_line(row, line)
        for axis in axes[-1]:
            axis.set_xlabel("round")
        figure.tight_layout()
        path = directory / f"{scenario}.svg"
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
        written.append(path)
    return written


def _draw_line(row: Any, line: Line) -> None:
    delivered, allocated = row
    rounds = range(len(line.record.rounds))
    brokers = range(min(_BROKERS_SHOWN, len(line.record.rounds[0].delivered)))
    delivered.set_ylabel(f"{line.policy}\n/ T")
    delivered.plot(rounds, [sum(each.delivered) for each in line.record.rounds], color="black", label="sum")
    for index in brokers:
        delivered.plot(rounds, [each.delivered[index] for each in line.record.rounds], linewidth=0.8)
        allocated.plot(
            rounds,
            [each.allocated[index] for each in line.record.rounds],
            linewidth=0.8,
            drawstyle="steps-post",
            label=f"broker {index + 1}",
        )
    delivered.axhline(1, color="gray", linewidth=0.5, linestyle="dotted")
    delivered.set_title("delivered", fontsize=8)
    allocated.set_title("q", fontsize=8)
    allocated.legend(fontsize=6, loc="upper right", ncols=2)

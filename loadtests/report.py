"""A report directory: figures as JSON, plots as PNG, and one page that shows both with the verdict."""

import html
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import matplotlib

from loadtests.bounds import Figure, Verdict

matplotlib.use("Agg")
from matplotlib import pyplot

FIGURES_FILE: Final = "figures.json"
PAGE_FILE: Final = "report.html"
_SIZE_INCHES: Final = (9.0, 3.6)
_STYLE: Final = """\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24}
table{border-collapse:collapse;margin:1rem 0}
td,th{padding:.2rem .8rem;border-bottom:1px solid #ddd;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums}img{max-width:100%}
.pass{color:#116329}.fail{color:#a40e26;font-weight:600}"""


class Series(NamedTuple):
    """Points of one line, or of one cloud where `dots`."""

    label: str
    points: Sequence[tuple[float, float]]
    dots: bool = False


class Plot(NamedTuple):
    """One picture; `name` is that of its file."""

    name: str
    title: str
    x: str
    y: str
    series: Sequence[Series]
    shaded: Sequence[tuple[float, float]] = ()
    """Stretches of x, such as while a flood is on."""
    log_y: bool = False


class Outcome(NamedTuple):
    """What a scenario has to tell."""

    title: str
    figures: Sequence[Figure]
    plots: Sequence[Plot] = ()
    lines: Sequence[str] = ()
    """For people, as printed."""
    details: Mapping[str, Any] = {}
    """For whoever wants to look closer: kept as JSON."""


class Heading(NamedTuple):
    """What a run was."""

    name: str
    options: Mapping[str, Any]
    context: Mapping[str, Any]


def write(directory: Path, heading: Heading, outcome: Outcome, verdict: Verdict) -> Path:
    """Write everything; returns the page."""
    directory.mkdir(parents=True, exist_ok=True)
    for plot in outcome.plots:
        _draw(plot, directory / f"{plot.name}.png")
    content = {
        "scenario": heading.name,
        "passes": verdict.passes,
        "options": dict(heading.options),
        "context": dict(heading.context),
        "figures": {figure.name: _number(figure.value) for figure in outcome.figures},
        "verdict": [
            {
                "figure": row.figure,
                "value": _number(row.value),
                "bound": {side: limit for side, limit in row.bound._asdict().items() if limit is not None},
                "source": row.source,
                "holds": row.holds,
            }
            for row in verdict.rows
        ],
        "details": dict(outcome.details),
    }
    (directory / FIGURES_FILE).write_text(json.dumps(content, indent=2) + "\n")
    page = directory / PAGE_FILE
    page.write_text(_page(heading, outcome, verdict))
    return page


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _draw(plot: Plot, path: Path) -> None:
    figure, axes = pyplot.subplots(figsize=_SIZE_INCHES, layout="constrained")
    for start, end in plot.shaded:
        axes.axvspan(start, end, color="#f3d9b1", alpha=0.5, linewidth=0)
    for series in plot.series:
        xs, ys = [x for x, _ in series.points], [y for _, y in series.points]
        axes.plot(xs, ys, "." if series.dots else "-o", markersize=3, label=series.label)
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    if plot.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if plot.series:
        axes.legend(frameon=False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _page(heading: Heading, outcome: Outcome, verdict: Verdict) -> str:
    word, style = ("passed", "pass") if verdict.passes else ("failed", "fail")
    rows = [
        (row.figure, shown(row.value), str(row.bound), row.source, "holds" if row.holds else "does not hold")
        for row in verdict.rows
    ]
    figures = [(figure.name, shown(figure.value)) for figure in outcome.figures]
    facts = [(name, str(value)) for name, value in (*heading.context.items(), *heading.options.items())]
    pictures = "".join(
        f'<h2>{html.escape(plot.title)}</h2><img src="{plot.name}.png" alt="{html.escape(plot.title)}">'
        for plot in outcome.plots
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(heading.name)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(outcome.title)}</h1>"
        f'<p class="{style}">Verdict: {word}</p>'
        + _table(("figure", "measured", "bound", "of", ""), rows)
        + "".join(f"<p>{html.escape(note)}</p>" for note in verdict.notes)
        + pictures
        + f"<h2>Figures</h2>{_table(('figure', 'measured'), figures)}"
        + f"<pre>{html.escape(chr(10).join(outcome.lines))}</pre>"
        + f"<h2>The run</h2>{_table(('what', ''), facts)}</html>\n"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{html.escape(each)}</th>" for each in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(each)}</td>" for each in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"


def shown(value: float) -> str:
    """A value for people."""
    if math.isnan(value):
        return "not measured"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def print_outcome(outcome: Outcome, verdict: Verdict) -> None:
    """What the terminal shows."""
    print(f"\n{outcome.title}")
    for line in outcome.lines:
        print(line)
    width = max((len(row.figure) for row in verdict.rows), default=0)
    for row in verdict.rows:
        word = "holds" if row.holds else "DOES NOT HOLD"
        print(f"  {row.figure:<{width}}  {shown(row.value):>12}  {row.bound!s:<12} {word} ({row.source})")
    for note in verdict.notes:
        print(f"  {note}")
    if not verdict.rows:
        print("  held to no bound: --update-baseline keeps this run's figures as one")
    print(f"verdict: {'passed' if verdict.passes else 'FAILED'}")

"""The daily report of an instance's activity: Markdown, HTML and pictures."""

import html
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
from markdown_it import MarkdownIt

from pipeline.activity import pictures
from pipeline.activity.figures import Figures, read_figures
from pipeline.layout import PipelineLayout

_ROWS_MAX: Final = 25
_CELL_LENGTH_MAX: Final = 80
_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;color:#1f2933;max-width:62rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.25rem 1rem .25rem 0;text-align:left;"
    "border-bottom:1px solid #e4e7eb}img{max-width:100%}h2{margin-top:2rem}"
)


class Section(NamedTuple):
    """A heading with a picture, a table or both."""

    title: str
    picture: Path | None
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    empty: str = "Nothing."


def report(layout: PipelineLayout, instance_id: str, start_us: int | None = None) -> list[Path]:
    """Write the report of a day, by default the last 24 hours of activity; the text first, then its pictures.

    Raises: PipelineError when there is no activity.
    """
    found = read_figures(layout, instance_id, start_us)
    folder = layout.reports / f"activity-{instance_id}"
    folder.mkdir(parents=True, exist_ok=True)
    sections = _sections(found, folder)
    title = f"Activity of {instance_id}"
    period = f"{_moment(found.start_us)} to {_moment(found.end_us)} UTC"
    texts = {
        "report.md": as_markdown(title, period, sections),
        "report.html": as_html(title, period, sections),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    drawn = [section.picture for section in sections if section.picture is not None]
    return [*(folder / name for name in texts), *drawn]


def _sections(found: Figures, folder: Path) -> list[Section]:
    totals = [(name, f"{value:,}") for name, value in found.totals.items()]
    day = (pd.Timestamp(found.start_us, unit="us"), pd.Timestamp(found.end_us, unit="us"))
    sections = [Section("The day in numbers", None, ("", ""), totals)]
    if len(found.views):
        drawn = pictures.views_per_minute(found.views, day, folder / "views_per_minute.png")
        sections.append(Section("Page views", drawn, (), ()))
        drawn = pictures.ranking(found.pages, folder / "ranking.png")
        rows = [(f"{rank}", page, f"{views:,}") for rank, (page, views) in _ranked(found.pages)]
        sections.append(Section("Ranking", drawn, ("rank", "page", "views"), rows))
    if len(found.alerts):
        drawn = pictures.alerts_timeline(found.alerts, day, folder / "abuse_alerts.png")
        sections.append(
            Section(
                "Abuse",
                drawn,
                ("rule", "source", "windows", "most attempts", "from", "to"),
                _abusers(found.alerts),
            )
        )
    if len(found.minutes):
        drawn = pictures.operations(found.minutes, found.incidents, day, folder / "operations.png")
        columns = ("rule", "service", "opened", "resolved", "worst", "limit")
        sections.append(Section("Operations", drawn, columns, _incidents(found.incidents), "No incident."))
    if len(found.errors):
        rows = [
            (row.topic, row.error, f"{row.records:,}") for row in found.errors.head(_ROWS_MAX).itertuples()
        ]
        sections.append(Section("Dead letters", None, ("topic", "error", "records"), rows))
    return sections


def _ranked(pages: pd.DataFrame) -> Iterable[tuple[int, tuple[str, int]]]:
    return enumerate(zip(pages["page"], pages["views"], strict=True), start=1)


def _abusers(alerts: pd.DataFrame) -> list[tuple[str, ...]]:
    by_source = alerts.groupby(["rule", "source"], as_index=False).agg(
        windows=("attempts", "size"),
        most=("attempts", "max"),
        first=("window_start", "min"),
        last=("window_end", "max"),
    )
    worst = by_source.sort_values(["most", "rule", "source"], ascending=[False, True, True]).head(_ROWS_MAX)
    return [
        (row.rule, row.source, f"{row.windows}", f"{row.most}", _time(row.first), _time(row.last))
        for row in worst.itertuples()
    ]


def _incidents(incidents: pd.DataFrame) -> list[tuple[str, ...]]:
    return [
        (
            row.rule,
            row.service,
            _time(row.opened_at),
            "still open" if pd.isna(row.resolved_at) else _time(row.resolved_at),
            f"{row.worst:g}",
            f"{row.limit:g}",
        )
        for row in incidents.head(_ROWS_MAX).itertuples()
    ]


def as_markdown(title: str, period: str, sections: Sequence[Section]) -> str:
    """The report for a terminal or a repository."""
    lines = [f"# {_markdown_cell(title)}", "", period, ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        if section.picture is not None:
            lines += [f"![{section.title}]({section.picture.name})", ""]
        if section.columns:
            lines += _markdown_table(section)
    return "\n".join(lines)


def _markdown_table(section: Section) -> list[str]:
    if not section.rows:
        return [section.empty, ""]
    rows = [section.columns, ["---"] * len(section.columns)]
    rows += [[_markdown_cell(cell) for cell in row] for row in section.rows]
    return [*(f"| {' | '.join(row)} |" for row in rows), ""]


def _markdown_cell(text: str) -> str:
    """Text of a stranger as text: no markup, no line break, not endless."""
    return re.sub(r"([\\`*_{}\[\]<>#|!~$&])", r"\\\1", _short(text))


def as_html(title: str, period: str, sections: Sequence[Section]) -> str:
    """The report for a browser, beside its pictures."""
    body = (
        MarkdownIt("commonmark", {"html": False}).enable("table").render(as_markdown(title, period, sections))
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><body>{body}</body></html>"
    )


def _short(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= _CELL_LENGTH_MAX else shown[: _CELL_LENGTH_MAX - 1] + "…"


def _moment(us: int) -> str:
    return datetime.fromtimestamp(us / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M")


def _time(moment: Any) -> str:
    return str(pd.Timestamp(moment).strftime("%Y-%m-%d %H:%M"))

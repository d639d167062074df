"""The daily report of an instance's activity: Markdown, HTML and pictures."""

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

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


_NO_INCIDENT: Final = pd.DataFrame(columns=["rule", "service", "opened_at", "resolved_at", "worst", "limit"])


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
    period = " to ".join(_cell(pd.Timestamp(us, unit="us")) for us in (found.start_us, found.end_us)) + " UTC"
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
    frames = found.frames
    if "views" in frames:
        drawn = pictures.views_per_minute(frames["views"], day, folder / "views_per_minute.png")
        sections.append(Section("Page views", drawn, (), ()))
        drawn = pictures.ranking(frames["ranking"], folder / "ranking.png")
        sections.append(Section("Ranking", drawn, *_table(frames["ranking"])))
    if "alerts" in frames:
        drawn = pictures.alerts_timeline(frames["alerts"], day, folder / "abuse_alerts.png")
        sections.append(Section("Abuse", drawn, *_table(frames["abusers"])))
    if "minutes" in frames:
        incidents = frames.get("incidents", _NO_INCIDENT)
        drawn = pictures.operations(frames["minutes"], incidents, day, folder / "operations.png")
        named = incidents.rename(columns={"opened_at": "opened", "resolved_at": "resolved"})
        sections.append(Section("Operations", drawn, *_table(named), "No incident."))
    if "errors" in frames:
        sections.append(Section("Dead letters", None, *_table(frames["errors"])))
    return sections


def _table(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Names of columns, and the first rows as people read them."""
    rows = frame.head(_ROWS_MAX).itertuples(index=False)
    return list(frame.columns), [[_cell(value) for value in row] for row in rows]


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    if value is pd.NaT:
        return "still open"
    return f"{value:%Y-%m-%d %H:%M}" if isinstance(value, pd.Timestamp) else str(value)


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
    return re.sub(r"([\\`*_{}\[\]<>#|!~$&])", r"\\\1", pictures.short(text, _CELL_LENGTH_MAX))


def as_html(title: str, period: str, sections: Sequence[Section]) -> str:
    """The report for a browser, beside its pictures."""
    body = (
        MarkdownIt("commonmark", {"html": False}).enable("table").render(as_markdown(title, period, sections))
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><body>{body}</body></html>"
    )

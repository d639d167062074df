"""Pictures of a day of activity, with matplotlib, as PNG files."""

from pathlib import Path
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter
from matplotlib.figure import Figure

INK: Final = "#1f2933"
QUIET: Final = "#9aa5b1"
BLUE: Final = "#2563eb"
RED: Final = "#dc2626"
Day = tuple[pd.Timestamp, pd.Timestamp]
"""Its two ends."""
COLORS: Final = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#db2777", "#0891b2", "#65a30d", "#475569")
_SIZE: Final = (10.0, 4.0)
_LABEL_LENGTH_MAX: Final = 40


def short(text: object, length_max: int) -> str:
    """Text of a stranger: printable, and not endless."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in str(text))
    return shown if len(shown) <= length_max else shown[: length_max - 1] + "…"


def label(text: object) -> str:
    """A name as a picture shows it: short, and no formula."""
    return short(text, _LABEL_LENGTH_MAX).replace("$", "\\$")


def views_per_minute(views: pd.DataFrame, day: Day, path: Path) -> Path:
    """Page views of every minute, and their mean over half an hour."""
    figure, axes = _canvas("Page views per minute")
    by_minute = views.set_index("minute")["views"].asfreq("min", fill_value=0)
    axes.fill_between(by_minute.index, by_minute.to_numpy(), color=BLUE, alpha=0.18, linewidth=0)
    axes.plot(
        by_minute.index, by_minute.rolling(30, min_periods=1, center=True).mean(), color=BLUE, linewidth=2
    )
    axes.set_ylim(bottom=0)
    _time_axis(axes, day)
    return _saved(figure, path)


def ranking(pages: pd.DataFrame, path: Path) -> Path:
    """The most viewed pages as bars, the first on top."""
    figure, axes = _canvas("Most viewed pages", height=0.6 + 0.36 * max(3, len(pages)))
    names = [label(page) for page in pages["page"]]
    places = range(len(names), 0, -1)
    axes.barh(places, pages["views"], color=BLUE, height=0.7)
    axes.set_yticks(list(places), names)
    for place, views in zip(places, pages["views"], strict=True):
        axes.text(views, place, f" {views:,}", va="center", color=INK, fontsize=9)
    axes.margins(x=0.1)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.grid(visible=False)
    return _saved(figure, path)


def alerts_timeline(alerts: pd.DataFrame, day: Day, path: Path) -> Path:
    """Attempts of every abusive source in the windows that told of it, and the rules' thresholds."""
    totals = alerts.groupby(["rule", "source"])["attempts"].max().sort_values(ascending=False)
    shown = list(totals.index[: len(COLORS)])
    title = "Abuse: attempts in windows with an alert"
    if len(totals) > len(shown):
        title += f" (the worst {len(shown)} of {len(totals)} sources)"
    figure, axes = _canvas(title)
    for color, (rule, source) in zip(COLORS, shown, strict=False):
        of_source = alerts[(alerts["rule"] == rule) & (alerts["source"] == source)]
        moments, attempts = of_source["window_end"], of_source["attempts"]
        axes.vlines(moments, 0, attempts, color=color, linewidth=2, alpha=0.5)
        axes.scatter(moments, attempts, s=22, color=color, label=f"{rule} {label(source)}", zorder=3)
    for rule, threshold in alerts.groupby("rule")["threshold"].max().items():
        axes.axhline(threshold, color=QUIET, linewidth=1, linestyle="--")
        axes.text(day[0], threshold, f" {rule}: {threshold}", color=QUIET, fontsize=8, va="bottom")
    axes.set_ylim(0, 1.25 * totals.iloc[0])  # room for the names
    axes.legend(loc="upper left", frameon=False, ncols=4, fontsize=9)
    _time_axis(axes, day)
    return _saved(figure, path)


def operations(minutes: pd.DataFrame, incidents: pd.DataFrame, day: Day, path: Path) -> Path:
    """Error rate and p99 latency of the services, with their incidents shaded."""
    figure = Figure(figsize=(_SIZE[0], 6.0), dpi=120, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    worst = minutes.groupby("service")["errors"].sum().sort_values(ascending=False)
    for color, service in zip(COLORS, sorted(worst.index[: len(COLORS)]), strict=False):
        of_service = minutes[minutes["service"] == service].set_index("minute")
        above.plot(
            of_service.index, 100 * of_service["error_rate"], color=color, linewidth=1, label=label(service)
        )
        below.plot(of_service.index, of_service["p99_ms"], color=color, linewidth=1)
    for axes, title, rule in (
        (above, "Errors, % of requests per minute", "error_rate"),
        (below, "Latency p99 per minute, ms", "latency_p99"),
    ):
        _plain(axes, title)
        axes.set_ylim(bottom=0)
        for incident in incidents[incidents["rule"] == rule].itertuples():
            end = minutes["minute"].max() if pd.isna(incident.resolved_at) else incident.resolved_at
            axes.axvspan(incident.opened_at, end, color=RED, alpha=0.12, linewidth=0)
    above.legend(loc="upper left", frameon=False, ncols=4, fontsize=9)
    _time_axis(below, day)
    return _saved(figure, path)


def _canvas(title: str, height: float = _SIZE[1]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_SIZE[0], height), dpi=120, layout="constrained")
    axes = figure.subplots()
    _plain(axes, title)
    return figure, axes


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=12, fontweight="bold")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    axes.grid(axis="y", color="#e4e7eb", linewidth=0.8)
    axes.set_axisbelow(True)


def _time_axis(axes: Axes, day: Day) -> None:
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M"))
    axes.set_xlim(*day)
    axes.set_xlabel("UTC", color=QUIET, loc="right", fontsize=9)


def _saved(figure: Any, path: Path) -> Path:
    figure.savefig(path)
    return path

"""Series as a Prometheus has them: which, when and how it is asked, what it says. Pure (ADR 90)."""

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from contracts.names import SYSTEM_INSTANCE_ID
from tenants.rules.series import (
    COARSE_BLOCK_MS,
    COARSE_KEPT_MS,
    DEPLOYMENT,
    METRICS,
    REST,
    STEP_MS,
    Columns,
    Kind,
    Span,
    step_of,
)

SPAN_MS_MAX: Final = 366 * 86_400_000
"""What may be asked for at once where there is a Prometheus."""
ANSWER_MS_MAX: Final = 5_000
"""What is waited for an answer of the Prometheus that series are read from, and what it is told to spend."""
ANSWER_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of an answer of that Prometheus; twice what 12 measures of 1,500 points take."""
UNDER_WAY_MAX: Final = 16
"""Questions that wait for its answer at once."""
UNDER_WAY_MAX_PER_TENANT: Final = 3
"""Of one tenant."""
_MEASURE: Final = "portico_measure"
_LOOKS: Final = 12
"""Into a step, at most."""
_PLACES: Final = re.compile(r"\b(OF|NAME|RAW|LOOKS)\b")
_NAME_CHARACTERS_MAX: Final = 200
"""Longer names are cut in labels."""
_VALUE_MAX: Final = 2**63 - 1


class Source(StrEnum):
    """Where all points of an answer are from."""

    RECORDED = "recorded"
    """The control plane's own database."""
    PROMETHEUS = "prometheus"


class Note(StrEnum):
    """Why an answer is not what it might be."""

    AWAY = "prometheus_away"
    """It did not answer in time, or not as it should."""
    BUSY = "prometheus_busy"
    """Too many questions wait for it."""
    LACKS = "prometheus_lacks"
    """It has no such series."""
    KNOWS_LESS = "prometheus_knows_less"
    """It has points of a smaller part of this time than are recorded."""
    INCOMPLETE = "prometheus_incomplete"
    """The answer is Prometheus', which warns that something is missing."""


class Told(NamedTuple):
    """An answer."""

    columns: Columns
    is_complete: bool


def _rate(direction: str, more: str = "") -> str:
    of = f'portico_quota_rate_bytes_per_second{{OF,direction="{direction}"{more}}}'
    return f"sum(max by (node) (avg_over_time({of}[RAW])))"


def _throttled(direction: str, more: str = "") -> str:
    of = f'portico_quota_throttled_ratio{{OF,direction="{direction}"{more}}}'
    return f"1000 * avg_over_time(max({of})[LOOKS])"


def _largest(metric: str, more: str = "") -> str:
    return f"max(max_over_time(portico_quota_{metric}{{OF{more}}}[RAW]))"


_INSTANCE: Final = {
    "produce_bytes_per_s": _rate("produce"),
    "consume_bytes_per_s": _rate("consume"),
    "cpu_us_per_s": "1e6 * sum(max by (point) (avg_over_time(portico_quota_cpu_rate_cores{OF}[RAW])))",
    "produce_throttled_ms_per_s": _throttled("produce"),
    "consume_throttled_ms_per_s": _throttled("consume"),
    "cpu_throttled_ms_per_s": "1000 * avg_over_time(max(portico_quota_cpu_throttled_ratio{OF})[LOOKS])",
    "stored_bytes": _largest("stored_bytes"),
    "capacity_bytes": _largest("capacity_bytes"),
    "produce_bought_bytes_per_s": _largest("purchased_bytes_per_second", ',direction="produce"'),
    "consume_bought_bytes_per_s": _largest("purchased_bytes_per_second", ',direction="consume"'),
    "connections": "max_over_time(sum(portico_gateway_connections{OF})[LOOKS])",
    "blocked": _largest("blocked"),
}
_BROKER: Final = {
    "produce_bytes_per_s": _rate("produce", ",node=NAME"),
    "consume_bytes_per_s": _rate("consume", ",node=NAME"),
    "produce_throttled_ms_per_s": _throttled("produce", ",node=NAME"),
    "consume_throttled_ms_per_s": _throttled("consume", ",node=NAME"),
}
_GROUP: Final = {
    "lag_records": "max_over_time(sum(max by (topic) (portico_group_lag_records{OF,group=NAME}))[LOOKS])"
}
EXPRESSIONS: Final[Mapping[Kind, Mapping[str, str]]] = MappingProxyType(
    {Kind.INSTANCE: _INSTANCE, Kind.BROKER: _BROKER, Kind.GROUP: _GROUP}
)
"""By kind, which measures of an instance are in Prometheus, and how. OF stands for the instance, NAME for the
series' name, RAW for a step, LOOKS for a step that is looked into several times: where several series are to
be one before it is known what is largest. `max by` what tells series apart makes one of those that two
control processes tell, one after the other."""


def has_series(owner: str, kind: Kind, name: str) -> bool:
    """Whether a Prometheus may have a series. Of the deployment it has none that is certainly ours, as it may
    have several deployments, and of the system instance neither: each has one of the same id."""
    if owner in (DEPLOYMENT, SYSTEM_INSTANCE_ID) or kind not in EXPRESSIONS:
        return False
    if kind is Kind.INSTANCE:
        return name == REST
    return name != REST and len(name) <= _NAME_CHARACTERS_MAX and _is_text(name)


def is_wanted(kind: Kind, recorded: Span, finest: Span, now_ms: int) -> bool:
    """Whether a span is one to ask Prometheus for: it begins before what is recorded, or only there it may
    have the step that `finest` has, and nothing that is recorded is missing there."""
    if recorded.from_ms < now_ms - (COARSE_KEPT_MS - COARSE_BLOCK_MS):
        return True
    return finest.step_ms < recorded.step_ms and len(EXPRESSIONS.get(kind, ())) == len(METRICS[kind])


def knows_less(told: Columns, told_step_ms: int, recorded: Columns, recorded_step_ms: int) -> bool:
    """Whether a Prometheus has points of a smaller part of a time than were recorded: a step at each end may
    be cut."""
    step_ms = max(told_step_ms, recorded_step_ms)
    parts, other = ({step_of(at_ms, step_ms) for at_ms in found} for found in (told, recorded))
    return len(parts) < max(1, len(other) - 2)


# --- asking -----------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A string of PromQL. Raises: ValueError for what is no text."""
    if not _is_text(text):
        raise ValueError("half a character is no text")
    return '"' + "".join(_escaped(each) for each in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if " " <= character <= "~" else f"\\U{ord(character):08x}"


def _is_text(name: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in name)


def form_of(owner: str, kind: Kind, name: str, span: Span) -> dict[str, str]:
    """What is posted: all measures of a series in one question.

    A step of ours tells of the time from its beginning on, one of Prometheus of the time until its end.
    """
    assert has_series(owner, kind, name)
    names = {"OF": f"instance={quoted(owner)}", "NAME": quoted(name)}
    asked = [
        f'label_replace({_filled(expression, names | _within(span.step_ms))},"{_MEASURE}","{measure}","","")'
        for measure, expression in EXPRESSIONS[kind].items()
    ]
    times = list(span.times())
    return {
        "query": " or ".join(asked),
        "start": _seconds(times[0] + span.step_ms - 1),
        "end": _seconds(times[-1] + span.step_ms - 1),
        "step": _seconds(span.step_ms),
        "timeout": f"{ANSWER_MS_MAX}ms",
    }


def _filled(expression: str, names: Mapping[str, str]) -> str:
    """Each place once, whatever stands in what is put there."""
    return _PLACES.sub(lambda place: names[place[0]], expression)


def _within(step_ms: int) -> dict[str, str]:
    """How a step is read. Of the shortest, which may be shorter than the time between two scrapes, the last
    value that is known."""
    step_s, least_s = step_ms // 1000, STEP_MS // 1000
    looks = f"{step_s}s:{max(least_s, step_s // _LOOKS)}s"
    return {"RAW": looks if step_ms == STEP_MS else f"{step_s}s", "LOOKS": looks}


def _seconds(at_ms: int) -> str:
    return f"{at_ms // 1000}.{at_ms % 1000:03}"


# --- its answer -------------------------------------------------------------------------------------


class _Line(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _Matrix(msgspec.Struct, tag_field="resultType", tag="matrix"):
    result: list[_Line]


class _Said(msgspec.Struct, tag_field="status", tag="success"):
    data: _Matrix
    warnings: list[str] | None = None


_SAID: Final = msgspec.json.Decoder(_Said)


def told_by(answer: bytes, kind: Kind, span: Span) -> Told:
    """The points of an answer. Raises: ValueError for what is none to this question."""
    try:
        said = _SAID.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no answer of Prometheus: {error}"[:200]) from error
    places = {metric.name: place for place, metric in enumerate(METRICS[kind])}
    times = set(span.times())
    seen: set[str] = set()
    found: Columns = {}
    for line in said.data.result:
        measure = line.metric.get(_MEASURE, "")
        if len(line.metric) != 1 or measure not in EXPRESSIONS[kind] or measure in seen:
            raise ValueError("it tells of what was not asked for")
        seen.add(measure)
        for at_s, text in line.values:
            at_ms = _at_ms(at_s) - span.step_ms + 1
            if at_ms not in times:
                raise ValueError("its steps are not those that were asked for")
            if (value := _value(text)) is not None:
                found.setdefault(at_ms, [None] * len(places))[places[measure]] = value
    return Told({at_ms: found[at_ms] for at_ms in sorted(found)}, not said.warnings)


def _at_ms(at_s: float) -> int:
    if not math.isfinite(at_s):
        raise ValueError("its steps are not those that were asked for")
    return round(at_s * 1000)


def _value(text: str) -> int | None:
    """Raises: ValueError."""
    value = float(text)
    return round(value) if 0 <= value <= _VALUE_MAX else None

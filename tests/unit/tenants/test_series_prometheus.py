"""Series of a Prometheus: what it is asked, what its answers say, and when it is asked at all."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.names import SYSTEM_INSTANCE_ID
from tenants.rules.prometheus_url import parse_prometheus_url
from tenants.rules.series import DEPLOYMENT, METRICS, POINTS_MAX, STEP_MS, Kind, Span, span_of, with_step
from tenants.rules.series_prometheus import (
    EXPRESSIONS,
    SPAN_MS_MAX,
    Told,
    form_of,
    has_series,
    is_wanted,
    knows_less,
    quoted,
    told_by,
)

_DAY_MS = 86_400_000
_NOW_MS = 1_795_000_000_000
_ID = "iabcdefghijk"
_SPAN = Span(7_200_000, 3 * 7_200_000, 7_200_000)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\"), max_size=50))
def test_a_name_is_one_string_whatever_is_in_it(name: str) -> None:
    text = quoted(name)
    assert _STRING.fullmatch(text)
    plain = re.sub(r'\\"', '"', text)
    assert re.sub(r"\\U([0-9a-f]{8})", lambda found: chr(int(found[1], 16)), plain)[1:-1] == name


def test_quotes_and_backslashes_end_no_string() -> None:
    assert quoted('a"} or up{b="\\') == r'"a\"} or up{b=\"\\"'
    assert quoted("\n") == r'"\U0000000a"'
    assert quoted("消") == r'"\U00006d88"'
    with pytest.raises(ValueError, match="half a character"):
        quoted("\ud800")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_whatever_a_group_is_called_only_its_instance_is_asked_for(name: str) -> None:
    query = form_of(_ID, Kind.GROUP, name, _SPAN)["query"]
    skeleton = _STRING.sub("S", query)
    assert skeleton == (
        "label_replace(max_over_time(sum(max by (topic) (portico_group_lag_records{instance=S,group=S}))"
        "[7200s:600s]),S,S,S,S)"
    )
    assert _STRING.findall(query)[:2] == [f'"{_ID}"', quoted(name)]


def test_places_within_names_are_left_alone() -> None:
    query = form_of(_ID, Kind.GROUP, "OF NAME RAW LOOKS", _SPAN)["query"]
    assert f'{{instance="{_ID}",group="OF NAME RAW LOOKS"}}' in query


@pytest.mark.parametrize("kind", list(EXPRESSIONS))
@pytest.mark.parametrize("step_ms", [STEP_MS, 300_000, 86_400_000])
def test_every_selector_names_the_instance(kind: Kind, step_ms: int) -> None:
    name = "" if kind is Kind.INSTANCE else "7"
    query = form_of(_ID, kind, name, Span(0, 5 * step_ms, step_ms))["query"]
    selectors = re.findall(r"portico_[a-z_]+\{([^}]*)\}", query)
    assert len(selectors) == len(EXPRESSIONS[kind]) == query.count("label_replace(")
    assert all(each.startswith(f'instance="{_ID}"') for each in selectors)
    assert kind is Kind.INSTANCE or all('="7"' in each for each in selectors)
    assert not re.search(r"\b(OF|NAME|RAW|LOOKS)\b", query)
    assert set(EXPRESSIONS[kind]) <= {metric.name for metric in METRICS[kind]}


def test_steps_of_prometheus_end_where_ours_do() -> None:
    form = form_of(_ID, Kind.BROKER, "1", _SPAN)
    assert (form["start"], form["end"], form["step"]) == ("14399.999", "21599.999", "7200.000")


def test_the_shortest_step_takes_the_last_known_value() -> None:
    query = form_of(_ID, Kind.BROKER, "1", Span(0, STEP_MS, STEP_MS))["query"]
    assert query.count("[15s:15s]") == 4
    assert "[300s]" in form_of(_ID, Kind.BROKER, "1", Span(0, 300_000, 300_000))["query"]


@pytest.mark.parametrize(
    ("owner", "kind", "name", "has"),
    [
        (_ID, Kind.INSTANCE, "", True),
        (_ID, Kind.INSTANCE, "x", False),
        (_ID, Kind.BROKER, "1", True),
        (_ID, Kind.BROKER, "", False),
        (_ID, Kind.GROUP, "g", True),
        (_ID, Kind.GROUP, "", False),
        (_ID, Kind.GROUP, "g" * 201, False),
        (_ID, Kind.GROUP, "\ud800", False),
        (_ID, Kind.TOPIC, "t", False),
        (_ID, Kind.CLIENT, "c", False),
        (DEPLOYMENT, Kind.FLEET, "", False),
        (DEPLOYMENT, Kind.BROKER, "1", False),
        (SYSTEM_INSTANCE_ID, Kind.INSTANCE, "", False),
    ],
)
def test_which_series_there_are(owner: str, kind: Kind, name: str, has: bool) -> None:
    assert has_series(owner, kind, name) is has


@pytest.mark.parametrize(
    ("age_ms", "length_ms", "kind", "wanted"),
    [
        (0, 3_600_000, Kind.INSTANCE, False),
        (0, 7 * _DAY_MS, Kind.INSTANCE, False),
        (0, 30 * _DAY_MS, Kind.INSTANCE, False),
        (0, 30 * _DAY_MS, Kind.TOPIC, False),
        (0, 90 * _DAY_MS, Kind.TOPIC, True),
        (40 * _DAY_MS, 3_600_000, Kind.GROUP, True),
        (3 * _DAY_MS, 3_600_000, Kind.INSTANCE, True),  # 15 s instead of five minutes
        (3 * _DAY_MS, 3_600_000, Kind.GROUP, False),  # but not without the lag in time
        (3 * _DAY_MS, 3_600_000, Kind.CLIENT, False),
    ],
)
def test_when_it_is_asked(age_ms: int, length_ms: int, kind: Kind, wanted: bool) -> None:
    to_ms = _NOW_MS - age_ms
    recorded = span_of(to_ms - length_ms, to_ms, _NOW_MS, POINTS_MAX, SPAN_MS_MAX)
    assert isinstance(recorded, Span)
    finest = with_step(recorded.from_ms, recorded.to_ms, POINTS_MAX)
    assert is_wanted(kind, recorded, finest, _NOW_MS) is wanted


def test_what_knows_less_of_a_time() -> None:
    fine, coarse = 15_000, 300_000
    whole = {at_ms: [1] for at_ms in range(0, 3_600_000, fine)}
    kept = {at_ms: [1] for at_ms in range(0, 3_600_000, coarse)}
    assert not knows_less(whole, fine, kept, coarse)
    assert not knows_less({at: whole[at] for at in whole if at >= coarse}, fine, kept, coarse)
    assert knows_less({at: whole[at] for at in whole if at >= 1_800_000}, fine, kept, coarse)
    assert knows_less({}, fine, kept, coarse)
    assert knows_less({}, fine, {}, coarse)
    assert not knows_less(whole, fine, {}, coarse)


# --- answers ----------------------------------------------------------------------------------------


def answer(*lines: object, **more: object) -> bytes:
    data = {"resultType": "matrix", "result": list(lines)}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def line(measure: str, *values: tuple[object, object]) -> dict[str, object]:
    return {"metric": {"portico_measure": measure}, "values": list(values)}


def test_points_come_back_at_the_beginning_of_their_steps() -> None:
    said = answer(
        line("produce_bytes_per_s", (14399.999, "10.6"), (21599.999, "20")),
        line("consume_throttled_ms_per_s", (21599.999, "3")),
    )
    assert told_by(said, Kind.BROKER, _SPAN) == Told(
        {
            7_200_000: [11, None, None, None, None, None, None],
            14_400_000: [20, None, None, 3, None, None, None],
        },
        True,
    )


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1e300"])
def test_what_is_no_number_of_ours_is_unknown(value: str) -> None:
    assert told_by(answer(line("lag_records", (14399.999, value))), Kind.GROUP, _SPAN).columns == {}


def test_a_warning_makes_an_answer_incomplete() -> None:
    assert not told_by(answer(warnings=["a store is away"]), Kind.GROUP, _SPAN).is_complete
    assert told_by(answer(warnings=None, infos=["x"]), Kind.GROUP, _SPAN).is_complete


_GOOD = line("lag_records", (14399.999, "1"))


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"status":"error","error":"x"}',
        b'{"status":"success","data":{"resultType":"vector","result":[]}}',
        answer(_GOOD, _GOOD),
        answer(line("lag_ms", (14399.999, "1"))),
        answer({"metric": {"portico_measure": "lag_records", "instance": "iother"}, "values": []}),
        answer({"metric": {}, "values": []}),
        answer(line("lag_records", (14400, "1"))),
        answer(line("lag_records", (1e300, "1"))),
        answer(line("lag_records", (14399.999, "one"))),
        answer(line("lag_records", (14399.999, 1))),
        answer(line("lag_records", ("14399.999", "1"))),
    ],
)
def test_what_is_no_answer_is_refused(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        told_by(said, Kind.GROUP, _SPAN)


@given(st.binary(max_size=300))
def test_garbage_is_refused(said: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        told_by(said, Kind.INSTANCE, _SPAN)


# --- where it is ------------------------------------------------------------------------------------


def test_a_url_and_who_asks() -> None:
    url = parse_prometheus_url("https://ops:p%40ss@prometheus.example.com:9090/prefix/")
    assert url.range_url == "https://prometheus.example.com:9090/prefix/api/v1/query_range"
    assert url.authorization == "Basic b3BzOnBAc3M="
    assert "p%40ss" not in f"{url} {url!r}"
    assert parse_prometheus_url("http://[::1]:9090").range_url == "http://[::1]:9090/api/v1/query_range"
    assert parse_prometheus_url("http://prometheus").authorization is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prometheus:9090",
        "ftp://prometheus",
        "http://",
        "http://prometheus:0",
        "http://prometheus:x",
        "http://prometheus/?a=b",
        "http://prometheus/#a",
        "http://prome theus",
        "http://prométheus",
        "http://[::1",
        "http://" + "p" * 1_024,
    ],
)
def test_what_is_no_url_of_one(text: str) -> None:
    with pytest.raises(ValueError, match="the URL of a Prometheus is") as caught:
        parse_prometheus_url(text)
    assert not text or text not in str(caught.value)

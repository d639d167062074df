"""Histograms of hot paths: what is observed is what is told, and what it costs is bounded."""

import dis

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from runtime.durations import BOUNDS_S, durations, family, observe


@given(st.lists(st.integers(0, 2**62) | st.integers(0, 20_000_000_000)))
def test_buckets_sum_and_count_are_those_of_the_durations(seen_ns: list[int]) -> None:
    seen = durations()
    for each in seen_ns:
        observe(seen, each)
    samples = family("portico_x_seconds", "x", ["api"], [(["fetch"], seen)]).samples
    if not seen_ns:
        assert samples == []
        return
    by_bound = {each.labels["le"]: each.value for each in samples if each.name.endswith("_bucket")}
    for bound_s in BOUNDS_S:
        assert by_bound[str(bound_s)] == sum(each < round(bound_s * 1e9) for each in seen_ns)
    assert by_bound["+Inf"] == len(seen_ns)
    (total,) = (each.value for each in samples if each.name.endswith("_sum"))
    assert total == sum(seen_ns) / 1e9


def test_prometheus_reads_them() -> None:
    seen = durations()
    observe(seen, 3_000_000)

    class Told:
        def collect(self) -> list[object]:
            return [
                family("portico_x_seconds", "x", ["api"], [(["fetch"], seen), (["produce"], durations())])
            ]

    registry = CollectorRegistry()
    registry.register(Told())  # type: ignore[arg-type]
    (read,) = text_string_to_metric_families(generate_latest(registry).decode())
    assert read.type == "histogram"
    assert {each.labels["api"] for each in read.samples} == {"fetch"}


def test_an_observation_allocates_nothing_and_loops_over_nothing() -> None:
    made = [each.opname for each in dis.get_instructions(observe)]
    assert not any(name.startswith(("BUILD_", "MAKE_", "FOR_ITER", "GET_ITER")) for name in made)
    assert len(made) < 40

"""How a run of Apache's tests is read and held against the list."""

from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

from tests.foreign.apache.suite import (
    CLIENTS_LIST,
    STREAMS_LIST,
    Outcome,
    Verdict,
    at_the_control,
    complaints,
    listed,
    outcomes,
    passed_at_the_control,
    share_of_the_control,
)

_SHARE_MIN: Final = 0.95

_REPORT: Final = """<testsuite>
<testcase name="testA(ClusterInstance)[1]" classname="org.apache.kafka.clients.admin.FirstTest"/>
<testcase name="testA(ClusterInstance)[2]" classname="org.apache.kafka.clients.admin.FirstTest">
<skipped>org.opentest4j.TestAbortedException: Assumption failed: the same test runs as KRAFT</skipped>
</testcase>
<testcase name="testB(ClusterInstance)[1]" classname="org.apache.kafka.clients.admin.FirstTest">
<skipped>org.opentest4j.TestAbortedException: Assumption failed: needs a broker in this JVM
\tat some.Place</skipped></testcase>
<testcase name="testC()" classname="org.apache.kafka.clients.SecondTest">
<failure message="m" type="t">java.lang.AssertionError: 1 is not 2
\tat some.Place</failure></testcase>
<testcase name="testD()" classname="org.apache.kafka.clients.SecondTest">
<failure message="m" type="t">java.lang.AssertionError: after 15000 ms
\tat some.Place
Caused by: org.opentest4j.TestAbortedException: needs a broker in this JVM
\tat some.Place</failure></testcase>
<testcase name="verifyStore(boolean, String)[7]" classname="org.apache.IQv2StoreIntegrationTest">
<system-out><![CDATA[
unique-id: [engine:junit-jupiter]/[class:IQv2StoreIntegrationTest]/[test-template-invocation:#7]
display-name: [7] cache=true, kind=DSL
]]></system-out></testcase>
</testsuite>"""


def test_a_report_is_read_by_test() -> None:
    assert outcomes(ElementTree.fromstring(_REPORT)) == {
        "FirstTest.testA[1]": Outcome(Verdict.PASSES),
        "FirstTest.testB[1]": Outcome(Verdict.NOT_APPLICABLE, "needs a broker in this JVM"),
        "SecondTest.testC": Outcome(Verdict.DIFFERS, "java.lang.AssertionError: 1 is not 2"),
        "SecondTest.testD": Outcome(Verdict.NOT_APPLICABLE, "needs a broker in this JVM"),
        "IQv2StoreIntegrationTest.verifyStore[cache=true, kind=DSL]": Outcome(Verdict.PASSES),
    }


@pytest.mark.parametrize(
    ("said", "came"),
    [
        (Verdict.PASSES, Verdict.DIFFERS),
        (Verdict.PASSES, Verdict.NOT_APPLICABLE),
        (Verdict.DIFFERS, Verdict.PASSES),
        (Verdict.DIFFERS, Verdict.NOT_APPLICABLE),
        (Verdict.NOT_APPLICABLE, Verdict.PASSES),
        (Verdict.BY_CHANCE, Verdict.NOT_APPLICABLE),
        (Verdict.BY_CHANCE, None),
        (Verdict.PASSES, None),
        (None, Verdict.PASSES),
    ],
)
def test_what_came_otherwise_is_told(said: Verdict | None, came: Verdict | None) -> None:
    before = {} if said is None else {"T.test[1]": Outcome(said, "why")}
    after = {} if came is None else {"T.test[1]": Outcome(came, "now")}
    told = complaints(before, after)
    assert len(told) == 1
    assert told[0].startswith("T.test[1] is ")


def test_what_came_as_listed_is_not(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(
        'passes = ["T.a[1]"]\n'
        '[[differs]]\nwhy = "one"\ntests = ["T.b[1]"]\n'
        '[[not_applicable]]\nwhy = "two"\ntests = ["T.c[1]", "T.d[1]"]\n'
    )
    said = listed(path)
    assert said["T.d[1]"] == Outcome(Verdict.NOT_APPLICABLE, "two")
    assert (
        complaints(said, {test: Outcome(one.verdict, "another reason") for test, one in said.items()}) == []
    )


@pytest.mark.parametrize("came", [Verdict.PASSES, Verdict.DIFFERS])
def test_what_chance_decides_may_pass_or_fail(came: Verdict) -> None:
    said = {"T.test[1]": Outcome(Verdict.BY_CHANCE, "why")}
    assert complaints(said, {"T.test[1]": Outcome(came, "now")}) == []


def test_a_test_stands_in_the_list_once(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text(
        'passes = ["T.a[1]"]\nnot_applicable = []\n[[differs]]\nwhy = "one"\ntests = ["T.a[1]"]\n'
    )
    with pytest.raises(AssertionError, match="twice"):
        listed(path)


@pytest.mark.parametrize(("suite", "path"), [("clients", CLIENTS_LIST), ("streams", STREAMS_LIST)])
def test_what_passes_at_an_apache_kafka_passes_at_a_vport(suite: str, path: Path) -> None:
    """Of the lists that are checked in, which the tier `apache` holds against what comes."""
    said, control = listed(path), passed_at_the_control(suite)
    assert control <= said.keys(), "what passes at the control is listed"
    assert share_of_the_control(said, control) >= _SHARE_MIN


def test_the_share_leaves_out_what_is_not_offered() -> None:
    said = {
        "T.a": Outcome(Verdict.PASSES),
        "T.b": Outcome(Verdict.DIFFERS),
        "T.c": Outcome(Verdict.BY_CHANCE),
        "T.d": Outcome(Verdict.NOT_APPLICABLE),
        "T.e": Outcome(Verdict.PASSES),
    }
    assert share_of_the_control(said, frozenset({"T.a", "T.b", "T.c", "T.d"})) == 1 / 3
    assert {
        test: outcome.verdict for test, outcome in at_the_control(said, frozenset({"T.a", "T.b"})).items()
    } == {
        "T.a": Verdict.PASSES,
        "T.b": Verdict.PASSES,
        "T.c": Verdict.BY_CHANCE,
        "T.d": Verdict.NOT_APPLICABLE,
        "T.e": Verdict.BY_CHANCE,
    }

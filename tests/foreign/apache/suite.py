"""Apache Kafka's own integration tests of its clients, run against a cluster that is there already.

Kafka's tests start brokers in their own JVM, through one class. The class of ours that stands in front of it
(`java/`) hands them a bootstrap address instead; they are those of the jar, as Apache compiled them.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from ctl.bench.apache_kafka import kafka_cluster
from ctl.kafka.cluster import Wish
from ctl.kafka.jars import DEFAULT_VERSION, java_program
from tests.foreign.maven import COMPILER, KAFKA, SIMPLE_LOGGER, Artifact, class_path, compile_classes, library

_HERE: Final = Path(__file__).parent
CLIENTS_LIST: Final = _HERE / "clients.toml"
STREAMS_LIST: Final = _HERE / "streams.toml"
_CONTROL: Final = _HERE / "control.toml"
_JUPITER: Final = "5.13.1"
_PLATFORM: Final = "1.13.1"
_THREADS: Final = "-Djava.util.concurrent.ForkJoinPool.common.parallelism=4"
"""On two CPUs a test's future would have a thread of its own, which counts as one that it leaves behind."""
_TEST_TIMEOUT_S: Final = 120
RUN_TIMEOUT_S: Final = 3 * 3600
_LACKING: Final = re.compile(r"Caused by: org\.opentest4j\.TestAbortedException: (.*)")
_AGAIN: Final = "the same test runs as KRAFT"
_SHUFFLED: Final = frozenset({"IQv2StoreIntegrationTest.verifyStore"})
"""Tests whose arguments come in another order each time, so that their numbers say nothing."""
_ARGUMENTS: Final = re.compile(r"^display-name: \[\d+\] (.*)$", re.MULTILINE)
_LAUNCHER: Final = (
    Artifact(KAFKA, "kafka-test-common-runtime"),
    Artifact(KAFKA, "kafka_2.13"),
    Artifact(KAFKA, "kafka_2.13", classifier="test"),
    Artifact(KAFKA, "kafka-clients"),
    Artifact(KAFKA, "kafka-clients", classifier="test"),
    Artifact(KAFKA, "kafka-server-common", classifier="test"),
    Artifact("org.junit.jupiter", "junit-jupiter", _JUPITER),
    Artifact("org.junit.platform", "junit-platform-console", _PLATFORM),
    COMPILER,
)


def _left_out_classes() -> list[str]:
    groups = tomllib.loads(STREAMS_LIST.read_text())["left_out"]
    return [name for group in groups for name in group["classes"]]


class Suite(NamedTuple):
    """Tests of one jar. `sources` stands in front of it; `classes` are JUnit's patterns of what is run."""

    jar: str
    sources: Path
    artifacts: tuple[Artifact, ...]
    classes: tuple[str, ...]


CLIENTS: Final = Suite(
    "kafka-clients-integration-tests",
    _HERE / "java",
    _LAUNCHER,
    (r"--exclude-classname=.*\.(ShareConsumer|SaslPlain|ConsumerBounce|ClientRebootstrap)\w*(\$.*)?",),
)
"""Not of share groups, which are not offered; of another listener; of brokers that are stopped."""
STREAMS: Final = Suite(
    "kafka-streams-integration-tests",
    _HERE / "streams_java",
    (
        *_LAUNCHER,
        Artifact(KAFKA, "kafka-streams"),
        Artifact(KAFKA, "kafka-streams", classifier="test"),
        Artifact(KAFKA, "kafka-streams-scala_2.13"),
        Artifact(KAFKA, "kafka-streams-test-utils"),
        Artifact(KAFKA, "kafka-tools"),
        Artifact("org.hamcrest", "hamcrest", "3.0"),
        Artifact("org.mockito", "mockito-junit-jupiter", "5.14.2"),
        SIMPLE_LOGGER,
    ),
    (
        r"--include-classname=.*\.\w+Test",
        rf"--exclude-classname=.*\.({'|'.join(_left_out_classes())})(Integration)?Test",
    ),
)
"""All but the classes that its list leaves out, and those inside others, which set brokers' properties."""


class Verdict(Enum):
    """What a test came to, and what the list says of it."""

    PASSES = "passes"
    DIFFERS = "differs"
    NOT_APPLICABLE = "not_applicable"
    BY_CHANCE = "by_chance"
    """Passes or fails by when something of the cluster's own comes in between; only the list says so."""


class Outcome(NamedTuple):
    """Of one test; `why` it failed or was not run."""

    verdict: Verdict
    why: str = ""


def listed(path: Path) -> dict[str, Outcome]:
    """What a list says, by test."""
    tables = tomllib.loads(path.read_text())
    said = dict.fromkeys(tables["passes"], Outcome(Verdict.PASSES))
    for verdict in (Verdict.DIFFERS, Verdict.NOT_APPLICABLE, Verdict.BY_CHANCE):
        for group in tables.get(verdict.value, ()):
            for test in group["tests"]:
                assert test not in said, f"{test} is listed twice"
                said[test] = Outcome(verdict, group["why"])
    return said


def passed_at_the_control(suite: str) -> frozenset[str]:
    """Tests of a suite that passed at an Apache Kafka when `control.toml` was written."""
    return frozenset(tomllib.loads(_CONTROL.read_text())[suite]["passes"])


def share_of_the_control(said: Mapping[str, Outcome], control: frozenset[str]) -> float:
    """Of the tests that pass at an Apache Kafka, those that are listed as passing at a vport; what chance
    decides counts as failed. Tests of what is not offered are no part of it."""
    compared = [test for test in control if said[test].verdict is not Verdict.NOT_APPLICABLE]
    return sum(said[test].verdict is Verdict.PASSES for test in compared) / len(compared)


def complaints(said: Mapping[str, Outcome], ran: Mapping[str, Outcome]) -> list[str]:
    """Each test that came to something else than is listed, in the order of their names."""
    found = []
    for test in sorted(said.keys() | ran.keys()):
        here, now = said.get(test), ran.get(test)
        if here is None or now is None or not _fits(here.verdict, now.verdict):
            wanted = "not listed" if here is None else f"listed as {here.verdict.value}"
            came = "was not there" if now is None else f"{now.verdict.value} now: {now.why}"
            found.append(f"{test} is {wanted}, {came}")
    return found


def left_out(said: Mapping[str, Outcome]) -> list[str]:
    """Tests that need not be run."""
    return [test for test, outcome in said.items() if outcome.verdict is Verdict.NOT_APPLICABLE]


def at_the_control(said: Mapping[str, Outcome], control: frozenset[str]) -> dict[str, Outcome]:
    """What an Apache Kafka comes to: what passed before passes; what did not, may by now."""
    return {
        test: outcome
        if outcome.verdict in (Verdict.NOT_APPLICABLE, Verdict.BY_CHANCE)
        else Outcome(Verdict.PASSES if test in control else Verdict.BY_CHANCE)
        for test, outcome in said.items()
    }


@contextmanager
def one_kafka(directory: Path, makes_topics: str) -> Iterator[str]:
    """Where it is, with what most tests ask of theirs: one partition of offsets, quick heartbeats."""
    settings = {
        "auto.create.topics.enable": makes_topics,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }
    with kafka_cluster(directory, Wish(brokers=1), settings=settings, heap="512m") as brokers:
        yield f"127.0.0.1:{brokers[0].port}"


class Clusters(NamedTuple):
    """Bootstrap addresses. A broker's property that tests ask for is whether first use makes a topic."""

    makes_topics: str
    strict: str


def _fits(said: Verdict, came: Verdict) -> bool:
    return said is came or (said is Verdict.BY_CHANCE and came in (Verdict.PASSES, Verdict.DIFFERS))


def run(suite: Suite, clusters: Clusters, directory: Path, said: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """Run a suite in this directory, but for what its list says is not applicable.

    Raises: CommandError without Java, Maven or the registry.
    """
    tests = _jar(suite)
    jars = tests.parent
    classes, reports, names = directory / "classes", directory / "reports", directory / "left-out"
    compile_classes(jars, suite.sources, classes)
    names.write_text("".join(f"{test}\n" for test in left_out(said)))
    chosen = (f"--scan-classpath={tests}", *suite.classes)
    command = [java_program(), "-Xmx1g", _THREADS, f"-Dportico.bootstrap={clusters.makes_topics}"]
    command += [f"-Dportico.bootstrap.strict={clusters.strict}", f"-Dportico.left.out={names}"]
    command += [
        "-Dlog4j2.level=WARN",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        class_path(classes, suite.sources, jars),
    ]
    command += ["org.junit.platform.console.ConsoleLauncher", "execute", *chosen]
    command += ["--disable-banner", "--details=testfeed", "--disable-ansi-colors", f"--reports-dir={reports}"]
    settings = {
        "extensions.autodetection.enabled": "true",
        "execution.timeout.default": f"{_TEST_TIMEOUT_S} s",
    }
    command += [f"--config=junit.jupiter.{name}={value}" for name, value in settings.items()]
    with (directory / "output.log").open("w") as output:
        subprocess.run(command, stdout=output, stderr=output, timeout=RUN_TIMEOUT_S, check=False)
    report = reports / "TEST-junit-jupiter.xml"
    assert report.exists(), f"no test was run:\n{(directory / 'output.log').read_text()[-4000:]}"
    return outcomes(ElementTree.fromstring(report.read_text()))


def _jar(suite: Suite) -> Path:
    """Of its tests, beside all that they need."""
    wanted = (Artifact(KAFKA, suite.jar, classifier="test"), *suite.artifacts)
    return library(f"{DEFAULT_VERSION}-{suite.jar}", wanted) / f"{suite.jar}-{DEFAULT_VERSION}-test.jar"


def outcomes(report: ElementTree.Element) -> dict[str, Outcome]:
    """Of JUnit's report, by test: `Class.method[number of its configuration]`, or its arguments."""
    found = {}
    for case in report.iter("testcase"):
        test = _name(case)
        outcome = _outcome(case)
        if not outcome.why.startswith(_AGAIN):
            found[test] = outcome
    return found


def _name(case: ElementTree.Element) -> str:
    method, _, rest = case.attrib["name"].partition("(")
    test = f"{case.attrib['classname'].rpartition('.')[2]}.{method}"
    if test not in _SHUFFLED:
        return test + rest.partition(")")[2]
    arguments = _ARGUMENTS.search("".join(out.text or "" for out in case.iter("system-out")))
    assert arguments, f"JUnit's report has no arguments of {test}"
    return f"{test}[{arguments[1]}]"


def _outcome(case: ElementTree.Element) -> Outcome:
    skipped = case.find("skipped")
    if skipped is not None:
        told = skipped.text or skipped.attrib.get("message", "")
        return Outcome(Verdict.NOT_APPLICABLE, _said(told))
    for kind in ("failure", "error"):
        broken = case.find(kind)
        if broken is not None:
            lacking = _LACKING.search(broken.text or "")
            if lacking is not None:  # what waits for a condition takes this for one that does not hold yet
                return Outcome(Verdict.NOT_APPLICABLE, lacking[1])
            return Outcome(Verdict.DIFFERS, _said(broken.text or broken.attrib.get("message", "")))
    return Outcome(Verdict.PASSES)


def _said(text: str) -> str:
    """The first line, without the exception of an assumption."""
    first = text.strip().partition("\n")[0]
    return first.removeprefix("org.opentest4j.TestAbortedException: ").removeprefix("Assumption failed: ")

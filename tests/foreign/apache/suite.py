"""Apache Kafka's own integration tests of its clients, run against a cluster that is there already.

Kafka's tests start brokers in their own JVM, through one class. The class of ours that stands in front of it
(`java/`) hands them a bootstrap address instead; they are those of the jar, as Apache compiled them.
"""

import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

from ctl.kafka.jars import DEFAULT_VERSION, fetched, java_program

_HERE: Final = Path(__file__).parent
_LEFT_OUT: Final = r".*\.(ShareConsumer|SaslPlain|ConsumerBounce|ClientRebootstrap)\w*(\$.*)?"
"""Whole classes: of share groups, which are not offered; of another listener; of brokers that are stopped."""
_JUPITER: Final = "5.13.1"
_PLATFORM: Final = "1.13.1"
_COMPILER: Final = "3.33.0"
"""Of Eclipse's compiler, which needs a Java runtime and no JDK; later ones need Java 21."""
_THREADS: Final = "-Djava.util.concurrent.ForkJoinPool.common.parallelism=4"
"""On two CPUs a test's future would have a thread of its own, which counts as one that it leaves behind."""
_TEST_TIMEOUT_S: Final = 120
_RUN_TIMEOUT_S: Final = 3600
_LACKING: Final = re.compile(r"Caused by: org\.opentest4j\.TestAbortedException: (.*)")
_AGAIN: Final = "the same test runs as KRAFT"
_ARTIFACTS: Final = (
    ("org.apache.kafka", "kafka-clients-integration-tests", DEFAULT_VERSION, "test"),
    ("org.apache.kafka", "kafka-test-common-runtime", DEFAULT_VERSION, None),
    ("org.apache.kafka", "kafka_2.13", DEFAULT_VERSION, None),
    ("org.apache.kafka", "kafka_2.13", DEFAULT_VERSION, "test"),
    ("org.apache.kafka", "kafka-clients", DEFAULT_VERSION, None),
    ("org.apache.kafka", "kafka-clients", DEFAULT_VERSION, "test"),
    ("org.apache.kafka", "kafka-server-common", DEFAULT_VERSION, "test"),
    ("org.junit.jupiter", "junit-jupiter", _JUPITER, None),
    ("org.junit.platform", "junit-platform-console", _PLATFORM, None),
    ("org.eclipse.jdt", "ecj", _COMPILER, None),
)


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


class Clusters(NamedTuple):
    """Bootstrap addresses. A broker's property that tests ask for is whether first use makes a topic."""

    makes_topics: str
    strict: str


def _fits(said: Verdict, came: Verdict) -> bool:
    return said is came or (said is Verdict.BY_CHANCE and came in (Verdict.PASSES, Verdict.DIFFERS))


def run(clusters: Clusters, directory: Path, left_out: Iterable[str], *selectors: str) -> dict[str, Outcome]:
    """Run the tests in this directory; all that the jar has, or those that JUnit's selectors name.

    Raises: CommandError without Java, Maven or the registry.
    """
    library = fetched(f"{DEFAULT_VERSION}-client-tests", _pom())
    classes, reports, names = directory / "classes", directory / "reports", directory / "left-out"
    _compile(library, classes)
    names.write_text("".join(f"{test}\n" for test in left_out))
    jar = library / f"kafka-clients-integration-tests-{DEFAULT_VERSION}-test.jar"
    chosen = selectors or (f"--scan-classpath={jar}", f"--exclude-classname={_LEFT_OUT}")
    command = [java_program(), "-Xmx1g", _THREADS, f"-Dportico.bootstrap={clusters.makes_topics}"]
    command += [f"-Dportico.bootstrap.strict={clusters.strict}", f"-Dportico.left.out={names}"]
    command += ["-Dlog4j2.level=WARN", "-cp", os.pathsep.join((str(classes), f"{library}/*"))]
    command += ["org.junit.platform.console.ConsoleLauncher", "execute", *chosen]
    command += ["--disable-banner", "--details=testfeed", "--disable-ansi-colors", f"--reports-dir={reports}"]
    settings = {
        "extensions.autodetection.enabled": "true",
        "execution.timeout.default": f"{_TEST_TIMEOUT_S} s",
    }
    command += [f"--config=junit.jupiter.{name}={value}" for name, value in settings.items()]
    with (directory / "output.log").open("w") as output:
        subprocess.run(command, stdout=output, stderr=output, timeout=_RUN_TIMEOUT_S, check=False)
    report = reports / "TEST-junit-jupiter.xml"
    assert report.exists(), f"no test was run:\n{(directory / 'output.log').read_text()[-4000:]}"
    return outcomes(ElementTree.fromstring(report.read_text()))


def outcomes(report: ElementTree.Element) -> dict[str, Outcome]:
    """Of JUnit's report, by test: `Class.method[number of its configuration]`."""
    found = {}
    for case in report.iter("testcase"):
        test = f"{case.attrib['classname'].rpartition('.')[2]}.{_method(case.attrib['name'])}"
        outcome = _outcome(case)
        if not outcome.why.startswith(_AGAIN):
            found[test] = outcome
    return found


def _method(name: str) -> str:
    method, _, rest = name.partition("(")
    return method + rest.partition(")")[2]


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


def _compile(library: Path, classes: Path) -> None:
    jars = sorted(map(str, library.glob("*.jar")))
    compiler = str(library / f"ecj-{_COMPILER}.jar")
    arguments = ["--release", "17", "-proc:none", "-nowarn", "-d", str(classes), "-cp", os.pathsep.join(jars)]
    done = subprocess.run(
        [java_program(), "-jar", compiler, *arguments, str(_HERE / "java")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _pom() -> str:
    wanted = "".join(map(_dependency, _ARTIFACTS))
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n<modelVersion>4.0.0</modelVersion>'
        "<groupId>portico</groupId><artifactId>kafka-client-tests</artifactId><version>1</version>\n"
        f"<dependencies>\n{wanted}</dependencies></project>\n"
    )


def _dependency(artifact: tuple[str, str, str, str | None]) -> str:
    group, name, version, classifier = artifact
    kind = "" if classifier is None else f"<classifier>{classifier}</classifier>"
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version>{kind}</dependency>\n"
    )

"""Spark's Kafka connector and Delta Lake: a pinned list, fetched once by the Ivy inside PySpark.

The list is not transitive: all else that these need is among PySpark's own jars.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

from pipeline.errors import PipelineError
from pipeline.java import find_java, package_dir

_FETCH_TIMEOUT_S: Final = 300


class Jar(NamedTuple):
    """One artifact of Maven Central."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The file name that Ivy gives it."""
        return f"{self.artifact}-{self.version}.jar"


JARS: Final = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.1.0-preview1",  # of later ones the registry has no jar
        "ab6e27a8a47ce63348dd0ecbd5543dc6212b4783180305cde5749e79684ea97b",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
    Jar(
        "io.delta",
        "delta-spark_4.2_2.13",
        "4.4.0",
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Jar(
        "io.delta",
        "delta-storage",
        "4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
    Jar(
        "io.delta",
        "delta-kernel-api",
        "4.4.0",
        "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    ),
    Jar(
        "io.delta",
        "delta-kernel-defaults",
        "4.4.0",
        "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    ),
    Jar(
        "io.delta",
        "delta-kernel-unitycatalog",
        "4.4.0",
        "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    ),
)

_SETTINGS: Final = (
    '<ivysettings><settings defaultResolver="central"/>'
    '<resolvers><ibiblio name="central" m2compatible="true"/></resolvers></ivysettings>'
)


def cache_dir() -> Path:
    """Where jars and what is made of them are kept between runs."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pins = "\n".join(",".join(jar) for jar in JARS)
    return base / "portico" / "spark" / hashlib.sha256(pins.encode()).hexdigest()[:16]


def ensure_jars(say: Callable[[str], None]) -> list[Path]:
    """The jars, fetched where they are missing and checked each time.

    Raises: PipelineError when they cannot be fetched or are not the pinned ones.
    """
    library = cache_dir() / "lib"
    if any(fault(jar, library) for jar in JARS):  # else nothing is written: an image's jars are read-only
        library.mkdir(parents=True, exist_ok=True)
        with (cache_dir() / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if any(fault(jar, library) for jar in JARS):
                say("fetching Spark's Kafka and Delta Lake jars (22 MB, once)")
                _fetch(library)
    if wrong := [f"{jar.file_name} {found}" for jar in JARS if (found := fault(jar, library))]:
        raise PipelineError(f"{', '.join(wrong)}: remove {library} and try again")
    return [library / jar.file_name for jar in JARS]


def fault(jar: Jar, library: Path) -> str | None:
    """What is wrong with a jar in a folder, or None."""
    path = library / jar.file_name
    if not path.exists():
        return "is missing"
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return None if found == jar.sha256 else "is not the one that is pinned (SHA-256 differs)"


def _fetch(library: Path) -> None:
    pyspark = package_dir("pyspark")
    ivy = sorted((pyspark / "jars").glob("ivy-*.jar")) if pyspark is not None else []
    if not ivy:
        raise PipelineError("pyspark, which this runs on, is not installed: it is in portico[pipeline]")
    with tempfile.TemporaryDirectory(dir=library.parent) as name:
        scratch = Path(name)
        (scratch / "settings.xml").write_text(_SETTINGS)
        (scratch / "ivy.xml").write_text(_module())
        command = [str(find_java()), "-jar", str(ivy[-1]), "-settings", "settings.xml", "-ivy", "ivy.xml"]
        command += ["-cache", "cache", "-retrieve", "lib/[artifact]-[revision].[ext]"]
        try:
            told = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise PipelineError("the jars could not be fetched: is Maven Central reachable?") from None
        for path in (scratch / "lib").glob("*.jar"):
            shutil.move(path, library / path.name)
        if told.returncode != 0:
            lines = [line.strip() for line in told.stdout.splitlines() if "WARN" in line or "ERROR" in line]
            reason = "; ".join(lines[-3:]) or told.stderr.strip()[-300:]
            raise PipelineError(f"the jars could not be fetched ({reason}): is Maven Central reachable?")


def _module() -> str:
    wanted = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
        'transitive="false"/>'
        for jar in JARS
    )
    return (
        '<ivy-module version="2.0"><info organisation="portico" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f'<dependencies defaultconf="default->master">{wanted}</dependencies></ivy-module>'
    )

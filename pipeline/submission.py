"""Command lines of Spark's spark-submit that run a job, or a Spark Connect server (docs/adr/0093). Pure."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from pipeline.spark_at import SparkAt

CONNECT: Final = "connect"
"""In place of a job: the server that jobs with --remote ask."""
_SERVER: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_BY_ITSELF: Final = "spark-internal"
_OF_THIS_MACHINE: Final = ("spark.local.dir", "spark.sql.warehouse.dir", "spark.driver.memory")


class DeployMode(StrEnum):
    """Where a job's driver is: beside spark-submit, or on a machine of the cluster."""

    CLIENT = "client"
    CLUSTER = "cluster"


class Files(NamedTuple):
    """What is submitted, by paths of this machine."""

    entry: Path
    """The program that the driver runs."""
    jars: tuple[Path, ...]


def submission(
    job: Sequence[str], at: SparkAt, mode: DeployMode, files: Files, settings: Mapping[str, str]
) -> list[str]:
    """Arguments of spark-submit for `portico pipeline JOB`, whose driver sends our packages to executors.

    Not by --py-files: the driver would import them from there as well, without the data that they have.

    A driver on a machine of the cluster, and executors in Kubernetes, are of our image or of one like it:
    what they need is there, by the same paths.
    """
    is_image = at.url.startswith("k8s://") and mode is DeployMode.CLUSTER
    scheme = "local://" if is_image else ""
    chosen = {
        name: value
        for name, value in settings.items()
        if mode is DeployMode.CLIENT or name not in _OF_THIS_MACHINE
    }
    chosen |= {"spark.jars": ",".join(f"{scheme}{jar}" for jar in files.jars)} | dict(at.settings)
    options = ["--master", at.url, "--deploy-mode", mode.value, "--name", f"portico {job[0]}"]
    options += [part for name, value in chosen.items() for part in ("--conf", f"{name}={value}")]
    if job[0] == CONNECT:
        return [*options, "--class", _SERVER, _BY_ITSELF]
    return [*options, f"{scheme}{files.entry}", *job]


def server_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Who reaches a server runs programs there: without a token it is for this machine alone."""
    if environment.get("SPARK_CONNECT_AUTHENTICATE_TOKEN"):
        return {}
    return {"spark.connect.grpc.binding.address": "127.0.0.1"}

"""`portico pipeline submit`: a job by spark-submit, for clusters that take no other drivers."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ctl.errors import CommandError
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.pipeline import submitted
from ctl.pipeline.run import say, sentences
from ctl.pipeline.spark_options import Master, SparkSettings, spark_at
from pipeline.java import package_dir
from pipeline.layout import PipelineLayout
from pipeline.submission import CONNECT, DeployMode, Files, server_settings, submission


def submit(
    job: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB", help="As after `portico pipeline`, or `connect`: a Spark Connect server."
        ),
    ],
    master: Master = None,
    spark_conf: SparkSettings = None,
    deploy_mode: Annotated[
        DeployMode, typer.Option(help="Where the driver runs: here, or on a machine of the cluster.")
    ] = DeployMode.CLIENT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the command line.")] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Run a job by Spark's spark-submit: options of `submit` first, then the job with its own."""
    from pipeline.jars import JARS, STORE_JARS, ensure_jars
    from pipeline.session import s3_settings, settings_of, spark_environment

    at = spark_at(master, spark_conf)
    home = package_dir("pyspark")
    if home is None:
        raise CommandError("pyspark, which has spark-submit, is not installed: it is in portico[pipeline]")
    with sentences():
        jars = ensure_jars(say, (*JARS, *STORE_JARS))
        scratch = PipelineLayout(data_dir.resolve()).scratch
        scratch.mkdir(parents=True, exist_ok=True)
        files = Files(Path(submitted.__file__), tuple(jars))
        settings = settings_of(at, scratch, jars) | s3_settings(os.environ)
        environment = spark_environment(at)
    if job[0] == CONNECT:
        settings |= server_settings(os.environ)
    command = [str(home / "bin" / "spark-submit"), *submission(job, at, deploy_mode, files, settings)]
    if dry_run:
        print(shlex.join(command))
        return
    os.execve(command[0], command, {**os.environ, **environment, "SPARK_HOME": str(home)})

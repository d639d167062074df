"""Options that say where Spark runs, and where a lake is."""

import re
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from ctl.errors import usage
from pipeline.spark_at import THIS_MACHINE, SparkAt

_SECRET: Final = re.compile(r"(?i)secret|password|token|access[.]?key|credential")
"""Names that Spark itself keeps out of its logs."""
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        envvar="PORTICO_SPARK_MASTER",
        metavar="URL",
        help="Spark's master, like spark://HOST:7077. Else Spark runs here, on all cores.",
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        envvar="PORTICO_SPARK_REMOTE",
        metavar="URL",
        help="A Spark Connect server, like sc://HOST:15002; SPARK_CONNECT_AUTHENTICATE_TOKEN is its token.",
    ),
]
Lake = Annotated[
    str | None,
    typer.Option(
        "--lake",
        envvar="PORTICO_LAKE",
        metavar="URL",
        help="Where lake tables are, like s3a://BUCKET/FOLDER. Else below the data directory.",
    ),
]
SparkSettings = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="NAME=VALUE", help="A setting of Spark; again for more."),
]


def spark_at(master: str | None, settings: Sequence[str] | None = None, remote: str | None = None) -> SparkAt:
    """Raises: a usage error, also for a secret: everybody on the machine sees a command's arguments."""
    if remote is not None:
        _must_be_connect(remote, master)
    found = {}
    for each in settings or ():
        name, equals, value = each.partition("=")
        if not equals or not name.startswith("spark."):
            raise usage(f"--spark-conf is NAME=VALUE with a name like spark.executor.memory, not '{name}'")
        if _SECRET.search(name):
            raise usage(
                f"{name} is a secret, which other users of this machine see in a command's arguments: put it "
                "into spark-defaults.conf in the folder that SPARK_CONF_DIR names"
            )
        found[name] = value
    return SparkAt(remote or master or THIS_MACHINE.url, found)


def _must_be_connect(remote: str, master: str | None) -> None:
    if master is not None:
        raise usage("Spark has a master that runs jobs or is a server that is asked: --master or --remote")
    if not remote.startswith("sc://"):
        raise usage(f"--remote is sc://HOST:PORT of a Spark Connect server, not '{remote}'")
    if _SECRET.search(remote.partition("/;")[2]):
        raise usage(
            "--remote has a secret, which other users of this machine see in a command's arguments: a token "
            "is taken from SPARK_CONNECT_AUTHENTICATE_TOKEN"
        )

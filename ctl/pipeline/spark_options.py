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


def spark_at(master: str | None, settings: Sequence[str] | None) -> SparkAt:
    """Raises: a usage error, also for a secret: everybody on the machine sees a command's arguments."""
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
    return SparkAt(master or THIS_MACHINE.master, found)

"""Where Spark runs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMITTED: Final = "spark-submit"
"""In place of a master: whoever started this process has said where, and all else."""
_LOCAL: Final = "local"
_CONNECT: Final = "sc://"
_MANY: Final = 4096


class SparkAt(NamedTuple):
    """This machine with all its cores, a cluster, or a Spark that others have started."""

    url: str = "local[*]"
    """Spark's master; `sc://HOST:PORT` of a Spark Connect server."""
    settings: Mapping[str, str] = {}
    """Spark's own; they come before ours."""

    @property
    def is_local(self) -> bool:
        """Tasks run in the driver: its jars, its disk and its Python are theirs."""
        return self.url.startswith(_LOCAL)

    @property
    def is_connect(self) -> bool:
        """Spark's driver is a server, which this process asks: no JVM is here."""
        return self.url.startswith(_CONNECT)


THIS_MACHINE: Final = SparkAt()


def tasks_at_once(spark: "SparkSession") -> int:
    """As many as there are cores now. A Spark Connect server says so only by what it does."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.utils import is_remote

    if not is_remote():
        return int(spark.sparkContext.defaultParallelism)
    tasks = spark.range(_MANY).select(F.spark_partition_id().alias("task"))
    [[last]] = tasks.agg(F.max("task")).collect()
    return int(last) + 1

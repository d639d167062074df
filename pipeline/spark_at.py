"""Where Spark runs."""

from collections.abc import Mapping
from typing import Final, NamedTuple

_LOCAL: Final = "local"


class SparkAt(NamedTuple):
    """This machine with all its cores, or a cluster."""

    master: str = "local[*]"
    settings: Mapping[str, str] = {}
    """Spark's own; they come before ours."""

    @property
    def is_local(self) -> bool:
        """Tasks run in the driver: its jars, its disk and its Python are theirs."""
        return self.master.startswith(_LOCAL)


THIS_MACHINE: Final = SparkAt()

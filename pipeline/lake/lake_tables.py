"""Which lake tables there are, found by their folders: also of topics that are gone."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.ingest.commits import must_be_partitioned
from pipeline.lake.plan import lake_app
from pipeline.lake.planning.readable_names import Place
from pipeline.layout import PipelineLayout
from pipeline.schema.lake import LAKE_PARTITION_BY
from pipeline.store import AnyPath

_FOLDER: Final = re.compile(r"(?P<topic>.+)-(?P<id>[0-9a-f]{32})")


class LakeTable(NamedTuple):
    """What was loaded of a topic. One that is deleted and made again has two."""

    instance_id: str
    topic: str
    topic_id: str
    path: AnyPath

    @property
    def load_app(self) -> str:
        """The loader's positions in the table."""
        return lake_app(self.topic_id)

    @property
    def backfill_app(self) -> str:
        """The numbers of its backfills."""
        return f"backfill/{self.topic_id}"

    def derived(self, layout: PipelineLayout, kind: str) -> AnyPath:
        """A table that is made from it."""
        return layout.derived(self.instance_id, self.topic, self.topic_id, kind)


def tables_there(layout: PipelineLayout, instance_id: str) -> list[LakeTable]:
    """All tables of an instance."""
    root = layout.lake(instance_id, "x", "x").parent
    folders: list[AnyPath] = [*root.iterdir()] if root.is_dir() else []
    return [
        LakeTable(instance_id, told["topic"], told["id"], folder)
        for folder in sorted(folders, key=str)
        if (told := _FOLDER.fullmatch(folder.name)) and DeltaTable.is_deltatable(str(folder))
    ]


def places(layout: PipelineLayout, instances: Mapping[str, str], kinds: Sequence[str]) -> list[Place]:
    """Tables of some kinds; `instances`: names by id. Of a topic that was made again the newest is first."""
    found = []
    for instance_id, name in instances.items():
        lakes = tables_there(layout, instance_id)
        again = {topic for topic, count in Counter(each.topic for each in lakes).items() if count > 1}
        lakes.sort(key=lambda each: -_made_at(each.path) if each.topic in again else 0)
        for each in lakes:
            for kind in kinds:
                path = each.path if kind == "lake" else each.derived(layout, kind)
                if kind == "lake" or DeltaTable.is_deltatable(str(path)):
                    found.append(Place(instance_id, name, each.topic, each.topic_id, kind, str(path)))
    return found


def _made_at(path: AnyPath) -> int:
    return int(DeltaTable(str(path)).metadata().created_time or 0)


def lake_tables(layout: PipelineLayout, instance_id: str, topics: list[str] | None = None) -> list[LakeTable]:
    """Tables of an instance, or of some of its topics. Raises: PipelineError where a topic has none, or one
    that this version does not write.
    """
    found = tables_there(layout, instance_id)
    if not found:
        raise PipelineError("nothing of this instance was loaded yet: start with `portico pipeline load`")
    for topic in topics or ():
        if all(each.topic != topic for each in found):
            known = ", ".join(sorted({each.topic for each in found}))
            raise PipelineError(
                f"nothing of topic {topic} is loaded, but of {known}: start with `portico pipeline load`"
            )
    chosen = [each for each in found if topics is None or each.topic in topics]
    for each in chosen:
        must_be_partitioned(DeltaTable(str(each.path)), LAKE_PARTITION_BY)
    return chosen

"""Which lake tables there are, found by their folders: also of topics that are gone."""

import re
from typing import Final, NamedTuple

from deltalake import DeltaTable

from pipeline.errors import PipelineError
from pipeline.lake.plan import lake_app
from pipeline.layout import PipelineLayout
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


def lake_tables(layout: PipelineLayout, instance_id: str, topics: list[str] | None = None) -> list[LakeTable]:
    """Tables of an instance, or of some of its topics. Raises: PipelineError where a topic has none."""
    root = layout.lake(instance_id, "x", "x").parent
    folders: list[AnyPath] = [*root.iterdir()] if root.is_dir() else []
    found = [
        LakeTable(instance_id, told["topic"], told["id"], folder)
        for folder in sorted(folders, key=str)
        if (told := _FOLDER.fullmatch(folder.name)) and DeltaTable.is_deltatable(str(folder))
    ]
    if not found:
        raise PipelineError("nothing of this instance was loaded yet: start with `portico pipeline load`")
    if topics is None:
        return found
    for topic in topics:
        if all(each.topic != topic for each in found):
            known = ", ".join(sorted({each.topic for each in found}))
            raise PipelineError(
                f"nothing of topic {topic} is loaded, but of {known}: start with `portico pipeline load`"
            )
    return [each for each in found if each.topic in topics]

"""All transcripts. REWRITE_TRANSCRIPTS=1 writes them anew: read the difference."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import pytest

from tests.transcripts import (
    connection_story,
    controller_story,
    group_story,
    session_story,
    transaction_story,
)
from tests.transcripts.replay import replayed


class Story(Protocol):
    """A core and the commands of its transcripts."""

    def run(self, line: str) -> str:
        """Carry out a command; what came of it."""


_DIRECTORY: Final = Path(__file__).parent
_STORIES: Final[dict[str, Callable[[], Story]]] = {
    "connection": connection_story.Story,
    "controller": controller_story.Story,
    "group": group_story.Story,
    "session": session_story.Story,
    "transaction": transaction_story.Story,
}
_FILES: Final = sorted(path for name in _STORIES for path in (_DIRECTORY / name).glob("*.txt"))


@pytest.mark.parametrize("path", _FILES, ids=[f"{path.parent.name}-{path.stem}" for path in _FILES])
def test_transcript(path: Path) -> None:
    told = path.read_text()
    happened = replayed(told, _STORIES[path.parent.name]().run)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(happened)
    else:
        assert happened == told


def test_every_core_has_transcripts() -> None:
    assert {path.parent.name for path in _FILES} == _STORIES.keys()

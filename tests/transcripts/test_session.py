"""Transcripts of a gateway's session. REWRITE_TRANSCRIPTS=1 writes them anew: read the difference."""

import os
from pathlib import Path

import pytest

from tests.transcripts.replay import replayed
from tests.transcripts.session_story import Story

DIRECTORY = Path(__file__).parent / "session"
FILES = sorted(DIRECTORY.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_transcript(path: Path) -> None:
    told = path.read_text()
    happened = replayed(told, Story().run)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(happened)
    else:
        assert happened == told

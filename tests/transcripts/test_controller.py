"""The controller's transcripts. REWRITE_TRANSCRIPTS=1 writes them anew: read the difference."""

import os
from pathlib import Path

import pytest

from tests.transcripts.controller_story import Story

DIRECTORY = Path(__file__).parent / "controller"
FILES = sorted(DIRECTORY.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_transcript(path: Path) -> None:
    told = path.read_text()
    happened = replayed(told)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(happened)
    else:
        assert happened == told


def replayed(text: str) -> str:
    """The same commands with what they make happen now. Lines that begin with # are kept."""
    story = Story()
    parts = []
    for block in text.strip().split("\n\n"):
        head = block.split("\n----\n")[0]
        lines = [line for line in head.split("\n") if line and line != "----"]
        commands = [line for line in lines if not line.startswith("#")]
        outputs = [story.run(command) for command in commands]
        parts.append("\n".join(lines) + ("\n----\n" + "\n".join(outputs) if commands else ""))
    return "\n\n".join(parts) + "\n"

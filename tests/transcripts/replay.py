"""Runs a transcript again: blocks of commands, a line of dashes, what they make happen."""

from collections.abc import Callable


def replayed(text: str, run: Callable[[str], str]) -> str:
    """The same commands with what they make happen now. Lines that begin with # are kept."""
    parts = []
    for block in text.strip().split("\n\n"):
        head = block.split("\n----\n")[0]
        lines = [line for line in head.split("\n") if line and line != "----"]
        outputs = [run(line) for line in lines if not line.startswith("#")]
        parts.append("\n".join(lines) + ("\n----\n" + "\n".join(outputs) if outputs else ""))
    return "\n\n".join(parts) + "\n"

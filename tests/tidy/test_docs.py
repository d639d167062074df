"""Every command that a document shows exists, with every option it shows; its links lead somewhere."""

import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from ctl.main import command_line

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = sorted(
    [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md"]
)
_FENCE: Final = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE: Final = re.compile(r"`((?:\./)?portico [^`]+)`")
_LINK: Final = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
_ENDS: Final = {"|", ">", "<", "&&", ";", "||", "&"}
_COMMANDS: Final[Any] = typer.main.get_command(command_line())


def _shown(text: str) -> list[str]:
    """Command lines in fences of shells and in backticks."""
    lines = [
        line
        for language, body in _FENCE.findall(text)
        if language in ("sh", "shell")
        for line in body.replace("\\\n", " ").splitlines()
    ]
    return lines + _INLINE.findall(_FENCE.sub("", text))


def _words(line: str) -> list[str]:
    """What follows `portico`, up to the next command; nothing for other commands."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words = list(lexer)
    for position, word in enumerate(words):
        if word in ("portico", "./portico"):
            words = words[position + 1 :]
            break
    else:
        return []
    return words[: next((at for at, word in enumerate(words) if word in _ENDS), len(words))]


def _fault(words: list[str]) -> str | None:
    """What the command line does not know of these words."""
    command: Any = _COMMANDS
    for position, word in enumerate(words):
        if word.startswith("-"):
            break
        if not hasattr(command, "commands"):
            break
        if re.fullmatch(r"[a-z-]+", word) is None:
            return None  # a placeholder: `portico pipeline ...`
        if word not in command.commands:
            return f"there is no command '{word}'"
        command = command.commands[word]
        words = [*words[:position], "", *words[position + 1 :]]
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    if getattr(command, "ignore_unknown_options", False) or command.context_settings.get(
        "ignore_unknown_options"
    ):
        return None
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0].strip("[]")
        if name.startswith("--") and name not in options | {"--help", "--version"}:
            return f"there is no option '{name}'"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    faults = []
    for line in _shown(page.read_text()):
        try:
            fault = _fault(_words(line))
        except ValueError as error:
            fault = str(error)
        if fault is not None:
            faults.append(f"{line.strip()}: {fault}")
    assert faults == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = _FENCE.sub("", page.read_text())
    missing = [target for target in _LINK.findall(text) if not (page.parent / target).exists()]
    assert missing == []


def test_the_check_finds_what_is_wrong() -> None:
    assert _fault(_words("./portico instance frob")) == "there is no command 'frob'"
    assert _fault(_words("./portico instance list --nonsense")) == "there is no option '--nonsense'"
    assert _fault(_words("PORTICO_URL=x ./portico instance list --json | jq .")) is None
    assert _words("echo hello") == []

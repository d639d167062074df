"""Commands as functions of what they work with: shared options stand once, answers are shown in one way."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from ctl.command import Commands, Made
from ctl.commands import instance
from ctl.errors import EXIT_USAGE, CommandError
from ctl.output import Answer, Shortfall, in_facts

held: list[str] = []
left: list[str] = []


@contextmanager
def _place(
    where: Annotated[str, typer.Option("--where", help="Declared once.")] = "here",
) -> Iterator[str]:
    held.append(where)
    yield where
    held.remove(where)


Place = Annotated[str, Made(_place)]
app = Commands()


@app.command()
def find(place: Place, name: Annotated[str, typer.Argument()] = "it") -> Answer:
    """Find something."""
    assert held == [place]
    return in_facts({"name": name, "place": place}, [(name, place)])._replace(code=3)


@app.command()
def forget(place: Place) -> None:
    """Forget it."""
    assert held == [place]


@app.command()
def follow(place: Place) -> Iterator[Answer]:
    """Follow several, the last of which is missing."""
    try:
        for number in (1, 2):
            assert held == [place]
            yield Answer(number, partial(print, f"number {number}"), code=number)
        yield Answer(None, partial(print, "for people"))
    finally:
        left.append("follow")


@app.command()
def lack(place: Place) -> Answer:
    """Find too little."""
    found = in_facts({"place": place}, [("place", place)])
    raise Shortfall("something is missing", found)


def test_what_a_command_works_with_is_made_of_options_and_held_while_it_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert get_command(app)(["find", "key", "--where", "drawer"], standalone_mode=False) == 3
    assert capsys.readouterr().out.split() == ["key", "drawer"]
    assert not held


def test_an_answer_is_a_document_with_json() -> None:
    seen = CliRunner().invoke(app, ["find", "--json"])
    assert json.loads(seen.stdout) == {"name": "it", "place": "here"}


def test_answers_one_by_one_are_a_line_each() -> None:
    told = CliRunner().invoke(app, ["follow", "--json"], standalone_mode=False)
    assert (told.return_value, told.stdout) == (2, "1\n2\n")
    assert CliRunner().invoke(app, ["follow"]).stdout == "number 1\nnumber 2\nfor people\n"
    assert left == ["follow", "follow"]


def test_a_stream_that_nobody_reads_on_is_left() -> None:
    class ClosedError(Exception):
        pass

    def closed() -> None:
        raise ClosedError

    @app.command("break")
    def broken() -> Iterator[Answer]:
        try:
            yield Answer({}, closed)
        finally:
            left.append("break")

    assert isinstance(CliRunner().invoke(app, ["break"]).exception, ClosedError)
    assert left[-1] == "break"


def test_what_was_found_is_printed_although_something_is_missing() -> None:
    told = CliRunner().invoke(app, ["lack", "--json"])
    assert json.loads(told.stdout) == {"place": "here"}
    assert isinstance(told.exception, CommandError)
    assert told.exception.sentence == "something is missing"


def test_a_command_without_an_answer_has_no_json() -> None:
    assert "--json" not in CliRunner().invoke(app, ["forget", "--help"]).stdout
    assert CliRunner().invoke(app, ["forget", "--json"]).exit_code == EXIT_USAGE


def test_the_help_has_shared_options_with_the_command_s_own() -> None:
    told = CliRunner().invoke(app, ["find", "--help"]).stdout
    assert "Find something." in told
    assert "Declared once." in told


def test_wrong_usage_is_found_before_a_console_is(tmp_path: Path) -> None:
    sizes = ("--produce-rate", "1MB/s", "--consume-rate", "1MB/s", "--capacity", "1GB")
    wrong = CliRunner().invoke(instance.app, ["create", "shop", *sizes, "--data-dir", str(tmp_path)])
    assert isinstance(wrong.exception, CommandError)
    assert (wrong.exception.code, "--whitelist" in wrong.exception.sentence) == (EXIT_USAGE, True)
    right = CliRunner().invoke(instance.app, ["show", "shop", "--data-dir", str(tmp_path)])
    assert "no stack in" in str(right.exception)

"""Commands as functions of what they work with: shared options stand once, answers are shown in one way."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from ctl.command import Commands, Made
from ctl.commands import instance
from ctl.errors import EXIT_USAGE, CommandError
from ctl.output import Answer, in_facts

held: list[str] = []


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


def test_what_a_command_works_with_is_made_of_options_and_held_while_it_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert get_command(app)(["find", "key", "--where", "drawer"], standalone_mode=False) == 3
    assert capsys.readouterr().out.split() == ["key", "drawer"]
    assert not held


def test_an_answer_is_a_document_with_json() -> None:
    seen = CliRunner().invoke(app, ["find", "--json"])
    assert json.loads(seen.stdout) == {"name": "it", "place": "here"}


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

"""`portico pipeline load`: wrong usage is one sentence, before anything is asked of a console."""

import pytest
from typer.testing import CliRunner

from ctl.errors import EXIT_USAGE, CommandError
from ctl.main import command_line
from ctl.options import parse_duration


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", "--topic", "t", "--all"], "name topics with --topic or say --all, not both"),
        (["a", "b", "--bootstrap", "h:1"], "--bootstrap is the address of one instance"),
        (["a", "--on-data-loss", "ignore"], "--on-data-loss is fail or skip, not 'ignore'"),
        (["a", "--continuous", "--every", "0s"], "--every must be more than 0 s"),
    ],
)
def test_wrong_usage(arguments: list[str], sentence: str) -> None:
    ended = CliRunner().invoke(command_line(), ["pipeline", "load", *arguments])
    assert isinstance(ended.exception, CommandError)
    assert ended.exception.code == EXIT_USAGE
    assert sentence in ended.exception.sentence


def test_durations() -> None:
    assert [parse_duration(text) for text in ("10s", "500ms", "1.5m", "1h", "7")] == [10, 0.5, 90, 3600, 7]
    with pytest.raises(Exception, match="'soon' is no duration like 10s"):
        parse_duration("soon")

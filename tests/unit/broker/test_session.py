"""A stream means the same requests however it is cut; a login is agreed on before it comes."""

import pytest

from broker.requests.login import LOGIN, Login, LoginEvent, LoginState
from tests.transcripts.connection_story import Story

_STREAM = "client metadata 40 + produce 9000 + fetch 60 + produce 70000 + metadata 8"
_BYTES = 5 * 4 + 40 + 9_000 + 60 + 70_000 + 8


def _requests(piece_bytes: int) -> list[str]:
    story, heard = Story(), []
    story.run(_STREAM + " bytes=:0")
    for at in range(0, _BYTES, piece_bytes):
        happened = story.run(f"client more bytes={at}:{at + piece_bytes}").split("\n")
        while (request := next((line for line in happened if line.startswith("request")), None)) is not None:
            heard.append(request)
            happened = story.run(f"answer {len(heard)}").split("\n")
    return heard


@pytest.mark.parametrize("piece_bytes", [7, 4_096, 79_000])
def test_a_stream_means_the_same_however_it_is_cut(piece_bytes: int) -> None:
    assert _requests(piece_bytes) == _requests(_BYTES)
    assert len(_requests(piece_bytes)) == 5


def test_nobody_logs_in_before_it_is_agreed_how() -> None:
    begun = {state for state, event in LOGIN if event is LoginEvent.LOGS_IN}
    assert begun == {LoginState.AGREED, LoginState.TOKEN_DUE}
    login = Login("192.0.2.1", is_open=False)
    with pytest.raises(KeyError):
        login.logs_in("")
    assert not login.is_open

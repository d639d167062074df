"""When a server counts as silent."""

from runtime.tree.silence import Silence


def test_it_owes_an_answer_from_the_first_request_on() -> None:
    silence = Silence(4.0)
    assert silence.left_s(0.0) is None, "nothing was asked"
    for at_s in (10.0, 11.0, 13.5):
        silence.asked(at_s)
    assert silence.left_s(13.5) == 0.5, "later requests buy it no time"
    assert silence.left_s(14.0) == 0.0
    silence.heard()
    assert silence.left_s(14.0) is None
    silence.asked(20.0)
    assert silence.left_s(20.0) == 4.0

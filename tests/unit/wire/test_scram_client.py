"""SCRAM as a client, by RFC 7677's own example, and against servers that make no sense or lie."""

import pytest

from wire.scram_client import ITERATIONS_MAX, Salted, ScramClient, ScramRefused

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client(password: str = "pencil", salted: Salted | None = None) -> ScramClient:
    return ScramClient("sha256", "user", password, NONCE, {} if salted is None else salted)


def test_the_example_of_rfc_7677() -> None:
    one = client()
    assert one.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert one.final(FIRST) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    one.check(LAST)


def test_a_salted_password_is_made_once_and_never_taken_for_anothers() -> None:
    salted: Salted = {}
    right = client(salted=salted).final(FIRST)
    kept = dict(salted)
    assert client(salted=salted).final(FIRST) == right
    assert salted == kept
    assert client("pencils", salted).final(FIRST) != right
    assert len(salted) == 1


def test_names_are_escaped() -> None:
    assert ScramClient("sha512", "a=b,c", "p", "n", {}).first() == b"n,,n=a=3Db=2Cc,r=n"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\xff\xfe",
        b"e=other-error",
        FIRST.replace(b"r=rO", b"r=xx"),
        b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",  # nothing of the server's in it
        FIRST.replace(b"i=4096", b"i=1"),
        FIRST.replace(b"i=4096", b"i=%d" % (ITERATIONS_MAX + 1)),
        FIRST.replace(b"i=4096", b"i=999999999999"),
        FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b"====="),
    ],
)
def test_a_first_message_that_makes_no_sense_is_refused(said: bytes) -> None:
    with pytest.raises(ScramRefused):
        client().final(said)


@pytest.mark.parametrize("said", [b"", b"e=invalid-proof", b"v=AAAA", LAST.replace(b"6r", b"7r")])
def test_a_server_that_does_not_know_the_password_is_refused(said: bytes) -> None:
    one = client()
    one.final(FIRST)
    with pytest.raises(ScramRefused):
        one.check(said)

"""SCRAM on the server's side: the example of RFC 7677, and what a client may not do."""

import base64
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.users import Mechanism, ScramCredential, credential
from gateway.rules.scram import ScramFault, ScramServer, saslname
from tests.unit.gateway.scram_client import ScramClient

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def server(mechanism: Mechanism = SHA_256, password: str = "pencil") -> ScramServer:
    found = credential(mechanism, password, SALT)
    return ScramServer(mechanism, SERVER_NONCE, lambda _user: found)


def test_the_example_of_rfc_7677() -> None:
    exchange = server()
    said = exchange.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert said == f"r=rOprNGfwEbeRWgbNEkqO{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    final = f"c=biws,r=rOprNGfwEbeRWgbNEkqO{SERVER_NONCE},p={proof}".encode()
    assert exchange.final(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert exchange.user == "user"


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("gs2", ["n,,", "y,,", "n,a=a=2Cb=3Dc,"])
def test_a_client_that_knows_the_password_is_let_in_and_told_so(mechanism: Mechanism, gs2: str) -> None:
    exchange, client = server(mechanism), ScramClient(mechanism.hash_name, "a,b=c", "pencil")
    client.gs2 = gs2
    assert client.is_answered_by(exchange.final(client.final(exchange.first(client.first()))))
    assert exchange.user == "a,b=c"


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"p=tls-unique,,n=user,r=abc",
        b"x,,n=user,r=abc",
        b"n,a=admin,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=user,r=abc,m=ext",
        b"n,,n=,r=abc",
        b"n,,n=us=er,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,n=user,r=" + b"a" * 257,
        b"n,,n=user",
        b"n,,r=abc,n=user",
        b"n,,n=\xff,r=abc",
        b"\0user\0password",
        b"n,,n=user,r=abc,",
    ],
)
def test_a_first_message_that_is_none(first: bytes) -> None:
    with pytest.raises(ScramFault):
        server().first(first)


def changed(change: Callable[[bytes, str], bytes]) -> None:
    """An exchange whose final message is another than the right one."""
    exchange, client = server(), ScramClient("sha256", "user", "pencil")
    said = exchange.first(client.first())
    final = client.final(said)
    assert server().first(client.first()) == said
    with pytest.raises(ScramFault):
        exchange.final(change(final, said.decode()))


def test_a_wrong_password_a_changed_proof_and_a_nonce_of_others_are_refused() -> None:
    for wrong in (
        lambda final, _: final[:-5] + b"AAA==",
        lambda final, _: final.partition(b",p=")[0],
        lambda final, _: final.partition(b",p=")[0] + b",p=" + base64.b64encode(bytes(31)),
        lambda final, _: final.partition(b",p=")[0] + b",p=" + base64.b64encode(bytes(32)),
        lambda final, _: final.partition(b",p=")[0] + b",p=!!",
        lambda final, _: final.replace(b"c=biws", b"c=eSws"),
        lambda final, _: final.replace(b"c=biws", b"c=*"),
        lambda final, _: final.replace(b",r=", b",r=x"),
        lambda final, _: final.replace(b",r=", ",r=ä".encode()),
        lambda final, _: final + b",x=y",
        lambda _, said: ScramClient("sha256", "user", "penci1").final(said.encode()),
        lambda _, said: ScramClient("sha256", "user", "pencil").final(
            said.encode(), nonce="fyko+d2lbbFgONRv"
        ),
        lambda _f, _s: b"\xff",
        lambda _f, _s: b"",
    ):
        changed(wrong)


def test_a_client_that_could_bind_says_so_twice_or_somebody_is_in_between() -> None:
    exchange, client = server(), ScramClient("sha256", "user", "pencil")
    client.gs2, client.binding = "n,,", "y,,"
    with pytest.raises(ScramFault, match="binding"):
        exchange.final(client.final(exchange.first(client.first())))


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_no_bytes_do_anything_else_than_fail(first: bytes, final: bytes) -> None:
    with pytest.raises(ScramFault):
        server().first(first)
    exchange = server()
    exchange.first(b"n,,n=user,r=abc")
    with pytest.raises(ScramFault):
        exchange.final(final)


def test_names_are_unescaped_and_bare_signs_refused() -> None:
    assert saslname("a=2Cb=3Dc") == "a,b=c"
    for wrong in ("a=", "=", "a=2c", "=3"):
        with pytest.raises(ScramFault):
            saslname(wrong)


def test_a_credential_shows_nothing_of_itself() -> None:
    found: ScramCredential = credential(SHA_256, "pencil", SALT)
    assert repr(found) == "<SCRAM-SHA-256>" and repr((found,)) == "(<SCRAM-SHA-256>,)"

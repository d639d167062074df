"""Coming into a cluster of somebody's: requests out, answers in, without a socket.

Steps are a generator of requests; who has the socket sends each and sends its answer in. It ends when the
broker has let us in, and is one of the cluster that we mean.
"""

from collections.abc import Generator
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v4.request import MetadataRequest
from kio.schema.metadata.v4.response import MetadataResponse
from kio.schema.sasl_authenticate.v1 import SaslAuthenticateRequest, SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1 import SaslHandshakeRequest, SaslHandshakeResponse
from kio.static.protocol import Payload

from wire.scram_client import Salted, ScramClient, ScramRefused

PLAIN: Final = "PLAIN"
SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SAID_CHARS_MAX: Final = 200

Steps = Generator[Payload, Payload, None]


class EntryRefused(Exception):  # noqa: N818 - a verdict of the peer
    """The broker does not let us in."""


class WrongCluster(EntryRefused):
    """It is a broker of another cluster."""


def entry_steps(login: Steps | None, kafka_cluster_id: str | None) -> Steps:
    """All of it. What a broker answers says, too, that it takes the certificate it was shown. An id of None:
    the cluster was not met yet, and any is the right one. Raises: EntryRefused, out of `send`."""
    if login is not None:
        yield from login
    answer = yield MetadataRequest(topics=(), allow_auto_topic_creation=False)
    assert isinstance(answer, MetadataResponse)
    fault = stranger(answer.cluster_id, kafka_cluster_id)
    if fault is not None:
        raise WrongCluster(f"the cluster {fault}")


def stranger(told: str | None, known: str | None) -> str | None:
    """Why what answers is not the cluster that was met before, or None; before the first time any is."""
    if known is None or told == known:
        return None
    return f"calls itself {str(told)[:64]}, and was {known} before: another one answers at its addresses"


def login_steps(mechanism: str, user: str, password: str, nonce: str, salted: Salted) -> Steps:
    """The login of a user, by PLAIN or SCRAM. Raises: EntryRefused, out of `send`."""
    answer = yield SaslHandshakeRequest(mechanism=mechanism)
    assert isinstance(answer, SaslHandshakeResponse)
    if answer.error_code is ErrorCode.unsupported_sasl_mechanism:
        raise EntryRefused(f"it takes {', '.join(answer.mechanisms)[:_SAID_CHARS_MAX]}, not {mechanism}")
    if answer.error_code is ErrorCode.illegal_sasl_state:
        raise EntryRefused("it takes no logins at that port")
    if answer.error_code is not ErrorCode.none:
        raise EntryRefused(f"it takes no logins: {answer.error_code.name.upper()}")
    if mechanism == PLAIN:
        yield from _said(user, f"\0{user}\0{password}".encode())
        return
    scram = ScramClient(SCRAM_HASHES[mechanism], user, password, nonce, salted)
    try:
        first = yield from _said(user, scram.first())
        scram.check((yield from _said(user, scram.final(first))))
    except ScramRefused as refused:
        raise EntryRefused(f"its login makes no sense: {refused}") from refused


def next_request(steps: Steps, answer: Payload) -> Payload | None:
    """What follows an answer; None: nothing, we are in. Raises: EntryRefused."""
    try:
        return steps.send(answer)
    except StopIteration:
        return None


def _said(user: str, message: bytes) -> Generator[Payload, Payload, bytes]:
    answer = yield SaslAuthenticateRequest(auth_bytes=message)
    assert isinstance(answer, SaslAuthenticateResponse)
    if answer.error_code is not ErrorCode.none:
        why = (answer.error_message or answer.error_code.name.upper())[:_SAID_CHARS_MAX]
        raise EntryRefused(f"it refuses the login of user {user}: {why}")
    return bytes(answer.auth_bytes)

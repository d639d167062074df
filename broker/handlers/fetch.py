"""Fetch (1), v4-11.

Behaviour: answers the moment min_bytes are there, or at max_wait; the first batch always fits, whatever the
limits; records leave by sendfile. Incremental sessions (KIP-227). A tenant's answer holds at most a quarter
second of its rate and is charged in full. read_committed sees records below the last stable offset.
Deliberately not done: down-conversion, followers, fetching from replicas (the preferred replica is none),
aborted transactions (there are no transactions).
Versions: v5 log start offset; v7 sessions; v9 current leader epoch (KIP-320); v11 rack (KIP-392).
"""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker import fetch_wire
from broker.fetch_sessions import NO_SESSION, SessionError
from broker.fetching import Fetch

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Begin the fetch."""
    scan = fetch_wire.scan_fetch(call.request, call.header.body_at, call.api_version)
    try:
        context = broker.fetch_sessions.context(scan, broker.now_ms())
    except SessionError as error:
        _answer_error(call, error.error_code)
        return
    Fetch(broker, call, scan, context).attempt()


def _answer_error(call: "Call", error_code: ErrorCode) -> None:
    body = fetch_wire.response_head(call.api_version, 0, int(error_code.value), NO_SESSION)
    body += fetch_wire.EMPTY
    call.reply_parts([fetch_wire.frame_head(len(body), call.header.correlation_id) + body])

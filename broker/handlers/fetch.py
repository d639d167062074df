"""Fetch (1), v0-18.

Behaviour: answers the moment min_bytes are there, or at max_wait; the first batch always fits, whatever the
limits; records leave by sendfile. Incremental sessions (KIP-227). A tenant's answer holds at most a quarter
second of its rate and is charged in full. read_committed sees records below the last stable offset, and is
told which of their transactions were aborted.
Only leaders answer: others say NOT_LEADER_OR_FOLLOWER, and the client asks for metadata. A broker of this
cluster may fetch as a replica (v11): all there is, in a session of its own, without quota.
Topics that are called by their ids (v13) are UNKNOWN_TOPIC_ID when the cluster has none with the id, and
INCONSISTENT_TOPIC_ID when the log is another topic's that has the name now.
Old clients (v0-3) get messages of format v0 or v1, uncompressed, converted in turns with others; a batch of
more than 50,000 records, or of 8 MiB decompressed, is CORRUPT_MESSAGE to them.
Deliberately not done: fetching from replicas (the preferred replica is none).
Versions: v1 throttle time; v2 format v1; v3 limit of the answer (KIP-74); v4 record batches; v5 log start
offset; v7 sessions; v9 current leader epoch (KIP-320); v11 rack (KIP-392); v12 flexible, with
epochs for followers; v13 topic ids (KIP-516); v15 says in a tagged field who is a replica (KIP-903), which
closes the connection; v16 may tell leaders (KIP-951), which is left to Metadata; v17 and v18 are of replicas.
"""

from functools import partial
from typing import Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from broker.fetches.fetch_sessions import NO_SESSION, FetchSessionCache, SessionError
from broker.frames.fetch_reply import FetchReply, PartitionRead, error_frame, error_frame_bytes
from broker.metadata.metadata_cache import MetadataCache
from broker.records.fetching import Fetch, FetchDeps
from broker.records.legacy_fetching import LEGACY_BELOW, LegacyFetch, in_turn
from broker.replicator.service import Replication
from broker.requests.call import Call
from broker.requests.payer import FREE_FETCH_REQUEST_BYTES
from wire.hot import fetch as fetch_wire


class _Deps(FetchDeps, Protocol):
    fetch_sessions: FetchSessionCache
    replication: Replication


def handle(call: Call, deps: _Deps) -> None:
    scan = fetch_wire.scan_fetch(call.request, call.header.body_at, call.api_version)
    if scan.replica_id >= 0:
        _replica(deps, call, scan)
        return
    payer = call.channel.login.payer
    if payer is not None and len(call.request) > FREE_FETCH_REQUEST_BYTES:
        payer.charge_fetch_request(len(call.request) + 4, deps.now_ms())
    is_legacy = call.api_version < LEGACY_BELOW
    if is_legacy:
        scan = in_turn(scan, call.header.correlation_id)
    try:
        context = deps.fetch_sessions.context(
            scan,
            deps.now_ms(),
            is_by_id=call.api_version >= fetch_wire.BY_ID_FROM,
            name_of=partial(_name_of, deps.metadata),
        )
    except SessionError as error:
        _refuse(deps, call, error.error_code)
        return
    (LegacyFetch if is_legacy else Fetch)(call, deps, scan, context).attempt()


def _name_of(metadata: MetadataCache, topic_id: bytes) -> str:
    topic = metadata.topic_by_id(UUID(bytes=topic_id))
    return "" if topic is None else topic.name


def _refuse(deps: _Deps, call: Call, error_code: ErrorCode) -> None:
    """A session that cannot be used: the answer names nothing, and is charged with its request."""
    throttle_time_ms, mute = 0, None
    payer = call.channel.login.payer
    if payer is not None:
        size_bytes = error_frame_bytes(call.api_version)
        throttle_time_ms, mute = payer.charge_fetch(size_bytes, None, deps.now_ms())
        payer.refuse(error_code.name)
    frame = error_frame(call.api_version, call.header.correlation_id, int(error_code.value), throttle_time_ms)
    call.reply_parts([frame], mute=mute)


def _replica(deps: _Deps, call: Call, scan: fetch_wire.FetchScan) -> None:
    """Uncommitted records are for brokers only, and each speaks for itself."""
    peer = call.peer_broker
    if peer is not None and peer.broker_id == scan.replica_id and call.api_version < fetch_wire.BY_ID_FROM:
        deps.replication.fetches.begin(call, scan, peer)
        return
    refused = int(ErrorCode.topic_authorization_failed.value)
    reply = FetchReply(
        call.api_version,
        [PartitionRead(wanted, refused, None) for wanted in scan.partitions],
        sendfile_bytes_min=deps.config.sendfile_bytes_min,
    )
    call.reply_parts(reply.framed(call.header.correlation_id, 0, NO_SESSION))

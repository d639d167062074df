"""Adopt (20002, ours), v0: what the control plane brings from another cluster for an instance (ADR 71).

Behaviour: a topic is made with the id that it had, in a leader epoch behind those it had; records are put at
the end of a log as a follower would put them, with offsets, epochs and producers as they are, and answered
when they are committed; a transactional id goes on where it was; producer ids that others have are given out
no more. Nobody pays. Bodies are messages of `contracts.adoption`. Behind a gateway it is not served; a peer
that proved the deployment's secret without speaking for a client may ask, where there is a secret.
"""

from collections.abc import Callable
from typing import Final, Protocol, assert_never

import msgspec
from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.configs.topic_configs import ConfigFault, check_configs
from broker.controller.api import ControllerApi, NewTopic
from broker.coordinators.producer_ids import ProducerIds
from broker.coordinators.transactions import TransactionCoordinators
from broker.log.errors import LogError
from broker.net.later import Later
from broker.replication.partition import Partition
from broker.replication.replicas import Replicas
from broker.requests.call import Call
from broker.transactions.state import AT_REST, NO_PRODUCER_ID, State, TopicPartition, Transaction
from contracts import adoption
from contracts.adoption import (
    Adopted,
    AdoptProducerIds,
    AdoptRecords,
    AdoptTopic,
    AdoptTransaction,
)
from wire.faults import MalformedFrame

_TIMEOUT_MS: Final = 10_000
_STATES: Final = {state.label: state for state in (*AT_REST, State.ONGOING)}


class _Deps(Protocol):
    config: BrokerConfig
    controller: ControllerApi
    epoch_ms: Callable[[], int]
    later: Later
    producer_ids: ProducerIds
    replicas: Replicas
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    """Carry out one of the messages."""
    try:
        request = adoption.decode_request(call.request[call.header.body_at :])
    except msgspec.MsgspecError as error:
        raise MalformedFrame(str(error)) from error
    if deps.config.secret is None or not call.may_operate:
        _reply(call, _refused(ErrorCode.cluster_authorization_failed))
        return
    match request:
        case AdoptTopic():
            deps.later.answer(call, _adopt_topic(call, deps, request))
        case AdoptRecords():
            _adopt_records(call, deps, request)
        case AdoptTransaction():
            _adopt_transaction(call, deps, request)
        case AdoptProducerIds():
            deps.later.answer(call, _adopt_producer_ids(call, deps, request))
        case _:
            assert_never(request)


def _reply(call: Call, answer: Adopted) -> None:
    call.reply_body(adoption.encode(answer))


def _refused(error_code: ErrorCode, message: str | None = None) -> Adopted:
    return Adopted(error_code=int(error_code), message=message or "")


async def _adopt_topic(call: Call, deps: _Deps, request: AdoptTopic) -> None:
    try:
        configs = check_configs(dict(request.configs))
    except ConfigFault as fault:
        _reply(call, _refused(ErrorCode.invalid_config, str(fault)))
        return
    topic = NewTopic(
        request.topic,
        request.topic_id,
        request.partitions,
        configs=configs,
        leader_epoch=request.leader_epoch,
    )
    (created,) = await deps.controller.create_topics([topic], timeout_ms=_TIMEOUT_MS)
    _reply(call, _refused(*created.verdict))


def _adopt_records(call: Call, deps: _Deps, request: AdoptRecords) -> None:
    try:
        partition = deps.replicas.leader(request.topic, request.partition)
        if partition.topic_id != request.topic_id:
            raise LogError(ErrorCode.inconsistent_topic_id, "the topic has another id")
        partition.adopt(bytearray(request.records), request.start_at, now_ms=deps.epoch_ms())
    except LogError as error:
        _reply(call, _refused(error.error_code, error.message))
        return
    _when_committed(call, deps, partition)


def _when_committed(call: Call, deps: _Deps, partition: Partition) -> None:
    is_told = False

    def tell(error_code: ErrorCode) -> None:
        nonlocal is_told
        if is_told or call.is_gone:
            return
        is_told = True
        timer.cancel()
        log = partition.log
        _reply(
            call,
            Adopted(
                error_code=int(error_code),
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                high_watermark=log.high_watermark,
            ),
        )

    timer = deps.later.after_ms(_TIMEOUT_MS, lambda: tell(ErrorCode.request_timed_out))
    partition.when_committed(partition.log.log_end_offset, tell)


def _adopt_transaction(call: Call, deps: _Deps, request: AdoptTransaction) -> None:

    def token(error_code: ErrorCode) -> None:
        if not (call.is_gone or call.done):
            _reply(call, _refused(error_code))

    shard = deps.transactions.of(request.transactional_id)
    if isinstance(shard, ErrorCode):
        _reply(call, _refused(shard))
        return
    value = None
    if request.producer_id != NO_PRODUCER_ID:
        if request.state not in _STATES:
            _reply(call, _refused(ErrorCode.invalid_txn_state, request.state))
            return
        state, now_ms = _STATES[request.state], deps.epoch_ms()
        is_open = state is State.ONGOING
        value = Transaction(
            request.producer_id,
            request.producer_epoch,
            request.timeout_ms,
            state,
            frozenset(TopicPartition(*one) for one in request.partitions) if is_open else frozenset(),
            now_ms,
            **({"start_ms": now_ms} if is_open else {}),
        )
    shard.submit(shard.core.adopt(request.transactional_id, value, token, shard.now()))


async def _adopt_producer_ids(call: Call, deps: _Deps, request: AdoptProducerIds) -> None:
    is_done = await deps.producer_ids.skip(request.up_to)
    _reply(call, _refused(ErrorCode.none if is_done else ErrorCode.coordinator_not_available))

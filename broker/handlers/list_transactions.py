"""ListTransactions (66), v0-2.

Behaviour: the transactional ids that this broker coordinates, by state, producer id and how long the
transaction has been open; names of states that do not exist are told back.
Versions: v1 a least duration (KIP-994); v2 a pattern of ids (KIP-1152), which is RE2's.
"""

from collections.abc import Callable
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from broker.coordinators.transactions import TransactionCoordinators
from broker.requests.call import Call
from broker.transactions.messages import ListedTransaction
from broker.transactions.state import NO_TIMESTAMP, State
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration
from wire.messages import ListTransactionsRequest
from wire.patterns import compiled_pattern

_STATES: Final = {state.label: state for state in State}


class _Deps(Protocol):
    epoch_ms: Callable[[], int]
    transactions: TransactionCoordinators


def handle(call: Call, deps: _Deps) -> None:
    request = call.request
    shape = response_shape(ApiKey.LIST_TRANSACTIONS, call.api_version)
    unknown = tuple(dict.fromkeys(name for name in request.state_filters if name not in _STATES))
    pattern = getattr(request, "transactional_id_pattern", None)
    compiled = compiled_pattern(pattern) if pattern else _any_name
    matches = compiled or _any_name
    error_code = ErrorCode.none
    if compiled is None:
        error_code = ErrorCode.invalid_regular_expression
    elif deps.transactions.is_loading:
        error_code = ErrorCode.coordinator_load_in_progress
    listed = [] if error_code is not ErrorCode.none else deps.transactions.list_transactions()
    call.reply(
        shape.make(
            throttle_time=duration(0),
            error_code=error_code,
            unknown_state_filters=unknown,
            transaction_states=tuple(
                shape.nested(
                    "TransactionState",
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=each.state.label,
                )
                for each in listed
                if call.shows(each.transactional_id)
                and _is_wanted(request, each, deps.epoch_ms())
                and matches(each.transactional_id)
            ),
        )
    )


def _any_name(_: str) -> bool:
    return True


def _is_wanted(request: ListTransactionsRequest, each: ListedTransaction, now_ms: int) -> bool:
    if request.state_filters and each.state.label not in request.state_filters:
        return False
    if request.producer_id_filters and each.producer_id not in request.producer_id_filters:
        return False
    least_ms = getattr(request, "duration_filter", -1)
    if least_ms < 0:
        return True
    return each.open_since_ms != NO_TIMESTAMP and now_ms - each.open_since_ms > least_ms

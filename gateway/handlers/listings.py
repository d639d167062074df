"""ListGroups 0-5, ListTransactions 0-2, DescribeLogDirs 1-5, DescribeCluster 0-2: beside the rewrite, which
shows an instance its own, what no ACL allows a client to see is left out, as in Kafka.

Versions of DescribeLogDirs below 3 have no error of their own: they list nothing then. A pattern of
transactional ids that has no form inside the instance is INVALID_REGULAR_EXPRESSION.
"""

from dataclasses import replace
from typing import cast

from kio.schema.errors import ErrorCode
from kio.static.protocol import Payload

from contracts.acls import Operation, ResourceType
from gateway.rules.acls import NOT_ASKED, Rights
from gateway.session.call import Call, Forward, Outcome
from wire.api_table import ApiKey
from wire.faults import NotMappable
from wire.messages import DescribeClusterResponse, ListGroupsResponse, ListTransactionsResponse
from wire.patterns import checked_pattern


def on_request(call: Call, request: Payload) -> Outcome:
    """Sizes are for who may describe the instance; patterns are looked at before they go up."""
    if call.api_key == ApiKey.DESCRIBE_LOG_DIRS and call.refuses_of_cluster(Operation.DESCRIBE):
        return call.answer(error_code=ErrorCode.cluster_authorization_failed)
    if call.api_key == ApiKey.LIST_TRANSACTIONS:
        try:
            checked_pattern(getattr(request, "transactional_id_pattern", None) or "")
        except NotMappable:
            return call.answer(error_code=ErrorCode.invalid_regular_expression)
    return Forward(request)


def on_response(call: Call, response: Payload) -> Payload:
    """Leave out what this client may not see."""
    rights = call.rights
    if rights is None:
        return response
    match call.api_key:
        case ApiKey.LIST_GROUPS if call.refuses_of_cluster(Operation.DESCRIBE):
            return _groups(rights, cast(ListGroupsResponse, response))
        case ApiKey.LIST_TRANSACTIONS:
            return _transactions(rights, cast(ListTransactionsResponse, response))
        case ApiKey.DESCRIBE_CLUSTER:
            return _cluster(rights, cast(DescribeClusterResponse, response))
    return response


def _groups(rights: Rights, response: ListGroupsResponse) -> Payload:
    shown = (one for one in response.groups if _shows(rights, ResourceType.GROUP, one.group_id))
    return replace(response, groups=tuple(shown))


def _transactions(rights: Rights, response: ListTransactionsResponse) -> Payload:
    kind = ResourceType.TRANSACTIONAL_ID
    shown = (one for one in response.transaction_states if _shows(rights, kind, one.transactional_id))
    return replace(response, transaction_states=tuple(shown))


def _cluster(rights: Rights, response: DescribeClusterResponse) -> Payload:
    if response.cluster_authorized_operations == NOT_ASKED:
        return response
    return replace(response, cluster_authorized_operations=rights.told_of_cluster())


def _shows(rights: Rights, resource_type: ResourceType, name: str) -> bool:
    return rights.allows(Operation.DESCRIBE, resource_type, name)

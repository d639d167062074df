"""DescribeAcls, CreateAcls, DeleteAcls 1-3, on the ACLs that the console shows (ADR 46).

As in Kafka: SECURITY_DISABLED where there is nobody to be told apart, that is in an instance without users;
else describing needs DESCRIBE and changing ALTER on the cluster, which is the instance. While ACLs are not
enforced only superusers have that. A client sees and changes rules of its own instance, whatever it names.
Deliberately not served: resources of type USER and DELEGATION_TOKEN, which match nothing and cannot be made.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Final, TypeAlias, cast

from kio.schema.errors import ErrorCode

from contracts.access_orders import AccessAnswer, AccessOrder
from contracts.acls import (
    ANY,
    MATCH,
    Acl,
    AclFault,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    checked,
)
from gateway.session.call import Answer, Call, Later
from gateway.session.deps import ChangesAccess
from wire.api_table import ApiKey
from wire.messages import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)

_Error: TypeAlias = dict[str, object]
_DONE: Final[_Error] = {}
_UNKNOWN: Final = "a number that is none of Kafka's types, patterns, operations or permissions"
_UNUSED_TYPES: Final = (6, 7)
"""DELEGATION_TOKEN and USER."""
_UNUSED_OPERATIONS: Final = (13, 14, 15)
"""Of tokens, and of transactions in two phases."""


def on_request(
    call: Call, request: DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest
) -> Answer | Later:
    """Look whether the client may; changes are made by the control plane."""
    refusal = _refusal(call)
    match call.api_key:
        case ApiKey.CREATE_ACLS:
            return _creation(call, cast(CreateAclsRequest, request).creations, refusal)
        case ApiKey.DELETE_ACLS:
            return _deletion(call, cast(DeleteAclsRequest, request).filters, refusal)
    return _description(call, cast(DescribeAclsRequest, request), refusal)


def _refusal(call: Call) -> _Error | None:
    """Why the client may not."""
    if not call.spec.users:
        message = "the instance has no users, so nobody is told apart: `portico user create`"
        return {"error_code": ErrorCode.security_disabled, "error_message": message}
    operation = Operation.DESCRIBE if call.api_key == ApiKey.DESCRIBE_ACLS else Operation.ALTER
    if call.is_superuser or (call.rights is not None and not call.refuses_of_cluster(operation)):
        return None
    message = f"superusers of the instance, and who may {operation.name} the cluster, see and change ACLs"
    return {"error_code": ErrorCode.cluster_authorization_failed, "error_message": message}


# Describing


def _description(call: Call, request: DescribeAclsRequest, refusal: _Error | None) -> Answer:
    if refusal is not None:
        return call.answer(**refusal)
    meant = _filter(request)
    if meant is None:
        return call.answer(error_code=ErrorCode.invalid_request, error_message=_UNKNOWN)
    found = sorted((acl for acl in call.spec.acls if meant.means(acl)), key=_resource)
    resources = [
        {
            "resource_type": resource_type,
            "resource_name": name,
            "pattern_type": pattern_type,
            "acls": [_entry(acl) for acl in acls],
        }
        for (resource_type, pattern_type, name), acls in groupby(found, key=_resource)
    ]
    return call.answer(resources=resources)


def _resource(acl: Acl) -> tuple[ResourceType, PatternType, str]:
    return acl.resource_type, acl.pattern_type, acl.name


def _entry(acl: Acl) -> dict[str, object]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter | None:
    """What is meant; None: it holds numbers that nobody knows."""
    known = (
        asked.resource_type_filter in (ANY, *ResourceType, *_UNUSED_TYPES)
        and asked.pattern_type_filter in (ANY, MATCH, *PatternType)
        and asked.operation in (ANY, *Operation, *_UNUSED_OPERATIONS)
        and asked.permission_type in (ANY, *Permission)
    )
    if not known:
        return None
    return AclFilter(
        resource_type=asked.resource_type_filter,
        pattern_type=asked.pattern_type_filter,
        name=asked.resource_name_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission=asked.permission_type,
    )


# Making


def _creation(call: Call, creations: Sequence[AclCreation], refusal: _Error | None) -> Answer | Later:
    results = [refusal or _fault(one) for one in creations]
    acls = tuple(_acl(one) for one, result in zip(creations, results, strict=True) if result is _DONE)
    if not acls:
        return call.answer(results=results)
    return Later(partial(_created, call, acls, results))


def _fault(creation: AclCreation) -> _Error:
    try:
        _acl(creation)
    except AclFault as fault:
        return {"error_code": ErrorCode.invalid_request, "error_message": str(fault)}
    except ValueError:
        return {"error_code": ErrorCode.invalid_request, "error_message": _UNKNOWN}
    return _DONE


def _acl(creation: AclCreation) -> Acl:
    """Raises: AclFault, ValueError."""
    return checked(
        Acl(
            resource_type=ResourceType(creation.resource_type),
            pattern_type=PatternType(creation.resource_pattern_type),
            name=creation.resource_name,
            principal=creation.principal,
            host=creation.host,
            operation=Operation(creation.operation),
            permission=Permission(creation.permission_type),
        )
    )


async def _created(call: Call, acls: tuple[Acl, ...], results: list[_Error], deps: ChangesAccess) -> Answer:
    failure = _failure(await deps.change_access(_order(call, acls=acls)))
    if failure is not None:
        results = [failure if one is _DONE else one for one in results]
    return call.answer(results=results)


def _order(call: Call, acls: tuple[Acl, ...] = (), filters: tuple[AclFilter, ...] = ()) -> AccessOrder:
    return AccessOrder(
        instance_id=call.spec.instance_id,
        principal=call.conversation.principal,
        address=call.conversation.address,
        acls=acls,
        filters=filters,
    )


def _failure(answer: AccessAnswer) -> _Error | None:
    if not answer.refusal:
        return None
    error_code = ErrorCode.request_timed_out if answer.is_passing else ErrorCode.policy_violation
    return {"error_code": error_code, "error_message": answer.refusal}


# Deleting


def _deletion(call: Call, filters: Sequence[DeleteAclsFilter], refusal: _Error | None) -> Answer | Later:
    meant = [_filter(one) for one in filters]
    unknown = {"error_code": ErrorCode.invalid_request, "error_message": _UNKNOWN}
    results = [refusal or (unknown if one is None else _DONE) for one in meant]
    asked = tuple(one for one in meant if one is not None)
    if refusal is not None or not asked:
        return call.answer(filter_results=results)
    return Later(partial(_deleted, call, asked, results))


async def _deleted(
    call: Call, filters: tuple[AclFilter, ...], results: list[_Error], deps: ChangesAccess
) -> Answer:
    answer = await deps.change_access(_order(call, filters=filters))
    failure = _failure(answer)
    deleted = iter(answer.deleted)
    told = [
        one if one is not _DONE else failure or {"matching_acls": _matching(next(deleted))} for one in results
    ]
    return call.answer(filter_results=told)


def _matching(acls: Iterable[Acl]) -> list[dict[str, object]]:
    return [
        {
            **_entry(acl),
            "resource_type": acl.resource_type,
            "resource_name": acl.name,
            "pattern_type": acl.pattern_type,
        }
        for acl in acls
    ]

"""ACLs of an instance: what its users may do (docs/access.md)."""

import asyncio
from typing import Annotated, Final, Literal, TypeAlias

from fastapi import Depends, Query
from pydantic import ConfigDict, Field

from contracts.acls import (
    ACL_HOST_SHAPE,
    ACL_NAME_SHAPE,
    ACL_PRINCIPAL_SHAPE,
    ACLS_MAX,
    ANY,
    CLUSTER_NAME,
    EVERYTHING,
    MATCH,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tenants.api.context import Found, Plane
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.shapes import of, where
from tenants.api.versions import Changing, Versioned
from tenants.console import Console
from tenants.rules.errors import Invalid
from tenants.rules.lifecycle import unfit
from tenants.rules.model import Instance
from tenants.usecases.instances import Instances

router = api_router("/v1/instances/{instance}/acls", "acls")
ResourceWord: TypeAlias = Literal["topic", "group", "transactional_id", "cluster"]
PatternWord: TypeAlias = Literal["literal", "prefixed"]
OperationWord: TypeAlias = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
]
PermissionWord: TypeAlias = Literal["allow", "deny"]
_NAME_CHARS_MAX: Final = 300
_NAME: Final = "of the resource; `*`: all of its type; `kafka-cluster` for the type `cluster`"
_PRINCIPAL: Final = (
    "`User:` and a user's name; `User:*`: everybody; `User:ANONYMOUS`: who comes in without a login"
)


class AclModel(RequestModel):
    """One rule, in Kafka's words."""

    model_config = ConfigDict(
        json_schema_extra=where("resource_type", "cluster", of(resource_name={"const": CLUSTER_NAME}))
        | {"not": of("pattern_type", pattern_type={"const": "prefixed"}, resource_name={"const": EVERYTHING})}
    )

    resource_type: ResourceWord = Field(description="what it is about", examples=["topic"])
    pattern_type: PatternWord = Field(default="literal", description="how the name is meant")
    resource_name: str = Field(
        description=_NAME, examples=["orders"], json_schema_extra={"pattern": ACL_NAME_SHAPE}
    )
    principal: str = Field(
        description=_PRINCIPAL,
        examples=["User:orders-app"],
        json_schema_extra={"pattern": ACL_PRINCIPAL_SHAPE},
    )
    host: str = Field(
        default="*", description="an address, or `*`", json_schema_extra={"pattern": ACL_HOST_SHAPE}
    )
    operation: OperationWord = Field(description="what somebody does with it", examples=["read"])
    permission: PermissionWord = Field(default="allow", description="`deny` goes before `allow`")


class AclList(ViewModel):
    """GET .../acls, in an order that stays."""

    enforced: bool = Field(description="whether they decide; else everybody may do everything")
    items: list[AclModel]
    applied: bool


class AclCreate(RequestModel):
    """POST .../acls."""

    items: list[AclModel] = Field(min_length=1, max_length=ACLS_MAX, description="to be added")


class AclEnforcement(RequestModel):
    """PATCH .../acls."""

    enforced: bool = Field(description="whether they decide")


class AclDeletion(ViewModel):
    """DELETE .../acls."""

    items: list[AclModel] = Field(description="what was deleted")


def _filter(
    resource_type: Annotated[ResourceWord | None, Query(description="of this type only")] = None,
    pattern_type: Annotated[
        PatternWord | Literal["match"] | None,
        Query(description="of this pattern only; `match`: all that decide about `resource_name`"),
    ] = None,
    resource_name: Annotated[
        str | None, Query(max_length=_NAME_CHARS_MAX, description="of this name only")
    ] = None,
    principal: Annotated[
        str | None, Query(max_length=_NAME_CHARS_MAX, description="of this principal only")
    ] = None,
    host: Annotated[str | None, Query(max_length=64, description="of this host only")] = None,
    operation: Annotated[OperationWord | None, Query(description="of this operation only")] = None,
    permission: Annotated[PermissionWord | None, Query(description="of this permission only")] = None,
) -> AclFilter:
    pattern = ANY if pattern_type is None else MATCH
    if pattern_type in ("literal", "prefixed"):
        pattern = PatternType[pattern_type.upper()]
    return AclFilter(
        resource_type=ANY if resource_type is None else ResourceType[resource_type.upper()],
        pattern_type=pattern,
        name=resource_name,
        principal=principal,
        host=host,
        operation=ANY if operation is None else Operation[operation.upper()],
        permission=ANY if permission is None else Permission[permission.upper()],
    )


Meant = Annotated[AclFilter, Depends(_filter)]


@router.get("")
async def acls(plane: Plane, found: Found, version: Versioned, meant: Meant) -> AclList:
    """The ACLs of an instance."""
    version.tell(found)
    return _list(plane, found, meant)


@router.post("")
async def create_acls(plane: Plane, change: Changing, body: AclCreate) -> AclList:
    """Add ACLs; those that are there already change nothing."""
    changed = await change.make(Instances.add_acls, [_acl(one) for one in body.items])
    return _list(plane, changed, AclFilter())


@router.patch("")
async def enforce_acls(plane: Plane, change: Changing, body: AclEnforcement) -> AclList:
    """Have ACLs decide, or not. With none, only superusers of the instance may do anything."""
    return _list(plane, await change.make(Instances.enforce_acls, body.enforced), AclFilter())


@router.delete("")
async def delete_acls(change: Changing, meant: Meant) -> AclDeletion:
    """Delete the ACLs that the query says; one without any part is refused."""
    if meant == AclFilter():
        raise Invalid([unfit("query", "say which: give one of resource_type, resource_name, principal, ...")])
    cases = change.plane.instances.expecting(change.version.expected)
    changed, (deleted,) = await asyncio.to_thread(
        cases.delete_acls, change.caller, change.instance.id, [meant]
    )
    change.version.tell(changed)
    return AclDeletion(items=[_model(one) for one in deleted])


def _list(plane: Console, instance: Instance, meant: AclFilter) -> AclList:
    return AclList(
        enforced=instance.acls_enforced,
        items=[_model(one) for one in instance.acls if meant.means(one)],
        applied=plane.feed.applied_everywhere(instance.revision),
    )


def _acl(model: AclModel) -> Acl:
    return Acl(
        resource_type=ResourceType[model.resource_type.upper()],
        pattern_type=PatternType[model.pattern_type.upper()],
        name=model.resource_name,
        principal=model.principal,
        host=model.host,
        operation=Operation[model.operation.upper()],
        permission=Permission[model.permission.upper()],
    )


def _model(acl: Acl) -> AclModel:
    return AclModel.model_validate(
        {
            "resource_type": acl.resource_type.name.lower(),
            "pattern_type": acl.pattern_type.name.lower(),
            "resource_name": acl.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation.name.lower(),
            "permission": acl.permission.name.lower(),
        }
    )

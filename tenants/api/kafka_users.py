"""Users of an instance, whom its clients log in as by SASL (docs/access.md)."""

from typing import Annotated

from fastapi import Path
from pydantic import Field

from contracts.users import KafkaUser, Mechanism
from tenants import credentials
from tenants.api.context import Found, Plane
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.shapes import Name
from tenants.api.versions import Changing, Versioned
from tenants.console import Console
from tenants.rules.errors import NotFound
from tenants.rules.model import Instance
from tenants.usecases.instances import Instances

router = api_router("/v1/instances/{instance}/users", "users")
UserName = Annotated[str, Path(max_length=64, description="the name of the user", examples=["orders-app"])]
_SUPERUSER = "whether it may do everything, whatever ACLs say, and make ACLs by Kafka's own tools"
_PASSWORD = "8 to 256 characters of ASCII; null: one is drawn, and is in the answer"


Password = Annotated[
    str | None,
    Field(
        max_length=1024,
        description=_PASSWORD,
        examples=[None],
        json_schema_extra={"pattern": "^[ -~]{8,256}$"},
    ),
]


class KafkaUserCreate(RequestModel):
    """POST .../users."""

    name: Name = Field(description="letters, digits, '.', '_' and '-'", examples=["orders-app"])
    password: Password = None
    superuser: bool = Field(default=False, description=_SUPERUSER)


class KafkaUserChange(RequestModel):
    """PATCH .../users/{user}."""

    superuser: bool = Field(description=_SUPERUSER)


class KafkaUserPassword(RequestModel):
    """POST .../users/{user}/password."""

    password: Password = None


class KafkaUserView(ViewModel):
    """A user. Of its password nothing is told."""

    name: str = Field(description="of the user", examples=["orders-app"])
    mechanisms: list[str] = Field(
        description="what it can log in by", examples=[["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]]
    )
    superuser: bool = Field(description=_SUPERUSER)
    applied: bool


class KafkaUserSecret(KafkaUserView):
    """A user that has a new password: the only time that it is shown."""

    password: str | None = Field(
        description="as it was drawn; null: the caller has chosen it", examples=["Yc3tGJk4m7nRw2xQ"]
    )


class KafkaUserList(ViewModel):
    """GET .../users, by name."""

    items: list[KafkaUserView]


@router.get("")
async def kafka_users(plane: Plane, found: Found, version: Versioned) -> KafkaUserList:
    """The users of an instance."""
    version.tell(found)
    return KafkaUserList(items=[_view(plane, found, one) for one in found.users])


@router.post("", status_code=201)
async def create_kafka_user(plane: Plane, change: Changing, body: KafkaUserCreate) -> KafkaUserSecret:
    """Make a user. Its password is in this answer if it was drawn, and nowhere else."""
    password = credentials.new_password() if body.password is None else body.password
    changed = await change.make(Instances.add_user, body.name, password, body.superuser)
    return _secret(plane, changed, body.name, None if body.password else password)


@router.post("/{user}/password")
async def set_kafka_user_password(
    plane: Plane, change: Changing, user: UserName, body: KafkaUserPassword
) -> KafkaUserSecret:
    """Give a user another password. Its connections are cut within a second; they may come back with it."""
    password = credentials.new_password() if body.password is None else body.password
    changed = await change.make(Instances.set_user_password, user, password)
    return _secret(plane, changed, user, None if body.password else password)


@router.patch("/{user}")
async def change_kafka_user(
    plane: Plane, change: Changing, user: UserName, body: KafkaUserChange
) -> KafkaUserView:
    """Make a user a superuser of the instance, or one like others."""
    changed = await change.make(Instances.set_superuser, user, body.superuser)
    return _view(plane, changed, _found(changed, user))


@router.delete("/{user}", status_code=204)
async def delete_kafka_user(change: Changing, user: UserName) -> None:
    """Delete a user. Its connections are cut within a second."""
    await change.make(Instances.delete_user, user)


def _secret(plane: Console, instance: Instance, name: str, drawn: str | None) -> KafkaUserSecret:
    user = _found(instance, name)
    return KafkaUserSecret(**_view(plane, instance, user).model_dump(), password=drawn)


def _found(instance: Instance, name: str) -> KafkaUser:
    user = next((one for one in instance.users if one.name == name), None)
    if user is None:
        raise NotFound(f"user '{name[:80]}' was deleted meanwhile")
    return user


def _view(plane: Console, instance: Instance, user: KafkaUser) -> KafkaUserView:
    return KafkaUserView(
        name=user.name,
        superuser=user.superuser,
        mechanisms=_mechanisms(user),
        applied=plane.feed.applied_everywhere(instance.revision),
    )


def _mechanisms(user: KafkaUser) -> list[str]:
    """PLAIN is checked by what SCRAM-SHA-256 is."""
    own = [str(one.mechanism) for one in user.credentials]
    return ["PLAIN", *own] if Mechanism.SCRAM_SHA_256 in own else own

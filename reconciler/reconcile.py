"""One look at an object: what it asks for, what the console has, and the calls between them.

What an object does not say is left as it is, and nothing is deleted because something is absent: only the
deletion of an object whose policy is Delete deletes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reconciler import plan
from reconciler.conditions import with_ready
from reconciler.console import UNDER_WAY, Console, Refused, Unreachable, path_of
from reconciler.plan import Call, WrongSpec

DELETE: Final = "Delete"
_CREATING_S: Final = 2.0
_BACKOFF_FIRST_S: Final = 2.0
_BACKOFF_LAST_S: Final = 300.0
Owner = Callable[[str, str], str | None]
"""(instance id, uid of who asks) -> `namespace/name` of another object that has it already, or None."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the object's status says after a look."""

    status: dict[str, Any]
    again_in_s: float | None = None
    """None: when the object changes, or at the next look for drift."""


class _NotYet(Exception):  # noqa: N818 - a state
    """The object cannot become true now; told as its condition."""

    def __init__(self, reason: str, message: str, again_in_s: float | None) -> None:
        super().__init__(message)
        self.reason, self.message, self.again_in_s = reason, message, again_in_s


class Reconciler:
    """Both kinds of objects."""

    def __init__(self, console: Console, tenants: Mapping[str, str], now: Callable[[], str]) -> None:
        """`tenants`: by namespace. `now` is RFC 3339."""
        self._console = console
        self._tenants = tenants
        self._now = now

    # -- instances ---------------------------------------------------------------------------------------

    async def instance(self, obj: Mapping[str, Any], owner: Owner, retry: int) -> Outcome:
        """Make an instance as its object says."""
        status = dict(obj.get("status") or {})
        try:
            status |= await self._instance(obj, status, owner)
            state = status["state"]
            if state == "creating":
                raise _NotYet("Creating", "not every gateway serves it yet", _CREATING_S)
            if state == "failed":
                raise _NotYet("Failed", status.pop("reason", None) or "the instance failed", _backoff(retry))
            if state == "suspended":
                raise _NotYet("Suspended", "it is suspended: nobody can connect", None)
        except (_NotYet, WrongSpec, Refused, Unreachable) as error:
            status.pop("reason", None)
            return self._unready(obj, status, error, retry)
        status.pop("reason", None)
        return self._ready(obj, status, "Running", f"it serves at {status['bootstrapServers']}")

    async def _instance(self, obj: Mapping[str, Any], status: dict[str, Any], owner: Owner) -> dict[str, Any]:
        tenant = self._tenant(obj)
        spec, name = obj["spec"], obj["spec"].get("name") or obj["metadata"]["name"]
        shown = await self._known_instance(status, tenant)
        if shown is None and spec.get("adopt"):
            shown = await self._console.instance_named(name, tenant=tenant)
        if shown is None:
            shown = await self._created(obj, name, tenant)
        other = owner(shown["id"], obj["metadata"]["uid"])
        if other is not None:
            raise _NotYet("Claimed", f"the instance {shown['id']} is kept by {other} already", None)
        status["id"] = shown["id"]  # also when a call below is refused: it is ours
        calls = plan.instance_calls(spec, name, shown)
        if calls:
            await self._carry_out(path_of(shown["id"]), calls, tenant)
            shown = await self._console.instance(shown["id"], tenant=tenant) or shown
        return {
            "id": shown["id"],
            "tenant": tenant,
            "bootstrapServers": shown["bootstrap_servers"],
            "state": shown["state"],
            "reason": shown["state_reason"],
        }

    async def _known_instance(self, status: Mapping[str, Any], tenant: str) -> dict[str, Any] | None:
        if "id" not in status:
            return None
        shown = await self._console.instance(status["id"], tenant=tenant)
        if shown is None:
            raise _NotYet(
                "InstanceGone",
                f"tenant {tenant} has no instance {status['id']} any more. Take it back in the console "
                "(deleted instances are kept for a while), or delete this object and make it anew",
                _BACKOFF_LAST_S,
            )
        return shown

    async def _created(self, obj: Mapping[str, Any], name: str, tenant: str) -> dict[str, Any]:
        """Once for each object: one whose status was never written, because we died, gets its own again."""
        order = plan.creation(obj["spec"], name)
        try:
            made = await self._console.call(
                order.method, "instances", order.body, tenant=tenant, once=obj["metadata"]["uid"]
            )
        except Refused as error:
            found = None
            if error.reason != UNDER_WAY:
                found = await self._console.instance_named(name, tenant=tenant)
            if found is None:
                raise
            raise _NotYet(
                "NameTaken",
                f"tenant {tenant} has an instance '{name}' ({found['id']}): spec.adopt takes it over",
                None,
            ) from error
        return dict(made)

    async def instance_deleted(self, obj: Mapping[str, Any]) -> None:
        """The object goes, the instance only where the policy says so. Raises: Refused, Unreachable."""
        instance_id = (obj.get("status") or {}).get("id")
        tenant = self._tenants.get(obj["metadata"]["namespace"])
        if obj["spec"].get("deletionPolicy") != DELETE or instance_id is None or tenant is None:
            return
        if await self._console.instance(instance_id, tenant=tenant) is not None:
            await self._console.call("DELETE", path_of(instance_id), tenant=tenant)

    # -- topics ------------------------------------------------------------------------------------------

    async def topic(self, obj: Mapping[str, Any], instance_id: str | None, retry: int) -> Outcome:
        """Make a topic as its object says. `instance_id`: of its KafkaInstance, once that has one."""
        status = dict(obj.get("status") or {})
        try:
            status |= await self._topic(obj, status, instance_id)
        except (_NotYet, WrongSpec, Refused, Unreachable) as error:
            return self._unready(obj, status, error, retry)
        return self._ready(obj, status, "Created", f"{status['partitions']} partitions")

    async def _topic(
        self, obj: Mapping[str, Any], status: dict[str, Any], instance_id: str | None
    ) -> dict[str, Any]:
        tenant, spec = self._tenant(obj), obj["spec"]
        reference = spec["instanceRef"]["name"]
        if instance_id is None:
            raise _NotYet("NoInstance", f"KafkaInstance '{reference}' has no instance (yet)", 5.0)
        if status.get("instanceId", instance_id) != instance_id:
            raise WrongSpec(f"the topic is in instance {status['instanceId']}; a topic does not move")
        if await self._console.instance(instance_id, tenant=tenant) is None:
            raise _NotYet("NoInstance", f"tenant {tenant} has no instance {instance_id}", _BACKOFF_LAST_S)
        name = spec.get("name") or obj["metadata"]["name"]
        shown = await self._console.topic(instance_id, name, tenant=tenant)
        if shown is None and "topic" in status:
            raise _NotYet(
                "TopicGone",
                f"the topic '{name}' was deleted with its records: delete this object and make it anew",
                _BACKOFF_LAST_S,
            )
        if shown is None or not ("topic" in status or spec.get("adopt")):
            shown = await self._created_topic(obj, instance_id, name, tenant, is_there=shown is not None)
        status |= {"topic": name, "instanceId": instance_id, "tenant": tenant}
        managed = status.get("config") or {}
        await self._carry_out(path_of(instance_id, name), plan.topic_calls(spec, managed, shown), tenant)
        return {
            "topic": name,
            "instanceId": instance_id,
            "tenant": tenant,
            "partitions": max(int(spec["partitions"]), len(shown["partitions"])),
            "config": {**dict.fromkeys(managed), **(spec.get("config") or {})},
        }

    async def _created_topic(
        self, obj: Mapping[str, Any], instance_id: str, name: str, tenant: str, *, is_there: bool
    ) -> dict[str, Any]:
        """Create a topic, as `_created` does an instance."""
        order = plan.topic_creation(obj["spec"], name)
        path = f"{path_of(instance_id)}/topics"
        once = obj["metadata"]["uid"]
        try:
            return dict(await self._console.call(order.method, path, order.body, tenant=tenant, once=once))
        except Refused as error:
            if not is_there or error.reason == UNDER_WAY:
                raise
            taken = f"there is a topic '{name}': spec.adopt takes it over"
            raise _NotYet("NameTaken", taken, None) from error

    async def topic_deleted(self, obj: Mapping[str, Any]) -> None:
        """The object goes; topic and records with it only where the policy says so.

        Raises: Refused, Unreachable.
        """
        status = obj.get("status") or {}
        tenant = self._tenants.get(obj["metadata"]["namespace"])
        if obj["spec"].get("deletionPolicy") != DELETE or "topic" not in status or tenant is None:
            return
        instance_id, name = status["instanceId"], status["topic"]
        if await self._console.instance(instance_id, tenant=tenant) is None:
            return
        if await self._console.topic(instance_id, name, tenant=tenant) is not None:
            await self._console.call("DELETE", path_of(instance_id, name), tenant=tenant)

    # -- both --------------------------------------------------------------------------------------------

    def _tenant(self, obj: Mapping[str, Any]) -> str:
        """Namespaces stand for tenants, as whoever runs the reconciler says: no object can choose."""
        namespace = obj["metadata"]["namespace"]
        tenant = self._tenants.get(namespace)
        if tenant is None:
            raise _NotYet("NoTenant", f"namespace {namespace} stands for no tenant (operator.tenants)", None)
        return tenant

    async def _carry_out(self, path: str, calls: list[Call], tenant: str) -> None:
        for call in calls:
            await self._console.call(call.method, path + call.path, call.body, tenant=tenant)

    def _ready(self, obj: Mapping[str, Any], status: dict[str, Any], reason: str, message: str) -> Outcome:
        return self._told(obj, status, ready=True, reason=reason, message=message, again_in_s=None)

    def _unready(
        self, obj: Mapping[str, Any], status: dict[str, Any], error: Exception, retry: int
    ) -> Outcome:
        match error:
            case _NotYet():
                reason, message, again_in_s = error.reason, error.message, error.again_in_s
            case WrongSpec():
                reason, message, again_in_s = "Invalid", str(error), None
            case Refused():
                reason, message, again_in_s = error.reason, error.detail, _backoff(retry)
            case _:
                reason, message, again_in_s = "ConsoleUnavailable", str(error), _backoff(retry)
        return self._told(obj, status, ready=False, reason=reason, message=message, again_in_s=again_in_s)

    def _told(
        self,
        obj: Mapping[str, Any],
        status: dict[str, Any],
        *,
        ready: bool,
        reason: str,
        message: str,
        again_in_s: float | None,
    ) -> Outcome:
        generation = int(obj["metadata"].get("generation", 0))
        status["observedGeneration"] = generation
        status["conditions"] = with_ready(
            status.get("conditions") or [],
            ready=ready,
            reason=reason,
            message=message,
            generation=generation,
            now=self._now(),
        )
        return Outcome(status, again_in_s)


def _backoff(retry: int) -> float:
    return min(_BACKOFF_FIRST_S * 2.0 ** min(retry, 10), _BACKOFF_LAST_S)

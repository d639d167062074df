"""What kopf calls: looks at objects when they change, begin, end, and once a while for drift."""

from collections.abc import Mapping
from typing import Any, Final

import kopf

from reconciler.console import Refused, Unreachable
from reconciler.reconcile import Outcome, Reconciler

GROUP: Final = "portico.dev"
VERSION: Final = "v1alpha1"
INSTANCES: Final = "kafkainstances"
TOPICS: Final = "kafkatopics"
_INDEX: Final = "instances"
"""Its id, by which handlers are given it."""
_DELETION_AGAIN_S: Final = 15.0
_DELETION_AGAIN_LAST_S: Final = 300.0


def register(registry: kopf.OperatorRegistry, reconciler: Reconciler, drift_s: float) -> None:
    """Put the handlers of both kinds into a registry. `drift_s`: between two looks at one object."""

    @kopf.index(GROUP, VERSION, INSTANCES, id=_INDEX, registry=registry)
    def instance_index(body: kopf.Body, **_: Any) -> dict[tuple[str, str], tuple[str, str | None]]:
        key = str(body.metadata.namespace), str(body.metadata.name)
        return {key: (str(body.metadata.uid), body.status.get("id"))}

    @kopf.on.create(GROUP, VERSION, INSTANCES, id="instance", registry=registry)
    @kopf.on.update(GROUP, VERSION, INSTANCES, id="instance", field="spec", registry=registry)
    @kopf.on.resume(GROUP, VERSION, INSTANCES, id="instance", registry=registry)
    async def instance_changed(body: kopf.Body, patch: kopf.Patch, retry: int, **given: Any) -> None:
        _tell(patch, body, await reconciler.instance(body, _owner(given[_INDEX]), retry))

    @kopf.timer(
        GROUP,
        VERSION,
        INSTANCES,
        id="instance-drift",
        interval=drift_s,
        initial_delay=drift_s,
        registry=registry,
    )
    async def instance_drifts(body: kopf.Body, patch: kopf.Patch, **given: Any) -> None:
        _note(patch, body, await reconciler.instance(body, _owner(given[_INDEX]), 0))

    @kopf.on.delete(GROUP, VERSION, INSTANCES, id="instance-deleted", registry=registry)
    async def instance_deleted(body: kopf.Body, retry: int, **_: Any) -> None:
        try:
            await reconciler.instance_deleted(body)
        except (Refused, Unreachable) as error:
            raise kopf.TemporaryError(str(error), delay=_deletion_delay(retry)) from error

    @kopf.on.create(GROUP, VERSION, TOPICS, id="topic", registry=registry)
    @kopf.on.update(GROUP, VERSION, TOPICS, id="topic", field="spec", registry=registry)
    @kopf.on.resume(GROUP, VERSION, TOPICS, id="topic", registry=registry)
    async def topic_changed(body: kopf.Body, patch: kopf.Patch, retry: int, **given: Any) -> None:
        _tell(patch, body, await reconciler.topic(body, _instance_of(body, given[_INDEX]), retry))

    @kopf.timer(
        GROUP, VERSION, TOPICS, id="topic-drift", interval=drift_s, initial_delay=drift_s, registry=registry
    )
    async def topic_drifts(body: kopf.Body, patch: kopf.Patch, **given: Any) -> None:
        _note(patch, body, await reconciler.topic(body, _instance_of(body, given[_INDEX]), 0))

    @kopf.on.delete(GROUP, VERSION, TOPICS, id="topic-deleted", registry=registry)
    async def topic_deleted(body: kopf.Body, retry: int, **_: Any) -> None:
        try:
            await reconciler.topic_deleted(body)
        except (Refused, Unreachable) as error:
            raise kopf.TemporaryError(str(error), delay=_deletion_delay(retry)) from error


def _deletion_delay(retry: int) -> float:
    return min(_DELETION_AGAIN_S * (retry + 1), _DELETION_AGAIN_LAST_S)


def _owner(index: kopf.Index[Any, Any]) -> Any:
    def owner(instance_id: str, uid: str) -> str | None:
        for key, store in index.items():
            for other_uid, other_id in store:
                if other_id == instance_id and other_uid != uid:
                    return "/".join(key)
        return None

    return owner


def _instance_of(body: Mapping[str, Any], index: kopf.Index[Any, Any]) -> str | None:
    key = str(body["metadata"]["namespace"]), str(body["spec"]["instanceRef"]["name"])
    for _uid, instance_id in index.get(key, ()):
        return None if instance_id is None else str(instance_id)
    return None


def _note(patch: kopf.Patch, body: kopf.Body, outcome: Outcome) -> None:
    """Write the status where it says something new: else each look would wake everybody who watches."""
    before = dict(body.status)
    changed = {key: value for key, value in outcome.status.items() if before.get(key) != value}
    patch.status.update(changed)


def _tell(patch: kopf.Patch, body: kopf.Body, outcome: Outcome) -> None:
    """Write the status, and have kopf call again where that helps."""
    _note(patch, body, outcome)
    if outcome.again_in_s is not None:
        (ready,) = (each for each in outcome.status["conditions"] if each["type"] == "Ready")
        raise kopf.TemporaryError(f"{ready['reason']}: {ready['message']}", delay=outcome.again_in_s)

"""Topics that a request names by id: only the instance's own go up, whatever a broker would say of others."""

from collections.abc import Callable, Iterable
from typing import TypeAlias
from uuid import UUID

from gateway.session.call import Call, Later, Outcome
from gateway.session.deps import Deps
from wire.faults import ForeignName

Decision: TypeAlias = Outcome | Later


def check_own(call: Call, topic_ids: Iterable[UUID | None]) -> None:
    """An answer names topics that were asked for, so its ids are known. Raises: ForeignName."""
    known = call.instance.topic_ids
    if any(topic_id is not None and known.name(topic_id) is None for topic_id in topic_ids):
        raise ForeignName("an answer with the id of a topic that is not the instance's")


def with_ids_known(call: Call, topic_ids: Iterable[UUID | None], decide: Callable[[], Decision]) -> Decision:
    """What `decide` says, once all that can be known of these ids stands in the instance's `topic_ids`."""
    asked = call.instance.topic_ids.to_ask(topic_ids, call.conversation.now_ms)
    if not asked:
        return decide()

    async def look_up(deps: Deps) -> Outcome:
        await deps.look_up_topics(asked)
        decided = decide()
        return await decided.work(deps) if isinstance(decided, Later) else decided

    return Later(look_up)

"""Alarms: what is raised and why, when it is, and what people do about it (docs/alarms.md)."""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Annotated, Final

from fastapi import Path, Query

from runtime.clock import epoch_ms
from tenants.api import alarm_models as models
from tenants.api import views
from tenants.api.context import Asker, Found, Paging, Plane, Tenant, after_key, at, bad_cursor, home_or_all
from tenants.api.routers import api_router
from tenants.console import Console
from tenants.rules.alarms import MEANINGS, AlarmKind, Rule, shown_state
from tenants.rules.model import Caller, Instance
from tenants.usecases.alarms import Listed, Shown, Told

router = api_router("/v1", "alarms")
Kind = Annotated[AlarmKind, Path(description="what the alarm is about", examples=["throttled_produce"])]
Subject = Annotated[
    str, Query(max_length=128, description="which of several, as the list tells it", examples=["builtin-1/1"])
]
_KINDS: Final = {kind.value: kind for kind in AlarmKind}


@router.get("/alarms")
async def raised_alarms(
    plane: Plane, caller: Asker, page: Paging, tenant: Tenant = None
) -> models.RaisedAlarms:
    """What is raised of a tenant's instances. Operators: with `?tenant=*` everybody's, and their own."""
    home = await home_or_all(plane, caller, tenant)
    after = after_key(page, str, str, str)
    if after is not None:
        if after[1] not in _KINDS:
            raise bad_cursor()
        after = (after[0], _KINDS[after[1]], after[2])
    found = await asyncio.to_thread(plane.alarms.raised, home, after, page.limit)
    listed = _list(found, caller)
    last = found.items[-1].kept.alarm if found.items else None
    key = None if last is None else [last.instance_id, last.kind.value, last.subject]
    return models.RaisedAlarms(
        items=listed.items, looked_at=listed.looked_at, next_cursor=page.next_cursor(len(listed.items), key)
    )


# --- of an instance --------------------------------------------------------------------------------


@router.get("/instances/{instance}/alarms")
async def instance_alarms(plane: Plane, caller: Asker, found: Found) -> models.AlarmList:
    """Each alarm of an instance, raised or not, with what is known and what helps."""
    return _list(await asyncio.to_thread(plane.alarms.of, found), caller)


@router.get("/instances/{instance}/alarms/history")
async def instance_alarm_history(plane: Plane, caller: Asker, found: Found) -> models.AlarmHistory:
    """What was raised, cleared, acknowledged and silenced."""
    return _entries(await asyncio.to_thread(plane.alarms.history, found), caller)


@router.put("/instances/{instance}/alarms/{kind}/rule")
async def set_instance_alarm_rule(
    plane: Plane, caller: Asker, found: Found, kind: Kind, body: models.AlarmRuleOrder
) -> models.AlarmRuleView:
    """Say when this alarm of the instance is raised, or have it not looked at."""
    return await _set_rule(plane, caller, found, kind, body)


@router.delete("/instances/{instance}/alarms/{kind}/rule")
async def reset_instance_alarm_rule(
    plane: Plane, caller: Asker, found: Found, kind: Kind
) -> models.AlarmRuleView:
    """Have the operators' rule hold again. Answers that."""
    return _rule(await asyncio.to_thread(plane.alarms.reset_rule, caller, found, kind))


@router.post("/instances/{instance}/alarms/{kind}/acknowledge")
async def acknowledge_instance_alarm(
    plane: Plane, caller: Asker, found: Found, kind: Kind
) -> models.AlarmView:
    """Say that somebody has seen it. It is forgotten when the alarm is cleared."""
    return await _shown(caller, asyncio.to_thread(plane.alarms.acknowledge, caller, found, kind))


@router.put("/instances/{instance}/alarms/{kind}/silence")
async def silence_instance_alarm(
    plane: Plane, caller: Asker, found: Found, kind: Kind, body: models.SilenceOrder
) -> models.AlarmView:
    """Have nobody told of it until a time. It is looked at all the same; what is raised then is told."""
    until_ms = _ms(body.until)
    return await _shown(caller, asyncio.to_thread(plane.alarms.silence, caller, found, kind, "", until_ms))


@router.delete("/instances/{instance}/alarms/{kind}/silence")
async def unsilence_instance_alarm(plane: Plane, caller: Asker, found: Found, kind: Kind) -> models.AlarmView:
    """Have them told again."""
    return await _shown(caller, asyncio.to_thread(plane.alarms.silence, caller, found, kind, "", None))


# --- of the deployment -----------------------------------------------------------------------------


@router.get("/alarms/deployment")
async def deployment_alarms(plane: Plane, caller: Asker) -> models.AlarmList:
    """The operators' own: brokers, gateways, clusters, certificates."""
    return _list(await asyncio.to_thread(plane.alarms.of, None), caller)


@router.get("/alarms/history")
async def alarm_history(plane: Plane, caller: Asker, tenant: Tenant = None) -> models.AlarmHistory:
    """What happened to alarms of a tenant's instances. Operators: with `?tenant=*` of everybody's, and to
    their own."""
    home = await home_or_all(plane, caller, tenant)
    return _entries(await asyncio.to_thread(plane.alarms.history_of, home), caller)


@router.get("/alarms/rules")
async def alarm_rules(plane: Plane) -> models.AlarmRuleList:
    """The rule of each kind that holds where an instance has none of its own."""
    found = await asyncio.to_thread(plane.alarms.rules)
    return models.AlarmRuleList(
        items=[models.OperatorRule(rule=_rule(rule), changed=is_set) for rule, is_set in found]
    )


@router.put("/alarms/{kind}/rule")
async def set_alarm_rule(
    plane: Plane, caller: Asker, kind: Kind, body: models.AlarmRuleOrder
) -> models.AlarmRuleView:
    """Set the rule that holds where an instance has none of its own, and for the operators' own alarms."""
    return await _set_rule(plane, caller, None, kind, body)


@router.delete("/alarms/{kind}/rule")
async def reset_alarm_rule(plane: Plane, caller: Asker, kind: Kind) -> models.AlarmRuleView:
    """Have the built-in rule hold again. Answers that."""
    return _rule(await asyncio.to_thread(plane.alarms.reset_rule, caller, None, kind))


@router.post("/alarms/{kind}/acknowledge")
async def acknowledge_alarm(
    plane: Plane, caller: Asker, kind: Kind, subject: Subject = ""
) -> models.AlarmView:
    """Say that an operator has seen it. It is forgotten when the alarm is cleared."""
    return await _shown(caller, asyncio.to_thread(plane.alarms.acknowledge, caller, None, kind, subject))


@router.put("/alarms/{kind}/silence")
async def silence_alarm(
    plane: Plane, caller: Asker, kind: Kind, body: models.SilenceOrder, subject: Subject = ""
) -> models.AlarmView:
    """Have nobody told of it until a time."""
    until_ms = _ms(body.until)
    return await _shown(
        caller, asyncio.to_thread(plane.alarms.silence, caller, None, kind, subject, until_ms)
    )


@router.delete("/alarms/{kind}/silence")
async def unsilence_alarm(plane: Plane, caller: Asker, kind: Kind, subject: Subject = "") -> models.AlarmView:
    """Have operators told again."""
    return await _shown(caller, asyncio.to_thread(plane.alarms.silence, caller, None, kind, subject, None))


# --- views -----------------------------------------------------------------------------------------


async def _set_rule(
    plane: Console, caller: Caller, found: Instance | None, kind: AlarmKind, body: models.AlarmRuleOrder
) -> models.AlarmRuleView:
    rule = Rule(kind=kind, **body.model_dump())
    return _rule(await asyncio.to_thread(plane.alarms.set_rule, caller, found, rule))


def _entries(found: Sequence[Told], caller: Caller) -> models.AlarmHistory:
    items = [
        models.AlarmEntry(
            at=at(one.at_ms),
            instance_id=one.instance_id or None,
            instance_name=name,
            kind=one.kind,
            subject=one.subject,
            event=one.event,
            says=one.says,
            by=one.by and views.actor_for(caller, one.by),
        )
        for one, name in found
    ]
    return models.AlarmHistory(items=items)


async def _shown(caller: Caller, doing: Awaitable[Shown]) -> models.AlarmView:
    return _view(await doing, caller, epoch_ms(), epoch_ms())


def _list(found: Listed, caller: Caller) -> models.AlarmList:
    now_ms = epoch_ms()
    return models.AlarmList(
        items=[_view(one, caller, found.looked_at_ms, now_ms) for one in found.items],
        looked_at=_maybe(found.looked_at_ms),
    )


def _view(shown: Shown, caller: Caller, looked_at_ms: int | None, now_ms: int) -> models.AlarmView:
    alarm, handling, place = shown.kept.alarm, shown.kept.handling, shown.place
    meaning = MEANINGS[alarm.kind]
    is_silenced = handling.is_silenced(now_ms)
    return models.AlarmView(
        kind=alarm.kind,
        subject=alarm.subject,
        instance_id=alarm.instance_id or None,
        tenant=None if place is None else place.tenant,
        instance_name=None if place is None else place.name,
        severity=meaning.severity,
        title=meaning.title,
        state=shown_state(alarm, looked_at_ms, now_ms),
        since=_maybe(alarm.since_ms or None),
        raised_at=_maybe(alarm.raised_at_ms),
        known_at=_maybe(alarm.known_at_ms),
        value=alarm.value,
        says=alarm.says,
        remedy=meaning.remedy,
        acknowledged_at=_maybe(handling.acked_at_ms),
        acknowledged_by=handling.acked_by and views.actor_for(caller, handling.acked_by),
        silenced_until=_maybe(handling.silenced_until_ms) if is_silenced else None,
        silenced_by=handling.silenced_by and views.actor_for(caller, handling.silenced_by)
        if is_silenced
        else None,
        rule=_rule(shown.rule),
    )


def _rule(rule: Rule) -> models.AlarmRuleView:
    meaning = MEANINGS[rule.kind]
    return models.AlarmRuleView(
        kind=rule.kind,
        title=meaning.title,
        unit=meaning.unit,
        enabled=rule.enabled,
        threshold=rule.threshold,
        window_minutes=rule.window_minutes,
        raise_after=rule.raise_after,
        clear_after=rule.clear_after,
    )


def _maybe(ms: int | None) -> datetime | None:
    return None if ms is None else at(ms)


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)

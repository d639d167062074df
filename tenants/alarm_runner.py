"""Looks at every alarm's figures, again and again; of several control processes one decides: the office's."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants.alarm_lags import Asked, Lags
from tenants.alarm_sources import AlarmSources
from tenants.purge_rule import FORGET_AFTER_MS
from tenants.rules.alarm_figures import LAGS_EVERY_MS
from tenants.rules.alarms import (
    LOOK_EVERY_MS,
    Alarm,
    AlarmKind,
    AlarmState,
    Finding,
    Handling,
    Step,
    rule_of,
    step,
)
from tenants.store.alarms import Key
from tenants.store.engine import StoreFault
from tenants.store.instances import Place
from tenants.store.shared_session import Office
from tenants.usecases.alarms import Alarms, Rules

_log = get_logger(__name__)
_REFRESH_MS: Final = 600_000
"""The words of an alarm that stays as it is are written so often, where they changed."""
_REFRESH_RAISED_MS: Final = 60_000
_SILENT: Final = "nobody has told of it lately"


class AlarmRunner:
    """The background task."""

    def __init__(self, alarms: Alarms, sources: AlarmSources, lags: Lags, office: Office) -> None:
        self._alarms = alarms
        self._sources = sources
        self._lags = lags
        self._office = office
        self._office_since_ms: int | None = None
        self._known: dict[Key, Alarm] = {}
        self._written_ms: dict[Key, int] = {}

    async def run(self) -> None:
        """Look for ever."""
        while True:
            try:
                await self.look(epoch_ms())
            except StoreFault as fault:
                _log.warning("alarms are not looked at: the database does not work", error=fault.reason)
            except Exception:  # noqa: BLE001 - a look that fails must not be the last
                _log.exception("a look at alarms failed")
            await asyncio.sleep(LOOK_EVERY_MS / 1000)

    async def run_lags(self) -> None:
        """Ask for lags, for ever."""
        while True:
            await asyncio.sleep(LAGS_EVERY_MS / 1000)
            if self._office.since_ms is None:
                continue
            try:
                places, rules, _ = await asyncio.to_thread(self._alarms.known)
            except StoreFault:  # the other task tells of it
                continue
            asked = {}
            for key, place in places.items():
                growing = rule_of(AlarmKind.LAG_GROWING, key, rules)
                late = rule_of(AlarmKind.LAG_SECONDS, key, rules)
                if growing.enabled or late.enabled:
                    asked[key] = Asked(place.tenant, place.cluster_id, growing.threshold, late.enabled)
            await self._lags.look(asked)

    async def look(self, now_ms: int) -> None:
        """One look; who does not hold the office only remembers figures. Raises: StoreFault."""
        places, rules, handled = await asyncio.to_thread(self._alarms.known)
        found = await self._sources.look(places, rules, now_ms)
        if self._office.since_ms is None:
            self._office_since_ms = None
            return
        if self._office.since_ms != self._office_since_ms:
            self._known = await asyncio.to_thread(self._alarms.kept)
            self._written_ms = {}
            self._office_since_ms = self._office.since_ms
        await self._settle(places, rules, handled, found, now_ms)

    async def _settle(
        self,
        places: Mapping[str, Place],
        rules: Rules,
        handled: Mapping[Key, Handling],
        found: Mapping[Key, Finding],
        now_ms: int,
    ) -> None:
        steps, after, gone = await asyncio.to_thread(self._steps, places, rules, handled, found, now_ms)
        known = self._known
        new = frozenset(one.alarm.key for one in steps) - known.keys()
        failed = await asyncio.to_thread(self._alarms.settle, self._office, steps, new, gone, now_ms)
        if failed is None:
            self._office_since_ms = None  # read anew, should the office come back
            return
        if failed:
            after = {key: one for key, one in after.items() if key[0] not in failed}
            after |= {key: one for key, one in self._known.items() if key[0] in failed}
        self._known = after
        for one in (each for each in steps if each.alarm.instance_id not in failed):
            self._written_ms[one.alarm.key] = now_ms
            if one.event is not None:
                alarm = one.alarm
                _log.info(
                    "alarm",
                    kind=alarm.kind,
                    of=alarm.instance_id or alarm.subject,
                    now=one.event,
                    says=alarm.says,
                )

    def _steps(
        self,
        places: Mapping[str, Place],
        rules: Rules,
        handled: Mapping[Key, Handling],
        found: Mapping[Key, Finding],
        now_ms: int,
    ) -> tuple[list[Step], dict[Key, Alarm], list[Alarm]]:
        """What is to be written, every alarm as it is after this look, and those that are gone."""
        known = self._known
        gone = [one for key, one in known.items() if key not in found and _is_gone(one, places, now_ms)]
        steps, after = [], {}
        for key in (found.keys() | known.keys()) - {one.key for one in gone}:
            finding = found.get(key) or Finding(None, _SILENT)
            rule = rule_of(key[1], key[0], rules)
            before = known.get(key, Alarm(*key))
            made = step(before, rule, finding, handled.get(key, Handling()), now_ms)
            after[key] = made.alarm
            if self._is_news(known.get(key), made, now_ms):
                steps.append(made)
        return steps, after, gone

    def _is_news(self, before: Alarm | None, made: Step, now_ms: int) -> bool:
        """Whether it is to be written: what stays as it is costs the database nothing."""
        after = made.alarm
        if before is None or made.event is not None or made.notice is not None:
            return True
        if (before.state, before.is_told) != (after.state, after.is_told):
            return True
        if replace(before, streak=0, known_at_ms=None) == replace(after, streak=0, known_at_ms=None):
            return False
        every_ms = _REFRESH_MS if after.raised_at_ms is None else _REFRESH_RAISED_MS
        return now_ms - self._written_ms.get(after.key, 0) >= every_ms


def _is_gone(alarm: Alarm, places: Mapping[str, Place], now_ms: int) -> bool:
    """An instance's, with the instance; what is one of several, when it was not heard of for so long that the
    control plane counts on it no more."""
    if alarm.instance_id:
        return alarm.instance_id not in places
    return alarm.state is AlarmState.UNKNOWN and now_ms - alarm.since_ms >= FORGET_AFTER_MS

"""Tell the control plane what this process keeps and may not serve (`contracts.holdings`)."""

import asyncio
from collections.abc import Mapping
from typing import Final, Protocol

from contracts.holdings import Holding, HoldingsAnswer, HoldingsReport
from contracts.specs import ConsumerKind
from runtime.feed import FeedFollower
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger

_log = get_logger(__name__)
_PERIOD_S: Final = 5.0
_NOTHING: Final = (0, 0)


class Measure(Protocol):
    """What a process holds data of."""

    def __call__(self) -> Mapping[str, tuple[int, int]]:
        """Instance id -> (partitions led, their bytes), of those with data here."""
        ...

    def strays(self) -> Mapping[str, int]:
        """Instance id -> since when (epoch ms) there is data of it here although nobody ever told of it."""
        ...


class HoldingsTeller:
    """Reports for ever, while there is anything to report, and once more when there no longer is."""

    def __init__(
        self,
        follower: FeedFollower,
        client: InternalClient,
        consumer: str,
        kind: ConsumerKind,
        *,
        cluster_id: str | None = None,
        measure: Measure | None = None,
    ) -> None:
        self._follower = follower
        self._client = client
        self._consumer = consumer
        self._kind = kind
        self._cluster_id = cluster_id
        self._measure = measure
        self._told_any = False
        self._is_heard = True

    async def run(self) -> None:
        """Report every few seconds; specs go only where they are asked for."""
        while True:
            await asyncio.sleep(_PERIOD_S)
            report = self.report(frozenset())
            if not (report.holdings or self._told_any):
                continue
            try:
                answer = await self._post(report)
                if answer.wanted:
                    await self._post(self.report(frozenset(answer.wanted)))
            except InternalError as error:
                if self._is_heard:
                    _log.warning("what is held cannot be told", error=str(error))
                self._is_heard = False
            else:
                self._is_heard = True
                self._told_any = bool(report.holdings)

    async def _post(self, report: HoldingsReport) -> HoldingsAnswer:
        return await self._client.post("/internal/v1/holdings", report, HoldingsAnswer)

    def report(self, with_specs: frozenset[str]) -> HoldingsReport:
        """What is held now, with the specs of some."""
        follower, measure = self._follower, self._measure
        led = measure() if measure is not None else {}
        strays = measure.strays() if measure is not None else {}

        def held(instance_id: str, since_ms: int | None = None) -> Holding:
            partitions, stored_bytes = led.get(instance_id, _NOTHING)
            absent = follower.absent.get(instance_id)
            return Holding(
                instance_id=instance_id,
                absent_since_ms=since_ms,
                stored_bytes=stored_bytes,
                partitions=partitions,
                has_spec=absent is not None,
                spec=absent.spec if absent is not None and instance_id in with_specs else None,
            )

        specs = follower.instances.items()
        holdings = [held(each, absent.since_ms) for each, absent in follower.absent.items()]
        holdings += [held(each) for each, spec in specs if spec.state.is_gone and each in led]
        holdings += [held(each, since_ms) for each, since_ms in strays.items()]
        return HoldingsReport(
            consumer=self._consumer,
            kind=self._kind,
            cluster_id=self._cluster_id,
            holdings=tuple(holdings),
        )

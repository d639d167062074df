"""A traffic point's conversation with the quota master: report, apply leases, keep them on disk.

The same for brokers and gateway workers. A thin shell: the point decides. While nobody answers, leases and
then static shares apply; a process that starts meanwhile goes on with the leases and debts of its last run.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from contracts.quota import ReportAnswer
from runtime.clock import epoch_ms, monotonic_ms
from runtime.internal_http import InternalClient, InternalError
from runtime.logs import get_logger
from runtime.process import write_json
from traffic.point import TrafficPoint

_log = get_logger(__name__)
_TIMEOUT_S: Final = 4.0
_SAVE_EVERY_MS: Final = 1_000

Offload = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a function that may wait for the disk somewhere else than on the loop."""


class MasterAddress(Protocol):
    """Where to report to."""

    url: str

    def failed(self, error: InternalError) -> None:
        """Nobody there has taken the report."""


class TrafficReports:
    """One point's reports, for ever."""

    def __init__(
        self,
        point: TrafficPoint,
        address: MasterAddress,
        secret: str,
        leases: Path | None,
        *,
        before_report: Callable[[], None],
        rates_changed: Callable[[frozenset[str]], None],
        offload: Offload,
        now_ms: Callable[[], int] = monotonic_ms,
        epoch_ms: Callable[[], int] = epoch_ms,
    ) -> None:
        """`leases` is the file to keep them in. `rates_changed` gets the instances it concerns."""
        self._point = point
        self._address = address
        self._client = InternalClient(lambda: address.url, secret)
        self._leases = leases
        self._before_report = before_report
        self._rates_changed = rates_changed
        self._offload = offload
        self._now_ms = now_ms
        self._epoch_ms = epoch_ms
        self._is_heard = True

    def restore(self) -> None:
        """Start from what the disk remembers. Before the first spec."""
        if self._leases is None:
            return
        try:
            self._point.restore_leases(self._leases.read_bytes(), self._now_ms(), self._epoch_ms())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            _log.warning(
                "the kept leases cannot be read; shares apply until the master answers", error=str(error)
            )

    async def run(self) -> None:
        """Report each period until cancelled."""
        saved_ms = 0
        while True:
            await asyncio.sleep(self._point.period_ms / 1000)
            await self._report_once()
            now_ms = self._now_ms()
            if self._leases is not None and now_ms - saved_ms >= _SAVE_EVERY_MS:
                saved_ms = now_ms
                await self._offload(_Save(self._leases, self._kept()))

    async def _report_once(self) -> None:
        self._before_report()
        report = self._point.report(self._now_ms(), self._epoch_ms())
        try:
            answer = await self._client.post(
                "/internal/v1/reports", report, ReportAnswer, timeout_s=_TIMEOUT_S
            )
        except InternalError as error:
            if self._is_heard:
                _log.warning("the quota master does not answer; leases, then shares apply", error=str(error))
            self._is_heard = False
            self._address.failed(error)
            return
        if not self._is_heard:
            _log.info("the quota master answers again")
        self._is_heard = True
        changed = self._point.apply(answer, self._now_ms())
        if changed:
            self._rates_changed(changed)

    def _kept(self) -> bytes:
        return self._point.save_leases(self._now_ms(), self._epoch_ms())

    async def aclose(self) -> None:
        """Keep the leases and close the connections. After `run` has ended."""
        if self._leases is not None:
            with contextlib.suppress(OSError):
                write_json(self._leases, msgspec.Raw(self._kept()), mode=0o600)
        await self._client.aclose()


class _Save:
    """Write the leases, on a thread. A full disk costs memory of leases, nothing else."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._content = content

    def __call__(self) -> None:
        try:
            write_json(self._path, msgspec.Raw(self._content), mode=0o600)
        except OSError as error:
            _log.warning("the leases cannot be kept on disk", error=str(error))

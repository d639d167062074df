"""Brokers that serve are of use once the control plane knows them."""

import asyncio
from typing import Final, NamedTuple

import httpx

from ctl.errors import CommandError
from runtime.clock import monotonic_ms
from runtime.trusted import verify_of

_TIMEOUT_MS: Final = 30_000
_ASK_EVERY_S: Final = 0.05
_SILENT: Final = "not all brokers reached the control plane; their logs say why"


class _Told(NamedTuple):
    """What the console says of brokers."""

    live: int = 0
    known: int = 0
    troubles: str = ""


async def until_registered(console: str, api_key: str, brokers: int) -> str | None:
    """Wait until so many brokers follow the control plane; 0: until those of an Apache Kafka are known.

    Returns what keeps a cluster that was known before from being used now. Raises: CommandError.
    """
    headers = {"Authorization": f"Bearer {api_key}"}
    deadline_ms = monotonic_ms() + _TIMEOUT_MS
    async with httpx.AsyncClient(
        base_url=console, headers=headers, timeout=10.0, trust_env=False, verify=verify_of(console)
    ) as client:
        while True:
            told = await _told(client)
            if told.live >= max(1, brokers):
                return None
            if told.troubles and told.known:
                return told.troubles
            if monotonic_ms() > deadline_ms:
                raise CommandError(told.troubles or _SILENT)
            await asyncio.sleep(_ASK_EVERY_S)


async def _told(client: httpx.AsyncClient) -> _Told:
    try:
        answer = await client.get("/v1/brokers")
    except httpx.TransportError:
        return _Told()
    if not answer.is_success:
        return _Told()
    rows, clusters = answer.json()["items"], answer.json()["clusters"]
    return _Told(
        sum(bool(row["live"]) for row in rows),
        len(rows),
        "; ".join(one["trouble"] for one in clusters if one["trouble"]),
    )

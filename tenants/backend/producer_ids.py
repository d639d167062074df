"""Producer ids that an Apache Kafka shall give to nobody: those that producers of a moved instance have.

It has no order for that, so they are drawn and thrown away. An id that two producers had would make the log
take the records of one for repetitions of the other's.
"""

import asyncio
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

from runtime.clock import monotonic_ms
from tenants.backend.copy_links import Links
from tenants.backend.copy_targets import AT_A_TIME_MS, CannotMove
from tenants.rules.errors import Unavailable
from wire.codec import duration

DRAWN_MAX: Final = 50_000
"""Ids that are thrown away for one move, at each broker: about a minute."""
_AGAIN: Final = (ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available)


async def burn_producer_ids(links: Links, up_to: int) -> int:
    """Draw ids at every broker until they are beyond `up_to`, which is answered. Raises: CannotMove,
    Unavailable, also after some seconds: those that were drawn stay so."""
    await asyncio.gather(*(_burn(links, node_id, up_to) for node_id in links.cluster.addresses))
    return up_to


async def _burn(links: Links, node_id: int, up_to: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout=duration(60_000))
    until_ms, drawn = monotonic_ms() + AT_A_TIME_MS, -1
    while monotonic_ms() < until_ms:
        answer = await links.call(node_id, request)
        if answer.error_code in _AGAIN:
            await asyncio.sleep(0.05)
            continue
        if answer.error_code is not ErrorCode.none:
            raise Unavailable(f"broker {node_id} gives no producer id: {answer.error_code.name.upper()}")
        drawn = int(answer.producer_id)
        if drawn > up_to:
            return
        if up_to - drawn > DRAWN_MAX:
            raise CannotMove(
                f"producers of the source have ids up to {up_to:,}, the target gives {drawn:,}: "
                f"more than {DRAWN_MAX:,} would have to be drawn there"
            )
    raise Unavailable(
        f"producer ids up to {up_to:,} are being set aside at the target, now at {drawn:,} (broker {node_id})"
    )

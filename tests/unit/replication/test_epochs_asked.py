"""A broker that follows very many partitions asks for their epochs in requests that its leader takes."""

from types import SimpleNamespace
from typing import Any, cast

from broker.replicator.fetcher import EPOCHS_ASKED_MAX, Fetcher
from wire.api_table import ApiKey
from wire.codec import decode, parse_request_header, request_class
from wire.request_bounds import bound_of

FOLLOWED = 20_000
"""Replicas that a broker may hold."""


def test_epochs_of_twenty_thousand_partitions_are_asked_in_portions() -> None:
    fetcher = Fetcher(1, now_ms=lambda: 0, epoch_ms=lambda: 0, storage_failed=lambda *_: None)
    log = SimpleNamespace(leader_epoch=3)
    for number in range(FOLLOWED):
        key = (f"topic-{number}", 0)
        fetcher.follow(cast("Any", SimpleNamespace(key=key, leader_epoch=4, log=log)))
    named: set[str] = set()
    for _ in range(FOLLOWED // EPOCHS_ASKED_MAX):
        asked = fetcher.next_request()
        assert asked is not None and asked[1]
        frame = bytes(asked[0][4:])
        assert len(frame) <= (bound_of(ApiKey.OFFSET_FOR_LEADER_EPOCH).frame_bytes_max or 0)
        header = parse_request_header(frame, False)
        message = decode(request_class(header.api_key, header.api_version), frame, header.body_at)
        named |= {topic.topic for topic in message.topics}
    assert len(named) == FOLLOWED
    assert fetcher.next_request() is None, "nothing to fetch before epochs are answered"

"""Answers of Metadata as the tenant gets them, kept by what the broker said: most clients ask the same.

An instance with hundreds of topics has an answer that takes a millisecond to decode, map and encode, and each
of its clients asks for it again and again. What the broker says is the whole input, besides the instance's
spec: a new revision forgets everything, and answers that depend on who asked are not kept.
"""

from collections.abc import Hashable
from typing import Final

from gateway.kept_bytes import KeptBytes
from wire.throttle_time import behind_field

KEPT_BYTES_MAX: Final = 128 * 1024
"""Size of answers that an instance's worker keeps, both forms of each: of all topics of some thousands. As
much again of requests for all of its topics."""


class KeptAnswers:
    """Kept answers of one instance. The one that was used longest ago goes first."""

    def __init__(self) -> None:
        self._kept = KeptBytes(KEPT_BYTES_MAX)

    @property
    def size_bytes(self) -> int:
        """What they take."""
        return self._kept.size_bytes

    def get(self, entrance: Hashable, api_key: int, api_version: int, frame: memoryview) -> bytes | None:
        """The answer to a client, who came in like this, for what the broker said, both with their length
        prefixes."""
        at = behind_field(api_key, api_version)
        body = self._kept.get((entrance, api_key, api_version, bytes(frame[at:])))
        if body is None:
            return None
        size = at - 4 + len(body)
        return b"".join((size.to_bytes(4, "big"), frame[4:at], body))

    def keep(
        self,
        entrance: Hashable,
        api_key: int,
        api_version: int,
        frame: memoryview,
        answer: bytes,
    ) -> None:
        """Remember an answer, unless it is larger than all that may be kept."""
        at = behind_field(api_key, api_version)
        key = (entrance, api_key, api_version, bytes(frame[at:]))
        self._kept.keep(key, answer[at:], len(frame) + len(answer) - 2 * at)

    def forget(self) -> None:
        """The instance's spec has changed."""
        self._kept.forget()

"""A question that many ask at once: it is put once for all who came before it was.

Nobody gets an answer that was on its way before he asked: what he knows to have been done is in it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedQuestion(Generic[T]):
    """One is under way at a time, and one more serves all who wait for it to end."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._begun = 0
        self._answered = 0
        """Which one the answer is to."""
        self._answer: T | Exception | None = None
        self._askers = 0

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """The answer to a question that is put from now on: this one, or another asker's.

        Raises: what that one raises. An asker who goes away while his is under way fails nobody else.
        """
        wanted = self._begun + 1
        self._askers += 1
        try:
            async with self._lock:
                if self._answered < wanted:
                    await self._put(question)
                answer = self._answer
        finally:
            self._askers -= 1
            if not self._askers:
                self._answer = None
        if isinstance(answer, Exception):
            raise answer
        assert answer is not None
        return answer

    async def _put(self, question: Callable[[], Awaitable[T]]) -> None:
        self._begun = number = self._begun + 1
        try:
            self._answer = await question()
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            self._answer = error
        self._answered = number

"""A topic's schemas, asked of a registry that somebody else runs: within bounds, whatever it answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec

from contracts.registered_schemas import SchemaText
from pipeline.errors import PipelineError
from pipeline.lake.decode.registered import IDS_MAX, UNKNOWN_SCHEMA, UNUSABLE_SCHEMA, Writer, writer_of
from pipeline.lake.decode.values import Fault
from runtime.protobuf_schemas import BadSchema
from runtime.schema_registry import (
    ACCEPT,
    Ask,
    NoSuchSchemaError,
    NotHadError,
    schema_named,
    schema_of_subject,
)
from runtime.trusted import verify_of

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Bytes of an answer of the registry that decoding asks."""
ASK_S_MAX: Final = 10
"""Seconds that decoding waits for one answer of a registry."""
ASKING_S_MAX: Final = 120
"""Seconds that decoding asks a registry for the schemas of one step."""
_USER_INFO: Final = "basic.auth.user.info"
_TOKEN: Final = "bearer.auth.token"
T = TypeVar("T")


@dataclass(frozen=True)
class RegistryAt:
    """Where a registry is, and how one comes in."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)


def registry_at(url: str, config: str, environment: Mapping[str, str]) -> RegistryAt:
    """From the words of Confluent's clients, or from the environment. Raises: PipelineError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise PipelineError(
            f"the registry's URL is like https://registry.example.com, without a user or a query, not "
            f"'{parts._replace(netloc=parts.netloc.rpartition('@')[2], query='').geturl()}'"
        )
    lines = [line.strip() for line in config.splitlines() if line.strip() and not line.startswith("#")]
    told = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    if strange := sorted(set(told) - {_USER_INFO, _TOKEN}):
        raise PipelineError(f"--registry-config knows {_USER_INFO} and {_TOKEN}, not '{strange[0][:50]}'")
    user, _, password = told.get(_USER_INFO, environment.get("PORTICO_REGISTRY_AUTH", "")).partition(":")
    return RegistryAt(url, user, password, told.get(_TOKEN, ""))


class TopicSchemas:
    """Of one topic's values, by TopicNameStrategy. An id's schema never changes, so it is asked for once."""

    def __init__(self, at: RegistryAt, topic: str, message: str = "") -> None:
        self._at = at
        self.subject = f"{topic}-value"
        self._message = message
        self._known: dict[int, Writer | Fault] = {}

    def newest(self) -> tuple[int, Writer]:
        """The version and the schema that the subject has now. Raises: PipelineError, BadSchema."""

        async def look(ask: Ask) -> tuple[int, Writer]:
            version, text = await schema_of_subject(ask, self.subject)
            return version, writer_of(self._with_message(text))

        try:
            return self._asked(look)
        except NotHadError as error:
            raise PipelineError(f"the columns of the table are not known: {error}") from error

    def writers(self, ids: Sequence[int]) -> dict[int, Writer | Fault]:
        """The schemas of those ids, or why records that name one are dead letters.

        Raises: PipelineError where the registry does not say what is so.
        """
        wanted = [each for each in ids if each not in self._known][:IDS_MAX]

        async def look(ask: Ask) -> None:
            for name in wanted:
                try:
                    self._known[name] = writer_of(self._with_message(await schema_named(ask, name)))
                except NoSuchSchemaError as error:
                    self._known[name] = Fault(UNKNOWN_SCHEMA, str(error))
                except BadSchema as error:
                    self._known[name] = Fault(UNUSABLE_SCHEMA, f"schema {name} cannot be used: {error}")

        try:
            if wanted:
                self._asked(look)
        except NotHadError as error:
            raise PipelineError(
                f"{error}: records wait whose schemas are not known, and nothing behind them was decoded; "
                "start again when the registry answers"
            ) from error
        return {name: self._known[name] for name in ids if name in self._known}

    def _with_message(self, text: SchemaText) -> SchemaText:
        return msgspec.structs.replace(text, message=self._message)

    def _asked(self, look: Callable[[Ask], Awaitable[T]]) -> T:
        async def run() -> T:
            at = self._at
            headers = {"Accept": ACCEPT, "Accept-Encoding": "identity"}
            if at.token:
                headers["Authorization"] = f"Bearer {at.token}"
            async with httpx.AsyncClient(
                headers=headers,
                auth=(at.user, at.password) if at.user or at.password else None,
                verify=verify_of(at.url),
                trust_env=False,
                timeout=ASK_S_MAX,
            ) as client:
                async with asyncio.timeout(ASKING_S_MAX):
                    return await look(lambda path: _answer(client, at.url.rstrip("/") + path))

        try:
            return asyncio.run(run())
        except TimeoutError:
            raise NotHadError(f"the schema registry takes longer than {ASKING_S_MAX} s") from None


async def _answer(client: httpx.AsyncClient, url: str) -> tuple[int, bytes]:
    """Raises: NotHadError."""
    try:
        async with asyncio.timeout(ASK_S_MAX), client.stream("GET", url) as answer:
            if answer.is_redirect:
                raise NotHadError("the schema registry redirects: give the address that it redirects to")
            if answer.status_code in (401, 403):
                raise NotHadError(
                    f"the schema registry answered {answer.status_code}: it wants another user or password"
                )
            body = bytearray()
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise NoSuchSchemaError(f"the registry's answer is larger than {ANSWER_BYTES_MAX} bytes")
            return answer.status_code, bytes(body)
    except TimeoutError:
        raise NotHadError(f"the schema registry does not answer within {ASK_S_MAX} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        reason = str(error) or type(error).__name__
        raise NotHadError(f"the schema registry cannot be asked: {reason}"[:300]) from error

"""ETag and If-Match, so nobody undoes what he has not seen.

Of what belongs to an instance it is the instance's revision; of topics and ceilings, which have none, a hash
of what can be set.
"""

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import Depends, Header, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from tenants.api.context import Asker, Found, Plane
from tenants.console import Console
from tenants.rules.errors import Stale
from tenants.rules.model import Caller, Instance

_TAG: Final = re.compile(r'"r([0-9]{1,18})"')
_CONTENT_TAG: Final = re.compile(r'"h([0-9a-f]{16})"')
# No schema can say which ETag is that of now, so the document tells of it in words: `tenants.api.schema`.
IfMatch = Annotated[str | None, Header(include_in_schema=False)]


@dataclass(frozen=True, slots=True)
class Version:
    """What the caller has seen, and where he is told what there is now.

    Reads pass over If-Match. What changes looks at it last: what is refused without it is refused as that
    (RFC 9110, 13.2.1).
    """

    if_match: str | None
    response: Response

    @property
    def expected(self) -> int | None:
        """The instance's revision; None: any. Raises: Stale for what is not an ETag of ours."""
        seen = _seen(_TAG, self.if_match)
        return None if seen is None else int(seen)

    def tell(self, instance: Instance) -> None:
        """Send the ETag of an instance as it is now. Live figures and `state` are not part of it."""
        self.response.headers["ETag"] = f'"r{instance.revision}"'


def _seen(tag: re.Pattern[str], if_match: str | None) -> str | None:
    """Raises: Stale for what is not an ETag of ours; weak ones match nothing (RFC 9110, 13.1.1)."""
    if if_match is None or if_match.strip() == "*":
        return None
    match = tag.fullmatch(if_match.strip())
    if match is None:
        raise Stale("If-Match is not an ETag of this resource: read it again")
    return match[1]


async def version_of(response: Response, if_match: IfMatch = None) -> Version:
    """What was sent of it."""
    return Version(if_match, response)


Versioned = Annotated[Version, Depends(version_of)]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of the instance of the path, by who asks, unless it is another than he has seen."""

    plane: Console
    caller: Caller
    instance: Instance
    version: Version

    async def make(self, change: Callable[..., Instance], *given: object) -> Instance:
        """`change` is one of `Instances`, and `given` what it takes beside caller and instance."""
        cases = self.plane.instances.expecting(self.version.expected)
        changed = await asyncio.to_thread(change, cases, self.caller, self.instance.id, *given)
        self.version.tell(changed)
        return changed


async def changes_of(plane: Plane, caller: Asker, found: Found, version: Versioned) -> Changes:
    """What a route needs to change an instance."""
    return Changes(plane, caller, found, version)


Changing = Annotated[Changes, Depends(changes_of)]


@dataclass(frozen=True, slots=True)
class ContentVersion:
    """The version of what has no revision."""

    if_match: str | None
    response: Response

    @property
    def expected(self) -> str | None:
        """A hash of the content; None: any. Raises: Stale for what is not an ETag of ours."""
        return _seen(_CONTENT_TAG, self.if_match)

    def tell(self, content: str) -> None:
        """Send the ETag of what there is now."""
        self.response.headers["ETag"] = f'"h{content}"'


async def content_version_of(response: Response, if_match: IfMatch = None) -> ContentVersion:
    """What was sent of it."""
    return ContentVersion(if_match, response)


ContentVersioned = Annotated[ContentVersion, Depends(content_version_of)]


def conditional(routes: Iterable[BaseRoute]) -> frozenset[str]:
    """The names of those that look at If-Match: what changes an instance, a topic or ceilings."""
    return frozenset(
        route.name
        for route in routes
        if isinstance(route, APIRoute)
        and any(
            one.call is changes_of or (one.call is content_version_of and "PATCH" in (route.methods or ()))
            for one in route.dependant.dependencies
        )
    )

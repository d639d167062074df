"""Members who sign in by an identity provider: let in by their groups, or linked by themselves.

Who somebody is, is (issuer, subject). No name and no e-mail that a provider tells ever finds a
member that is there.
"""

import secrets
from typing import Final, NamedTuple

from sqlalchemy import Connection

from runtime.clock import epoch_ms
from runtime.http_limits import holder_of
from runtime.logs import get_logger
from tenants import credentials
from tenants.oidc_provider import OidcProvider
from tenants.remembered import CallerMemory
from tenants.rules.errors import Conflict, Exists, Forbidden, Invalid, NotFound, TooMany, Unauthenticated
from tenants.rules.lifecycle import Fault, unfit
from tenants.rules.members import MEMBERS_MAX, user_name
from tenants.rules.model import DEFAULT_TENANT, SYSTEM_TENANT, Caller
from tenants.rules.oidc import (
    Attempt,
    NotSignedIn,
    Person,
    Place,
    ProviderFault,
    attempt_of,
    attempt_that_returns,
    authorization_url,
    check_issuer,
    end_session_url,
    names_for,
    new_cookie,
    place_of,
)
from tenants.rules.oidc_settings import GROUP_CHARS_MAX, IS_GROUP
from tenants.rules.permissions import STAFF, Role, grants
from tenants.shared_limits import LoginLimits
from tenants.store import accounts, audit, identities, members
from tenants.store.audit import Entry
from tenants.store.engine import Store
from tenants.store.identities import GroupRole, Identity
from tenants.store.members import User
from tenants.usecases.accounts import Browser, Session, begin_session, home_of

_log = get_logger(__name__)
GROUP_ROLES_MAX: Final = 1_000
"""Groups of the identity provider that are let in somewhere."""
_BY_PROVIDER: Final = "(provider)"
"""Stands for the user where answers that sign nobody in are counted."""
_NOT_HERE: Final = "nobody signs in by an identity provider here"
_NO_PASSWORD: Final = "!"
"""No hash is this: who signs in by a provider alone has no password."""
_NOT_TAKEN: Final = (
    "the identity provider's answer was not taken: begin again, or ask an operator to look in the log"
)


class Begun(NamedTuple):
    """A sign-in on its way."""

    url: str
    """Where the browser goes."""
    cookie: str


class Answer(NamedTuple):
    """What the browser brought back."""

    cookie: str | None
    state: str
    code: str | None
    error: str | None
    issuer: str | None


class SignIn:
    """The use cases of signing in by a provider; without one, of saying so."""

    def __init__(
        self, store: Store, provider: OidcProvider | None, limits: LoginLimits, memory: CallerMemory
    ) -> None:
        self._store = store
        self._provider = provider
        self._limits = limits
        self._memory = memory

    @property
    def issuer(self) -> str | None:
        """Who signs people in; None: nobody does."""
        return None if self._provider is None else self._provider.settings.issuer

    @property
    def is_secure(self) -> bool:
        """Whether browsers come by https, so that cookies may say so."""
        return self._provider is not None and self._provider.settings.console_url.startswith("https:")

    async def end_url(self) -> str | None:
        """Where a session ends at the provider too; None where it has no such place. Raises: Unavailable."""
        if self._provider is None:
            return None
        return end_session_url(await self._provider.metadata(), self._provider.settings)

    async def begin(self) -> Begun:
        """Raises: NotFound, Unavailable."""
        provider = self._there()
        metadata = await provider.metadata()
        cookie = new_cookie(secrets.token_urlsafe(32), epoch_ms())
        return Begun(authorization_url(metadata, provider.settings, attempt_of(cookie)), cookie)

    async def person(self, answer: Answer, browser: Browser) -> Person:
        """Who has signed in. Raises: NotFound, Unauthenticated, TooMany, Unavailable."""
        provider, holder = self._there(), holder_of(browser.address)
        wait_ms = self._limits.retry_after_ms(holder, _BY_PROVIDER)
        if wait_ms > 0:
            raise TooMany("too many sign-ins from your address failed: wait a minute", wait_ms // 1000 + 1)
        try:
            attempt = attempt_that_returns(answer.cookie, answer.state, epoch_ms())
            return await self._of_attempt(provider, answer, attempt)
        except (NotSignedIn, ProviderFault) as fault:
            self._limits.failed(holder, _BY_PROVIDER)
            why = str(fault)[:300]
            _log.warning("a sign-in by the identity provider failed", address=browser.address, why=why)
            said = str(fault) if isinstance(fault, NotSignedIn) else _NOT_TAKEN
            raise Unauthenticated(said) from fault

    @staticmethod
    async def _of_attempt(provider: OidcProvider, answer: Answer, attempt: Attempt) -> Person:
        """Raises: NotSignedIn, ProviderFault, Unavailable, TooMany."""
        check_issuer(answer.issuer, await provider.metadata(), provider.settings)
        if answer.error is not None:
            if answer.error == "access_denied":
                raise NotSignedIn("the identity provider did not let you in, or you turned back")
            raise ProviderFault(f"it refused: {answer.error!r}"[:200])
        if not answer.code:
            raise NotSignedIn("the identity provider's answer has no code: begin again")
        return await provider.person(answer.code, attempt)

    def _there(self) -> OidcProvider:
        if self._provider is None:
            raise NotFound(_NOT_HERE)
        return self._provider

    # --- who is let in --------------------------------------------------------------------------

    def enter(self, person: Person, browser: Browser, old_token: str | None) -> Session:
        """Log a person in, as whom it is known or as whom its groups let in; the session that the browser
        had ends. Raises: Forbidden, Conflict."""
        ended: list[str] = []
        session = None
        with self._store.write() as connection:
            now_ms = epoch_ms()
            user = self._user(connection, person, ended, browser, now_ms)
            if user is not None:
                if old_token is not None:
                    ended.append(credentials.sha256(old_token))
                    members.end_session(connection, ended[-1])
                session = begin_session(connection, user, browser, now_ms)
        self._memory.end(ended)
        if session is None:
            _log.warning("a person of no group that is let in", issuer=person.issuer, subject=person.subject)
            told = "" if person.groups is not None else ", and the provider tells none of you"
            raise Forbidden(
                f"you have signed in, but no group of yours is let in here{told}: ask an operator"
            )
        return session

    def _user(
        self, connection: Connection, person: Person, ended: list[str], browser: Browser, now_ms: int
    ) -> User | None:
        """None: its groups lead nowhere, or not any more."""
        known = identities.identity(connection, person.issuer, person.subject)
        user = None if known is None else members.user(connection, known.user_name)
        if known is not None and user is not None and not user.is_managed:
            return user
        groups = person.groups or ()
        place = _place(connection, groups, None if user is None else user.tenant)
        if known is not None and user is not None:
            if place is not None and place.tenant == user.tenant:
                identities.set_groups(connection, known, groups)
                return _settled(connection, user, place.role, ended, now_ms)
            ended += members.remove(connection, user.name)
            entry = _entry(user, "member.leave", "no group is let in any more", browser.address)
            audit.record(connection, entry, now_ms)
        return None if place is None else _joined(connection, person, place, browser, now_ms)

    # --- one's own ------------------------------------------------------------------------------

    def links(self, caller: Caller) -> list[Identity]:
        """By whom the caller may sign in."""
        with self._store.glance() as connection:
            return identities.identities_of(connection, caller.name)

    def link(self, caller: Caller, person: Person) -> None:
        """From now on the person signs in as the caller, whose role stays what it is. Raises: Conflict."""
        with self._store.write() as connection:
            user = members.user(connection, caller.name)
            if user is None or user.is_managed:
                raise Conflict("you sign in by the identity provider already")
            known = identities.identity(connection, person.issuer, person.subject)
            if known is not None:
                if known.user_name == user.name:
                    return
                raise Conflict("with this account of the provider another member signs in")
            if identities.identities_of(connection, user.name):
                raise Conflict("you are linked to another account of the provider: unlink that first")
            now_ms = epoch_ms()
            new = Identity(person.issuer, person.subject, user.name, (), now_ms)
            identities.add_identity(connection, new)
            audit.record(connection, _entry(user, "member.link", person.issuer, caller.address), now_ms)

    def unlink(self, caller: Caller) -> None:
        """The caller signs in by password alone. Raises: Conflict, NotFound."""
        with self._store.write() as connection:
            user = members.user(connection, caller.name)
            if user is None or user.is_managed:
                raise Conflict("you have no password to log in with instead")
            if not identities.remove_identities(connection, user.name):
                raise NotFound("you are not linked to an account of the provider")
            audit.record(connection, _entry(user, "member.unlink", "", caller.address), epoch_ms())

    # --- where groups lead ----------------------------------------------------------------------

    def group_roles(self) -> list[GroupRole]:
        """All, by group."""
        with self._store.glance() as connection:
            return identities.group_roles(connection)

    def add_group_role(self, caller: Caller, group_name: str, tenant: str, role: Role) -> GroupRole:
        """Let a group in. Raises: Invalid, Forbidden, Exists, Conflict, NotFound."""
        _check_group(caller, group_name, tenant, role)
        with self._store.write() as connection:
            if not accounts.tenant_exists(connection, tenant):
                raise NotFound(f"there is no tenant '{tenant[:80]}'")
            known = identities.roles_of(connection, [group_name])
            if any(one.tenant == tenant for one in known):
                raise Exists(f"group '{group_name[:80]}' is let into tenant '{tenant}' already")
            if identities.count_group_roles(connection) >= GROUP_ROLES_MAX:
                raise Conflict(f"{GROUP_ROLES_MAX} groups are let in: take some away first")
            now_ms = epoch_ms()
            new = GroupRole(credentials.new_id("g"), group_name, tenant, role.value, caller.actor, now_ms)
            identities.add_group_role(connection, new)
            entry = Entry(caller.actor, home_of(tenant, role), "group-role.create", group_name, role.value)
            audit.record(connection, entry, now_ms)
            ended = _settle(connection, now_ms)
        self._memory.end(ended)
        return new

    def remove_group_role(self, caller: Caller, role_id: str) -> None:
        """Let a group in no more: who is in by it alone is logged out at once. Raises: NotFound,
        Forbidden."""
        with self._store.write() as connection:
            found = next((one for one in identities.group_roles(connection) if one.id == role_id), None)
            if found is None:
                raise NotFound(f"no group is let in as '{role_id[:80]}'")
            role = Role(found.role)
            if role not in grants(caller.role):
                raise Forbidden(f"your role, {caller.role}, does not change who is {role}")
            identities.remove_group_role(connection, role_id)
            now_ms = epoch_ms()
            home = home_of(found.tenant, role)
            entry = Entry(caller.actor, home, "group-role.delete", found.group_name, found.role)
            audit.record(connection, entry, now_ms)
            ended = _settle(connection, now_ms)
        self._memory.end(ended)


def _check_group(caller: Caller, group_name: str, tenant: str, role: Role) -> None:
    """Raises: Invalid, Forbidden."""
    if not IS_GROUP(group_name):
        raise Invalid([Fault("group", f"1 to {GROUP_CHARS_MAX} characters that can be printed")])
    if role in STAFF and tenant != DEFAULT_TENANT:
        raise Invalid([unfit("role", f"operators and admins belong to tenant '{DEFAULT_TENANT}'")])
    if tenant == SYSTEM_TENANT:
        raise Invalid([unfit("tenant", "nobody is a member of this deployment's own tenant")])
    if role not in grants(caller.role):
        raise Forbidden(f"your role, {caller.role}, does not make members {role}")


def _place(connection: Connection, groups: tuple[str, ...], home: str | None) -> Place | None:
    found = identities.roles_of(connection, set(groups))
    return place_of((Place(one.tenant, Role(one.role)) for one in found), home)


def _settle(connection: Connection, now_ms: int) -> list[str]:
    """Groups lead elsewhere now: everybody's role, at once. Tokens, hashed, that ended or are asked anew."""
    ended: list[str] = []
    for known, tenant, _role in identities.managed(connection):
        place = _place(connection, known.groups, tenant)
        user = members.user(connection, known.user_name)
        assert user is not None, "there is a foreign key"
        if place is None or place.tenant != tenant:
            ended += members.end_sessions(connection, user.name)
        else:
            _settled(connection, user, place.role, ended, now_ms)
    return ended


def _settled(connection: Connection, user: User, role: Role, ended: list[str], now_ms: int) -> User:
    """The member with the role that its groups say."""
    if user.role == role:
        return user
    members.set_role(connection, user.name, role.value)
    ended += members.tokens(connection, user.name)
    is_staff = {role, Role(user.role)} & STAFF
    entry = _entry(user, "member.role", f"{user.role} -> {role}, by its groups", None)
    home = None if is_staff else entry.tenant
    audit.record(connection, Entry(entry.actor, home, entry.action, entry.subject, entry.detail), now_ms)
    return User(user.name, user.tenant, role.value, user.password_hash, user.is_managed)


def _joined(connection: Connection, person: Person, place: Place, browser: Browser, now_ms: int) -> User:
    """A new member. Raises: Conflict."""
    if members.count(connection, place.tenant) >= MEMBERS_MAX:
        raise Conflict(f"tenant '{place.tenant}' has {MEMBERS_MAX} members: ask an owner to remove some")
    names = (user_name(place.tenant, one) for one in names_for(person.hint, secrets.token_hex(4)))
    free = next(one for one in names if not members.is_taken(connection, one))
    user = User(free, place.tenant, place.role.value, _NO_PASSWORD, is_managed=True)
    members.add_user(connection, user, now_ms)
    groups = person.groups or ()
    identities.add_identity(connection, Identity(person.issuer, person.subject, free, groups, now_ms))
    detail = f"{place.role}, by the groups that {person.issuer} tells"
    audit.record(connection, _entry(user, "member.join", detail, browser.address), now_ms)
    return user


def _entry(user: User, action: str, detail: str, address: str | None) -> Entry:
    home = home_of(user.tenant, Role(user.role))
    return Entry(f"session:{user.name}", home, action, user.name, detail, address)

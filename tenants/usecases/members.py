"""Members of tenants: invited, given roles, removed; their passwords and sessions."""

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection

from runtime.clock import epoch_ms
from runtime.http_limits import holder_of
from tenants import credentials
from tenants.remembered import CallerMemory
from tenants.rules.errors import Conflict, Exists, Forbidden, Invalid, NotFound, TooMany
from tenants.rules.lifecycle import unfit
from tenants.rules.members import (
    MEMBERS_MAX,
    invitation_faults,
    password_faults,
    user_name,
)
from tenants.rules.model import Caller
from tenants.rules.permissions import STAFF, Role, grants
from tenants.shared_limits import LoginLimits
from tenants.store import audit, members
from tenants.store.audit import Entry
from tenants.store.engine import Store
from tenants.store.members import Invitation, Member, SessionRow, User
from tenants.usecases.accounts import ADMIN, Browser, Session, begin_session, home_of

_HOUR_MS: Final = 3600 * 1000
_NO_INVITATION: Final = "this link is not good any more: it was used, or its time is over. Ask for another"
_BY_GROUPS: Final = "the groups of the identity provider say this member's role: it is changed there"
_NO_PASSWORD: Final = "this member signs in by the identity provider, and has no password here"
_BY_LINK: Final = "(link)"
"""Stands for the user where wrong links are counted."""


@dataclass(frozen=True, slots=True)
class Invited:
    """A new invitation with its secret, which no log shows."""

    invitation: Invitation
    secret: str = field(repr=False)


class Members:
    """The use cases of members."""

    def __init__(self, store: Store, limits: LoginLimits, memory: CallerMemory) -> None:
        self._store = store
        self._limits = limits
        self._memory = memory

    def page(self, caller: Caller, tenant: str, after: str | None, limit: int) -> list[Member]:
        """The members of a tenant; who are operators is operators' business."""
        with self._store.glance() as connection:
            return members.page(connection, tenant, _visible(caller), after, limit)

    def set_role(self, caller: Caller, tenant: str, name: str, role: Role) -> Member:
        """Raises: NotFound, Forbidden, Conflict, Invalid."""
        with self._store.write() as connection:
            member = _changeable(connection, caller, tenant, name)
            if member.is_managed:
                raise Conflict(_BY_GROUPS)
            if role not in grants(caller.role):
                raise Forbidden(f"your role, {caller.role}, does not make members {role}")
            faults = [fault for fault in invitation_faults(member.tenant, "x", role) if fault.field == "role"]
            if faults:
                raise Invalid(faults)
            now_ms = epoch_ms()
            members.set_role(connection, member.name, role.value)
            asked_anew = members.tokens(connection, member.name)
            detail = f"{member.role} -> {role}"
            _record(connection, caller, member, "member.role", detail, now_ms, role)
            changed = members.member(connection, member.name)
        self._memory.end(asked_anew)
        return changed

    def remove(self, caller: Caller, tenant: str, name: str) -> None:
        """Remove a member; the sessions end. Keys that the member made are the tenant's, and stay.

        Raises: NotFound, Forbidden, Conflict.
        """
        with self._store.write() as connection:
            member = _changeable(connection, caller, tenant, name)
            ended = members.remove(connection, member.name)
            _record(connection, caller, member, "member.remove", member.role, epoch_ms())
        self._memory.end(ended)

    def reset_password(self, caller: Caller, tenant: str, name: str) -> tuple[str, str]:
        """(whose, a new password); all sessions of the member end. Raises: NotFound, Forbidden, Conflict."""
        password = credentials.new_password()
        hashed = credentials.hash_password(password)
        with self._store.write() as connection:
            member = _changeable(connection, caller, tenant, name, is_own_allowed=True)
            if member.is_managed:
                raise Conflict(_NO_PASSWORD)
            members.set_password_hash(connection, member.name, hashed)
            ended = members.end_sessions(connection, member.name)
            _record(connection, caller, member, "member.reset-password", "", epoch_ms())
        self._memory.end(ended)
        return member.name, password

    # --- invitations ----------------------------------------------------------------------------

    def invitations(self, caller: Caller, tenant: str) -> list[Invitation]:
        """The invitations of a tenant that are good, by name."""
        with self._store.glance() as connection:
            return members.invitations(connection, tenant, _visible(caller), epoch_ms())

    def invite(self, caller: Caller, tenant: str, name: str, role: Role, valid_hours: int) -> Invited:
        """An invitation; one that the same name had ends. Raises: Invalid, Forbidden, Exists, Conflict."""
        faults = invitation_faults(tenant, name, role)
        if faults:
            raise Invalid(faults)
        if role not in grants(caller.role):
            raise Forbidden(f"your role, {caller.role}, does not invite members as {role}")
        secret, user = credentials.new_session_token(), user_name(tenant, name)
        with self._store.write() as connection:
            if members.user(connection, user) is not None:
                raise Exists(f"'{user}' is a member already: reset the password instead")
            members.drop_invitation(connection, user)
            if members.count(connection, tenant) >= MEMBERS_MAX:
                raise Conflict(f"a tenant has at most {MEMBERS_MAX} members: remove some first")
            now_ms = epoch_ms()
            invitation = Invitation(
                id=credentials.new_id("v"),
                tenant=tenant,
                user_name=user,
                role=role.value,
                invited_by=caller.actor,
                created_at_ms=now_ms,
                expires_at_ms=now_ms + valid_hours * _HOUR_MS,
            )
            members.add_invitation(connection, invitation, credentials.sha256(secret))
            detail = f"{role}, for {valid_hours} h"
            _record(connection, caller, invitation, "member.invite", detail, now_ms)
        return Invited(invitation, secret)

    def withdraw(self, caller: Caller, invitation_id: str) -> None:
        """Raises: NotFound, also when it is another tenant's."""
        with self._store.write() as connection:
            found = members.invitation_by_id(connection, invitation_id[:80].replace("\0", ""))
            is_mine = found is not None and (caller.is_operator or found.tenant == caller.tenant)
            if found is None or not is_mine or found.role not in _visible(caller):
                raise NotFound(f"there is no invitation '{invitation_id[:80]}'")
            members.drop_invitation(connection, found.user_name)
            _record(connection, caller, found, "member.withdraw", found.role, epoch_ms())

    def invited(self, secret: str, browser: Browser) -> Invitation:
        """Whom a link invites. Raises: NotFound, TooMany."""
        holder = holder_of(browser.address)
        wait_ms = self._limits.retry_after_ms(holder, _BY_LINK)
        if wait_ms > 0:
            raise TooMany("too many wrong links from your address: wait a minute", wait_ms // 1000 + 1)
        with self._store.glance() as connection:
            found = members.invitation_by_secret(connection, credentials.sha256(secret), epoch_ms())
        if found is None:
            self._limits.failed(holder, _BY_LINK)
            raise NotFound(_NO_INVITATION)
        return found

    def accept(self, secret: str, password: str, browser: Browser) -> Session:
        """Become a member, and be logged in. Takes a hash's time. Raises: NotFound, TooMany, Invalid."""
        invitation = self.invited(secret, browser)
        faults = password_faults("password", password, invitation.user_name)
        if faults:
            raise Invalid(faults)
        hashed = credentials.hash_password(password)
        with self._store.write() as connection:
            now_ms = epoch_ms()
            found = members.invitation_by_secret(connection, credentials.sha256(secret), now_ms)
            if found is None:  # somebody else was faster with the same link
                raise NotFound(_NO_INVITATION)
            user = User(found.user_name, found.tenant, found.role, hashed)
            members.add_user(connection, user, now_ms)
            members.drop_invitation(connection, user.name)
            actor, home = f"session:{user.name}", home_of(user.tenant, Role(user.role))
            entry = Entry(actor, home, "member.join", user.name, user.role, browser.address)
            audit.record(connection, entry, now_ms)
            return begin_session(connection, user, browser, now_ms)

    # --- one's own ------------------------------------------------------------------------------

    def change_password(self, caller: Caller, token: str, old: str, new: str) -> None:
        """Another password; the other sessions end. Raises: Invalid, TooMany, Conflict."""
        faults = password_faults("new_password", new, caller.name)
        if faults:
            raise Invalid(faults)
        holder = holder_of(caller.address or "")
        wait_ms = self._limits.retry_after_ms(holder, caller.name)
        if wait_ms > 0:
            raise TooMany("too many wrong passwords from your address: wait a minute", wait_ms // 1000 + 1)
        with self._store.glance() as connection:
            user = members.user(connection, caller.name)
        if user is not None and user.is_managed:
            raise Conflict(_NO_PASSWORD)
        if user is None or not credentials.password_matches(user.password_hash, old):
            self._limits.failed(holder, caller.name)
            raise Invalid([unfit("password", "this is not your password now")])
        hashed = credentials.hash_password(new)
        with self._store.write() as connection:
            members.set_password_hash(connection, user.name, hashed)
            ended = members.end_sessions(connection, user.name, but=credentials.sha256(token))
            home = home_of(user.tenant, caller.role)
            entry = Entry(caller.actor, home, "member.change-password", user.name, address=caller.address)
            audit.record(connection, entry, epoch_ms())
        self._memory.end(ended)

    def sessions(self, caller: Caller) -> list[SessionRow]:
        """Where the caller is logged in."""
        with self._store.glance() as connection:
            return members.sessions(connection, caller.name, epoch_ms())

    @staticmethod
    def session_id(token: str) -> str:
        """What the session of a token is called."""
        return members.session_id(credentials.sha256(token))

    def end_session(self, caller: Caller, session_id: str) -> None:
        """Log out elsewhere. Raises: NotFound."""
        with self._store.write() as connection:
            mine = members.sessions(connection, caller.name, epoch_ms())
            found = next((one for one in mine if one.id == session_id), None)
            if found is None:
                raise NotFound(f"you have no session '{session_id[:80]}'")
            members.end_session(connection, found.token_sha256)
        self._memory.end([found.token_sha256])

    def end_others(self, caller: Caller, token: str) -> None:
        """Log out everywhere else."""
        with self._store.write() as connection:
            ended = members.end_sessions(connection, caller.name, but=credentials.sha256(token))
        self._memory.end(ended)


def _visible(caller: Caller) -> list[Role]:
    return [role for role in Role if caller.is_operator or role not in STAFF]


def _changeable(
    connection: Connection, caller: Caller, tenant: str, name: str, *, is_own_allowed: bool = False
) -> User:
    """The member that a caller may change. Raises: NotFound, Forbidden, Conflict."""
    full = user_name(tenant, name)
    found = members.user(connection, full) if full.isprintable() else None
    if found is None or found.tenant != tenant or found.role not in _visible(caller):
        raise NotFound(f"there is no member '{name[:80]}'")
    if found.role not in grants(caller.role):
        raise Forbidden(f"your role, {caller.role}, does not change who is {found.role}")
    if is_own_allowed:
        return found
    if caller.kind == "session" and caller.name == found.name:
        raise Conflict("nobody takes rights from himself: another owner does")
    if found.name == ADMIN:
        raise Conflict(f"'{ADMIN}' is this deployment's own, and stays its admin")
    return found


def _record(
    connection: Connection,
    caller: Caller,
    about: User | Invitation,
    action: str,
    detail: str,
    now_ms: int,
    role: Role | None = None,
) -> None:
    name = about.name if isinstance(about, User) else about.user_name
    is_staff = {role, Role(about.role)} & STAFF
    home = None if is_staff else about.tenant
    audit.record(connection, Entry(caller.actor, home, action, name, detail, caller.address), now_ms)

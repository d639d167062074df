"""Tenants, logins, keys: who may ask, and for whom."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from contracts.names import SYSTEM_INSTANCE_ID
from runtime.clock import epoch_ms, monotonic_ms
from runtime.http_limits import holder_of
from runtime.logs import get_logger
from tenants import credentials
from tenants.config import ConsoleConfig
from tenants.remembered import REMEMBERED_MS, CallerMemory, Remembered
from tenants.rules.errors import Conflict, Forbidden, Invalid, NotFound, TooMany, Unauthenticated
from tenants.rules.lifecycle import Fault, State, name_fault
from tenants.rules.members import user_name
from tenants.rules.model import DEFAULT_TENANT, SYSTEM_TENANT, Caller, Instance
from tenants.rules.permissions import STAFF, Role, grants
from tenants.rules.rate_limit import Bucket, Quota, RateLimit
from tenants.shared_limits import LoginLimits
from tenants.store import accounts, audit, instances, members, registry
from tenants.store.accounts import Key
from tenants.store.audit import Entry
from tenants.store.engine import Store, StoreFault
from tenants.store.members import SessionRow, User

_log = get_logger(__name__)
SESSION_MS: Final = 12 * 3600 * 1000
"""From a login at the console until it has to be repeated."""
KEYS_MAX: Final = 200
"""API keys of one tenant."""
_TOUCH_EVERY_MS: Final = 60_000
_REFUSALS_TOLD: Final = Quota("refusals", 5, 60)
"""Wrong passwords of one user that the audit log has; the process's log has them all."""
_AGENT_CHARS_MAX: Final = 200
_HOUR_MS: Final = 3600 * 1000
ADMIN: Final = "admin"
LOCAL_KEY_ID: Final = "local"
_LOCAL_KEY_KEPT_MS: Final = 24 * 3600 * 1000
_SYSTEM_RATE_BYTES_PER_S: Final = 100_000_000
_SYSTEM_CAPACITY_BYTES: Final = 10**12
"""Who may connect to the system instance: jobs on this machine."""


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """What the first start drew; `admin_password` None: it was not the first."""

    admin_password: str | None


@dataclass(frozen=True, slots=True)
class Browser:
    """Where a person is."""

    address: str
    agent: str


@dataclass(frozen=True, slots=True)
class Session:
    """A login."""

    token: str
    user: User


def begin_session(connection: Connection, user: User, browser: Browser, now_ms: int) -> Session:
    """Log a user in."""
    token = credentials.new_session_token()
    row = SessionRow(
        token_sha256=credentials.sha256(token),
        created_at_ms=now_ms,
        expires_at_ms=now_ms + SESSION_MS,
        last_used_at_ms=now_ms,
        address=browser.address,
        agent=browser.agent[:_AGENT_CHARS_MAX].replace("\0", ""),
    )
    members.add_session(connection, user, row)
    entry = Entry(f"session:{user.name}", home_of(user.tenant, Role(user.role)), "session.create", user.name)
    audit.record(connection, replace(entry, address=browser.address), now_ms)
    return Session(token, user)


def home_of(tenant: str, role: Role) -> str | None:
    """The tenant whose audit log has what concerns a member or key; of operators, nobody's."""
    return None if role in STAFF else tenant


class Accounts:
    """The use cases of accounts."""

    def __init__(self, store: Store, limits: LoginLimits, memory: CallerMemory) -> None:
        self._store = store
        self._limits = limits
        self._memory = memory
        self._refusals = RateLimit()
        self._refusals_turn = threading.Lock()

    def bootstrap(self, operator_key: str, config: ConsoleConfig, *, is_alone: bool = True) -> Bootstrap:
        """Make what a new store needs, and have `operator_key` be the local operator key."""
        cluster_id, whitelist = config.default_cluster_id, config.system_whitelist
        password = None
        with self._store.write() as connection:
            now_ms = epoch_ms()
            for tenant in (DEFAULT_TENANT, SYSTEM_TENANT):
                if not accounts.tenant_exists(connection, tenant):
                    accounts.add_tenant(connection, tenant, now_ms)
            if registry.cluster(connection, cluster_id) is None:
                registry.touch_cluster(connection, cluster_id, now_ms)
            system = instances.by_id(connection, SYSTEM_INSTANCE_ID)
            if system is None:
                instances.save(connection, _system_instance(cluster_id, whitelist, now_ms), now_ms, new=True)
            elif system.whitelist != whitelist:
                instances.save(connection, system.with_(whitelist=whitelist), now_ms)
            if members.user(connection, ADMIN) is None:
                password = None if config.admin_password else credentials.new_password()
                hashed = credentials.hash_password(config.admin_password or password or "")
                admin = User(ADMIN, DEFAULT_TENANT, Role.ADMIN.value, hashed)
                members.add_user(connection, admin, now_ms)
            ended = self._renew_local_key(connection, credentials.sha256(operator_key), now_ms, is_alone)
        self._memory.end(ended)
        return Bootstrap(password)

    @staticmethod
    def _renew_local_key(connection: Connection, hashed: str, now_ms: int, is_alone: bool) -> list[str]:
        """Each control process has a local operator key, or shares one; what ended, hashed.

        Keys of processes that share the database are dropped when nobody used them for a day.
        """
        key_id = f"{LOCAL_KEY_ID}-{hashed[:8]}"
        unused_since_ms = now_ms if is_alone else now_ms - _LOCAL_KEY_KEPT_MS
        ended = accounts.drop_local_keys(connection, LOCAL_KEY_ID, unused_since_ms, but=key_id)
        if accounts.key_by_id(connection, key_id) is None:
            key = Key(key_id, DEFAULT_TENANT, "local operator key", Role.ADMIN.value, now_ms, None)
            accounts.add_key(connection, key, hashed)
        return ended

    # --- who asks -------------------------------------------------------------------------------

    def log_in(self, name: str, password: str, browser: Browser) -> Session:
        """Raises: Unauthenticated, TooMany."""
        name = user_name(DEFAULT_TENANT, name)
        holder = holder_of(browser.address)
        wait_ms = self._limits.retry_after_ms(holder, name)
        if wait_ms > 0:
            raise TooMany("too many wrong passwords from your address: wait a minute", wait_ms // 1000 + 1)
        with self._store.read() as connection:
            user = members.user(connection, name) if name.isprintable() else None
        stored = None if user is None else user.password_hash
        if not credentials.password_matches(stored, password) or user is None:
            self._limits.failed(holder, name)
            self._tell_refusal(user, browser.address)
            raise Unauthenticated("user or password is wrong")
        self._limits.succeeded(holder, name)
        stale = credentials.needs_rehash(user.password_hash)
        rehashed = credentials.hash_password(password) if stale else None
        with self._store.write() as connection:
            if rehashed is not None:
                members.set_password_hash(connection, name, rehashed)
            return begin_session(connection, user, browser, epoch_ms())

    def _tell_refusal(self, user: User | None, address: str) -> None:
        """Who has guessed is in our log, by address; a member's tenant is told in its audit log, not of each
        guess of many. What was typed as a name may be a password: it is in neither."""
        _log.warning("a wrong password, or user", address=address, user="" if user is None else user.name)
        if user is None:
            return
        with self._refusals_turn:
            verdict = self._refusals.take([Bucket(user.name, _REFUSALS_TOLD)], monotonic_ms() * 1_000)
        if not verdict.is_admitted:
            return
        home = home_of(user.tenant, Role(user.role))
        entry = Entry(f"session:{user.name}", home, "session.refuse", user.name, address=address)
        self._note(lambda connection: audit.record(connection, entry, epoch_ms()))

    def log_out(self, token: str) -> None:
        """End a session."""
        hashed = credentials.sha256(token)
        with self._store.write() as connection:
            members.end_session(connection, hashed)
        self._memory.end([hashed])

    def caller_of_session(self, token: str, address: str | None) -> Caller | None:
        """Who a cookie is."""
        hashed = credentials.sha256(token)
        found = self._memory.find("session", hashed)
        if found is None:
            now_ms = epoch_ms()
            with self._store.glance() as connection:
                session = members.session(connection, hashed, now_ms)
            if session is None:
                return None
            user, row = session
            found = _remembered_session(user, row.expires_at_ms, now_ms)
            if _is_stale(row.last_used_at_ms, now_ms):
                self._note(lambda connection: members.touch_session(connection, hashed, now_ms))
            self._memory.keep(hashed, found)
        return _caller(found, address)

    def caller_of_key(self, secret: str, address: str | None) -> Caller | None:
        """Who a bearer token is."""
        hashed = credentials.sha256(secret)
        found = self._memory.find("key", hashed)
        now_ms = epoch_ms()
        if found is None:
            with self._store.glance() as connection:
                good = accounts.key_by_secret(connection, hashed, now_ms)
            if good is None:
                return None
            key, until_ms = good
            found = _remembered_key(key, until_ms, now_ms)
            if _is_stale(key.last_used_at_ms, now_ms):
                self._note(lambda connection: accounts.touch_key(connection, key.id, now_ms))
            self._memory.keep(hashed, found)
        return _caller(found, address)

    def _note(self, write: Callable[[Connection], None]) -> None:
        """What matters less than the answer: a full disk must not take reading away too."""
        try:
            with self._store.write() as connection:
                write(connection)
        except StoreFault as error:
            _log.warning("a credential's use cannot be stored", error=error.reason)

    def tenant_for(self, caller: Caller, asked: str | None) -> str:
        """The tenant a request acts in. Raises: Forbidden, NotFound."""
        if not caller.is_operator:
            if asked not in (None, caller.tenant):
                raise Forbidden("only operators act for another tenant: leave ?tenant= out")
            return caller.tenant
        tenant = asked or DEFAULT_TENANT
        with self._store.glance() as connection:
            if name_fault(tenant) is not None or not accounts.tenant_exists(connection, tenant):
                raise NotFound(f"there is no tenant '{tenant[:80]}'")
        return tenant

    # --- tenants, keys, passwords ---------------------------------------------------------------

    def tenants(self, after: str | None, limit: int) -> list[tuple[str, int, int]]:
        """(name, instances, created at ms), by name."""
        with self._store.read() as connection:
            counts = instances.count_by_tenant(connection)
            rows = accounts.tenant_names(connection, after, limit)
        return [(name, counts.get(name, 0), created_at_ms) for name, created_at_ms in rows]

    def create_tenant(self, caller: Caller, name: str) -> tuple[str, int]:
        """(name, created at ms). Raises: Invalid, Conflict."""
        fault = name_fault(name, "a tenant")
        if fault is not None:
            raise Invalid([Fault("name", fault)])
        with self._store.write() as connection:
            if accounts.tenant_exists(connection, name):
                raise Conflict(f"tenant '{name}' exists already")
            now_ms = epoch_ms()
            accounts.add_tenant(connection, name, now_ms)
            entry = Entry(caller.actor, name, "tenant.create", name, address=caller.address)
            audit.record(connection, entry, now_ms)
        return name, now_ms

    def keys(self, caller: Caller, tenant: str, after: str | None, limit: int) -> list[Key]:
        """The keys of a tenant; operators' are theirs to see."""
        roles = [role for role in Role if caller.is_operator or role not in STAFF]
        with self._store.glance() as connection:
            return accounts.keys(connection, tenant, roles, after, limit)

    def create_key(
        self, caller: Caller, tenant: str, name: str, role: Role, valid_hours: int | None
    ) -> tuple[Key, str]:
        """(key, secret). `valid_hours` None: until it is revoked. Raises: Invalid, Forbidden, Conflict."""
        fault = name_fault(name, "a key")
        if fault is not None:
            raise Invalid([Fault("name", fault)])
        if role not in grants(caller.role):
            raise Forbidden(f"your role, {caller.role}, does not make keys of role {role}")
        secret = credentials.new_key_secret()
        with self._store.write() as connection:
            if len(accounts.keys(connection, tenant, list(Role), None, KEYS_MAX)) == KEYS_MAX:
                raise Conflict(f"tenant '{tenant}' has {KEYS_MAX} keys: revoke some first")
            now_ms = epoch_ms()
            until_ms = None if valid_hours is None else now_ms + valid_hours * _HOUR_MS
            key = Key(credentials.new_id("k"), tenant, name, role.value, now_ms, None, until_ms)
            accounts.add_key(connection, key, credentials.sha256(secret))
            _record(connection, caller, key, "key.create", f"{name} ({role})", now_ms)
        return key, secret

    def rotate_key(self, caller: Caller, key_id: str, overlap_hours: int) -> tuple[Key, str]:
        """(key, its new secret); the secret it had is good for some hours more. Raises: NotFound, Forbidden,
        Conflict."""
        secret = credentials.new_key_secret()
        with self._store.write() as connection:
            key = _changeable_key(connection, caller, key_id)
            now_ms = epoch_ms()
            until_ms = now_ms + overlap_hours * _HOUR_MS
            asked_anew = accounts.rotate_key(connection, key.id, credentials.sha256(secret), until_ms)
            detail = f"{key.name}; the secret before is good for {overlap_hours} h"
            _record(connection, caller, key, "key.rotate", detail, now_ms)
        self._memory.end(asked_anew)
        return replace(key, previous_until_ms=until_ms), secret

    def delete_key(self, caller: Caller, key_id: str) -> None:
        """Revoke a key. Raises: NotFound, Forbidden, Conflict."""
        with self._store.write() as connection:
            key = _changeable_key(connection, caller, key_id)
            ended = accounts.delete_key(connection, key_id)
            _record(connection, caller, key, "key.delete", key.name, epoch_ms())
        self._memory.end(ended)

    def reset_password(self, actor: str, name: str) -> str:
        """A new password, by the owner of the machine; all sessions of the user end. Raises: NotFound,
        Conflict."""
        password = credentials.new_password()
        hashed = credentials.hash_password(password)
        with self._store.write() as connection:
            user = members.user(connection, name) if name.isprintable() else None
            if user is None:
                raise NotFound(f"there is no user '{name[:80]}'")
            if user.is_managed:
                raise Conflict(f"'{name}' signs in by the identity provider, and has no password here")
            members.set_password_hash(connection, name, hashed)
            ended = members.end_sessions(connection, name)
            home = home_of(user.tenant, Role(user.role))
            audit.record(connection, Entry(actor, home, "member.reset-password", name), epoch_ms())
        self._memory.end(ended)
        return password

    def audit_page(self, tenant: str | None, before_id: int | None, limit: int) -> list[audit.Recorded]:
        """Entries of the audit log, newest first."""
        with self._store.read() as connection:
            return audit.page(connection, tenant, before_id, limit)


def _remembered_session(user: User, expires_at_ms: int, now_ms: int) -> Remembered:
    return Remembered(
        kind="session",
        id=user.name,
        name=user.name,
        tenant=user.tenant,
        role=user.role,
        valid_until_ms=min(expires_at_ms, now_ms + REMEMBERED_MS),
    )


def _changeable_key(connection: Connection, caller: Caller, key_id: str) -> Key:
    """The key that a caller may change. Raises: NotFound, also when it is another tenant's; Forbidden,
    Conflict."""
    key = accounts.key_by_id(connection, key_id) if key_id.isprintable() else None
    if key is None or not (caller.is_operator or (key.tenant == caller.tenant and key.role not in STAFF)):
        raise NotFound(f"there is no key '{key_id[:80]}'")
    if key.role not in grants(caller.role):
        raise Forbidden(f"your role, {caller.role}, does not change keys of role {key.role}")
    if key.id == LOCAL_KEY_ID or key.id.startswith(f"{LOCAL_KEY_ID}-"):
        raise Conflict(
            "this key is what commands on the console's own machine are known by: it is not changed here"
        )
    return key


def _record(connection: Connection, caller: Caller, key: Key, action: str, detail: str, now_ms: int) -> None:
    home = home_of(key.tenant, Role(key.role))
    audit.record(connection, Entry(caller.actor, home, action, key.id, detail, caller.address), now_ms)


def _remembered_key(key: Key, until_ms: int | None, now_ms: int) -> Remembered:
    return Remembered(
        kind="key",
        id=key.id,
        name=key.name,
        tenant=key.tenant,
        role=key.role,
        valid_until_ms=min(until_ms or now_ms + REMEMBERED_MS, now_ms + REMEMBERED_MS),
    )


def _is_stale(last_used_at_ms: int | None, now_ms: int) -> bool:
    return last_used_at_ms is None or now_ms - last_used_at_ms >= _TOUCH_EVERY_MS


def _caller(found: Remembered, address: str | None) -> Caller:
    return Caller(found.kind, found.name, found.tenant, Role(found.role), address, found.id)


def _system_instance(cluster_id: str, whitelist: tuple[str, ...], now_ms: int) -> Instance:
    return Instance(
        id=SYSTEM_INSTANCE_ID,
        tenant=SYSTEM_TENANT,
        name=SYSTEM_TENANT,
        state=State.RUNNING,
        cluster_id=cluster_id,
        produce_rate_bytes_per_s=_SYSTEM_RATE_BYTES_PER_S,
        consume_rate_bytes_per_s=_SYSTEM_RATE_BYTES_PER_S,
        capacity_bytes=_SYSTEM_CAPACITY_BYTES,
        whitelist=whitelist,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
    )

"""Tenants, users, keys, sessions: who may ask, and for whom."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from contracts.names import SYSTEM_INSTANCE_ID
from runtime.clock import epoch_ms
from runtime.http_limits import holder_of
from runtime.logs import get_logger
from tenants import credentials
from tenants.config import ConsoleConfig
from tenants.remembered import REMEMBERED_MS, CallerMemory, Remembered
from tenants.rules.errors import Conflict, Forbidden, Invalid, NotFound, TooMany, Unauthenticated
from tenants.rules.lifecycle import Fault, State, name_fault
from tenants.rules.model import DEFAULT_TENANT, SYSTEM_TENANT, Caller, Instance, Role
from tenants.shared_limits import LoginLimits
from tenants.store import accounts, audit, instances, registry
from tenants.store.accounts import Key, User
from tenants.store.audit import Entry
from tenants.store.engine import Store, StoreFault

_log = get_logger(__name__)
SESSION_MS: Final = 12 * 3600 * 1000
"""From a login at the console until it has to be repeated."""
KEYS_MAX: Final = 200
"""API keys of one tenant."""
_TOUCH_EVERY_MS: Final = 60_000
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
class Session:
    """A login."""

    token: str
    user: User


class Accounts:
    """The use cases of accounts."""

    def __init__(self, store: Store, limits: LoginLimits, memory: CallerMemory) -> None:
        self._store = store
        self._limits = limits
        self._memory = memory

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
            if accounts.user(connection, ADMIN) is None:
                password = None if config.admin_password else credentials.new_password()
                hashed = credentials.hash_password(config.admin_password or password or "")
                admin = User(ADMIN, DEFAULT_TENANT, Role.OPERATOR.value, hashed)
                accounts.add_user(connection, admin, now_ms)
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
            key = Key(key_id, DEFAULT_TENANT, "local operator key", Role.OPERATOR.value, now_ms, None)
            accounts.add_key(connection, key, hashed)
        return ended

    # --- who asks -------------------------------------------------------------------------------

    def log_in(self, name: str, password: str, address: str) -> Session:
        """Raises: Unauthenticated, TooMany."""
        holder = holder_of(address)
        wait_ms = self._limits.retry_after_ms(holder, name)
        if wait_ms > 0:
            raise TooMany("too many wrong passwords from your address: wait a minute", wait_ms // 1000 + 1)
        with self._store.read() as connection:
            user = accounts.user(connection, name) if name.isprintable() else None
        stored = None if user is None else user.password_hash
        if not credentials.password_matches(stored, password) or user is None:
            self._limits.failed(holder, name)
            raise Unauthenticated("user or password is wrong")
        self._limits.succeeded(holder, name)
        token = credentials.new_session_token()
        stale = credentials.needs_rehash(user.password_hash)
        rehashed = credentials.hash_password(password) if stale else None
        with self._store.write() as connection:
            now_ms = epoch_ms()
            if rehashed is not None:
                accounts.rehash_password(connection, name, rehashed)
            accounts.add_session(connection, credentials.sha256(token), user, now_ms, now_ms + SESSION_MS)
            entry = Entry(f"session:{name}", user.tenant, "session.create", name, address=address)
            audit.record(connection, entry, now_ms)
        return Session(token, user)

    def log_out(self, token: str) -> None:
        """End a session."""
        hashed = credentials.sha256(token)
        with self._store.write() as connection:
            accounts.end_session(connection, hashed)
        self._memory.end([hashed])

    def caller_of_session(self, token: str, address: str | None) -> Caller | None:
        """Who a cookie is."""
        hashed = credentials.sha256(token)
        found = self._memory.find("session", hashed)
        if found is None:
            now_ms = epoch_ms()
            with self._store.glance() as connection:
                session = accounts.session(connection, hashed, now_ms)
            if session is None:
                return None
            found = _remembered_session(*session, now_ms)
            self._memory.keep(hashed, found)
        return _caller(found, address)

    def caller_of_key(self, secret: str, address: str | None) -> Caller | None:
        """Who a bearer token is."""
        hashed = credentials.sha256(secret)
        found = self._memory.find("key", hashed)
        now_ms = epoch_ms()
        if found is None:
            with self._store.glance() as connection:
                key = accounts.key_by_secret(connection, hashed)
            if key is None:
                return None
            found = _remembered_key(key, now_ms)
            if _is_stale(key.last_used_at_ms, now_ms):
                self._touch(key, now_ms)
            self._memory.keep(hashed, found)
        return _caller(found, address)

    def _touch(self, key: Key, now_ms: int) -> None:
        try:
            with self._store.write() as connection:
                accounts.touch_key(connection, key.id, now_ms)
        except StoreFault as error:  # a full disk must not take reading away too
            _log.warning("the last use of a key cannot be stored", key=key.id, error=error.reason)

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

    def keys(self, tenant: str, after: str | None, limit: int) -> list[Key]:
        """The keys of a tenant."""
        with self._store.glance() as connection:
            return accounts.keys(connection, tenant, after, limit)

    def create_key(self, caller: Caller, tenant: str, name: str, role: Role) -> tuple[Key, str]:
        """(key, secret). Raises: Invalid, Forbidden, Conflict."""
        fault = name_fault(name, "a key")
        if fault is not None:
            raise Invalid([Fault("name", fault)])
        if role is Role.OPERATOR and not caller.is_operator:
            raise Forbidden("only operators make operator keys: choose owner or viewer")
        secret = credentials.new_key_secret()
        with self._store.write() as connection:
            if len(accounts.keys(connection, tenant, None, KEYS_MAX)) == KEYS_MAX:
                raise Conflict(f"tenant '{tenant}' has {KEYS_MAX} keys: revoke some first")
            now_ms = epoch_ms()
            key = Key(credentials.new_id("k"), tenant, name, role.value, now_ms, None)
            accounts.add_key(connection, key, credentials.sha256(secret))
            entry = Entry(caller.actor, tenant, "key.create", key.id, f"{name} ({role})", caller.address)
            audit.record(connection, entry, now_ms)
        return key, secret

    def delete_key(self, caller: Caller, key_id: str) -> None:
        """Revoke a key. Raises: NotFound."""
        with self._store.write() as connection:
            key = accounts.key_by_id(connection, key_id) if key_id.isprintable() else None
            # An operator key belongs to a tenant in name only: its owners cannot revoke it.
            if key is None or not (
                caller.is_operator or (key.tenant == caller.tenant and key.role != Role.OPERATOR)
            ):
                raise NotFound(f"there is no key '{key_id[:80]}'")
            hashed = accounts.delete_key(connection, key_id)
            entry = Entry(caller.actor, key.tenant, "key.delete", key_id, key.name, caller.address)
            audit.record(connection, entry, epoch_ms())
        self._memory.end(hashed)

    def reset_password(self, actor: str, name: str, address: str | None) -> str:
        """A new password; all sessions of the user end. Raises: NotFound."""
        password = credentials.new_password()
        hashed = credentials.hash_password(password)
        with self._store.write() as connection:
            user = accounts.user(connection, name) if name.isprintable() else None
            if user is None:
                raise NotFound(f"there is no user '{name[:80]}'")
            ended = accounts.set_password_hash(connection, name, hashed)
            entry = Entry(actor, user.tenant, "user.reset-password", name, address=address)
            audit.record(connection, entry, epoch_ms())
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


def _remembered_key(key: Key, now_ms: int) -> Remembered:
    return Remembered(
        kind="key",
        id=key.id,
        name=key.name,
        tenant=key.tenant,
        role=key.role,
        valid_until_ms=now_ms + REMEMBERED_MS,
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

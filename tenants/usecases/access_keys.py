"""Access-key pairs of tenants: a secret id, and a secret key that signs requests by HMAC."""

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy.exc import OperationalError

from runtime.clock import epoch_ms
from runtime.logs import get_logger
from tenants import credentials
from tenants.rules.errors import Conflict, Forbidden, Invalid, NotFound
from tenants.rules.lifecycle import Fault, name_fault
from tenants.rules.model import Caller
from tenants.rules.permissions import STAFF, Role
from tenants.store import access_keys, audit
from tenants.store.access_keys import AccessKey
from tenants.store.audit import Entry
from tenants.store.engine import Store

_log = get_logger(__name__)
ACCESS_KEYS_MAX: Final = 50
"""Access-key pairs of one tenant."""
_TOUCH_EVERY_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair with its secret key, which no log shows."""

    key: AccessKey
    secret_key: str = field(repr=False)


class AccessKeys:
    """The use cases. `secret` is the deployment's, from which and a salt secret keys follow."""

    def __init__(self, store: Store, secret: str | None) -> None:
        self._store = store
        self._secret = secret

    def page(self, tenant: str, after: str | None, limit: int) -> list[AccessKey]:
        """The pairs of a tenant, without their secret keys."""
        with self._store.read() as connection:
            return access_keys.page(connection, tenant, after, limit)

    def create(self, caller: Caller, tenant: str, name: str, role: Role) -> Pair:
        """A new pair. Raises: Invalid, Forbidden, Conflict."""
        fault = name_fault(name, "an access key")
        if fault is not None:
            raise Invalid([Fault("name", fault)])
        if role in STAFF:
            raise Forbidden("an access key acts for its tenant alone: choose owner, developer or viewer")
        if self._secret is None:
            raise Conflict("this control plane has no deployment secret, from which secret keys follow")
        with self._store.write() as connection:
            if len(access_keys.page(connection, tenant, None, ACCESS_KEYS_MAX)) == ACCESS_KEYS_MAX:
                raise Conflict(f"tenant '{tenant}' has {ACCESS_KEYS_MAX} access keys: revoke some first")
            secret_id, salt = credentials.new_access_key_id(), credentials.new_salt()
            secret_key = credentials.access_secret_key(self._secret, secret_id, salt)
            now_ms = epoch_ms()
            checked = credentials.sha256(secret_key)
            key = AccessKey(secret_id, tenant, name, role.value, salt, checked, now_ms, None)
            access_keys.add(connection, key)
            detail = f"{name} ({role})"
            entry = Entry(caller.actor, tenant, "access-key.create", secret_id, detail, caller.address)
            audit.record(connection, entry, now_ms)
        return Pair(key, secret_key)

    def delete(self, caller: Caller, secret_id: str) -> None:
        """Revoke a pair at once. Raises: NotFound, also when it is another tenant's."""
        with self._store.write() as connection:
            key = access_keys.by_id(connection, secret_id) if secret_id.isprintable() else None
            if key is None or not (caller.is_operator or key.tenant == caller.tenant):
                raise NotFound(f"there is no access key '{secret_id[:80]}'")
            access_keys.remove(connection, secret_id)
            entry = Entry(caller.actor, key.tenant, "access-key.delete", secret_id, key.name, caller.address)
            audit.record(connection, entry, epoch_ms())

    def find(self, secret_id: str) -> Pair | None:
        """The pair of an id; None when there is none, or when the deployment's secret is another now."""
        with self._store.read() as connection:
            key = access_keys.by_id(connection, secret_id)
        if key is None or self._secret is None:
            return None
        secret_key = credentials.access_secret_key(self._secret, secret_id, key.salt)
        if not credentials.same(credentials.sha256(secret_key), key.secret_key_sha256):
            _log.warning("an access key is of another deployment secret", secret_id=secret_id)
            return None
        return Pair(key, secret_key)

    def used(self, key: AccessKey) -> None:
        """A request was signed with it: remembered once a minute."""
        now_ms = epoch_ms()
        if key.last_used_at_ms is not None and now_ms - key.last_used_at_ms < _TOUCH_EVERY_MS:
            return
        try:
            with self._store.write() as connection:
                access_keys.touch(connection, key.secret_id, now_ms)
        except OperationalError as error:  # a full disk must not take reading away too
            _log.warning("the last use of an access key cannot be stored", error=str(error))

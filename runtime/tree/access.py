"""Who may touch our nodes in ZooKeeper: who knows the deployment's secret, by a digest of it.

ZooKeeper sees the password of each session and keeps a hash of it in every node's ACL. So the password is
derived from the secret, and tells nobody the secret itself.
"""

import hmac
import logging
import struct
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions, make_digest_acl_credential

from contracts.tree import TreeUnavailable

USER: Final = "portico"
SCHEME: Final = "digest"
TAKEN_OVER: Final = "/portico_access"
"""There once every node of ours is closed to others."""
TOP_LEVEL: Final = (
    "admin",
    "brokers",
    "cluster",
    "config",
    "consumers",
    "controller",
    "controller_epoch",
    "isr_change_notification",
    "latest_producer_id_block",
    "log_dir_event_notification",
    "moving_from_local",
    "portico",
)
"""Our nodes at the top; what else is there where no chroot was named may be somebody else's."""
_INT: Final = struct.Struct("!i")
_PURPOSE: Final = b"zookeeper"
_TIMEOUT_S: Final = 20.0
# kazoo tells of each attempt to connect; we tell what came of it.
_KAZOO_LOG: Final = logging.getLogger("runtime.tree.kazoo")


class Access:
    """The deployment's access; without a secret everybody's."""

    def __init__(self, secret: str | None) -> None:
        self.credentials: list[tuple[str, str]] = []
        """What a session says after it has connected, as kazoo takes it."""
        self.acl: list[ACL] = list(OPEN_ACL_UNSAFE)
        """The access list of every node we create."""
        if secret is not None:
            password = hmac.new(secret.encode(), _PURPOSE, sha256).hexdigest()
            self.credentials = [(SCHEME, f"{USER}:{password}")]
            holder = Id(SCHEME, make_digest_acl_credential(USER, password))
            self.acl = [ACL(Permissions.ALL, holder)]

    @property
    def is_closed(self) -> bool:
        """Whether others are kept out."""
        return bool(self.credentials)

    @property
    def wire_acl(self) -> bytes:
        """The list as a create request holds it."""
        entries = [_INT.pack(one.perms) + _text(one.id.scheme) + _text(one.id.id) for one in self.acl]
        return _INT.pack(len(entries)) + b"".join(entries)


def take_over(addresses: str, chroot: str, access: Access, *, root: bool = False) -> int:
    """Close nodes of ours that an earlier version left open to everybody; how many there were. Blocks.

    Done once: a node says so. With `root` the top of a server that is only ours is closed, too; the top of
    one that others use is not ours to close, so a deployment there names a chroot. Nodes that are somebody
    else's by their ACL are left alone.

    Raises: TreeUnavailable.
    """
    client = KazooClient(addresses, timeout=_TIMEOUT_S, auth_data=access.credentials, logger=_KAZOO_LOG)
    try:
        client.start(timeout=_TIMEOUT_S)
        marker = chroot + TAKEN_OVER
        closed = 0
        if root:
            closed += _close(client, "/", access)
        if client.exists(marker) is None:
            for top in [chroot] if chroot else [f"/{name}" for name in TOP_LEVEL]:
                closed += sum(_close(client, path, access) for path in _deepest_first(client, top))
            _create(client, marker, access)
        return closed
    except (KazooException, KazooTimeoutError) as error:
        raise TreeUnavailable(f"ZooKeeper: {type(error).__name__} {error}".rstrip()) from error
    finally:
        client.stop()
        client.close()


def _deepest_first(client: Any, path: str) -> Iterator[str]:
    try:
        names = client.get_children(path)
    except NoNodeError:
        return
    for name in names:
        yield from _deepest_first(client, f"{path}/{name}")
    yield path


def _close(client: Any, path: str, access: Access) -> int:
    try:
        found, _stat = client.get_acls(path)
        if list(found) != list(OPEN_ACL_UNSAFE):
            return 0
        client.set_acls(path, access.acl)
    except NoNodeError:  # it has ended meanwhile
        return 0
    return 1


def _create(client: Any, path: str, access: Access) -> None:
    try:
        client.create(path, b"", acl=access.acl)
    except NodeExistsError:
        return  # another process was faster


def _text(text: str) -> bytes:
    raw = text.encode()
    return _INT.pack(len(raw)) + raw

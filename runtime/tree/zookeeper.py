"""The metadata tree in ZooKeeper, through kazoo.

Requests are pipelined on one connection; a watch is armed again before its callback runs, so a reader that
reads in answer misses nothing. kazoo's `_call` is used directly because its public calls know neither
create2 within a transaction nor multi-reads.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from contracts.tree import (
    CommitResult,
    Create,
    Node,
    Op,
    SessionState,
    TreeConflict,
    TreeUnavailable,
)
from runtime.logs import get_logger
from runtime.tree.access import TAKEN_OVER, Access, take_over
from runtime.tree.arming import Arming
from runtime.tree.kazoo_loop import LoopHandler, Mailbox
from runtime.tree.pipeline import Pipeline
from runtime.tree.pure import Kind
from runtime.tree.requests import Multi, MultiRead, under
from runtime.tree.watches import Watches

_log = get_logger(__name__)
_START_TIMEOUT_S: Final = 15.0
_STOP_TIMEOUT_S: Final = 2.0
_RESTART_DELAY_S: Final = 0.3
_PATHS_PER_READ: Final = 500

# kazoo tells of each attempt to connect; we tell of the session's changes.
_KAZOO_LOG: Final = logging.getLogger("runtime.tree.kazoo")
_KAZOO_LOG.setLevel(logging.ERROR)


class ZooKeeperTree:
    """A tree below a chroot of a ZooKeeper ensemble (3.6 or newer): `hosts` is `h1:p1,h2:p2/chroot`.

    While the connection is lost every call fails at once with TreeUnavailable. A session that expired is
    followed by a new one without being asked.
    """

    def __init__(self, hosts: str, session_timeout_ms: int, secret: str | None) -> None:
        """With a secret, nodes that are made are for those who know it."""
        addresses, slash, chroot = hosts.partition("/")
        self._addresses = addresses
        self._chroot = (slash + chroot).rstrip("/")
        self._session_timeout_ms = session_timeout_ms
        self._access = Access(secret)
        self._acl = self._access.wire_acl
        self._client: Any = None
        self._watches = Watches()
        self._arming: Arming | None = None
        self._outstanding: set[asyncio.Future[Any]] = set()
        self._state: SessionState | None = None
        self._session_id = 0
        self._chroot_answered = False
        self._closing = False
        self._first_session = asyncio.Event()

    @property
    def session_id(self) -> int:
        """ZooKeeper's id of the session; 0 before the first."""
        return self._session_id

    async def start(self) -> None:
        """Open a session. Raises: TreeUnavailable when nobody answers."""
        assert self._client is None, "a tree starts once"
        mailbox = Mailbox(asyncio.get_running_loop())
        self._client = KazooClient(
            self._addresses,
            timeout=self._session_timeout_ms / 1000,
            handler=LoopHandler(mailbox, silence_s=self._session_timeout_ms / 1000 * 2 / 3),
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.3),
            auth_data=self._access.credentials,
            logger=_KAZOO_LOG,
        )
        self._mailbox = mailbox
        self._pipeline = Pipeline(self._client, mailbox)
        self._arming = Arming(self._pipeline.call, self._watches, self._chroot)
        self._client.add_listener(partial(self._listen, self._client, mailbox))
        self._client.start_async()
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                await self._first_session.wait()
        except TimeoutError:
            await self.aclose()
            self._client, self._closing = None, False  # whoever waits for a ZooKeeper tries again
            raise TreeUnavailable(f"no ZooKeeper answers at {self._addresses}") from None

    async def close_to_others(self) -> None:
        """Give nodes that were left open the access of this deployment; only where they are known to be ours.
        Raises: TreeUnavailable."""
        if self._access.is_closed and await self.get(TAKEN_OVER) is None:
            closed = await asyncio.to_thread(take_over, self._addresses, self._chroot, self._access)
            _log.info("nodes in ZooKeeper are closed to others", hosts=self._addresses, closed=closed)

    async def aclose(self) -> None:
        """End the session; a server that does not answer is not waited for long."""
        if self._client is None or self._closing:
            return
        self._closing = True
        self._fail_outstanding("the tree is closed")
        stopped = asyncio.Event()
        # a server that does not answer holds this thread for longer than a tree stays closed
        client, mailbox = self._client, self._mailbox

        def stop() -> None:
            client.stop()
            client.close()
            mailbox.post(stopped.set)

        # not one of the loop's threads: those are waited for at the process's end
        threading.Thread(target=stop, daemon=True, name="tree-stop").start()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await stopped.wait()
        except TimeoutError:
            _log.warning("ZooKeeper does not answer: leaving the session to expire", hosts=self._addresses)

    async def get(self, path: str) -> Node | None:
        """A node, or None. Raises: TreeUnavailable."""
        return (await self.get_many([path]))[0]

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Many nodes. Raises: TreeUnavailable."""
        return await self._read(paths, children=False)

    async def children(self, path: str) -> list[str] | None:
        """Sorted names of a node's children, or None. Raises: TreeUnavailable."""
        return (await self.children_many([path]))[0]

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        """Children of many nodes. Raises: TreeUnavailable."""
        return await self._read(paths, children=True)

    async def commit(self, ops: Sequence[Op]) -> list[CommitResult]:
        """Do all operations or none. Raises: TreeConflict, TreeUnavailable, ValueError (too large)."""
        [outcome] = await self.commit_many([ops])
        if isinstance(outcome, TreeConflict):
            raise outcome
        return outcome

    async def commit_many(self, batches: Sequence[Sequence[Op]]) -> list[list[CommitResult] | TreeConflict]:
        """Commit each batch on its own. Raises: TreeUnavailable, ValueError (one is too large)."""
        requests = [self._multi(ops) for ops in batches]
        outcomes = await self._gather([self._submit(request) for request in requests])
        return [
            outcome[0] if outcome and isinstance(outcome[0], TreeConflict) else outcome
            for outcome in outcomes
        ]

    def watch_data(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each change of a node; returns what ends the watch."""
        return self._watch(Kind.DATA, path, callback)

    def watch_children(self, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after a child came or went; returns what ends the watch."""
        return self._watch(Kind.CHILDREN, path, callback)

    def on_session(self, callback: Callable[[SessionState], None]) -> None:
        """Call back with every change of the session, in order."""
        self._watches.listen(callback)

    def _watch(self, kind: Kind, path: str, callback: Callable[[], None]) -> Callable[[], None]:
        remove = self._watches.add(kind, path, callback)
        if self._arming is not None and self._state is SessionState.CONNECTED:
            self._arming.arm(kind, path)
        return remove

    def _multi(self, ops: Sequence[Op]) -> Multi:
        session_id, client = self._session_id, self._client
        return Multi(ops, self._chroot, self._acl, lambda: client._session_id == session_id)

    async def _read(self, paths: Sequence[str], *, children: bool) -> list[Any]:
        below = [under(self._chroot, path) for path in paths]
        chunks = [below[first : first + _PATHS_PER_READ] for first in range(0, len(below), _PATHS_PER_READ)]
        answers = await self._gather([self._submit(MultiRead(chunk, children)) for chunk in chunks])
        return [result for answer in answers for result in answer]

    async def _gather(self, futures: Sequence[asyncio.Future[Any]]) -> list[list[Any]]:
        """All answers in order. Raises: the first TreeUnavailable, after all are settled."""
        answers = await asyncio.gather(*futures, return_exceptions=True)
        for answer in answers:
            for part in answer if isinstance(answer, list) else [answer]:
                if isinstance(part, BaseException) and not isinstance(part, TreeConflict):
                    raise part
        return answers  # type: ignore[return-value] # none is an exception

    def _submit(self, request: Any) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        if self._state is not SessionState.CONNECTED or self._closing:
            future.set_exception(TreeUnavailable("there is no connection to ZooKeeper"))
            return future
        self._outstanding.add(future)
        future.add_done_callback(self._outstanding.discard)

        def done(answer: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(TreeUnavailable(f"ZooKeeper: {type(error).__name__} {error}".rstrip()))

        self._pipeline.call(request, done)
        return future

    def _listen(self, client: KazooClient, mailbox: Mailbox, state: str) -> None:
        """kazoo's connection changed; runs in its thread."""
        client_id = client.client_id
        session_id = client_id[0] if client_id else 0
        mailbox.post(self._on_kazoo, client, state, client.client_state, session_id)

    def _on_kazoo(self, client: KazooClient, state: str, detail: str, session_id: int) -> None:
        """Takes kazoo's state on the loop, in order with answers and watches."""
        if self._closing or client is not self._client:  # an earlier start's, still ending
            return
        if state == KazooState.CONNECTED:
            self._connected(session_id)
        elif state == KazooState.SUSPENDED:
            self._lost(SessionState.SUSPENDED)
        else:
            self._lost(SessionState.EXPIRED)
            if detail != KeeperState.EXPIRED_SESSION:  # kazoo gave up: its thread met what it does not know
                _log.error("the connection to ZooKeeper failed, starting it again", state=detail)
                asyncio.get_running_loop().call_later(_RESTART_DELAY_S, self._restart)

    def _connected(self, session_id: int) -> None:
        assert self._arming is not None, "a connection before the start"
        first, new = self._session_id == 0, self._session_id != session_id
        self._session_id = session_id
        self._state = SessionState.CONNECTED
        _log.info("connected to ZooKeeper", session=f"{session_id:#x}", new_session=new)
        if new or not self._chroot_answered:
            self._create_chroot()
        self._arming.arm_all()
        self._watches.tell(SessionState.CONNECTED)
        self._first_session.set()
        if not first:
            self._watches.notify(self._watches.all())

    def _lost(self, state: SessionState) -> None:
        self._state = state
        _log.warning("the session at ZooKeeper is " + state, session=f"{self._session_id:#x}")
        self._pipeline.lost()
        self._fail_outstanding("the connection to ZooKeeper is lost")
        self._watches.tell(state)

    def _fail_outstanding(self, reason: str) -> None:
        for future in list(self._outstanding):
            if not future.done():
                future.set_exception(TreeUnavailable(reason))

    def _restart(self) -> None:
        if not self._closing:
            threading.Thread(target=self._client.start_async, daemon=True, name="tree-restart").start()

    def _create_chroot(self) -> None:
        """Sent before anything else of a session; what is there already is refused, which is fine."""
        parts = self._chroot.split("/")[1:]
        self._chroot_answered = not parts

        def answered(depth: int, _answer: Any, error: Exception | None) -> None:
            self._chroot_answered = error is None and depth == len(parts)

        for depth in range(1, len(parts) + 1):
            create = Create("/" + "/".join(parts[:depth]))
            self._pipeline.call(Multi([create], "", self._acl, lambda: True), partial(answered, depth))

"""One master process's part in the election: it serves while it is elected, and knows who does otherwise.

Without a tree there is no election: this process is the only one and always serves. With one, terms come from
the election and leases of an earlier term are ignored by every point, so a master that was voted out unawares
can give nothing any more to a point that has heard of its successor. A master that points tell of newer
leases than its own begins a term beyond theirs: its journal and the tree may be younger than they (ADR 36).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec

from contracts.masters import (
    MASTER_EPOCH_PATH,
    MASTER_PATH,
    POLICY_PATH,
    ROOT_PATH,
    MasterRegistration,
    decode_registration,
)
from contracts.specs import InstanceSpec
from contracts.tree import Conflict, Create, Delete, Node, SetData, Tree, TreeConflict, TreeUnavailable
from master.journal import Journal
from master.kept_series import KeptSeries
from master.metering import Metering
from master.quota.policies import POLICIES
from master.service import MasterService
from master.settings import MasterSettings
from runtime.logs import get_logger
from runtime.tasks import Supervised
from runtime.tree.election import Election, Office

_log = get_logger(__name__)
_RETRY_S = 0.5


class NotElectedError(Exception):
    """Another process is the master; `url` is where, if known."""

    def __init__(self, url: str | None) -> None:
        where = f"it is at {url}" if url is not None else "none is elected now, try again"
        super().__init__(f"this process is not the elected quota master: {where}")
        self.url = url


class MasterNode:
    """Made at the start of the process; `run` until its end."""

    def __init__(
        self,
        specs: Callable[[], Mapping[str, InstanceSpec]],
        journal: Journal,
        settings: MasterSettings,
        *,
        url: str,
        tree: Tree | None,
        make_metering: Callable[[], Metering] | None = None,
        run_engines: Callable[[MasterService], Awaitable[None]] | None = None,
        series: KeptSeries | None = None,
    ) -> None:
        """`url` is this process's internal HTTP server as brokers reach it. The node starts the tree.

        `make_metering` is called for each term; without it usage is not told. `run_engines` runs beside each
        term's service, and sets the quotas of other engines. `series` outlive terms.
        """
        self._specs = specs
        self._journal = journal
        self._settings = settings
        self._url = url
        self._tree = tree
        self._make_metering = make_metering
        self._run_engines = run_engines
        self._series = series
        self._service: MasterService | None = None
        self._office: Office | None = None
        self._office_changed = asyncio.Event()
        self._elected_url: str | None = None
        self._stale: Node | None = None
        """The registration of an earlier life of this process, whose session has not ended yet."""

    @property
    def service(self) -> MasterService:
        """The master. Raises: NotElectedError while it is another process."""
        if self._service is None:
            raise NotElectedError(self._elected_url if self._elected_url != self._url else None)
        return self._service

    @property
    def elected_url(self) -> str:
        """Where the elected master answers, as far as is known; else here."""
        return self._elected_url or self._url

    async def set_policy(self, policy: str) -> None:
        """Choose the rule for all instances and for all masters to come.

        Raises: ValueError for a name that is not a policy; NotElectedError; TreeUnavailable.
        """
        service = self.service
        if policy in POLICIES and self._tree is not None:
            await _put(self._tree, POLICY_PATH, policy.encode())
        service.set_policy(policy)

    async def run(self) -> None:
        """Serve, or stand for election and serve while elected, until cancelled."""
        if self._tree is None:
            while True:
                self._journal.note_term(await self._serve(self._journal.next_term()))
        await self._start_tree(self._tree)
        election = Election(
            self._tree,
            MASTER_PATH,
            MASTER_EPOCH_PATH,
            data=lambda: msgspec.json.encode(MasterRegistration(url=self._url)),
            elected=self._elected,
            lost=self._lost,
            leader_changed=self._leader_changed,
        )
        election.start()
        try:
            while True:
                await self._office_changed.wait()
                self._office_changed.clear()
                if self._stale is not None:
                    await self._remove_predecessor(self._tree, self._stale)
                if self._office is not None:
                    await self._hold(self._tree, self._office)
        finally:
            await election.aclose()
            await self._tree.aclose()

    async def _start_tree(self, tree: Tree) -> None:
        while True:
            try:
                await tree.start()
                await _ensure(tree, ROOT_PATH)
                return
            except TreeUnavailable as error:
                _log.warning("no election without ZooKeeper, trying again", error=str(error))
                await asyncio.sleep(_RETRY_S)

    # -- the election's word ------------------------------------------------------------------------------

    def _elected(self, office: Office) -> None:
        self._office = office
        self._office_changed.set()

    def _lost(self) -> None:
        self._office = None
        self._office_changed.set()

    def _leader_changed(self, node: Node | None) -> None:
        registration = None if node is None else decode_registration(node.data)
        if node is None or registration is None:
            return
        self._elected_url = registration.url
        assert self._tree is not None
        if registration.url == self._url and node.stat.owner != self._tree.session_id:
            self._stale = node
            self._office_changed.set()

    async def _remove_predecessor(self, tree: Tree, node: Node) -> None:
        """Who listens at our address was killed, or we could not: its registration need not expire first."""
        self._stale = None
        with contextlib.suppress(TreeConflict, TreeUnavailable):
            current = await tree.get(MASTER_PATH)
            if current is not None and current.stat.czxid == node.stat.czxid:
                await tree.commit([Delete(MASTER_PATH, current.stat.version)])

    # -- the office ---------------------------------------------------------------------------------------

    async def _hold(self, tree: Tree, office: Office) -> None:
        """Serve until the office is lost or the process ends."""
        try:
            term = await self._term(tree)
            policy = await tree.get(POLICY_PATH)
        except (TreeUnavailable, TreeConflict) as error:
            _log.warning("elected, but the tree does not answer", error=str(error))
            await asyncio.sleep(_RETRY_S)
            if self._office is office:
                self._office_changed.set()
            return
        if policy is not None and policy.data.decode(errors="replace") in POLICIES:
            self._journal.set_setting("policy", policy.data.decode())
        serving = asyncio.create_task(self._serve(term), name="master")
        lost = asyncio.create_task(self._office_changed.wait())
        try:
            await asyncio.wait({serving, lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._service = None
            lost.cancel()
            serving.cancel()
            await asyncio.gather(serving, lost, return_exceptions=True)
        if not serving.cancelled():
            self._journal.note_term(serving.result())  # a failure is the supervisor's to report
            self._office_changed.set()

    async def _term(self, tree: Tree) -> int:
        """The election's epoch; beyond all terms of this journal, which may be older than the tree."""
        elected, registration = await tree.get_many([MASTER_EPOCH_PATH, MASTER_PATH])
        if elected is None or registration is None or registration.stat.owner != tree.session_id:
            raise TreeConflict(0, MASTER_PATH, Conflict.NO_NODE)
        last = self._journal.last_term()
        if int(elected.data) > last:
            self._journal.keep_term(int(elected.data))
            return int(elected.data)
        await tree.commit([SetData(MASTER_EPOCH_PATH, str(last + 1).encode(), elected.stat.version)])
        self._journal.keep_term(last + 1)
        return last + 1

    async def _serve(self, term: int) -> int:
        """Until cancelled, or until points tell of a later term, which is returned."""
        metering = self._make_metering() if self._make_metering is not None else None
        self._service = MasterService(
            self._specs, self._journal, self._settings, term=term, metering=metering, series=self._series
        )
        _log.info("serving as the quota master", term=term, policy=self._service.policy)
        beside = Supervised()
        if self._run_engines is not None:
            beside.spawn("engines", partial(self._run_engines, self._service))
        try:
            later = await self._service.run()
            _log.warning("points have newer leases: going beyond their term", term=term, later=later)
            return later
        finally:
            self._service = None
            await beside.aclose()


async def _ensure(tree: Tree, path: str) -> None:
    try:
        await tree.commit([Create(path)])
    except TreeConflict as conflict:
        if conflict.reason is not Conflict.NODE_EXISTS:
            raise


async def _put(tree: Tree, path: str, data: bytes) -> None:
    await _ensure(tree, path)
    with contextlib.suppress(TreeConflict):
        await tree.commit([SetData(path, data)])

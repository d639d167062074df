"""Bringing a backup back (ADR-0029): all of the new is made beside the old, then the old is set aside.

Until the last step nothing of the data directory has changed, and nothing is deleted by it either.
"""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from broker.metadata.znode_paths import CLUSTER_ID, TOPICS
from broker.metadata.znodes import ZnodeDamaged
from broker.storage.log_directory import LOCK
from contracts.tree import TreeConflict, TreeUnavailable
from contracts.units import counted
from ctl.backup.archive import ArchiveFault, ArchiveReader
from ctl.backup.log_survey import survey
from ctl.backup.manifest import SECRETS, TREE, Manifest, table_of
from ctl.backup.places import Places, deployment_of
from ctl.backup.raising import EPOCHS_AHEAD, Changed, brokers_of, raise_tree
from ctl.backup.seal import Secrets, unseal
from ctl.backup.tree_nodes import TreeNode, write_file, write_nodes
from ctl.errors import CommandError
from ctl.stack.cluster import OWN, Cluster, remember, remembered
from ctl.stack.keeper import running_pid
from ctl.stack.leftovers import left
from master.journal import Journal
from runtime.tree.zookeeper import ZooKeeperTree
from tenants.config import sqlite_url
from tenants.store import dump, migrating
from tenants.store.engine import Store, StoreFault, sentence

_SESSION_TIMEOUT_MS: Final = 10_000
KEPT_MS: Final = 24 * 3600 * 1000
_NEW_SUFFIX: Final = ".restoring"
_OF_SQLITE: Final = ("", "-wal", "-shm")

_UNCHANGED: Final = Changed(
    topics=0, partitions=0, found=(), made_anew=(), grown=(), empty=(), moved=0, behind=0, orders=0
)

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the operator says."""

    passphrase: str | None = field(default=None, repr=False)
    keep_for_ms: int = KEPT_MS
    """So long nothing is removed by retention or compaction."""
    takes_foreign: bool = False
    """Go on although the archive is of another deployment."""
    logs_are_lost: bool = False
    """Go on although brokers' logs are not here: their topics begin empty."""
    logs: Mapping[int, tuple[Path, ...]] = field(default_factory=dict)
    """Log directories by broker, besides those of the data directory."""


class Restored(NamedTuple):
    """What was done."""

    manifest: Manifest
    changed: Changed
    set_aside: Path | None
    """Where what was there lies now."""


def restore(places: Places, archive: Path, wishes: Wishes, now_ms: int, tell: Tell) -> Restored:
    """Raises: CommandError, OSError; then nothing has changed but in a Postgres or a ZooKeeper, which have to
    be empty before."""
    try:
        tell("reading all of the backup")
        reader = ArchiveReader(archive)
    except ArchiveFault as fault:
        raise CommandError(str(fault)) from fault
    with ExitStack() as stack:
        stack.callback(reader.close)
        stack.enter_context(_alone(places, wishes))
        secrets = _secrets(reader, wishes)
        secret = _accepted_secret(places, reader, secrets, wishes)
        try:
            return _restore(places, reader, wishes, secrets, secret, now_ms, tell)
        except ArchiveFault as fault:
            raise CommandError(str(fault)) from fault


def _restore(
    places: Places,
    reader: ArchiveReader,
    wishes: Wishes,
    secrets: Secrets | None,
    secret: str,
    now_ms: int,
    tell: Tell,
) -> Restored:
    manifest = reader.manifest
    _refuse_other_store(places, manifest, wishes)
    nodes = {node.path: node.data for node in reader.lines(TREE, TreeNode)}
    has_tree = manifest.cluster.backend is None
    raised, changed = _raised(places, nodes, wishes, now_ms, tell) if has_tree else ({}, _UNCHANGED)
    written = [TreeNode(path, data) for path, data in raised.items()]
    new: dict[Path, Path] = {}
    """Where it is to be -> where it is made."""
    try:
        if not has_tree:
            tell("metadata: the Apache Kafka's own")
        elif _keeps_in_file(places, manifest):
            new[places.tree_file] = _fresh(places.tree_file)
            asyncio.run(write_file(new[places.tree_file], written))
        else:
            asyncio.run(_fill_zookeeper(places, secret, written))
        if has_tree:
            tell(f"metadata: {counted(len(written), 'node')}")
        _load_store(places, reader, new, now_ms, tell)
        _make_journal(places, manifest, new)
    except (TreeUnavailable, TreeConflict) as error:
        raise CommandError(f"the cluster's metadata cannot be written: {error}") from error
    except (StoreFault, SQLAlchemyError, migrating.SchemaIsNewer) as error:
        reason = error.reason if isinstance(error, StoreFault) else sentence(error)
        raise CommandError(f"the console's database cannot be written: {reason}") from error
    else:
        aside = _exchange(places, new, now_ms)
    finally:
        for made in new.values():
            _remove_sqlite(made)
    _keep_rest(places, manifest, secrets, secret)
    return Restored(manifest, changed, aside)


# -- may it be done --------------------------------------------------------------------------------------


@contextmanager
def _alone(places: Places, wishes: Wishes) -> Iterator[None]:
    """No process of the data directory or of named logs runs, none starts meanwhile. Raises: CommandError."""
    layout = places.layout
    pid, others = running_pid(layout), left(layout)
    if pid is not None or others:
        who = f"process {pid}" if pid is not None else ", ".join(sorted(others))
        raise CommandError(f"a stack runs on {layout.data_dir} ({who}): stop it first (`portico down`)")
    layout.data_dir.mkdir(parents=True, exist_ok=True)
    logs = dict.fromkeys(
        [*layout.log_directories(), *(path for each in wishes.logs.values() for path in each)]
    )
    locks = [layout.lock_file, *(path / LOCK for path in logs)]
    with ExitStack() as stack:
        for path in locks:
            file = stack.enter_context(path.open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CommandError(f"a process holds {path}: stop it first") from error
        yield


def _secrets(reader: ArchiveReader, wishes: Wishes) -> Secrets | None:
    if reader.part(SECRETS) is None or wishes.passphrase is None:
        return None
    return unseal(reader.content(SECRETS), wishes.passphrase)


def _accepted_secret(places: Places, reader: ArchiveReader, secrets: Secrets | None, wishes: Wishes) -> str:
    """The deployment's secret: that of here, else the archive's. Raises: CommandError."""
    own, manifest = places.secret(), reader.manifest
    if own is None and secrets is None:
        how = "--passphrase-file opens the backup's" if reader.part(SECRETS) else "the backup holds none"
        raise CommandError(
            f"the deployment's secret is not in {places.secret_file}, and brokers' logs and access keys are "
            f"of no use without it: put the file back ({how})"
        )
    if own is not None and deployment_of(own) != manifest.deployment:
        if not wishes.takes_foreign:
            raise CommandError(
                f"the backup is of another deployment than {places.layout.data_dir}: their secrets differ. "
                "Name the right --data-dir, or say --another-deployment to make this one a copy of it"
            )
        return own
    theirs = own if own is not None else secrets.deployment_secret if secrets is not None else ""
    if not reader.is_signed_with(theirs):
        raise CommandError("the backup's manifest was changed since it was written: it is not restored")
    return theirs


def _refuse_other_store(places: Places, manifest: Manifest, wishes: Wishes) -> None:
    """What is there may be broken; where it can be read it is this deployment's. Raises: CommandError."""
    if places.has_postgres or wishes.takes_foreign or not places.database_file.exists():
        return
    store = Store.attach(places.database_url)
    try:
        with store.read() as connection:
            if migrating.current(connection) != migrating.head():
                return
            found = dump.first_feed(connection)
    except (StoreFault, SQLAlchemyError):
        return  # damaged: that is what a restore is for
    finally:
        store.close()
    if found != manifest.store_id:
        raise CommandError(
            f"the console's database in {places.layout.data_dir} began as another one than the backup's: "
            "name the right --data-dir, or say --another-deployment"
        )


# -- the tree --------------------------------------------------------------------------------------------


def _raised(
    places: Places, nodes: Mapping[str, bytes], wishes: Wishes, now_ms: int, tell: Tell
) -> tuple[dict[str, bytes], Changed]:
    directories = _log_directories(places, wishes)
    try:
        unseen = brokers_of(nodes) - directories.keys()
        if unseen and not wishes.logs_are_lost:
            raise CommandError(
                f"the logs of {_brokers(unseen)} are not here, and what logs hold decides who may lead: put "
                "their disks back (DATA/broker-N/logs, or --logs N=DIRECTORY), or say --logs-lost: what only "
                "they held is gone, and their topics begin empty"
            )
        replicas = list(survey(directories, lambda count: tell(f"logs: {count} so far")))
        tell(f"logs: {counted(len(replicas), 'replica')} of {counted(len(directories), 'broker')}")
        raised = raise_tree(nodes, replicas, directories.keys(), now_ms + wishes.keep_for_ms)
    except ZnodeDamaged as error:
        raise CommandError(f"the backup's metadata cannot be read: {error}") from error
    return raised.nodes, raised.changed


def _log_directories(places: Places, wishes: Wishes) -> dict[int, list[Path]]:
    found: dict[int, list[Path]] = {}
    for path in places.layout.log_directories():
        number = path.parent.name.rpartition("-")[2]
        if number.isdecimal():
            found.setdefault(int(number), []).append(path)
    for broker_id, paths in wishes.logs.items():
        found.setdefault(broker_id, []).extend(paths)
    return found


def _brokers(ids: set[int]) -> str:
    names = ", ".join(map(str, sorted(ids)))
    return f"broker {names}" if len(ids) == 1 else f"brokers {names}"


def _keeps_in_file(places: Places, manifest: Manifest) -> bool:
    """A stack fills its own ZooKeeper from the file when it starts (`ctl/stack/moving.py`)."""
    if places.zookeeper is not None:
        return places.zookeeper == OWN
    if manifest.cluster.is_local or remembered(places.layout) is None:
        return True
    raise CommandError("the backup is of several brokers: name their ZooKeeper with --zookeeper")


async def _fill_zookeeper(places: Places, secret: str, nodes: list[TreeNode]) -> None:
    assert places.zookeeper is not None, "else the tree is a file"
    tree = ZooKeeperTree(places.zookeeper, _SESSION_TIMEOUT_MS, secret)
    await tree.start()
    try:
        if await tree.children(TOPICS) is not None or await tree.get(CLUSTER_ID) is not None:
            raise CommandError(
                f"the ZooKeeper at {places.zookeeper} holds a cluster's metadata already, which is not "
                "replaced: name another chroot, here and where brokers and console are started"
            )
        await write_nodes(tree, nodes)
    finally:
        await tree.aclose()


# -- the store -------------------------------------------------------------------------------------------


def _load_store(
    places: Places, reader: ArchiveReader, new: dict[Path, Path], now_ms: int, tell: Tell
) -> None:
    url = places.database_url
    if not places.has_postgres:
        new[places.database_file] = _fresh(places.database_file)
        url = sqlite_url(str(new[places.database_file]))
    store = Store.attach(url)
    try:
        with store.write() as connection:
            if dump.has_tables(connection):
                raise CommandError(
                    f"the database {store.engine.url.render_as_string()} is not empty, and is not replaced: "
                    "make an empty one, and name it here and in the settings (database_url)"
                )
            load = dump.Load(connection)
            load.begin(reader.manifest.schema)
            for part in reader.manifest.parts:
                table = table_of(part.name)
                if table is not None:
                    count = load.add(table, reader.lines(part.name, dict))
                    tell(f"{table}: {counted(count, 'row')}")
            load.finish(now_ms)
    except KeyError as error:
        raise ArchiveFault(f"the backup names a table that its schema has not: {error}") from error
    finally:
        store.close()


def _make_journal(places: Places, manifest: Manifest, new: dict[Path, Path]) -> None:
    """Points refuse leases of a lower term than they have seen; one that is here knows best."""
    if places.journal_file.exists() or not manifest.master_term:
        return
    new[places.journal_file] = _fresh(places.journal_file)
    journal = Journal(sqlite_url(str(new[places.journal_file])))
    try:
        journal.keep_term(manifest.master_term + EPOCHS_AHEAD)
    finally:
        journal.close()


# -- files -----------------------------------------------------------------------------------------------


def _fresh(target: Path) -> Path:
    """Where a new file is made: beside its place, nothing left there by an earlier try."""
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(target.name + _NEW_SUFFIX)
    _remove_sqlite(made)
    return made


def _remove_sqlite(path: Path) -> None:
    for suffix in _OF_SQLITE:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _exchange(places: Places, new: Mapping[Path, Path], now_ms: int) -> Path | None:
    """Move the old into a directory of its own, then the new into its place."""
    layout = places.layout
    old = [
        path
        for target in new
        for suffix in _OF_SQLITE
        if (path := target.with_name(target.name + suffix)).exists()
    ]
    if places.tree_file in new and layout.zookeeper_dir.exists():
        old.append(layout.zookeeper_dir)
    aside = layout.data_dir / f"set-aside-{now_ms}" if old else None
    for path in old:
        assert aside is not None, "there is something to set aside"
        target = aside / path.relative_to(layout.data_dir)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    for target, made in new.items():
        assert not made.with_name(made.name + "-wal").exists(), "a closed database has no log beside it"
        _sync(made)
        made.rename(target)
        _sync(target.parent)
    return aside


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_rest(places: Places, manifest: Manifest, secrets: Secrets | None, secret: str) -> None:
    """What a data directory that was lost needs besides; what is there stays."""
    layout = places.layout
    _write_private(places.secret_file, secret + "\n")
    if secrets is not None and secrets.settings is not None:
        _write_private(layout.settings_file, secrets.settings)
    for name, text in ({} if secrets is None else secrets.credentials).items():
        _write_credential(layout.credentials_dir, name, text)
    if remembered(layout) is None and places.zookeeper in (None, OWN):
        zookeeper = None if manifest.cluster.is_local else OWN
        brokers = 0 if manifest.cluster.backend else max(manifest.cluster.brokers, default=1)
        remember(layout, Cluster(brokers, zookeeper, manifest.cluster.backend))


def _write_credential(credentials_dir: Path, name: str, text: str) -> None:
    """`name` is CLUSTER/FILE. Raises: ArchiveFault for one that leads elsewhere."""
    cluster, _, file = name.partition("/")
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in (cluster, file)):
        raise ArchiveFault(f"the backup names a credential that is none: {name!r}")
    directory = credentials_dir / cluster
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write_private(directory / file, text)


def _write_private(path: Path, text: str) -> None:
    if path.exists():
        return
    temporary = path.with_name(path.name + _NEW_SUFFIX)
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600)
    temporary.write_text(text)
    temporary.replace(path)

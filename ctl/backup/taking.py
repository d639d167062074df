"""Taking a backup, of a deployment that runs or does not: the store first, then the tree, then the secrets.

In that order an instance of the store has its topics in the tree, as far as they were made by then; what only
the tree has is absent after a restore, and kept (ADR-0015).
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Final

from sqlalchemy import Connection

from broker.metadata.znode_paths import TOPICS
from broker.metadata.znodes import ZnodeDamaged
from contracts.tree import TreeUnavailable
from contracts.units import counted
from ctl.backup.archive import ArchiveWriter
from ctl.backup.manifest import SECRETS, TREE, ClusterFacts, Manifest, store_part, table_of
from ctl.backup.places import Places, deployment_of
from ctl.backup.raising import brokers_of
from ctl.backup.seal import Secrets, seal
from ctl.backup.tree_nodes import TreeNode, nodes_of_file, nodes_of_tree
from ctl.errors import CommandError
from ctl.installation import version
from ctl.stack.processes import CLUSTER_ID
from master.journal import Journal
from runtime.tree.zookeeper import ZooKeeperTree
from tenants.config import sqlite_url
from tenants.store import dump, migrating
from tenants.store.engine import Store, StoreFault

_SESSION_TIMEOUT_MS: Final = 10_000
_TELL_EACH: Final = 10_000

Tell = Callable[[str], None]


def take(places: Places, stream: IO[bytes], passphrase: str | None, now_ms: int, tell: Tell) -> Manifest:
    """Write an archive; what it says of itself. Without a passphrase it holds no secrets.

    Raises: CommandError, OSError.
    """
    secret = _secret(places)
    with ArchiveWriter(stream) as archive:
        return _take(places, archive, secret, passphrase, now_ms, tell)


def named(places: Places) -> str:
    """What names the deployment in archives. Raises: CommandError."""
    return deployment_of(_secret(places))


def _secret(places: Places) -> str:
    secret = places.secret()
    if secret is None:
        raise CommandError(
            f"there is no deployment's secret in {places.secret_file}: name its data directory with "
            "--data-dir, or the file with --secret-file"
        )
    return secret


def _take(
    places: Places, archive: ArchiveWriter, secret: str, passphrase: str | None, now_ms: int, tell: Tell
) -> Manifest:
    sealed = None if passphrase is None else seal(_secrets(places, secret), passphrase)
    store_id, schema, database = _take_store(places, archive, tell)
    nodes = _tree(places, secret, tell)
    archive.add_lines(TREE, nodes)
    if sealed is not None:
        archive.add_bytes(SECRETS, sealed)
    manifest = Manifest(
        release=version(),
        taken_at_ms=now_ms,
        deployment=deployment_of(secret),
        store_id=store_id,
        schema=schema,
        database=database,
        master_term=_master_term(places),
        cluster=ClusterFacts(
            cluster_id=CLUSTER_ID,
            brokers=tuple(sorted(brokers_of({node.path: node.data for node in nodes}))),
            is_local=places.zookeeper is None,
            backend=places.backend,
        ),
        parts=tuple(archive.parts),
    )
    archive.finish(manifest, secret)
    return manifest


def _take_store(places: Places, archive: ArchiveWriter, tell: Tell) -> tuple[str, str, str]:
    """(the store's first feed, its schema, its kind)."""
    if not places.has_postgres and not places.database_file.exists():
        raise CommandError(f"there is no database of a console: {places.database_file} does not exist")
    store = Store.attach(places.database_url)
    try:
        with store.read() as connection:
            if store.is_shared:  # whoever reads the archive from a pipe may be slow
                connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            try:
                migrating.check(connection)
            except migrating.SchemaIsOther as other:
                raise CommandError(f"{other}: take its backup with the release that runs on it") from other
            for name in dump.table_names():
                archive.add_lines(store_part(name), _told(connection, name, tell))
            return dump.first_feed(connection), migrating.head(), store.engine.dialect.name
    except StoreFault as fault:
        raise CommandError(f"the console's database cannot be read: {fault.reason}") from fault
    finally:
        store.close()


def _told(connection: Connection, name: str, tell: Tell) -> Iterator[dump.Row]:
    count = 0
    for count, row in enumerate(dump.rows(connection, name), 1):
        if count % _TELL_EACH == 0:
            tell(f"{name}: {counted(count, 'row')} so far")
        yield row
    tell(f"{name}: {counted(count, 'row')}")


def _tree(places: Places, secret: str, tell: Tell) -> list[TreeNode]:
    """All of it in memory, as brokers have it; an Apache Kafka keeps its own."""
    if places.backend is not None:
        return []
    hosts = places.running_zookeeper()
    try:
        if hosts is None:
            nodes = list(nodes_of_file(places.tree_file))
        else:
            nodes = asyncio.run(_of_zookeeper(hosts, secret))
    except (sqlite3.Error, FileNotFoundError, TreeUnavailable, ZnodeDamaged) as error:
        raise CommandError(f"the cluster's metadata cannot be read: {error}") from error
    if not any(node.path == TOPICS for node in nodes):
        raise CommandError(f"there is no cluster's metadata in {hosts or places.tree_file}")
    tell(f"metadata: {counted(len(nodes), 'node')}")
    return nodes


async def _of_zookeeper(hosts: str, secret: str) -> list[TreeNode]:
    tree = ZooKeeperTree(hosts, _SESSION_TIMEOUT_MS, secret)
    await tree.start()
    try:
        return [node async for node in nodes_of_tree(tree)]
    finally:
        await tree.aclose()


def _secrets(places: Places, secret: str) -> Secrets:
    file = places.layout.settings_file
    return Secrets(
        deployment_secret=secret,
        settings=file.read_text() if file.exists() else None,
        credentials=places.credentials(),
    )


def _master_term(places: Places) -> int:
    if not places.journal_file.exists():
        return 0  # elected in ZooKeeper, elsewhere: the tree has it
    journal = Journal(sqlite_url(str(places.journal_file)))
    try:
        return journal.last_term()
    finally:
        journal.close()


def described(manifest: Manifest) -> Iterable[tuple[str, object]]:
    """What an operator wants to know of an archive."""
    rows = sum(part.entries for part in manifest.parts if table_of(part.name) is not None)
    nodes = sum(part.entries for part in manifest.parts if part.name == TREE)
    has_secrets = any(part.name == SECRETS for part in manifest.parts)
    yield "release", manifest.release
    yield "store", f"{counted(rows, 'row')} of {manifest.database}, schema {manifest.schema}"
    yield "metadata", counted(nodes, "node")
    if manifest.cluster.backend is not None:
        yield "records", f"none: the Apache Kafka at {manifest.cluster.backend} keeps its own"
    else:
        yield "brokers", ", ".join(map(str, manifest.cluster.brokers)) or "none with a topic"
    yield "secrets", "sealed with a passphrase" if has_secrets else "none: keep DATA/internal.key elsewhere"

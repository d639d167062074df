"""Where a deployment keeps what a backup holds: from its data directory, its settings, and what is named."""

import hmac
import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from ctl.errors import CommandError, usage
from ctl.stack.cluster import OWN, remembered
from ctl.stack.layout import Layout
from ctl.stack.settings import load
from ctl.stack.zookeeper import is_serving
from runtime.config import ConfigFault
from runtime.process import read_secret
from runtime.tree.local import LOCAL_TREE_FILE
from tenants.config import sqlite_url
from tenants.store.database_url import DatabaseUrl

_LOOPBACK: Final = "127.0.0.1"
_DIGEST_CHARACTERS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What the command line names, where a data directory does not tell."""

    database_url: str | None = None
    zookeeper: str | None = None
    secret_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Places:
    """The stores of one deployment."""

    layout: Layout
    database_url: str = field(repr=False)
    zookeeper: str | None
    """OWN, HOST:PORT[/CHROOT], or None: the tree is a file of the only broker."""
    secret_file: Path
    backend: str | None = None
    """HOST:PORT,... of the Apache Kafka in place of brokers: it keeps its metadata and records itself."""

    @property
    def database_file(self) -> Path:
        """The SQLite file; where there is a Postgres it is not used."""
        return self.layout.control_dir / "portico.db"

    @property
    def has_postgres(self) -> bool:
        """Whether the store is on a server."""
        return self.database_url != sqlite_url(str(self.database_file))

    @property
    def tree_file(self) -> Path:
        """The tree of a broker alone; also what a stack's own ZooKeeper is filled from at its next start."""
        return self.layout.broker_dir(1) / LOCAL_TREE_FILE

    @property
    def journal_file(self) -> Path:
        """The quota master's."""
        return self.layout.control_dir / "master.db"

    def secret(self) -> str | None:
        """The deployment's secret, None where there is none."""
        return read_secret(self.secret_file) if self.secret_file.exists() else None

    def credentials(self) -> dict[str, str]:
        """What clusters that are not ours are entered with, by CLUSTER/FILE."""
        root = self.layout.credentials_dir
        files = [path for path in sorted(root.glob("*/*")) if path.is_file()]
        return {str(path.relative_to(root)): path.read_text() for path in files}

    def running_zookeeper(self) -> str | None:
        """Where the tree is read, None for the file of the only broker. Raises: CommandError."""
        if self.zookeeper != OWN:
            return self.zookeeper
        try:
            port = int(json.loads(self.layout.ports_file.read_text())["zookeeper"])
        except (OSError, ValueError, KeyError):
            port = 0
        if not is_serving(_LOOPBACK, port):
            raise CommandError(
                "the metadata is in the stack's own ZooKeeper, which does not run: start the stack, "
                "a backup of it takes nothing down"
            )
        return f"{_LOOPBACK}:{port}"


def find_places(data_dir: Path, named: Named) -> Places:
    """Raises: CommandError."""
    layout = Layout(data_dir)
    database_url, _file = database_of(layout, named.database_url)
    try:
        settings = load(data_dir, {"zookeeper": named.zookeeper})
        kept = remembered(layout)
    except ConfigFault as fault:
        raise usage("; ".join(fault.faults)) from fault
    zookeeper: str | None = settings["zookeeper"].value
    if zookeeper is None and kept is not None and (kept.zookeeper == OWN or kept.brokers > 1):
        zookeeper = OWN
    backend = None if kept is None else kept.backend
    return Places(layout, database_url, zookeeper, named.secret_file or layout.secret_file, backend)


def database_of(layout: Layout, named: str | None) -> tuple[str, Path | None]:
    """(URL of a deployment's store, the file if it is one). Raises: CommandError."""
    try:
        database: DatabaseUrl | None = load(layout.data_dir, {"database_url": named})["database_url"].value
    except ConfigFault as fault:
        raise usage("; ".join(fault.faults)) from fault
    if database is not None:
        return database.url, None
    running = _database_of_the_running(layout)
    if running is not None:
        raise CommandError(
            f"the running stack keeps its store at {running}, which nothing here says: name it with "
            "PORTICO_DATABASE_URL or --database-url"
        )
    file = layout.control_dir / "portico.db"
    return sqlite_url(str(file)), file


def _database_of_the_running(layout: Layout) -> str | None:
    """The Postgres of a stack that was told of it by an option; without its password."""
    try:
        told = json.loads(layout.stack_file.read_text())["settings"]["database_url"]["value"]
    except (OSError, ValueError, KeyError):
        return None
    return None if told is None else str(told)


def deployment_of(secret: str) -> str:
    """What names a deployment by its secret and tells nothing of it."""
    digest = hmac.new(secret.encode(), b"portico deployment", sha256).hexdigest()
    return digest[:_DIGEST_CHARACTERS]

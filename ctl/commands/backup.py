"""`portico backup` and `portico restore`: what the logs of brokers do not hold, in one file."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from contracts.units import parse_duration_ms
from ctl.command import Made
from ctl.errors import CommandError, usage
from ctl.options import DEFAULT_DATA_DIR
from ctl.output import Answer, in_facts
from runtime.clock import epoch_ms
from runtime.config import environment

if TYPE_CHECKING:
    from ctl.backup.places import Places

PASSPHRASE: Final = "PORTICO_BACKUP_PASSPHRASE"
_STDOUT: Final = "-"
_SHOWN: Final = 5

DataDir = Annotated[
    Path, typer.Option("--data-dir", envvar="PORTICO_DATA_DIR", help="The deployment's data directory.")
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The Postgres; PORTICO_DATABASE_URL hides its password better."),
]
ZooKeeper = Annotated[
    str | None, typer.Option(metavar="HOST:PORT[/CHROOT]", help="The ZooKeeper; default: as the stack's.")
]
SecretFile = Annotated[Path | None, typer.Option(help="The deployment's secret; default: DATA/internal.key.")]
PassphraseFile = Annotated[
    Path | None, typer.Option(help=f"What secrets are sealed with; or the variable {PASSPHRASE}.")
]


def _finder(
    database_url: DatabaseUrl = None,
    zookeeper: ZooKeeper = None,
    secret_file: SecretFile = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> Callable[[], "Places"]:
    def find() -> "Places":
        from ctl.backup.places import Named, find_places

        named = Named(database_url=database_url, zookeeper=zookeeper, secret_file=secret_file)
        return find_places(data_dir.resolve(), named)

    return find


Find = Annotated[Callable[[], Any], Made(_finder)]
"""Finds the stores of a deployment, once wrong usage is ruled out."""


def backup(
    find: Find,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A new file, - for stdout, or a directory for a file of its own."
        ),
    ],
    check: Annotated[bool, typer.Option("--check", help="Verify FILE instead of writing it.")] = False,
    no_secrets: Annotated[
        bool, typer.Option("--no-secrets", help="Without the deployment's secret: it is kept elsewhere.")
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="In a directory: then remove this deployment's backups but the last N."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
) -> Answer | None:
    """Write control store, metadata and secrets to one file, while the stack runs or does not.

    Records of topics are not in it: replicas and snapshots of volumes keep those (docs/backup.md).
    """
    if check:
        return _check(Path(file))
    passphrase = _passphrase(passphrase_file)
    if passphrase is None and not no_secrets:
        raise usage(
            f"secrets are sealed with a passphrase: --passphrase-file or {PASSPHRASE}; or say --no-secrets "
            "and keep DATA/internal.key elsewhere"
        )
    if keep is not None and not Path(file).is_dir():
        raise usage(f"--keep removes older backups in a directory: {file} is none")
    places = find()
    sealed_with = None if no_secrets else passphrase
    if file == _STDOUT:
        _to_stdout(places, sealed_with)
        return None
    return _to_file(places, Path(file), sealed_with, keep)


def _to_stdout(places: "Places", passphrase: str | None) -> None:
    from ctl.backup.taking import take

    if sys.stdout.isatty():
        raise usage("a backup is no text: name a file, or give stdout to a pipe")
    take(places, sys.stdout.buffer, passphrase, epoch_ms(), _tell)
    sys.stdout.buffer.flush()


def _to_file(places: "Places", file: Path, passphrase: str | None, keep: int | None) -> Answer:
    from ctl.backup import directory, noting
    from ctl.backup.archive import new_file
    from ctl.backup.taking import described, named, take

    started_at_ms = epoch_ms()
    if file.is_dir():
        file = file / directory.name_of(named(places), started_at_ms)
    run = noting.Run(places, str(file), started_at_ms)
    try:
        with new_file(file) as stream:
            manifest = take(places, stream, passphrase, started_at_ms, _tell)
        directory.read_back(file)
    except (CommandError, OSError) as error:
        run.failed(str(error), epoch_ms())
        raise
    unnoted = run.succeeded(manifest, epoch_ms())
    if unnoted is not None:
        _tell(f"the backup is good, but the console does not know of it: {unnoted}")
    gone = [] if keep is None else directory.tidy(file, keep, epoch_ms())
    removed = [("removed", ", ".join(gone))] if gone else []
    document = {**msgspec.to_builtins(manifest), "file": str(file), "removed": gone}
    return in_facts(document, [("backup", file), *described(manifest), *removed])


def restore(
    find: Find,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    passphrase_file: PassphraseFile = None,
    logs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N=DIRECTORY", help="Where broker N has its logs, if not in DATA/broker-N/logs."
        ),
    ] = None,
    logs_lost: Annotated[
        bool, typer.Option("--logs-lost", help="Brokers' logs are gone for good: their topics begin empty.")
    ] = False,
    keep_for: Annotated[
        str,
        typer.Option(metavar="TIME", help="So long retention and compaction remove nothing; 0: they may."),
    ] = "24h",
    another_deployment: Annotated[
        bool, typer.Option("--another-deployment", help="Although the backup is of another deployment.")
    ] = False,
) -> Answer:
    """Bring a backup back into a data directory whose stack is stopped, empty or not.

    What is there is set aside, never deleted; records of topics are not touched.
    """
    from ctl.backup.restoring import Wishes, restore

    wishes = Wishes(
        passphrase=_passphrase(passphrase_file),
        keep_for_ms=_duration_ms(keep_for),
        takes_foreign=another_deployment,
        logs_are_lost=logs_lost,
        logs=_log_directories(logs or []),
    )
    places = find()
    done = restore(places, file, wishes, epoch_ms(), _tell)
    changed = done.changed
    aside = None if done.set_aside is None else str(done.set_aside)
    return in_facts(
        {"changed": msgspec.to_builtins(changed), "set_aside": aside},
        [
            ("restored", f"the state of {_time(done.manifest.taken_at_ms)}"),
            ("set aside", done.set_aside or "nothing: there was nothing"),
            ("topics", f"{changed.topics} with {changed.partitions} partitions"),
            ("  only on disk", f"{_some(changed.found)}; made after the backup, nothing of them expires"),
            ("  made anew", _some((*changed.made_anew, *changed.grown))),
            ("  without logs", _some(changed.empty)),
            ("  to catch up", f"{changed.behind} partitions; {changed.moved} are elsewhere than then"),
            ("expiry", f"held for {keep_for}: set configs that were changed since the backup by then"),
            ("orders dropped", f"{changed.orders} (deletions and moves of topics that were under way)"),
            ("next", "start the stack, then `portico doctor` and `portico instance list --absent`"),
        ],
    )


def _check(path: Path) -> Answer:
    from ctl.backup.archive import ArchiveFault, ArchiveReader
    from ctl.backup.taking import described

    try:
        reader = ArchiveReader(path)
    except ArchiveFault as fault:
        raise CommandError(str(fault)) from fault
    reader.close()
    taken = _time(reader.manifest.taken_at_ms)
    facts = [("backup", f"{path} is whole"), ("taken", taken), *described(reader.manifest)]
    return in_facts(msgspec.to_builtins(reader.manifest), facts)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)}" + (f": {', '.join(names[:_SHOWN])}{more}" if names else "")


def _passphrase(path: Path | None) -> str | None:
    if path is None:
        return environment().get(PASSPHRASE)
    try:
        return path.read_text().strip()
    except OSError as error:
        raise CommandError(f"the passphrase cannot be read from {path}: {error.strerror}") from error


def _duration_ms(text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise usage(f"--keep-for: {error}") from error


def _log_directories(texts: list[str]) -> dict[int, tuple[Path, ...]]:
    found: dict[int, tuple[Path, ...]] = {}
    for text in texts:
        number, _, directory = text.partition("=")
        path = Path(directory)
        if not number.isdecimal() or not directory:
            raise usage(f"--logs: '{text}' is not N=DIRECTORY")
        if not path.is_dir():
            raise CommandError(f"--logs: {path} is no directory")
        found[int(number)] = (*found.get(int(number), ()), path)
    return found


def _tell(text: str) -> None:
    print(f"portico: {text}", file=sys.stderr, flush=True)

"""`portico cluster add` and its like: clusters of Apache Kafka that instances may live on (operators)."""

from pathlib import Path
from typing import Annotated, Final, NamedTuple
from urllib.parse import quote

import typer

from contracts.upstream import CA_FILE, CERTIFICATE_FILE, KEY_FILE, MECHANISMS, PASSWORD_FILE
from ctl.command import Commands, Made
from ctl.confirm import Yes, confirm
from ctl.console_client import Console
from ctl.console_options import OperatorConsole
from ctl.errors import CommandError, usage
from ctl.options import DEFAULT_DATA_DIR, DataDir
from ctl.output import Answer, in_facts, in_table
from ctl.stack.layout import Layout
from runtime.process import write_file

Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="As `cluster list` names it.")]
CertificateFile = Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False)]
_UNKNOWN: Final = "-"


class _Here(NamedTuple):
    """The console, and where this machine's processes look for credentials."""

    console: Console
    credentials_dir: Path


def _here(data_dir: DataDir = DEFAULT_DATA_DIR) -> _Here:
    return _Here(Console.of(data_dir), Layout(data_dir).credentials_dir)


Here = Annotated[_Here, Made(_here)]


class _Credentials(NamedTuple):
    security: dict[str, object]
    files: dict[str, Path]


def _credentials(
    tls: Annotated[bool, typer.Option("--tls", help="TLS, with the system's authorities.")] = False,
    tls_ca: CertificateFile = None,
    tls_cert: CertificateFile = None,
    tls_key: CertificateFile = None,
    sasl: Annotated[str | None, typer.Option(metavar="|".join(MECHANISMS), help="A login.")] = None,
    user: Annotated[str | None, typer.Option(help="Who logs in.")] = None,
    password_file: CertificateFile = None,
) -> _Credentials:
    if (tls_cert is None) != (tls_key is None):
        raise usage("--tls-cert and --tls-key go together")
    if len({sasl is None, user is None, password_file is None}) > 1:
        raise usage("--sasl, --user and --password-file go together")
    if sasl is not None and sasl not in MECHANISMS:
        raise usage(f"--sasl: '{sasl}' is not one of {', '.join(MECHANISMS)}")
    named = {CA_FILE: tls_ca, CERTIFICATE_FILE: tls_cert, KEY_FILE: tls_key, PASSWORD_FILE: password_file}
    security: dict[str, object] = {
        "tls": tls or tls_ca is not None or tls_cert is not None,
        "has_ca": tls_ca is not None,
        "has_certificate": tls_cert is not None,
        "mechanism": sasl,
        "user": user or "",
    }
    return _Credentials(security, {name: path for name, path in named.items() if path is not None})


Credentials = Annotated[_Credentials, Made(_credentials)]


def add(
    here: Here,
    credentials: Credentials,
    name: Annotated[str, typer.Argument(metavar="CLUSTER", help="Lower-case letters, digits and '-'.")],
    bootstrap: Annotated[str, typer.Option(metavar="HOST:PORT,...", help="Some of its brokers.")],
) -> Answer:
    """Register an Apache Kafka, or say anew where it is and how it is entered. Credentials are copied to
    this machine's data directory; other machines need the same files."""
    path = _path(name)
    if credentials.files:
        _keep(here.credentials_dir / name, credentials.files)
    here.console.call("PUT", path, {"bootstrap": bootstrap, "security": credentials.security})
    return in_facts(
        {"cluster": name}, [("cluster", name), ("next", "`portico cluster list` says whether it answers")]
    )


def list_clusters(console: OperatorConsole) -> Answer:
    """Every cluster: whether it answers, what it has, and whether it takes new instances."""
    items = console.get("brokers")["clusters"]
    rows = (
        [
            one["cluster_id"],
            one["engine"],
            _UNKNOWN if one["brokers"] is None else one["brokers"],
            "no" if one["drained"] else "yes",
            one["trouble"] or ("no answer yet" if one["brokers"] is None else "ok"),
        ]
        for one in items
    )
    return in_table(
        items, ["CLUSTER", "ENGINE", "BROKERS", "NEW INSTANCES", "STATE"], rows, empty="No clusters."
    )


def drain(console: OperatorConsole, name: Name) -> Answer:
    """Put no new instances on a cluster; those that it has stay."""
    return _drained(console, name, is_drained=True)


def undrain(console: OperatorConsole, name: Name) -> Answer:
    """Let a cluster take new instances again."""
    return _drained(console, name, is_drained=False)


def remove(here: Here, name: Name, yes: Yes = False) -> Answer:
    """Forget a cluster that holds no instance. Nothing is removed there; credentials of this machine are."""
    confirm(f"Cluster {name} is forgotten.", yes=yes)
    here.console.call("DELETE", _path(name))
    for file in (CA_FILE, CERTIFICATE_FILE, KEY_FILE, PASSWORD_FILE):
        (here.credentials_dir / name / file).unlink(missing_ok=True)
    return in_facts({"cluster": name}, [("removed", name)])


def add_commands(app: Commands) -> None:
    """Beside what else is said to a cluster."""
    for name, command in (("add", add), ("list", list_clusters), ("drain", drain), ("undrain", undrain)):
        app.command(name)(command)
    app.command("remove")(remove)


def _drained(console: Console, name: str, *, is_drained: bool) -> Answer:
    console.call("PATCH", _path(name), {"drained": is_drained})
    told = "no" if is_drained else "yes"
    return in_facts({"cluster": name, "drained": is_drained}, [("cluster", name), ("new instances", told)])


def _path(name: str) -> str:
    if "/" in name or name.startswith("."):
        raise usage(f"'{name}' is not the name of a cluster")
    return f"clusters/{quote(name, safe='')}"


def _keep(folder: Path, files: dict[str, Path]) -> None:
    """Copies that their owner alone may read. Raises: CommandError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, path in files.items():
            write_file(folder / name, path.read_bytes())
    except OSError as error:
        raise CommandError(f"{error.filename or folder} cannot be used: {error.strerror}") from error

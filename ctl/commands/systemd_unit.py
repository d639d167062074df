"""`portico systemd-unit`: a unit that starts the stack with the machine and again whenever it ends."""

import shlex
from typing import Annotated, Final

import typer

from ctl.installation import launcher
from ctl.options import DEFAULT_DATA_DIR, DataDir

_UNIT: Final = """\
[Unit]
Description=Portico: managed Kafka for many tenants ({data_dir})
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=all
ExecStart={command}
User={user}
WorkingDirectory={directory}
Restart=always
RestartSec=1
# The supervisor stops its children in order; what is left after that is killed.
KillMode=mixed
TimeoutStartSec=600
TimeoutStopSec=30
WatchdogSec=60
LimitNOFILE=1048576
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=multi-user.target
"""


def systemd_unit(
    user: Annotated[str, typer.Option(help="Who runs it.")] = "portico",
    data_dir: DataDir = DEFAULT_DATA_DIR,
    options: Annotated[
        list[str] | None, typer.Argument(metavar="[-- UP_OPTION...]", help="Handed to `portico up`.")
    ] = None,
) -> None:
    """Print a systemd unit of this installation; put it into /etc/systemd/system/portico.service."""
    program = launcher()
    command = [str(program), "up", "--data-dir", str(data_dir.resolve()), *(options or ())]
    quoted = " ".join(shlex.quote(part).replace("%", "%%") for part in command)
    told = {"data_dir": data_dir.resolve(), "command": quoted, "user": user, "directory": program.parent}
    print(_UNIT.format(**told), end="")

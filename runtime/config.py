"""Settings of a process: flag, then environment, then the data directory's TOML file, then the default.

The only place that reads the environment. Each value remembers where it came from (`config show`).
"""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENVIRONMENT_PREFIX = "PORTICO_"


class ConfigFault(Exception):  # noqa: N818 - every fault of a configuration, one sentence each
    """What is wrong with the settings."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `parse` turns text into the value and raises ValueError with a reason."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    help: str
    text: Callable[[Any], str] = str
    """The value as people write it."""

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return ENVIRONMENT_PREFIX + self.name.upper()


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value and its origin, in words."""

    value: Any
    origin: str


def resolve(
    settings: Sequence[Setting],
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Mapping[str, Any],
    file_name: str,
) -> dict[str, Resolved]:
    """The value of every setting. Raises: ConfigFault with all faults at once."""
    known = {setting.name for setting in settings}
    faults = [f"{file_name}: unknown setting '{name}'" for name in file if name not in known]
    values: dict[str, Resolved] = {}
    for setting in settings:
        text, origin = _first(setting, flags, environment, file, file_name)
        if text is None:
            values[setting.name] = Resolved(setting.default, "default")
            continue
        try:
            values[setting.name] = Resolved(setting.parse(text), origin)
        except ValueError as error:
            faults.append(f"{origin}: {error}")
    if faults:
        raise ConfigFault(faults)
    return values


def _first(
    setting: Setting,
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Mapping[str, Any],
    file_name: str,
) -> tuple[str | None, str]:
    flag = flags.get(setting.name)
    if flag is not None:
        return flag, "--" + setting.name.replace("_", "-")
    if setting.variable in environment:
        return environment[setting.variable], setting.variable
    if setting.name in file:
        return str(file[setting.name]), f"{file_name}: {setting.name}"
    return None, "default"


def environment() -> Mapping[str, str]:
    """The process's environment."""
    return os.environ


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file's table, empty when there is no file. Raises: ConfigFault."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigFault([f"{path}: {error}"]) from error


def parse_host_port(text: str) -> tuple[str, int]:
    """`HOST:PORT`, with IPv6 hosts in brackets. Raises: ValueError."""
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"'{text}' is not HOST:PORT")
    return host, int(port)


def format_host_port(host: str, port: int) -> str:
    """`host:port`, brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

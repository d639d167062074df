"""How clients reach one side of a mirror. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.errors import PipelineError

BOOTSTRAP: Final = "bootstrap.servers"
_OURS: Final = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "request.required.acks",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
"""What exactly once rests on."""


@dataclass(frozen=True)
class Address:
    """Where one side is, and how clients prove who they are."""

    bootstrap: str
    """`host:port`, several with commas."""
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Client properties by librdkafka's names; may hold passwords."""


def parse_client_config(text: str, name: str) -> dict[str, str]:
    """The properties of a file, a `name=value` in each line; `name` is what people call the file.

    Raises: PipelineError, which tells no values.
    """
    config = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, is_there, value = line.partition("=")
        key = key.strip()
        if not line.strip() or key.startswith("#"):
            continue
        if not is_there or not key:
            raise PipelineError(f"line {number} of {name} is not NAME=VALUE")
        if key in _OURS:
            raise PipelineError(f"line {number} of {name}: '{key}' is the mirror's own to set")
        config[key] = value.strip()
    return config


def check_bootstrap(text: str) -> None:
    """Raises: PipelineError."""
    for part in text.split(","):
        host, _, port = part.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise PipelineError(f"'{part.strip()}' is not HOST:PORT")

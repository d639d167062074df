"""Where the pipeline's demo works: a tenant, an instance and tables of its own, and what it cleans up.

Invented records never reach the system instance's topic `usage`, and no table, bill or instance of anybody
else is written: the demo has a topic `usage` in its own instance, and tables in its own folder. What it made
is kept in a file, and only what that file names is ever removed.
"""

import shutil
from pathlib import Path
from typing import Any, Final

import msgspec

from ctl.console_client import Console, instance_path
from ctl.errors import CommandError
from pipeline.layout import PipelineLayout
from runtime.process import write_json

TENANT: Final = "pipeline-demo"
NAME_PREFIX: Final = "demo-activity"


class _Made(msgspec.Struct):
    instance_ids: list[str] = []


class DemoPlace:
    """Below `DATA/pipeline-demo`: a folder for each instance that a demo made, and the list of them."""

    def __init__(self, console: Console, data_dir: Path) -> None:
        """`console` acts for the demo's tenant."""
        self._console = console
        self._folder = data_dir.resolve() / "pipeline-demo"
        self._file = self._folder / "made.json"

    def layout(self, instance_id: str) -> PipelineLayout:
        """The tables of one demo."""
        return PipelineLayout(self._folder / instance_id)

    def provision(self, **bought: int) -> Any:
        """A running instance with a name that nobody has, noted before anything is put into it."""
        self._must_have_tenant()
        taken = {each["name"] for each in self._console.all_items("instances")}
        free = (f"{NAME_PREFIX}-{number}" for number in range(1, len(taken) + 2))
        body = {"name": next(name for name in free if name not in taken), "whitelist": ["127.0.0.1/32"]}
        created = self._console.call("POST", "instances", body | bought)
        self._write([*self._made(), str(created["id"])])
        return self._console.wait_until_serving(created["id"])

    def clean(self) -> int:
        """Remove what earlier demos made; returns how many instances. Raises: CommandError."""
        made = self._made()
        ours = {each["id"] for each in self._console.all_items("instances")} if made else set()
        for instance_id in made:
            if instance_id in ours:
                self._console.call("DELETE", instance_path(instance_id))
            shutil.rmtree(self._folder / instance_id, ignore_errors=True)
        if made:
            self._write([])
        return len(made)

    def _must_have_tenant(self) -> None:
        if TENANT not in {each["name"] for each in self._console.all_items("tenants")}:
            self._console.call("POST", "tenants", {"name": TENANT})

    def _made(self) -> list[str]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=_Made).instance_ids
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            raise CommandError(
                f"{self._file}, which lists what demos made, cannot be read ({error}): put it away to go on"
            ) from error

    def _write(self, instance_ids: list[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(self._file, _Made(instance_ids))

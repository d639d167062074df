"""`python -m runtime.start MODULE ARGUMENT...`: run one of our processes as `python -m MODULE` would.

Some libraries import others where these are installed, to do what none of our processes asks for: kio
describes its types to hypothesis (the set of the tests), structlog and httpx can print with rich, which the
command line needs for its tables. That costs each process up to half a second and helps none: while they are
imported, those are as if they were not installed.
"""

import runpy
import sys
from importlib import import_module
from typing import Final

_UNSEEN: Final = ("hypothesis", "rich", "pygments")
_COMMAND_LINE: Final = "ctl.main"


def main() -> None:
    """Run the module that the first argument names."""
    unseen = [name for name in _UNSEEN if sys.modules.setdefault(name, None) is None]  # type: ignore[arg-type] # what makes an import fail
    import_module("runtime.process").own_files_only()
    del sys.argv[0]
    if sys.argv[0] == _COMMAND_LINE:
        import_module("httpx")
        for name in set(unseen) - {"hypothesis"}:
            del sys.modules[name]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

"""`python -m runtime.start MODULE ARGUMENT...`: run one of our processes as `python -m MODULE` would.

kio imports hypothesis where it is installed (the set of the tests), to describe its types to it. That costs
each process a third of a second and helps none: here it is as if it were not installed.
"""

import runpy
import sys

from runtime.process import own_files_only


def main() -> None:
    """Run the module that the first argument names."""
    own_files_only()
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type] # what makes an import fail
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

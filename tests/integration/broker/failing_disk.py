"""A broker whose log directories answer EIO while a file `<directory>.broken` stands beside them.

Run like `python -m broker`.
"""

import errno
import os
import sys
from pathlib import Path

from broker.__main__ import main
from broker.log.files import FileHandle, LogFiles

_get = LogFiles.get


def get(self: LogFiles, path: Path, *, create: bool = False) -> FileHandle:
    """As the kernel does when the disk is gone."""
    directory = path.parent.parent
    if directory.with_name(directory.name + ".broken").exists():
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    return _get(self, path, create=create)


if __name__ == "__main__":
    LogFiles.get = get  # type: ignore[method-assign]
    main(sys.argv[1:])

"""This broker's logs on its disks: directories, their threads, flushing and cleaning."""

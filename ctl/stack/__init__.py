"""The embedded stack: layout of the data directory, ports, child processes."""

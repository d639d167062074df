"""The IO shell every process shares: sockets, HTTP, config, logs, metrics, clock, supervised tasks."""

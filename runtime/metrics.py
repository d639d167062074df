"""`/metrics` of a process that has no HTTP server of its own."""

import prometheus_client


def serve(host: str, port: int) -> int:
    """Serve Prometheus metrics from a thread; returns the bound port (`port` 0 takes any)."""
    server, _thread = prometheus_client.start_http_server(port, host)
    return int(server.server_port)

"""A control process that is told of a Prometheus: its series are told, and its password is not."""

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from tests.integration.control.process import running_control
from tests.integration.control.test_redis import _ORDER


class Answers(http.server.BaseHTTPRequestHandler):
    """One point of 70 bytes a second at each step."""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        start, end, step = (float(form[name][0]) for name in ("start", "end", "step"))
        times = [round(start + place * step, 3) for place in range(round((end - start) / step) + 1)]
        line = {
            "metric": {"portico_measure": "produce_bytes_per_s"},
            "values": [[at_s, "70"] for at_s in times],
        }
        said = {"status": "success", "data": {"resultType": "matrix", "result": [line]}}
        self.send_response(200 if self.headers["Authorization"] else 401)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())


@pytest.fixture
def prometheus() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://ops:hunter2@127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_series_of_longer_times_are_its_and_its_password_is_nobodys(tmp_path: Path, prometheus: str) -> None:
    environment = {"PORTICO_SERIES_PROMETHEUS": prometheus}
    with running_control(tmp_path / "data", environment=environment) as control:
        with control.client(control.tenant_key("acme")) as owner:
            made = owner.post("instances", json=_ORDER)
            assert made.status_code == 201, made.text
            began = (datetime.now(UTC) - timedelta(days=90)).isoformat()
            answered = owner.get(f"instances/{made.json()['id']}/series", params={"from": began})
        assert answered.status_code == 200, answered.text
        view = answered.json()
        assert (view["source"], view["note"]) == ("prometheus", None)
        assert set(view["metrics"]["produce_bytes_per_s"]) == {70}
        assert "hunter2" not in control.log()

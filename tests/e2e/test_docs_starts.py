"""Every `portico up` that a page shows starts a stack that serves, `portico down` ends it; benchmarks run.

Addresses of other machines are those of servers here, ports are free ones.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ctl.stack.layout import free_port
from tests.e2e.docs_commands import all_lines, make_desk, run
from tests.integration.zookeeper.server import ZooKeeperServer, running_zookeeper
from tests.servers.postgres import PostgresServer
from tests.servers.redis_server import RedisServer
from tests.vports import Vports

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
up_lines = list(all_lines(r"(\./)?portico up\b(?!.*--backend)"))
_BENCHES = list(all_lines(r"\./portico bench\b"))


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def test_pages_show_starts() -> None:
    assert len(up_lines) >= 6 and len(_BENCHES) >= 2


@pytest.mark.parametrize("line", up_lines)
def test_a_start_serves_and_ends(
    line: str, tmp_path: Path, zookeeper: ZooKeeperServer, postgres: PostgresServer
) -> None:
    desk, data_dir, console = make_desk(tmp_path), tmp_path / "data", free_port()
    variables = {}
    if "zookeeper" in line:
        line = re.sub(r"--zookeeper \S+", f"--zookeeper {zookeeper.new_chroot()}", line)
        variables["PORTICO_DATABASE_URL"] = postgres.url(postgres.new_database())
    line = line.replace("/etc/prometheus/portico", str(tmp_path / "prometheus"))
    line = re.sub(r"--vip \S+=", "--vip 127.0.0.1=", line)
    vports = Vports()
    line = re.sub(r"--vports \S+", "", line).replace("--detach", "")
    ports = f"--console 127.0.0.1:{console} --metrics 127.0.0.1:0 --vports {vports}"
    try:
        told = run(desk, data_dir, "sh", f"{line} {ports} --detach", 300, **variables)
        assert "Portico serves." in told
        answer = httpx.get(f"http://127.0.0.1:{console}/v1/health", trust_env=False, timeout=30)
        assert answer.status_code == 200
    finally:
        run(desk, data_dir, "sh", "./portico down")
    assert not (data_dir / "stack.json").exists()


@pytest.mark.parametrize("line", _BENCHES)
def test_a_benchmark_prints_numbers(
    line: str, tmp_path: Path, postgres: PostgresServer, redis_server: RedisServer
) -> None:
    line = line.replace("--database-url URL", f"--database-url '{postgres.url(postgres.new_database())}'")
    line = line.replace("--redis-url URL", f"--redis-url {redis_server.url}")
    told = run(make_desk(tmp_path), tmp_path / "data", "sh", line, 850)
    assert re.search(r"\s[0-9]+\.[0-9]+\s*$", told, re.MULTILINE), told

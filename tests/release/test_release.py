"""A release runs where there is no checkout, says what is in it, and shows when it was changed."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import httpx
import pytest

from ctl.stack.layout import free_port
from tests.release.conftest import ROOT, Release

pytestmark = pytest.mark.release


def test_the_signature_tells_a_changed_file(release: Release, tmp_path: Path) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f'portico namespaces="portico-release" {release.public_key}')
    copy = tmp_path / "copy"
    shutil.copytree(release.directory, copy)
    assert _is_genuine(copy, signers)
    (copy / release.wheel.name).write_bytes(b"changed")
    assert not _is_genuine(copy, signers)
    digest = hashlib.sha256(b"changed").hexdigest()
    sums = (copy / "SHA256SUMS").read_text().splitlines()
    sums = [f"{digest}  {release.wheel.name}" if line.endswith(".whl") else line for line in sums]
    (copy / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    assert not _is_genuine(copy, signers), "sums that were made anew have the old signature"


def _is_genuine(directory: Path, signers: Path) -> bool:
    """As docs/release.md says."""
    verify = ["ssh-keygen", "-Y", "verify", "-n", "portico-release", "-I", "portico", "-f", str(signers)]
    signed = subprocess.run(
        [*verify, "-s", "SHA256SUMS.sig"],
        cwd=directory,
        input=(directory / "SHA256SUMS").read_bytes(),
        capture_output=True,
    )
    summed = subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=directory, capture_output=True
    )
    return signed.returncode == 0 and summed.returncode == 0


def test_the_bill_of_materials_has_what_is_pinned(release: Release) -> None:
    document = json.loads((release.directory / f"portico-{release.version}.cdx.json").read_text())
    found = {(part["name"].lower().replace("_", "-"), part["version"]) for part in document["components"]}
    pinned = set()
    for line in (ROOT / "requirements" / "service.lock").read_text().splitlines():
        if match := re.match(r"([a-z0-9_.-]+)==([^ ;]+)( ;.*)?", line, re.IGNORECASE):
            pinned.add((match[1].lower(), match[2], match[3] is not None))
    assert {(name, version) for name, version, only_elsewhere in pinned if not only_elsewhere} <= found
    assert document["metadata"]["component"]["version"] == release.version
    licensed = [part["name"] for part in document["components"] if part.get("licenses")]
    assert len(licensed) > len(found) // 2
    pages = json.loads((release.directory / f"portico-pages-{release.version}.cdx.json").read_text())
    assert pages["bomFormat"] == "CycloneDX" and pages["components"]


def test_the_wheel_runs_without_a_checkout(release: Release, tmp_path: Path) -> None:
    with _installed(release, tmp_path) as (said, console):
        assert "\n  portico doctor" in said and "./portico" not in said
        assert httpx.get(console).text.lstrip().lower().startswith("<!doctype html>")
        created = _portico(
            release,
            tmp_path,
            *("instance", "create", "shop", "--produce-rate", "5MB/s", "--consume-rate", "5MB/s"),
            *("--capacity", "1GB", "--whitelist", "127.0.0.1/32", "--json"),
        )
        address = json.loads(created)["bootstrap_servers"]
        _portico(release, tmp_path, "topic", "create", "shop", "orders", "--partitions", "2")
        producer = confluent_kafka.Producer({"bootstrap.servers": address})
        producer.produce("orders", b"from a wheel")
        assert producer.flush(20) == 0
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": address, "group.id": "readers", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        assert message is not None and message.value() == b"from a wheel"
        consumer.close()
    assert _portico(release, tmp_path, "--version") == f"portico {release.version}\n"
    unit = _portico(release, tmp_path, "systemd-unit", "--user", "root")
    [program] = re.findall(r"^ExecStart=(\S+) up ", unit, re.MULTILINE)
    assert os.access(program, os.X_OK)


def test_the_wheel_holds_a_client_that_types_programs(release: Release, tmp_path: Path) -> None:
    with zipfile.ZipFile(release.wheel) as wheel:
        wheel.extractall(tmp_path, [name for name in wheel.namelist() if name.startswith("portico/")])
    assert (tmp_path / "portico" / "client" / "py.typed").exists()
    [program] = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "api.md").read_text(), re.M | re.S)
    typed, wrong = tmp_path / "typed.py", tmp_path / "wrong.py"
    typed.write_text(program)
    wrong.write_text(program.replace("partitions=3", 'partitions="3"'))
    for path, faults in ((typed, 0), (wrong, 1)):
        checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), path.name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        found = [line for line in checked.stdout.splitlines() if line.startswith(f"{path.name}:")]
        assert len(found) == faults and "Found" in checked.stdout, checked.stdout + checked.stderr


def _command(release: Release, *arguments: str) -> list[str]:
    constraints = str(release.directory / "constraints.txt")
    return [
        *(release.uv, "tool", "run", "--quiet", "--constraints", constraints),
        *("--from", str(release.wheel), "portico", *arguments),
    ]


def _portico(release: Release, directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        _command(release, *arguments), cwd=directory, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def _installed(release: Release, directory: Path) -> Iterator[tuple[str, str]]:
    """`uvx --from WHEEL portico up` in an empty directory: what it said, and where its console is."""
    console = f"127.0.0.1:{free_port()}"
    log = directory / "up.log"
    arguments = ["up", "--console", console, "--vports", "29600-29649"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("wb") as file:
        up = subprocess.Popen(
            _command(release, *arguments),
            cwd=directory,
            stdout=file,
            stderr=file,
            env=environment | {"PYTHONUNBUFFERED": "1"},
        )
    try:
        deadline = time.monotonic() + 240
        while "Ctrl-C stops" not in log.read_text():
            assert up.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield log.read_text(), f"http://{console}"
    finally:
        up.send_signal(signal.SIGINT)
        assert up.wait(60) in (0, 130), log.read_text()


@pytest.mark.long
def test_the_documents_make_a_site_that_loads_nothing_from_elsewhere() -> None:
    built = subprocess.run([str(ROOT / ".ci" / "docs")], capture_output=True, text=True, timeout=400)
    assert built.returncode == 0, built.stderr
    pages = list((ROOT / "build" / "site").rglob("*.html"))
    assert (ROOT / "build" / "site" / "api" / "index.html") in pages
    loads = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="?(https?://[^" >]+)')
    assert {url for page in pages for url in loads.findall(page.read_text())} == set()

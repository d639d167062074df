"""What doctor says of certificates and keys."""

import datetime
import shutil
from datetime import UTC, timedelta
from pathlib import Path
from typing import Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from ctl.commands import doctor
from ctl.tools.certificate_findings import cluster_findings, gateway_findings
from ctl.tools.findings import Finding
from gateway.certificates import TlsFiles

FOLDER: Final = Path(__file__).resolve().parents[2] / "certificates"
NOW: Final = datetime.datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    """A good pair with its authority, and an authority of clients, to be spoilt."""
    folder = tmp_path / "tls"
    folder.mkdir()
    chain = (FOLDER / "gateway.pem").read_text() + (FOLDER / "authority.pem").read_text()
    (folder / "gateway.pem").write_text(chain)
    shutil.copy(FOLDER / "gateway.key", folder)
    shutil.copy(FOLDER / "authority.pem", folder)
    (folder / "gateway.key").chmod(0o600)
    return TlsFiles(folder / "gateway.pem", folder / "gateway.key", folder / "authority.pem")


def told(files: TlsFiles, host: str | None = "127.0.0.1", now: datetime.datetime = NOW) -> list[Finding]:
    """What is not as it should be."""
    return [one for one in gateway_findings(files, host, now) if one.level != "ok"]


def test_a_good_pair_is_good_until_its_end(files: TlsFiles) -> None:
    found = list(gateway_findings(files, "localhost", NOW))
    assert {one.level for one in found} == {"ok"}
    assert [one.found for one in found] == ["CN=gateway is good until 2120-01-01 00:00 UTC"] + [
        "CN=Portico tests is good until 2120-01-01 00:00 UTC"
    ] * 2


def test_what_ends_soon_is_said_before_it_ends(files: TlsFiles) -> None:
    ends = x509.load_pem_x509_certificate(files.certificate.read_bytes()).not_valid_after_utc
    assert not told(files, now=ends - timedelta(days=14, seconds=1))
    for one in told(files, now=ends - timedelta(days=13)):
        assert one.level == "warn" and "ends soon: 2120-01-01 00:00 UTC" in one.found
    assert "bad" in {one.level for one in told(files, now=ends)}


@pytest.mark.parametrize(
    ("name", "level", "sentence"),
    [
        ("expired", "bad", "CN=expired has ended: 2021-01-01 00:00 UTC"),
        ("ahead", "bad", "CN=ahead is not valid before 2119-01-01 00:00 UTC"),
        ("app", "bad", "is not for servers"),
    ],
)
def test_what_no_client_would_take_is_bad(files: TlsFiles, name: str, level: str, sentence: str) -> None:
    shutil.copy(FOLDER / f"{name}.pem", files.certificate)
    shutil.copy(FOLDER / f"{name}.key", files.key)
    assert any(one.level == level and sentence in one.found for one in told(files)), told(files)


def test_a_key_of_another_certificate_is_bad(files: TlsFiles) -> None:
    shutil.copyfile(FOLDER / "gateway_2.key", files.key)
    [finding] = told(files)
    assert finding.level == "bad" and f"is not the key of {files.certificate}" in finding.found


def test_a_key_with_a_passphrase_and_files_that_are_none_are_bad(files: TlsFiles) -> None:
    key = load_pem_private_key(files.key.read_bytes(), None)
    sealed = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    files.key.write_bytes(sealed)
    assert [(one.level, "has a passphrase" in one.found) for one in told(files)] == [("bad", True)]
    files.key.write_text("")
    assert [(one.level, "is no PEM file" in one.found) for one in told(files)] == [("bad", True)]
    files.key.unlink()
    assert [(one.level, "No such file" in one.found) for one in told(files)] == [("bad", True)]


def test_a_chain_is_in_order(files: TlsFiles) -> None:
    own = (FOLDER / "gateway.pem").read_text()
    files.certificate.write_text(own + (FOLDER / "others.pem").read_text())
    [finding] = told(files)
    assert finding.level == "bad" and "has not signed it" in finding.found


def test_who_reads_the_key_and_for_which_host_it_is(files: TlsFiles) -> None:
    files.key.chmod(0o644)
    found = told(files, host="kafka.example.com")
    assert [one.level for one in found] == ["warn", "warn"]
    assert "is open to other users" in found[0].found and found[0].advice == f"chmod o= {files.key}"
    assert found[1].found == "is not for kafka.example.com, which clients are told"
    files.key.chmod(0o640)
    assert not told(files, host=None), "they are told several hosts"


def test_an_authority_of_clients_signs(files: TlsFiles) -> None:
    assert files.client_ca is not None
    shutil.copy(FOLDER / "app.pem", files.client_ca)
    assert [one.found for one in told(files)] == [f"O=tests,CN=app in {files.client_ca} is no authority's"]


def test_what_brokers_of_a_cluster_are_shown(tmp_path: Path) -> None:
    assert not list(cluster_findings(tmp_path / "none", NOW))
    for cluster, name in (("far", "app"), ("near", "late_app")):
        folder = tmp_path / cluster
        folder.mkdir()
        shutil.copy(FOLDER / "authority.pem", folder / "ca.pem")
        shutil.copy(FOLDER / f"{name}.pem", folder / "client.pem")
        shutil.copy(FOLDER / f"{name}.key", folder / "client.key")
        (folder / "client.key").chmod(0o600)
    found = list(cluster_findings(tmp_path, NOW))
    [finding] = [one for one in found if one.level != "ok"]
    assert finding.level == "bad" and finding.subject == "cluster near, our certificate"
    assert "has ended" in finding.found


def test_doctor_looks_at_what_the_next_start_would_have(
    files: TlsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / "data"
    assert not list(doctor._certificates(data_dir)), "there are none"
    monkeypatch.setenv("PORTICO_TLS_CERT", str(files.certificate))
    monkeypatch.setenv("PORTICO_TLS_KEY", str(files.key))
    found = list(doctor._certificates(data_dir))
    assert {one.level for one in found} == {"ok"}, found
    shutil.copy(FOLDER / "expired.pem", files.certificate)
    assert "bad" in {one.level for one in doctor._certificates(data_dir)}

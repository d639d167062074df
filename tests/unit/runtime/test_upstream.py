"""Credentials of other people's clusters: which files are read, when, and how soon a refused one is tried."""

import shutil
from pathlib import Path

import pytest

from contracts.specs import ClusterSpec, Engine
from contracts.upstream import UpstreamSecurity
from contracts.users import Mechanism
from runtime.upstream import FilesOfNoUse, LoginNotTaken, Upstream, Upstreams

CERTIFICATES = Path(__file__).resolve().parents[2] / "certificates"
ADDRESS = "127.0.0.1", 9092
SCRAM = UpstreamSecurity(mechanism=Mechanism.SCRAM_SHA_512, user="portico")
ALL = UpstreamSecurity(tls=True, has_ca=True, has_certificate=True, mechanism=Mechanism.PLAIN, user="portico")


class Clock:
    """It stands until it is moved."""

    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def spec(security: UpstreamSecurity, kafka_cluster_id: str | None = None) -> ClusterSpec:
    return ClusterSpec(
        revision=1,
        cluster_id="far",
        engine=Engine.APACHE,
        security=security,
        kafka_cluster_id=kafka_cluster_id,
    )


def prepared(directory: Path, password: str = "secret") -> Path:
    folder = directory / "far"
    folder.mkdir(exist_ok=True)
    shutil.copy(CERTIFICATES / "authority.pem", folder / "ca.pem")
    shutil.copy(CERTIFICATES / "app.pem", folder / "client.pem")
    shutil.copy(CERTIFICATES / "app.key", folder / "client.key")
    (folder / "password").write_text(f"{password}\n")
    return folder


def test_files_become_the_options_of_any_client(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    upstream = Upstream(spec(ALL), tmp_path)
    upstream.enter(ADDRESS)
    assert upstream.context is not None
    assert upstream.context.check_hostname
    assert upstream.client_options() == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "portico",
        "sasl.password": "secret",
        "ssl.ca.location": str(folder / "ca.pem"),
        "ssl.certificate.location": str(folder / "client.pem"),
        "ssl.key.location": str(folder / "client.key"),
    }


@pytest.mark.parametrize("name", ["ca.pem", "client.pem", "client.key", "password"])
def test_a_file_that_is_missing_or_makes_no_sense_is_named(tmp_path: Path, name: str) -> None:
    folder = prepared(tmp_path)
    (folder / name).write_text("")
    with pytest.raises(FilesOfNoUse, match="of no use"):
        Upstream(spec(ALL), tmp_path).enter(ADDRESS)
    (folder / name).unlink()
    with pytest.raises(FilesOfNoUse, match=name):
        Upstream(spec(ALL), tmp_path).enter(ADDRESS)
    with pytest.raises(FilesOfNoUse, match="not told"):
        Upstream(spec(ALL), None).enter(ADDRESS)


def test_a_broker_that_refuses_is_left_alone_longer_each_time(tmp_path: Path) -> None:
    prepared(tmp_path)
    clock = Clock()
    upstream = Upstream(spec(SCRAM), tmp_path, clock)
    waits = []
    for _ in range(8):
        upstream.enter(ADDRESS)
        upstream.refused(ADDRESS, LoginNotTaken("no"))
        began_ms = clock.now_ms
        while True:
            try:
                upstream.enter(ADDRESS)
            except LoginNotTaken:
                clock.now_ms += 500
            else:
                break
        waits.append(clock.now_ms - began_ms)
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    upstream.refused(ADDRESS, LoginNotTaken("no"))
    upstream.enter(("127.0.0.1", 9093))  # another broker is another matter
    upstream.entered(ADDRESS)
    upstream.enter(ADDRESS)


def test_exchanged_files_are_tried_at_once(tmp_path: Path) -> None:
    prepared(tmp_path)
    upstream = Upstream(spec(SCRAM), tmp_path, Clock())
    upstream.enter(ADDRESS)
    upstream.refused(ADDRESS, LoginNotTaken("no"))
    with pytest.raises(LoginNotTaken):
        upstream.enter(ADDRESS)
    prepared(tmp_path, "another password")
    upstream.enter(ADDRESS)
    assert upstream.client_options()["sasl.password"] == "another password"


def test_a_way_is_kept_as_long_as_its_spec_says_the_same(tmp_path: Path) -> None:
    prepared(tmp_path)
    upstreams = Upstreams(tmp_path)
    first = upstreams.of(spec(SCRAM))
    assert first is not None
    assert upstreams.of(spec(SCRAM)) is first
    assert upstreams.of(spec(SCRAM, "met")) is not first
    assert upstreams.of(ClusterSpec(revision=1, cluster_id="ours")) is None


@pytest.mark.parametrize(
    ("security", "fault"),
    [
        (UpstreamSecurity(mechanism=Mechanism.PLAIN), "go together"),
        (UpstreamSecurity(user="portico"), "go together"),
        (UpstreamSecurity(has_ca=True), "for TLS"),
        (UpstreamSecurity(has_certificate=True), "for TLS"),
    ],
)
def test_what_cannot_be_meant_is_said(security: UpstreamSecurity, fault: str) -> None:
    [said] = security.faults()
    assert fault in said
    assert not ALL.faults()

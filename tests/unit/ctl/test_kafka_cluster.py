"""What an Apache Kafka is started with, without starting one."""

import ssl
from pathlib import Path
from uuid import UUID

import pytest

from contracts.specs import ClusterSpec, Engine
from contracts.upstream import UpstreamSecurity
from contracts.users import Mechanism
from ctl.errors import CommandError
from ctl.kafka.cluster import (
    Kept,
    Node,
    Wish,
    chosen,
    kept,
    new_cluster_id,
    node_ports,
    node_settings,
    prepared,
)
from ctl.kafka.entry import Entry, add_user, ensure_files, listener_settings
from ctl.kafka.jars import DEFAULT_VERSION
from ctl.stack.layout import Layout
from runtime.upstream import Upstream

BEFORE = Kept("3.9.1", "MkU3OEVBNTcwNTJENDM2Qg", 3)


def test_a_first_start_makes_a_cluster_of_one() -> None:
    first = chosen(None, Wish())
    assert (first.version, first.brokers) == (DEFAULT_VERSION, 1)
    assert len(first.cluster_id) == 22
    assert chosen(None, Wish(3, "3.9.1"))[:3:2] == ("3.9.1", 3)


def test_a_later_start_is_the_cluster_it_was() -> None:
    assert chosen(BEFORE, Wish()) == BEFORE
    assert chosen(BEFORE, Wish(3, "4.3.1")) == BEFORE._replace(version="4.3.1")


@pytest.mark.parametrize(
    ("before", "brokers", "version", "sentence"),
    [
        (None, 0, None, "--brokers: 0 is not a number from 1 to 9"),
        (None, 10, None, "--brokers: 10 is not"),
        (None, None, "4.3", "--version: '4.3' is not a release"),
        (None, None, "4.3.1-rc1", "--version: '4.3.1-rc1' is not a release"),
        (None, None, "../4.3.1", "--version: '../4.3.1' is not a release"),
        (None, None, "3.8.1", "--version: 3.8.1 is older than 3.9.0"),
        (BEFORE, 1, None, "--brokers: the directory holds 3"),
        (BEFORE._replace(version="4.3.1"), None, "4.0.0", "--version: the directory was written by 4.3.1"),
    ],
)
def test_what_cannot_be_is_wrong_usage(
    before: Kept | None, brokers: int | None, version: str | None, sentence: str
) -> None:
    with pytest.raises(CommandError) as refused:
        chosen(before, Wish(brokers, version))
    assert refused.value.sentence.startswith(sentence)
    assert refused.value.code == 2


def test_a_broken_file_is_not_a_first_start(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert kept(layout) is None
    (tmp_path / "kafka.json").write_text('{"version": "4.3.1"}')
    with pytest.raises(CommandError, match=r"kafka.json cannot be read"):
        kept(layout)
    with pytest.raises(CommandError, match=r"ports.json cannot be read"):
        node_ports(layout, 1, "kafka")


def test_a_stacks_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(CommandError, match="holds a stack of Portico's"):
        prepared(Layout(tmp_path), Wish(1))
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


def test_replicas_follow_from_the_number_of_brokers() -> None:
    one = (Node(1, 9092, 9093),)
    alone = node_settings(one[0], one, Entry())
    assert alone["default.replication.factor"] == alone["min.insync.replicas"] == "1"
    nodes = (*one, Node(2, 9094, 9095), Node(3, 9096, 9097), Node(4, 9098, 9099))
    second = node_settings(nodes[1], nodes, Entry())
    assert second["default.replication.factor"] == second["offsets.topic.replication.factor"] == "3"
    assert second["min.insync.replicas"] == second["transaction.state.log.min.isr"] == "2"
    assert second["controller.quorum.voters"].startswith("1@127.0.0.1:9093,2@127.0.0.1:9095,")
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:9094,CONTROLLER://127.0.0.1:9095"
    assert second["auto.create.topics.enable"] == "false"


def test_a_cluster_id_is_never_taken_for_an_option() -> None:
    ids = [new_cluster_id(UUID(int=first << 120)) for first in range(256)]
    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") for each in ids)


def test_options_of_the_second_listener_stay_until_others_are_given() -> None:
    first = chosen(None, Wish(tls=True, sasl="SCRAM-SHA-512"))
    assert first.entry == Entry(tls=True, mechanism=Mechanism.SCRAM_SHA_512)
    assert chosen(first, Wish()).entry == first.entry
    assert chosen(first, Wish(tls=False, sasl="PLAIN")).entry.protocol == "SASL_PLAINTEXT"
    assert not chosen(None, Wish()).entry
    with pytest.raises(CommandError, match=r"--sasl: 'GSSAPI' is not one of PLAIN"):
        chosen(None, Wish(sasl="GSSAPI"))


def test_a_second_listener_stands_beside_the_first() -> None:
    nodes = (Node(1, 9092, 9093, 9094),)
    settings = node_settings(nodes[0], nodes, Entry(tls=True, mechanism=Mechanism.PLAIN))
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092,SECURED://127.0.0.1:9094"
    assert settings["listeners"].endswith("SECURED://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093")
    assert settings["listener.security.protocol.map"].endswith("SECURED:SASL_SSL")
    assert settings["inter.broker.listener.name"] == "PLAINTEXT"


def test_certificates_and_a_password_are_made_once_and_for_their_owner(tmp_path: Path) -> None:
    entry = Entry(tls=True, mechanism=Mechanism.PLAIN)
    folder = tmp_path / "credentials"
    ensure_files(folder, entry)
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(made) == ["broker.pem", "ca.pem", "client.key", "client.pem", "password"]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    ensure_files(folder, entry)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made
    said = listener_settings(entry, folder, "../credentials")
    password = made["password"].decode().strip()
    assert said["listener.name.secured.plain.sasl.jaas.config"].endswith(f'user_portico="{password}";')
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "broker.pem")
    security = UpstreamSecurity(tls=True, has_ca=True, has_certificate=True)
    spec = ClusterSpec(revision=1, cluster_id="credentials", engine=Engine.APACHE, security=security)
    upstream = Upstream(spec, tmp_path)
    upstream.enter(("127.0.0.1", 9094))
    assert upstream.context is not None
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = upstream.context.wrap_bio(down, up, server_hostname="127.0.0.1")
    theirs = server.wrap_bio(up, down, server_side=True)
    for side in (ours, theirs, ours):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert ours.version() == "TLSv1.3"


def test_who_logs_in_by_plain_needs_no_entry_in_the_cluster(tmp_path: Path) -> None:
    add_user("127.0.0.1:1", Entry(mechanism=Mechanism.PLAIN), tmp_path)
    add_user("127.0.0.1:1", Entry(tls=True), tmp_path)

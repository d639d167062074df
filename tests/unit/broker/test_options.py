"""The options of `python -m broker` are the settings of `BrokerConfig`."""

from dataclasses import fields
from pathlib import Path

import pytest

from broker.__main__ import _arguments, _config
from broker.config import BrokerConfig


def test_without_options_the_settings_are_the_defaults(tmp_path: Path) -> None:
    found = _config(_arguments(["--data-dir", str(tmp_path)]))
    assert found == BrokerConfig(1, "portico", tmp_path)


def test_every_setting_can_be_given(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    own = ["--listen", "127.0.0.1:0", "--advertised", "here:9", "--control", "http://c"]
    given = _arguments(
        [
            *("--node-id", "7", "--cluster-id", "c", "--data-dir", str(tmp_path), *own),
            *("--secret-file", str(secret), "--rack", "r", "--log-dirs", "/a", "/b"),
            *("--no-delete-topic-enable", "--unclean-leader-election-enable", "--zookeeper", "z:1"),
            *("--default-replication-factor", "3", "--min-insync-replicas", "2"),
            *("--report-period-ms", "2000", "--connections-max-idle-ms", "5", "--fetch-sessions-max", "9"),
        ]
    )
    found = _config(given)
    assert (found.node_id, found.cluster_id, found.rack, found.log_dirs) == (
        7,
        "c",
        "r",
        (Path("/a"), Path("/b")),
    )
    assert (found.listen_port, found.advertised_host, found.advertised_port) == (0, "here", 9)
    assert (found.control_url, found.secret, found.zookeeper) == ("http://c", "s3cret", "z:1")
    assert (found.delete_topic_enable, found.unclean_leader_election_enable) == (False, True)
    assert (found.default_replication_factor, found.min_insync_replicas) == (3, 2)
    assert (found.report_period_ms, found.connections_max_idle_ms, found.fetch_sessions_max) == (2000, 5, 9)
    options = set(vars(given)) | {"listen_host", "listen_port", "secret", "control_url"}
    assert {field.name for field in fields(BrokerConfig)} <= options | {"advertised_host", "advertised_port"}


def test_what_breaks_a_rule_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="default_partitions is below 1"):
        _config(_arguments(["--data-dir", str(tmp_path), "--default-partitions", "0"]))

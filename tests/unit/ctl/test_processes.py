"""How the processes of a stack are started: what `up` was told reaches each by the name that it has there."""

from dataclasses import fields
from pathlib import Path

import pytest

from broker.config import BrokerConfig
from ctl.stack.layout import Layout
from ctl.stack.processes import Processes
from ctl.stack.settings import SETTINGS, load
from runtime.config import ConfigFault

TOLD = {
    "brokers": "3",
    "min_insync_replicas": "1",
    "proxy_protocol_from": "192.0.2.0/24,2001:db8::1",
    "session_timeout_ms": "9000",
    "vip": "192.0.2.7",
}


def _options(
    directory: Path, told: dict[str, str], zookeeper: str | None = None
) -> dict[str, dict[str, str]]:
    ports = {"internal": 1, "broker-1": 2, "broker-2": 3, "broker-3": 4}
    processes = Processes(Layout(directory), load(directory, told), ports, zookeeper)
    children = (processes.control(), processes.broker(2), processes.gateway(0))
    return {each.name: dict(zip(each.command[4::2], each.command[5::2], strict=True)) for each in children}


def test_what_is_told_reaches_every_process_that_it_is_about(tmp_path: Path) -> None:
    found = _options(tmp_path, TOLD)
    assert found["control"]["--vip"] == TOLD["vip"]
    assert found["gateway-0"]["--proxy-protocol-from"] == TOLD["proxy_protocol_from"]
    assert found["broker-2"]["--min-insync-replicas"] == "1"
    backend = _options(tmp_path, {"backend": "192.0.2.1:9092"})["control"]["--backend"]
    assert backend == "192.0.2.1:9092"
    assert found["control"]["--session-timeout-ms"] == found["broker-2"]["--session-timeout-ms"] == "9000"


def test_a_broker_is_told_each_setting_that_is_its_own(tmp_path: Path) -> None:
    found = _options(tmp_path, {}, zookeeper="192.0.2.9:2181/portico")["broker-2"]
    own = {each.name for each in fields(BrokerConfig)} & {each.name for each in SETTINGS}
    assert {f"--{name.replace('_', '-')}" for name in own} <= found.keys()
    assert found["--zookeeper"] == "192.0.2.9:2181/portico"


def test_what_nobody_told_is_left_to_the_process(tmp_path: Path) -> None:
    found = _options(tmp_path, {})
    assert not {"--backend", "--zookeeper"} & {option for options in found.values() for option in options}
    assert "None" not in {value for options in found.values() for value in options.values()}


def test_a_certificate_reaches_gateways_and_the_control_plane_and_has_a_key(tmp_path: Path) -> None:
    names = ("tls_cert", "tls_key", "tls_client_ca")
    told = {name: str(tmp_path / name) for name in names}
    found = _options(tmp_path, told)
    assert [found["gateway-0"][f"--{name.replace('_', '-')}"] for name in names] == list(told.values())
    assert found["control"]["--tls-cert"] == told["tls_cert"] and "--tls-key" not in found["control"]
    names_told = told | {"sni_domain": "Kafka.Example.com.", "sni_port": "9094", "vip": "10.0.0.0/24"}
    found = _options(tmp_path, names_told)
    assert found["control"]["--sni-domain"] == found["gateway-0"]["--sni-domain"] == "kafka.example.com"
    assert (found["gateway-0"]["--sni-port"], found["gateway-0"]["--sni-host"]) == ("9094", "0.0.0.0")
    assert _options(tmp_path, names_told | {"vip": "::1"})["gateway-0"]["--sni-host"] == "::1"
    for wrong, says in (
        ({"sni_port": "20000"}, "one of the vports"),
        ({"sni_cert": "a.pem"}, "go together"),
        ({"sni_domain": "10.0.0.1"}, "an IP address"),
        ({"sni_domain": "-a.example"}, "no DNS domain"),
    ):
        with pytest.raises(ConfigFault, match=says):
            load(tmp_path, names_told | wrong)
    with pytest.raises(ConfigFault, match="needs --tls-cert"):
        load(tmp_path, {"sni_domain": "kafka.example.com"})
    for lacking in (["tls_cert"], ["tls_key"], ["tls_client_ca"], ["tls_cert", "tls_client_ca"]):
        with pytest.raises(ConfigFault, match="go together"):
            load(tmp_path, {name: told[name] for name in lacking})


def test_who_signs_people_in_reaches_the_control_plane_alone(tmp_path: Path) -> None:
    told = {
        "oidc_issuer": "https://id.example.com",
        "oidc_client_id": "portico",
        "oidc_client_secret_file": str(tmp_path / "secret"),
    }
    found = _options(tmp_path, told)
    assert {name: found["control"][f"--{name.replace('_', '-')}"] for name in told} == told
    assert found["control"]["--oidc-groups-claim"] == "groups"
    assert not any("oidc" in option for option in found["gateway-0"])
    with pytest.raises(ConfigFault, match="go together"):
        load(tmp_path, {"oidc_issuer": told["oidc_issuer"]})
    with pytest.raises(ConfigFault, match="https"):
        load(tmp_path, {**told, "oidc_issuer": "http://id.example.com"})

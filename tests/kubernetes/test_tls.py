"""Certificates and credentials in Secrets: who gets which, and what is exchanged while clients are there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import helm_python
import httpx
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.integration.broker.fake_control import wait_until
from tests.kubernetes.chart import Manifest, one, render
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.test_chart import MATRIX

CERTIFICATES: Final = Path(__file__).resolve().parents[1] / "certificates"
AUTHORITY: Final = str(CERTIFICATES / "authority.pem")


def pair(name: str) -> dict[str, str]:
    """The keys of a Secret of type kubernetes.io/tls."""
    return {"tls.crt": text(f"{name}.pem"), "tls.key": text(f"{name}.key")}


def text(name: str) -> str:
    return (CERTIFICATES / name).read_text()


def pod_of(manifests: list[Manifest], component: str) -> Manifest:
    spec: Manifest = one(manifests, "Deployment", f"-{component}")["spec"]["template"]["spec"]
    return spec


def test_a_key_is_where_it_is_used_and_nowhere_else() -> None:
    manifests = render(MATRIX["encrypted"])
    secrets = {
        component: {
            volume["secret"]["secretName"]
            for volume in pod_of(manifests, component)["volumes"]
            if "secret" in volume
        }
        - {"demo-portico-secrets"}
        for component in ("gateway", "control", "master")
    }
    assert secrets["gateway"] == {"kafka-tls", "kafka-clients", "kafka-names", "far-kafka"}
    assert secrets["control"] == secrets["master"] == {"far-kafka"}
    for component in secrets:
        spec = pod_of(manifests, component)
        for container in spec["containers"]:
            assert all("subPath" not in mount for mount in container["volumeMounts"]), "it would not change"
            assert "--credentials-dir=/etc/portico/clusters" in container["args"]
    [authority] = [one for one in pod_of(manifests, "gateway")["volumes"] if one["name"] == "client-ca"]
    assert authority["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}], "no key of an authority"


def test_the_port_of_names_is_one_for_pods_service_and_policy() -> None:
    manifests = render(MATRIX["encrypted"])
    assert one(manifests, "Service", "-gateway-sni")["spec"]["ports"] == [
        {"name": "sni", "port": 9093, "targetPort": 9093}
    ]
    told = {"--sni-domain=kafka.example.com", "--sni-port=9093"}
    for component, more in (("gateway", {"--sni-host=0.0.0.0"}), ("control", set[str]())):
        for container in pod_of(manifests, component)["containers"]:
            assert told | more <= set(container["args"])
    allowed = one(manifests, "NetworkPolicy", "-gateway")["spec"]["ingress"]
    assert 9093 in [port["port"] for rule in allowed for port in rule["ports"]]
    six = one(render(MATRIX["encrypted"] | {"ipFamily": "IPv6"}), "Deployment", "-gateway")
    assert "--sni-host=::" in six["spec"]["template"]["spec"]["containers"][0]["args"]
    for wrong in ({"sni": {"domain": "a.example"}}, {"tls": {"secret": "x"}, "sni": {"secret": "y"}}):
        with pytest.raises(helm_python.HelmError):
            render({"gateway": wrong})


def test_brokers_of_clusters_can_be_reached_by_who_speaks_to_them() -> None:
    manifests = render(MATRIX["encrypted"])
    for component, wanted in (("gateway", True), ("control", True), ("master", True), ("broker", False)):
        policy = one(manifests, "NetworkPolicy", f"-{component}")
        open_ports = {
            port["port"] for rule in policy["spec"]["egress"] if "to" not in rule for port in rule["ports"]
        }
        webhooks = {443} if component == "control" else set()
        assert open_ports - webhooks == ({9092, 9093} if wanted else set()), component


VALUES: Final = {
    "gateway": {
        "replicas": 1,
        "workers": 2,
        "vports": {"first": 20000, "last": 20029},
        "tls": {"secret": "kafka-tls", "clientCaSecret": "kafka-clients"},
    },
    "clusters": {"far": {"secret": "far-kafka", "ports": [9093]}},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    secrets = {
        "kafka-tls": pair("gateway"),
        "kafka-clients": {"ca.crt": text("authority.pem")},
        "far-kafka": {"ca.pem": text("authority.pem"), "password": "secret"},
    }
    running = Cluster(render(VALUES), tmp_path_factory.mktemp("kubernetes"), secrets)
    try:
        running.start("control", "broker", "gateway")
        yield running
    finally:
        running.kill_all()


@pytest.fixture
def api(cluster: Cluster) -> Iterator[httpx.Client]:
    key = cluster.secrets["demo-portico-secrets"]["operator-key"]
    with httpx.Client(
        base_url=cluster.url("demo-portico-console", 80) + "/v1/",
        headers={"Authorization": f"Bearer {key}"},
        timeout=60,
        trust_env=False,
    ) as client:
        yield client


def certificate_of(cluster: Cluster) -> set[str]:
    """What each gateway worker says of its certificate."""
    secret = cluster.secrets["demo-portico-secrets"]["internal-secret"]
    said = set()
    for pod in cluster.of("gateway"):
        for container in pod.spec["containers"]:
            (port,) = (each["containerPort"] for each in container["ports"])
            url = f"http://{pod.address}:{port}/metrics"
            told = httpx.get(url, headers={"Authorization": f"Bearer {secret}"}, trust_env=False, timeout=30)
            said |= {
                line
                for line in told.text.splitlines()
                if line.startswith("portico_gateway_certificate_failing")
            }
    return said


def test_a_secret_is_exchanged_under_the_connections_of_a_client(cluster: Cluster, api: httpx.Client) -> None:
    body: dict[str, Any] = {
        "name": "encrypted",
        "produce_rate_bytes_per_s": 10**6,
        "consume_rate_bytes_per_s": 10**6,
        "capacity_bytes": 10**8,
        "allow_all": True,
        "security_protocols": ["plain", "tls"],
    }
    made = api.post("instances", json=body).raise_for_status().json()
    api.post(f"instances/{made['id']}/users", json={"name": "app"}).raise_for_status()
    wait_until(
        lambda: (
            api.get(f"instances/{made['id']}").json()["state"] == "running"
            and api.get(f"instances/{made['id']}/users").json()["items"][0]["applied"]
        )
    )
    api.post(f"instances/{made['id']}/topics", json={"name": "t", "partitions": 1}).raise_for_status()
    (bootstrap,) = [
        each["bootstrap_servers"] for each in made["endpoints"] if each["security_protocol"] == "tls"
    ]
    settings = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": AUTHORITY,
        # Pods have addresses of their own here, which no certificate of the tests is for.
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.certificate.location": str(CERTIFICATES / "app.pem"),
        "ssl.key.location": str(CERTIFICATES / "app.key"),
    }
    failures: list[object] = []
    producer = Producer(settings)

    def produce() -> None:
        producer.produce("t", b"v", on_delivery=lambda error, _: failures.append(error) if error else None)
        assert producer.flush(60) == 0 and not failures

    produce()
    cluster.change_secret("kafka-tls", **pair("expired"))
    wait_until(lambda: certificate_of(cluster) == {"portico_gateway_certificate_failing 1.0"})
    produce()
    assert AdminClient(settings).list_topics(timeout=30), "the one before is in use"
    cluster.change_secret("kafka-tls", **pair("gateway_2"))
    wait_until(lambda: certificate_of(cluster) == {"portico_gateway_certificate_failing 0.0"})
    produce()
    assert AdminClient(settings).list_topics(timeout=30)
    cluster.change_secret("kafka-clients", **{"ca.crt": text("others.pem")})
    wait_until(lambda: is_refused(settings))
    produce()


def is_refused(settings: dict[str, str]) -> bool:
    """Whether a client that comes now is not let in."""
    try:
        AdminClient(settings).list_topics(timeout=5)
    except KafkaException:
        return True
    return False

"""The chart: what it renders is valid and safe, contradictions are refused with a sentence."""

import base64
import copy
import itertools
import re
from typing import Any, Final

import helm_python
import kubernetes_validate
import pytest
import yaml

from tests.kubernetes.chart import (
    CHART,
    NODE_PORTS,
    PRODUCTION,
    RELEASE,
    TRIAL_CLUSTER,
    Manifest,
    one,
    pods,
    render,
)

KUBERNETES: Final = ("1.28", "1.31", "1.34", "1.37")
MATRIX: Final[dict[str, Manifest]] = {
    "default": {},
    "production": PRODUCTION,
    "trial cluster": TRIAL_CLUSTER,
    "node ports": NODE_PORTS,
    "cluster ip": {"gateway": {"vports": {"first": 20000, "last": 20049}, "service": {"type": "ClusterIP"}}},
    "ipv6": {"ipFamily": "IPv6"},
    "own secret": {"secrets": {"existingSecret": "mine"}},
    "backups": {"zookeeper": {"mode": "bundled"}, "backup": {"enabled": True}},
    "restoring": PRODUCTION
    | {"backup": {"enabled": True, "passphraseSecret": "sealed"}, "restore": {"file": "portico-1.zip"}},
    "no policies": {"networkPolicy": {"enabled": False}, "tests": {"enabled": False}},
    "no operator": {"operator": {"enabled": False}},
    "console for some": {
        "networkPolicy": {"consoleFrom": [{"namespaceSelector": {"matchLabels": {"team": "platform"}}}]}
    },
    "own placement": {
        "broker": {
            "nodeSelector": {"disk": "nvme"},
            "tolerations": [{"key": "kafka", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
        },
        "image": {"digest": "sha256:" + "a" * 64, "pullSecrets": ["registry"]},
        "commonLabels": {"team": "platform"},
        "podAnnotations": {"checked": "yes"},
    },
    "pipeline": {"pipeline": {"enabled": True, "persistence": {"accessMode": "ReadWriteOnce"}}},
    "executors": {
        "pipeline": {
            "enabled": True,
            "lake": "s3a://lakes/main",
            "storeSecret": "our-store",
            "jobs": {"load": {"schedule": "@hourly", "args": ["load", "shop"], "executors": 3}},
        }
    },
    "azure": {"pipeline": {"enabled": True, "lake": "abfss://lakes@acme.dfs.core.windows.net/main"}},
    "watched": {
        "monitoring": {
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "rules": {"enabled": True},
            "dashboards": {"enabled": True},
        }
    },
    "traced": {
        "traces": {
            "endpoint": "http://collector.observability:4318",
            "conventions": "messaging",
            "headersSecret": "collector",
        }
    },
    "encrypted": {
        "gateway": {
            "tls": {"secret": "kafka-tls", "clientCaSecret": "kafka-clients"},
            "sni": {"domain": "kafka.example.com", "secret": "kafka-names"},
        },
        "clusters": {"far": {"secret": "far-kafka", "ports": [9093]}, "near": {"ports": [9092, 9093]}},
        "master": {"replicas": 1},
        "zookeeper": {"mode": "bundled"},
    },
    "operator of two": {"operator": {"tenants": {"shop": "acme", "billing": "acme"}}},
}
OTHERS_KINDS: Final = {"PodMonitor", "PrometheusRule"}
"""Not Kubernetes' own: tests/kubernetes/test_monitoring.py."""


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(values, id=name, marks=() if name in ("default", "encrypted") else pytest.mark.long)
        for name, values in MATRIX.items()
    ],
)
def test_manifests_are_valid(values: Manifest) -> None:
    for manifest in render(values):
        if manifest["kind"] in OTHERS_KINDS:
            continue
        for version in KUBERNETES:
            kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_lint_finds_nothing(values: Manifest) -> None:
    report = helm_python.lint(CHART, values, strict=True, kube_version="v1.34.0")
    assert report["errors"] == []
    assert [each for each in report["messages"] if each["severity"] > 1] == []


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_names_are_unique_and_selectors_meet_their_pods(values: Manifest) -> None:
    manifests = render(values)
    names = [(m["kind"], m["metadata"].get("namespace"), m["metadata"]["name"]) for m in manifests]
    assert len(names) == len(set(names))
    assert all(len(name) <= 63 for _kind, _namespace, name in names)
    labels = [template["metadata"]["labels"] for _owner, template in pods(manifests)]
    for manifest in manifests:
        spec = manifest.get("spec", {})
        for selector in (
            spec.get("selector") if manifest["kind"] == "Service" else None,
            (spec.get("selector") or {}).get("matchLabels"),
            (spec.get("podSelector") or {}).get("matchLabels"),
        ):
            if selector is not None:
                assert any(selector.items() <= each.items() for each in labels), manifest["metadata"]["name"]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_every_pod_is_restricted(values: Manifest) -> None:
    """What the Pod Security Standard `restricted` asks for, and more."""
    for owner, template in pods(render(values)):
        spec = template["spec"]
        name = owner["metadata"]["name"]
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["runAsUser"] >= 10_000
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not spec.get("hostNetwork") and not spec.get("hostPID") and not spec.get("hostIPC")
        assert all("hostPath" not in volume for volume in spec["volumes"])
        is_operator = template["metadata"]["labels"]["app.kubernetes.io/component"] == "operator"
        starts_executors = any("submit" in each.get("args", ()) for each in spec["containers"])
        assert spec["automountServiceAccountToken"] is (is_operator or starts_executors)
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            if owner["kind"] == "ConfigMap":
                continue  # of an executor: Spark adds what its settings say
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "memory" in container["resources"]["limits"]
            assert all(volume.get("mountPath") != "/" for volume in container["volumeMounts"])
            assert ("ports" in container) == ("readinessProbe" in container), name


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_every_pod_is_denied_what_it_does_not_need(values: Manifest) -> None:
    manifests = render(values)
    policies = [m for m in manifests if m["kind"] == "NetworkPolicy"]
    if not values.get("networkPolicy", {}).get("enabled", True):
        assert policies == []
        return
    deny = one(manifests, "NetworkPolicy", "-deny")
    assert "ingress" not in deny["spec"]
    assert {port["port"] for rule in deny["spec"]["egress"] for port in rule["ports"]} == {53}
    for _owner, template in pods(manifests):
        labels = template["metadata"]["labels"]
        chosen = [p for p in policies if p["spec"]["podSelector"]["matchLabels"].items() <= labels.items()]
        assert len(chosen) == 2, labels  # the one that denies, and what it needs
    broker = one(manifests, "NetworkPolicy", "-broker")
    for rule in broker["spec"]["ingress"]:
        assert rule["from"], "brokers are nobody's from outside"


def test_vports_are_spread_over_services_of_a_bounded_size() -> None:
    services = [
        m for m in render(PRODUCTION) if m["kind"] == "Service" and "-gateway" in m["metadata"]["name"]
    ]
    ports = [port["port"] for service in services for port in service["spec"]["ports"]]
    assert ports == list(range(20_000, 20_500))
    for service in services:
        assert len(service["spec"]["ports"]) == 50
        assert service["spec"]["externalTrafficPolicy"] == "Local"
        assert service["spec"]["loadBalancerIP"] == "192.0.2.10"
    control = one(render(PRODUCTION), "Deployment", "-control")
    arguments = control["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--vports=20000-20499" in arguments
    assert "--vip=0.0.0.0=kafka.example.com" in arguments


def test_a_node_port_is_the_vport() -> None:
    services = [
        m for m in render(NODE_PORTS) if m["kind"] == "Service" and "-gateway" in m["metadata"]["name"]
    ]
    assert [len(service["spec"]["ports"]) for service in services] == [50, 50, 20]
    for service in services:
        for port in service["spec"]["ports"]:
            assert port["nodePort"] == port["port"] == port["targetPort"]


def test_secrets_are_drawn_once_and_kept() -> None:
    first, second = (one(render(), "Secret", "-secrets") for _ in range(2))
    assert first["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    drawn = {key: base64.b64decode(value).decode() for key, value in first["data"].items()}
    assert set(drawn) == {"internal-secret", "operator-key", "admin-password"}
    assert len(drawn["operator-key"]) >= 32 and len(drawn["internal-secret"]) >= 32
    assert first["data"] != second["data"], "without a cluster to look in they are drawn anew"
    assert not any(m["kind"] == "Secret" for m in render({"secrets": {"existingSecret": "mine"}}))
    text = (CHART / "templates" / "secrets.yaml").read_text()
    assert text.count("lookup ") == 2, "both kinds are looked up before they are drawn"


def test_no_secret_stands_in_a_pod() -> None:
    for values in MATRIX.values():
        manifests = render(values)
        secrets = [
            base64.b64decode(value).decode()
            for m in manifests
            if m["kind"] == "Secret"
            for value in m.get("data", {}).values()
        ] + [m["stringData"]["password"] for m in manifests if m["kind"] == "Secret" and "stringData" in m]
        told = yaml.safe_dump([m for m in manifests if m["kind"] != "Secret"])
        assert not [secret for secret in secrets if secret in told]


CONTRADICTIONS: Final[list[tuple[Manifest, str]]] = [
    ({"control": {"replicas": 2}}, "control.replicas is 2 but postgres.mode is none"),
    ({"broker": {"replicas": 3}}, "broker.replicas is 3 but zookeeper.mode is none"),
    ({"master": {"replicas": 1}}, "master.replicas is 1 but zookeeper.mode is none"),
    ({"zookeeper": {"mode": "external"}}, "zookeeper.connect is empty"),
    ({"zookeeper": {"connect": "zk:2181"}}, "zookeeper.connect is set but zookeeper.mode is none"),
    ({"postgres": {"mode": "external"}}, "postgres.existingSecret is empty"),
    (
        {"redis": {"mode": "bundled", "existingSecret": "x"}},
        "redis.existingSecret is set but redis.mode is bundled",
    ),
    ({"gateway": {"vports": {"first": 300, "last": 20000}}}, "minimum"),
    (
        {"gateway": {"vports": {"first": 20001, "last": 20000}}},
        "the last port 20000 is before the first, 20001",
    ),
    ({"gateway": {"vports": {"first": 20000, "last": 20001}}}, "2 ports, too few for one instance"),
    ({"gateway": {"service": {"type": "LoadBalancer"}}}, "gateway.advertisedHost is empty"),
    ({"gateway": {"service": {"type": "ClusterIP"}}}, "need 2 Services, which have names of their own"),
    (
        {"gateway": {"service": {"type": "NodePort"}, "advertisedHost": "203.0.113.7"}},
        "gateway.vports 20000-20099 are not within 30000-32767",
    ),
    (
        {"gateway": {"service": {"loadBalancerIP": "192.0.2.1"}}},
        "settings of load balancers but its type is Headless",
    ),
    ({"gateway": {"service": {"externalTrafficPolicy": "Cluster"}}}, "its type is Headless, which has none"),
    ({"broker": {"replicationFactor": 2}}, "broker.replicationFactor is 2 but there are 1 brokers"),
    (
        {"broker": {"replicas": 3, "minInsyncReplicas": 3}, "zookeeper": {"mode": "bundled"}},
        "no broker could be restarted without refusing acks=all",
    ),
    (
        {"broker": {"replicas": 3, "maxUnavailable": 3}, "zookeeper": {"mode": "bundled"}},
        "all could be taken down at once",
    ),
    ({"control": {"ingress": {"enabled": True}}}, "control.ingress.host is empty"),
    (
        {"control": {"ingress": {"enabled": True, "host": "console.example.com"}}},
        "control.trustedProxies is empty",
    ),
    ({"networkPolicy": {"clientCidrs": []}}, "no client could connect"),
    ({"backup": {"enabled": True}}, "the metadata is a file on the broker's volume"),
    (
        {"restore": {"file": "a.zip"}, "zookeeper": {"mode": "bundled"}},
        "restore.file is set but backup.enabled is false",
    ),
    ({"restore": {"file": "../a.zip"}}, "does not match pattern"),
    ({"backup": {"keep": 0}}, "/backup/keep"),
    (
        {"pipeline": {"enabled": True, "jobs": {"A_b": {"schedule": "* * * * *", "args": ["x"]}}}},
        "'A_b' cannot be a job's name",
    ),
    (
        {"pipeline": {"enabled": True, "jobs": {"a": {"schedule": "@daily", "args": ["x"], "executors": 2}}}},
        "pipeline.jobs.a.executors is 2 but pipeline.lake is empty",
    ),
    ({"pipeline": {"lake": "s3a://us:secret@bucket"}}, "/pipeline/lake"),
    ({"pipeline": {"lake": "abfss://lakes:secret@acme.dfs.core.windows.net"}}, "/pipeline/lake"),
    ({"pipeline": {"lineage": {"url": "http://us:secret@marquez"}}}, "/pipeline/lineage/url"),
    ({"pipeline": {"jobLimit": "soon"}}, "/pipeline/jobLimit"),
    ({"gateway": {"tls": {"clientCaSecret": "ca"}}}, "gateway.tls.secret is empty"),
    ({"clusters": {"Far": {"ports": [9093]}}}, "'Far'"),
    ({"clusters": {"far": {"secret": "far-kafka"}}}, "missing property 'ports'"),
    ({"broker": {"replcas": 3}}, "additional properties 'replcas' not allowed"),
    ({"broker": {"replicas": "3"}}, "got string, want integer"),
    ({"control": {"quotaPolicy": "generous"}}, "value must be one of"),
    ({"broker": {"storage": {"size": "20 gigabytes"}}}, "does not match pattern"),
    ({"image": {"digest": "latest"}}, "does not match pattern"),
    ({"hangTimeoutMs": 100}, "/hangTimeoutMs"),
    ({"traces": {"endpoint": "collector:4318"}}, "/traces/endpoint"),
]


@pytest.mark.parametrize(("values", "sentence"), CONTRADICTIONS, ids=[text for _v, text in CONTRADICTIONS])
def test_contradictions_are_refused_with_a_sentence(values: Manifest, sentence: str) -> None:
    with pytest.raises(helm_python.HelmError, match=re.escape(sentence)):
        render(values)


def test_all_contradictions_are_told_at_once() -> None:
    with pytest.raises(helm_python.HelmError) as refused:
        render({"control": {"replicas": 2}, "broker": {"replicas": 3}})
    assert str(refused.value).count("\n  * ") == 3


def test_the_schema_knows_every_value_and_no_other() -> None:
    with helm_python.Chart.load(CHART) as chart:
        schema, values = chart.schema, chart.values
    assert schema is not None

    def compare(part: dict[str, Any], value: Any, path: str) -> None:
        if "properties" not in part:
            return
        assert part["additionalProperties"] is False, path
        known = set(part["properties"]) - {"global"}
        is_open = path.endswith("resources")
        assert is_open or known == set(value), path
        for name in known & set(value):
            compare(part["properties"][name], value[name], f"{path}.{name}")

    compare(schema, values, "values")


def test_every_value_has_a_word_said_about_it() -> None:
    """`# -- ` before it, or its siblings of the same meaning elsewhere in the file have."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    told: set[str] = set()
    untold: list[str] = []
    for before, line in itertools.pairwise(lines):
        key = re.match(r"\s+([a-zA-Z]+): ?(\S.*)?$", line)
        if key is None or line.lstrip().startswith(("#", "requests", "limits")) or not key[2]:
            continue
        (told.add if "# " in before else untold.append)(key[1])
    assert set(untold) - told <= {"size", "storageClass", "labels", "annotations"}


def test_executors_of_a_job_are_as_safe_as_its_pod_and_find_its_store() -> None:
    manifests = render(MATRIX["executors"])
    jobs = (each for each in pods(manifests) if each[0]["metadata"]["name"].endswith("-pipeline-load"))
    executors = (each for each in pods(manifests) if each[0]["kind"] == "ConfigMap")
    [(_, job)], [(_, executor)] = jobs, executors
    kubernetes_validate.validate(executor, KUBERNETES[-1], strict=True)
    [of_job], [of_executor] = job["spec"]["containers"], executor["spec"]["containers"]
    assert executor["spec"]["securityContext"] == job["spec"]["securityContext"]
    assert of_executor["securityContext"] == of_job["securityContext"]
    assert of_executor["envFrom"] == of_job["envFrom"] == [{"secretRef": {"name": "our-store"}}]
    asked = of_job["args"]
    assert asked[:3] == ["ctl.main", "pipeline", "submit"] and asked.index("load") > asked.index("submit")
    assert f"--spark-conf=spark.kubernetes.container.image={of_job['image']}" in asked
    [mount] = [each for each in of_job["volumeMounts"] if each["name"] == "executor"]
    assert f"--spark-conf=spark.kubernetes.executor.podTemplateFile={mount['mountPath']}/pod.yaml" in asked


def test_one_pod_runs_the_schedules_of_the_console_and_is_no_jobs() -> None:
    manifests = render(MATRIX["executors"])
    runner = one(manifests, "Deployment", "-pipeline")
    assert (runner["spec"]["replicas"], runner["spec"]["strategy"]) == (1, {"type": "Recreate"})
    template = runner["spec"]["template"]
    [container] = template["spec"]["containers"]
    assert container["args"][:4] == ["ctl.main", "pipeline", "schedule", "serve"]
    assert {"name": "PORTICO_LAKE", "value": "s3a://lakes/main"} in container["env"]
    chosen = runner["spec"]["selector"]["matchLabels"].items()
    assert [
        owner["kind"] for owner, each in pods(manifests) if chosen <= each["metadata"]["labels"].items()
    ] == ["Deployment"]


@pytest.mark.parametrize(
    ("url", "port"),
    [("https://lineage.example/x", 443), ("http://marquez", 80), ("http://marquez:5000", 5000)],
)
def test_jobs_reach_the_collector_of_lineage(url: str, port: int) -> None:
    manifests = render({"pipeline": {"enabled": True, "lineage": {"url": url}}})
    [container] = one(manifests, "Deployment", "-pipeline")["spec"]["template"]["spec"]["containers"]
    assert {"name": "OPENLINEAGE_URL", "value": url} in container["env"]
    policy = one(manifests, "NetworkPolicy", "-pipeline")
    assert [{"protocol": "TCP", "port": port}] in [rule["ports"] for rule in policy["spec"]["egress"]]


def test_traces_are_told_to_every_process_and_have_a_way_out() -> None:
    def variables(values: Manifest) -> list[set[str]]:
        found = [
            {each["name"] for each in container.get("env", ())}
            for _, template in pods(render(values))
            for container in template["spec"]["containers"]
        ]
        return [names for names in found if "PORTICO_HANG_TIMEOUT_MS" in names]

    assert not any(name.startswith("OTEL_") for names in variables({}) for name in names)
    told = variables(MATRIX["traced"])
    assert len(told) >= 3
    wanted = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_SAMPLER_ARG", "OTEL_EXPORTER_OTLP_HEADERS"}
    assert all(wanted <= names for names in told)
    for endpoint, port in (("https://c.example", 443), ("http://c", 80), ("http://c:4318/x", 4318)):
        policies = [
            each for each in render({"traces": {"endpoint": endpoint}}) if each["kind"] == "NetworkPolicy"
        ]
        outgoing = [rule["ports"] for each in policies for rule in each["spec"].get("egress", ())]
        assert [{"protocol": "TCP", "port": port}] in outgoing, endpoint


def test_webhooks_have_a_way_out_and_ranges_that_they_may_call() -> None:
    def told(values: Manifest) -> tuple[list[str], set[int]]:
        manifests = render(values)
        control = one(manifests, "Deployment", "-control")["spec"]["template"]["spec"]["containers"][0]
        policy = one(manifests, "NetworkPolicy", "-control")
        outgoing = [rule for rule in policy["spec"]["egress"] if "to" not in rule]
        arguments = [each for each in control["args"] if each.startswith("--webhook-allow")]
        return arguments, {port["port"] for rule in outgoing for port in rule["ports"]}

    assert told({}) == ([], {443})
    ranges = {"webhookAllow": ["10.20.0.0/16", "192.0.2.7"], "webhookPorts": [443, 8443]}
    assert told({"control": ranges}) == (["--webhook-allow=10.20.0.0/16,192.0.2.7"], {443, 8443})
    assert told({"control": {"webhookPorts": []}})[1] == set()


def test_mail_goes_to_the_server_that_operators_name() -> None:
    def told(smtp: Manifest) -> tuple[set[str], set[int], list[str]]:
        manifests = render({"control": {"webhookPorts": [], "smtp": smtp}})
        pod = one(manifests, "Deployment", "-control")["spec"]["template"]["spec"]
        policy = one(manifests, "NetworkPolicy", "-control")
        ports = {
            port["port"] for rule in policy["spec"]["egress"] if "to" not in rule for port in rule["ports"]
        }
        arguments = {each for each in pod["containers"][0]["args"] if each.startswith("--smtp")}
        return arguments, ports, [each["name"] for each in pod["volumes"] if each["name"] == "smtp"]

    assert told({}) == (set(), set(), [])
    known = {"sender": "portico@example.com", "consoleUrl": "https://console.example.com"}
    arguments, ports, volumes = told(
        {"url": "smtps://ops@mail.example.com", "existingSecret": "mail", **known}
    )
    assert arguments == {
        "--smtp-url=smtps://ops@mail.example.com",
        "--smtp-sender=portico@example.com",
        "--smtp-console-url=https://console.example.com",
        "--smtp-password-file=/etc/portico/smtp/password",
    }
    assert (ports, volumes) == ({465}, ["smtp"])
    assert told({"url": "smtp://mail", **known})[1:] == ({25}, [])
    assert told({"url": "smtp://mail:587", **known})[1:] == ({587}, [])
    for wrong in ({"url": "smtp://mail"}, {"url": "smtp://a:b@mail", **known}, {"url": "mail", **known}):
        with pytest.raises(helm_python.HelmError):
            told(wrong)


def test_longer_series_are_read_from_a_prometheus() -> None:
    def told(prometheus: Manifest) -> tuple[list[Manifest], set[int]]:
        manifests = render({"control": {"webhookPorts": [], "seriesPrometheus": prometheus}})
        pod = one(manifests, "Deployment", "-control")["spec"]["template"]["spec"]
        policy = one(manifests, "NetworkPolicy", "-control")
        ports = {
            port["port"] for rule in policy["spec"]["egress"] if "to" not in rule for port in rule["ports"]
        }
        variables = pod["containers"][0]["env"]
        return [each for each in variables if each["name"] == "PORTICO_SERIES_PROMETHEUS"], ports

    assert told({}) == ([], set())
    url = "http://prometheus.monitoring:9090/prefix"
    assert told({"url": url}) == ([{"name": "PORTICO_SERIES_PROMETHEUS", "value": url}], {9090})
    [variable], ports = told({"existingSecret": "prometheus", "port": 443})
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "prometheus", "key": "url"} and ports == {443}
    for wrong in ({"url": "prometheus:9090"}, {"url": "http://ops:secret@prometheus"}, {"port": 0}):
        with pytest.raises(helm_python.HelmError):
            told(wrong)


def test_people_sign_in_by_a_provider() -> None:
    oidc = {"issuer": "https://id.example.com:8443/realms/x", "clientId": "portico", "existingSecret": "id"}
    manifests = render({"control": {"oidc": {**oidc, "consoleUrl": "https://kafka.example.com"}}})
    pod = one(manifests, "Deployment", "-control")["spec"]["template"]["spec"]
    told = [each for each in pod["containers"][0]["args"] if each.startswith("--oidc")]
    assert told == [
        f"--oidc-issuer={oidc['issuer']}",
        "--oidc-client-id=portico",
        "--oidc-groups-claim=groups",
        "--oidc-console-url=https://kafka.example.com",
        "--oidc-client-secret-file=/etc/portico/oidc/client-secret",
    ]
    assert [each["secret"]["secretName"] for each in pod["volumes"] if each["name"] == "oidc"] == ["id"]
    policy = one(manifests, "NetworkPolicy", "-control")
    outgoing = [rule for rule in policy["spec"]["egress"] if "to" not in rule]
    assert 8443 in {port["port"] for rule in outgoing for port in rule["ports"]}
    with pytest.raises(helm_python.HelmError, match=r"clientId or control\.oidc\.consoleUrl"):
        render({"control": {"oidc": {"issuer": "https://id.example.com"}}})


def test_notes_tell_how_to_log_in() -> None:
    with helm_python.Chart.load(CHART) as chart:
        notes = next(
            text
            for name, text in chart.render({}, name=RELEASE, namespace="kafka").items()
            if name.endswith("NOTES.txt")
        )
    assert "get secret demo-portico-secrets" in notes
    assert "demo-portico-gateway.kafka.svc.cluster.local:20000-20099" in notes


@pytest.mark.parametrize(
    ("broker", "told"),
    [
        ({"replicas": 1}, ["--default-replication-factor=1"]),
        ({"replicas": 2}, ["--default-replication-factor=2"]),
        ({"replicas": 3}, []),  # three of those that live
        ({"replicas": 5, "replicationFactor": 2}, ["--default-replication-factor=2"]),
    ],
)
def test_a_small_cluster_waits_for_no_third_broker(broker: Manifest, told: list[str]) -> None:
    manifests = render({"broker": broker, "zookeeper": {"mode": "bundled"}})
    (container,) = one(manifests, "StatefulSet", "-broker")["spec"]["template"]["spec"]["containers"]
    assert [each for each in container["args"] if each.startswith("--default-replication")] == told


def test_backups_see_the_store_where_it_is() -> None:
    """SQLite is on the control plane's volume, which one node has; Postgres is anywhere."""
    for values, claim in ((MATRIX["backups"], "demo-portico-control"), (MATRIX["restoring"], None)):
        pod = one(render(values), "CronJob", "-backup")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        (volume,) = [each for each in pod["volumes"] if each["name"] == "data"]
        assert volume.get("persistentVolumeClaim", {}).get("claimName") == claim
        assert ("podAffinity" in pod.get("affinity", {})) is (claim is not None)
        (container,) = pod["containers"]
        names = {each["name"] for each in container.get("env", [])}
        assert ("PORTICO_DATABASE_URL" in names) is (claim is None)
        sealed = "PORTICO_BACKUP_PASSPHRASE" in names
        assert sealed is (values["backup"].get("passphraseSecret") is not None)
        assert ("--no-secrets" in container["args"]) is not sealed


def test_while_a_backup_is_restored_nothing_else_runs() -> None:
    manifests = render(MATRIX["restoring"])
    counts = {
        m["metadata"]["name"]: m["spec"]["replicas"] for m in manifests if "replicas" in m.get("spec", {})
    }
    assert len(counts) == 6 and set(counts.values()) == {0}
    assert all(m["spec"]["suspend"] for m in manifests if m["kind"] == "CronJob")
    (job,) = [m for m in manifests if m["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    claims = {
        each["persistentVolumeClaim"]["claimName"]
        for each in pod["volumes"]
        if "persistentVolumeClaim" in each
    }
    of_brokers = {f"volume-{volume}-demo-portico-broker-{n}" for volume in (0, 1) for n in (1, 2, 3)}
    assert claims == {*of_brokers, "demo-portico-backup"}
    stateful = one(manifests, "StatefulSet", "-broker")
    assert {each["metadata"]["name"] for each in stateful["spec"]["volumeClaimTemplates"]} == {
        "volume-0",
        "volume-1",
    }
    lost = copy.deepcopy(MATRIX["restoring"])
    lost["restore"]["logsLost"] = True
    (other,) = [m for m in render(lost) if m["kind"] == "Job"]
    assert other["metadata"]["name"] != job["metadata"]["name"], "a Job cannot be changed"
    assert "--logs-lost" in other["spec"]["template"]["spec"]["containers"][0]["args"]
    assert not any("broker" in each["name"] for each in other["spec"]["template"]["spec"]["volumes"])

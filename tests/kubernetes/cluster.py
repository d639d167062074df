"""What Kubernetes would start from the chart's manifests, started on this machine.

A pod is an address of its own in 127.0.0.0/8, and its containers' processes with the image's entry point and
their `args`, environment, secrets and volumes as rendered. Names of Services and pods are replaced by
addresses, which is what DNS and kube-proxy do; paths of volumes by directories.
"""

import base64
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import httpx
import yaml

from ctl.stack.zookeeper import class_path, is_serving, java_program
from tests.integration.zookeeper.server import NO_FSYNC
from tests.kubernetes.chart import NAMESPACE, ROOT, Manifest, one, pods

_READY_TIMEOUT_S: Final = 120.0
_RUN_TIMEOUT_S: Final = 400.0
_DOCKERFILE: Final = ROOT / "helm" / "images" / "Dockerfile"


def entry_point() -> list[str]:
    """The image's, with this Python instead of the image's."""
    line = re.search(r"^ENTRYPOINT (\[.*\])$", _DOCKERFILE.read_text(), re.MULTILINE)
    assert line is not None
    program: list[str] = yaml.safe_load(line[1])
    assert program[0] == "python"
    return [sys.executable, *program[1:]]


class Pod:
    """One pod: its address, its files, its processes."""

    def __init__(self, name: str, address: str, template: Manifest, directory: Path) -> None:
        self.name = name
        self.address = address
        self.spec = template["spec"]
        self.component = template["metadata"]["labels"]["app.kubernetes.io/component"]
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def port(self, container: Manifest, name: str | int) -> int:
        """A port by its name, as probes and Services say it."""
        if isinstance(name, int):
            return name
        return next(int(p["containerPort"]) for p in container["ports"] if p["name"] == name)

    def log(self, container: str) -> Path:
        return self.directory / f"{container}.log"


class Cluster:
    """All pods of a release."""

    def __init__(
        self,
        manifests: list[Manifest],
        directory: Path,
        secrets_of_others: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        api_server: str = "",
    ) -> None:
        """`secrets_of_others`: those that the chart only names. `api_server`: Kubernetes', for the pods that
        have a token for it."""
        self.manifests = manifests
        self.directory = directory
        self.api_server = api_server
        self.secrets = {
            m["metadata"]["name"]: {k: base64.b64decode(v).decode() for k, v in m.get("data", {}).items()}
            | m.get("stringData", {})
            for m in manifests
            if m["kind"] == "Secret"
        } | {name: dict(values) for name, values in secrets_of_others.items()}
        subnet = f"127.{1 + secrets.randbelow(250)}.{secrets.randbelow(250)}"
        self.pods: list[Pod] = []
        for owner, template in pods(manifests):
            if owner["kind"] not in ("Deployment", "StatefulSet"):
                continue
            start = owner["spec"].get("ordinals", {}).get("start", 0)
            for number in range(start, start + owner["spec"]["replicas"]):
                name = f"{owner['metadata']['name']}-{number}"
                pod = Pod(name, f"{subnet}.{len(self.pods) + 1}", template, directory / name)
                self.pods.append(pod)

    def of(self, component: str) -> list[Pod]:
        """A component's pods."""
        return [pod for pod in self.pods if pod.component == component]

    def url(self, service: str, port: int) -> str:
        """A Service's URL, from outside."""
        return self._named(f"http://{service}:{port}")

    # -- what kubelet does -------------------------------------------------------------------------------

    def start(self, *components: str) -> None:
        """Start the pods of these components and wait until their probes say that they are ready."""
        chosen = [pod for component in components for pod in self.of(component)]
        for pod in chosen:
            pod.directory.mkdir(parents=True, exist_ok=True)
            for container in pod.spec["containers"]:
                self._start(pod, container)
        for pod in chosen:
            self.until_ready(pod)

    def _start(self, pod: Pod, container: Manifest) -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(pod.directory)}
        environment |= {each["name"]: self._variable(pod, each) for each in container.get("env", [])}
        arguments = [self._rewritten(pod, container, each, environment) for each in container["args"]]
        if pod.spec["automountServiceAccountToken"]:  # instead of the token and address of the pod
            arguments.append(f"--server={self.api_server}")
        with pod.log(container["name"]).open("ab") as log:
            pod.processes[container["name"]] = subprocess.Popen(
                [*entry_point(), *arguments], cwd=ROOT, env=environment, stdout=log, stderr=log
            )

    def _variable(self, pod: Pod, variable: Manifest) -> str:
        source = variable.get("valueFrom", {})
        match source:
            case {"fieldRef": {"fieldPath": "metadata.name"}}:
                return pod.name
            case {"fieldRef": {"fieldPath": "status.podIP"}}:
                return pod.address
            case {"fieldRef": {"fieldPath": "metadata.namespace"}}:
                return NAMESPACE
            case {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}:
                return pod.name.rpartition("-")[2]
            case {"secretKeyRef": {"name": name, "key": key}}:
                return self._named(self.secrets[name][key])
        assert not source, source
        return self._named(str(variable["value"]))

    def _rewritten(self, pod: Pod, container: Manifest, text: str, environment: dict[str, str]) -> str:
        text = re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], text)
        if text.startswith("--vip="):  # gateways bind it, in a network of their own
            address = self.of("gateway")[0].address
            return f"--vip={address}={address}"
        text = text.replace("0.0.0.0", pod.address)
        for mount in sorted(container["volumeMounts"], key=lambda each: -len(each["mountPath"])):
            path = mount["mountPath"]
            if path != "/tmp" and path in text:
                return text.replace(path, str(self._volume(pod, mount["name"])), 1)
            above = re.search(r"(?<==)/(?:var/lib|etc/portico)/[\w/]+$", text)
            if above and path.startswith(f"{above[0]}/"):
                return text.replace(above[0], str(self._around(pod, mount, above[0])), 1)
        return self._named(text)

    def _volume(self, pod: Pod, name: str) -> Path:
        volume = next((each for each in pod.spec["volumes"] if each["name"] == name), {})
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        directory = pod.directory / "volumes" / name if claim is None else self.claim(claim)
        directory.mkdir(parents=True, exist_ok=True)
        if "secret" in volume:
            self._project(directory, volume["secret"])
        return directory

    def _project(self, directory: Path, source: Manifest) -> None:
        """The keys of a Secret as kubelet writes them: a folder behind a link, which is exchanged."""
        values = self.secrets[source["secretName"]]
        paths = {each["key"]: each["path"] for each in source.get("items", ())} or {
            key: key for key in values
        }
        data, new = directory / "..data", directory / f"..{time.time_ns()}"
        new.mkdir()
        for key, path in paths.items():
            (new / path).write_text(values[key])
            (new / path).chmod(source["defaultMode"])
            if not (directory / path).is_symlink():
                (directory / path).symlink_to(f"..data/{path}")
        old = data.resolve() if data.is_symlink() else None
        (directory / "..data_tmp").symlink_to(new.name)
        (directory / "..data_tmp").rename(data)
        if old is not None:
            shutil.rmtree(old)

    def change_secret(self, name: str, **values: str) -> None:
        """Other values, in the Secret and, as after kubelet's next look, on the volumes of all pods."""
        self.secrets[name] |= values
        for pod in self.pods:
            for volume in pod.spec["volumes"]:
                directory = pod.directory / "volumes" / volume["name"]
                if volume.get("secret", {}).get("secretName") == name and directory.is_dir():
                    self._project(directory, volume["secret"])

    def claim(self, name: str) -> Path:
        """What a PersistentVolumeClaim stands for; those of a StatefulSet are its pods' own."""
        for pod in self.pods:
            if name.endswith(f"-{pod.name}"):
                return pod.directory / "volumes" / name.removesuffix(f"-{pod.name}")
        return self.directory / "claims" / name

    def _around(self, pod: Pod, mount: Manifest, path: str) -> Path:
        """A directory of the image in which a volume is mounted."""
        directory = pod.directory / "image" / path.lstrip("/")
        inside = directory / Path(mount["mountPath"]).relative_to(path)
        if not inside.is_symlink():
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.symlink_to(self._volume(pod, mount["name"]))
        return directory

    def _named(self, text: str) -> str:
        """Names replaced by addresses: of pods behind a headless Service, then of Services."""
        for pod in self.pods:
            text = re.sub(rf"\b{pod.name}\.[a-z0-9.-]+\.svc\.cluster\.local\b", pod.address, text)
        for service in (m for m in self.manifests if m["kind"] == "Service"):
            name, component = service["metadata"]["name"], service["spec"]["selector"]
            first = self.of(component["app.kubernetes.io/component"])
            if not first:
                continue
            for port in service["spec"].get("ports", []):
                target = self._target(first[0], port)
                text = re.sub(rf"(?<![\w-]){name}:{port['port']}(?!\d)", f"{first[0].address}:{target}", text)
        return text

    def _target(self, pod: Pod, port: Manifest) -> int:
        for container in pod.spec["containers"]:
            for each in container["ports"]:
                if each["name"] == port["targetPort"]:
                    return int(each["containerPort"])
        return int(port["targetPort"])

    def until_ready(self, pod: Pod) -> None:
        """Wait for every container's readiness probe."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        for container in pod.spec["containers"]:
            while not self.is_ready(pod, container):
                process = pod.processes[container["name"]]
                said = pod.log(container["name"]).read_text()[-3000:]
                assert process.poll() is None, f"{pod.name} ended:\n{said}"
                assert time.monotonic() < deadline, f"{pod.name} is not ready:\n{said}"
                time.sleep(0.1)

    def is_ready(self, pod: Pod, container: Manifest) -> bool:
        """One look, as the kubelet takes it: who has no probe is ready while it runs."""
        probe = container.get("readinessProbe")
        if probe is None:
            return pod.processes[container["name"]].poll() is None
        if "httpGet" in probe:
            port = pod.port(container, probe["httpGet"]["port"])
            url = f"http://{pod.address}:{port}{probe['httpGet']['path']}"
            try:
                answer = httpx.get(url, timeout=probe["timeoutSeconds"], trust_env=False)
            except httpx.HTTPError:
                return False
            return answer.is_success
        return is_serving(pod.address, pod.port(container, probe["tcpSocket"]["port"]))

    def stop(self, pod: Pod) -> dict[str, int]:
        """As when it is deleted: SIGTERM, and no longer than its grace. Exit codes by container."""
        for process in pod.processes.values():
            process.send_signal(signal.SIGTERM)
        grace_s = pod.spec.get("terminationGracePeriodSeconds", 30)
        codes = {name: process.wait(grace_s) for name, process in pod.processes.items()}
        pod.processes.clear()
        return codes

    def start_again(self, pod: Pod) -> None:
        """A new pod in its place: a StatefulSet's has the name and the volumes, and this one the address."""
        for container in pod.spec["containers"]:
            self._start(pod, container)
        self.until_ready(pod)

    def kill_all(self) -> None:
        """Whatever is left when the test is over."""
        for pod in self.pods:
            for process in pod.processes.values():
                process.kill()
                process.wait()

    # -- stores ------------------------------------------------------------------------------------------

    def start_zookeeper(self) -> None:
        """The bundled ZooKeeper as its ConfigMap sets it up, from the jars in PySpark's wheel."""
        (pod,) = self.of("zookeeper")
        pod.directory.mkdir(parents=True)
        (container,) = pod.spec["containers"]
        text = str(one(self.manifests, "ConfigMap", "-zookeeper")["data"]["zoo.cfg"])
        text = text.replace("/data", "./data") + f"clientPortAddress={pod.address}\n"
        (pod.directory / "zoo.cfg").write_text(text)
        with pod.log(container["name"]).open("ab") as log:
            pod.processes[container["name"]] = subprocess.Popen(
                [
                    *(java_program(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", NO_FSYNC),
                    *("-cp", class_path(), "org.apache.zookeeper.server.ZooKeeperServerMain", "zoo.cfg"),
                ],
                cwd=pod.directory,
                stdout=log,
                stderr=log,
            )
        self.until_ready(pod)

    def run(self, manifest: Manifest) -> subprocess.CompletedProcess[str]:
        """A pod that ends by itself, such as the one of `helm test`."""
        name = manifest["metadata"]["name"]
        pod = Pod(name, "127.0.0.1", manifest, self.directory / f"run-{name}")
        pod.directory.mkdir(parents=True, exist_ok=True)
        (container,) = pod.spec["containers"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(pod.directory)}
        environment |= {each["name"]: self._variable(pod, each) for each in container.get("env", [])}
        arguments = [self._rewritten(pod, container, each, environment) for each in container["args"]]
        return subprocess.run(
            [*entry_point(), *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_RUN_TIMEOUT_S,
        )

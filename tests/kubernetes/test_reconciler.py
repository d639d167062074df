"""The reconciler as a process, between an emulated Kubernetes API and the console of a running stack."""

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import kmock
import pytest
import yaml

from tests.integration.stack import ROOT, Stack
from tests.kubernetes.chart import CHART

GROUP = "portico.dev/v1alpha1"
CRDS = {
    crd["spec"]["names"]["kind"]: crd
    for crd in (yaml.safe_load(path.read_text()) for path in sorted((CHART / "crds").glob("*.yaml")))
}


def instance_spec(**changes: Any) -> dict[str, Any]:
    return {
        "produceRate": "1MB/s",
        "consumeRate": "2MB/s",
        "capacity": "100MB",
        "whitelist": ["10.1.2.3/8"],
        **changes,
    }


class Kubernetes:
    """An API server with our two kinds, called over HTTP as kubectl does."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.AsyncClient(base_url=f"{url.rstrip('/')}/apis/{GROUP}/namespaces/shop", timeout=30)

    async def create(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        body = {
            "apiVersion": GROUP,
            "kind": kind,
            "metadata": {
                "namespace": "shop",
                "name": name,
                "uid": f"uid-{name}-{secrets.token_hex(4)}",
                "generation": 1,
                "resourceVersion": "1",
            },
            "spec": spec,
        }
        (await self._http.post(f"/{kind.lower()}s", json=body)).raise_for_status()

    async def change(self, kind: str, name: str, generation: int, spec: dict[str, Any]) -> None:
        body = {"metadata": {"generation": generation}, "spec": spec}
        headers = {"Content-Type": "application/merge-patch+json"}
        answer = await self._http.patch(f"/{kind.lower()}s/{name}", json=body, headers=headers)
        answer.raise_for_status()

    async def forget_status(self, kind: str, name: str) -> None:
        """As if it had never been written."""
        headers = {"Content-Type": "application/merge-patch+json"}
        path = f"/{kind.lower()}s/{name}/status"
        (await self._http.patch(path, json={"status": None}, headers=headers)).raise_for_status()

    async def delete(self, kind: str, name: str) -> None:
        (await self._http.delete(f"/{kind.lower()}s/{name}")).raise_for_status()

    async def get(self, kind: str, name: str) -> dict[str, Any] | None:
        answer = await self._http.get(f"/{kind.lower()}s/{name}")
        if answer.status_code == 404:
            return None
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    async def until(
        self, kind: str, name: str, reason: str, holds: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> dict[str, Any]:
        """The status once its Ready condition has this reason."""
        found: dict[str, Any] | None = None
        for _ in range(600):
            found = await self.get(kind, name)
            status = (found or {}).get("status", {})
            if any(each["reason"] == reason for each in status.get("conditions", [])) and holds(status):
                schema = CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                jsonschema.validate(found, schema)
                return dict(status)
            await asyncio.sleep(0.1)
        raise AssertionError(f"{kind} {name} is not {reason}: {found}")

    async def until_gone(self, kind: str, name: str) -> None:
        for _ in range(600):
            if await self.get(kind, name) is None:
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{kind} {name} is still there")

    async def aclose(self) -> None:
        await self._http.aclose()


@asynccontextmanager
async def emulated() -> AsyncIterator[Kubernetes]:
    """An API server in this process."""
    async with kmock.KubernetesEmulator() as emulator, kmock.Server(emulator) as server:
        emulator.resources["v1/namespaces"] = kmock.ResourceInfo(kind="Namespace", namespaced=False)
        for kind, plural in (("KafkaInstance", "kafkainstances"), ("KafkaTopic", "kafkatopics")):
            emulator.resources[f"{GROUP}/{plural}"] = kmock.ResourceInfo(
                kind=kind,
                singular=kind.lower(),
                namespaced=True,
                verbs={"get", "list", "watch", "patch", "create", "delete"},
                subresources={"status"},
            )
        api = Kubernetes(str(server.url))
        yield api
        await api.aclose()


@pytest.fixture
async def kubernetes() -> AsyncIterator[Kubernetes]:
    async with emulated() as api:
        yield api


@asynccontextmanager
async def reconciling(
    stack: Stack, kubernetes: Kubernetes, directory: Path, console: str | None = None
) -> AsyncIterator[None]:
    key, log = directory / "key", directory / "reconciler.log"
    key.write_text(stack.facts["api_key"])
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "reconciler", "--console", console or stack.facts["console"]),
            *("--key-file", str(key), "--tenant", "shop=default", "--drift-ms", "1000"),
            *("--server", kubernetes.url),
            cwd=ROOT,
            stdout=output,
            stderr=output,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    try:
        yield
        assert process.returncode is None, log.read_text()
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from error
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 60)


async def ask(stack: Stack, method: str, path: str, body: Any = None) -> Any:
    return await asyncio.to_thread(stack.api, method, path, body)


async def test_an_instance_and_its_topic_live_as_their_objects_say(
    stack: Stack, kubernetes: Kubernetes, tmp_path: Path
) -> None:
    name = f"k{secrets.token_hex(4)}"
    async with reconciling(stack, kubernetes, tmp_path):
        topic_spec = {"instanceRef": {"name": name}, "partitions": 2, "config": {"retention.ms": "7200000"}}
        await kubernetes.create("KafkaTopic", "orders", topic_spec)
        await kubernetes.until("KafkaTopic", "orders", "NoInstance")
        await kubernetes.create("KafkaInstance", name, instance_spec())
        status = await kubernetes.until("KafkaInstance", name, "Running")
        (ready,) = status["conditions"]
        assert (ready["status"], ready["observedGeneration"], status["observedGeneration"]) == ("True", 1, 1)
        shown = await ask(stack, "GET", f"instances/{status['id']}")
        assert shown["bootstrap_servers"] == status["bootstrapServers"]
        assert (shown["produce_rate_bytes_per_s"], shown["whitelist"]) == (10**6, ["10.0.0.0/8"])
        await kubernetes.until("KafkaTopic", "orders", "Created")

        # what changes in the object changes there; the topic's config that is taken out goes to its default
        await kubernetes.change(
            "KafkaInstance", name, 2, instance_spec(produceRate="3MB/s", whitelist=["192.168.0.0/16"])
        )
        await kubernetes.until("KafkaInstance", name, "Running", lambda s: s["observedGeneration"] == 2)
        changed = await ask(stack, "GET", f"instances/{status['id']}")
        assert (changed["produce_rate_bytes_per_s"], changed["whitelist"]) == (3 * 10**6, ["192.168.0.0/16"])
        await kubernetes.change(
            "KafkaTopic", "orders", 2, {"partitions": 3, "config": {"retention.ms": None}}
        )
        await kubernetes.until("KafkaTopic", "orders", "Created", lambda s: s["observedGeneration"] == 2)
        topic = await ask(stack, "GET", f"instances/{status['id']}/topics/orders")
        assert len(topic["partitions"]) == 3
        (retention,) = (each for each in topic["configs"] if each["name"] == "retention.ms")
        assert retention["is_default"] is True

        # what changes there comes back
        await ask(stack, "PATCH", f"instances/{status['id']}", {"produce_rate_bytes_per_s": 9 * 10**6})
        for _ in range(300):
            if (await ask(stack, "GET", f"instances/{status['id']}"))[
                "produce_rate_bytes_per_s"
            ] == 3 * 10**6:
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError("the drift stays")

        # without a policy nothing goes with its object
        await kubernetes.delete("KafkaTopic", "orders")
        await kubernetes.until_gone("KafkaTopic", "orders")
        await kubernetes.delete("KafkaInstance", name)
        await kubernetes.until_gone("KafkaInstance", name)
        await ask(stack, "GET", f"instances/{status['id']}/topics/orders")

        # one that is there is taken over only where that is asked for
        await kubernetes.create("KafkaInstance", name, instance_spec())
        taken = await kubernetes.until("KafkaInstance", name, "NameTaken")
        assert taken["conditions"][0]["status"] == "False" and "id" not in taken
        await kubernetes.change("KafkaInstance", name, 2, instance_spec(adopt=True, deletionPolicy="Delete"))
        adopted = await kubernetes.until("KafkaInstance", name, "Running")
        assert adopted["id"] == status["id"]
        other = instance_spec(name=name, adopt=True)
        await kubernetes.create("KafkaInstance", "thief", other)
        claimed = await kubernetes.until("KafkaInstance", "thief", "Claimed")
        assert f"shop/{name}" in claimed["conditions"][0]["message"] and "id" not in claimed
        await kubernetes.delete("KafkaInstance", "thief")
        await kubernetes.until_gone("KafkaInstance", "thief")

        await kubernetes.delete("KafkaInstance", name)
        await kubernetes.until_gone("KafkaInstance", name)
        named = [each["name"] for each in (await ask(stack, "GET", "instances"))["items"]]
        assert name not in named


@pytest.mark.long
async def test_what_was_made_before_we_died_is_ours(
    stack: Stack, kubernetes: Kubernetes, tmp_path: Path
) -> None:
    name = f"k{secrets.token_hex(4)}"
    topic = {"instanceRef": {"name": name}, "partitions": 2}
    async with reconciling(stack, kubernetes, tmp_path):
        await kubernetes.create("KafkaInstance", name, instance_spec())
        made = await kubernetes.until("KafkaInstance", name, "Running")
        await kubernetes.create("KafkaTopic", f"{name}-t", topic)
        await kubernetes.until("KafkaTopic", f"{name}-t", "Created")
    for kind, each in (("KafkaInstance", name), ("KafkaTopic", f"{name}-t")):
        await kubernetes.forget_status(kind, each)
    async with reconciling(stack, kubernetes, tmp_path):
        again = await kubernetes.until("KafkaInstance", name, "Running")
        assert again["id"] == made["id"]
        await kubernetes.until("KafkaTopic", f"{name}-t", "Created")
        await ask(stack, "DELETE", f"instances/{made['id']}")


@pytest.mark.long
async def test_what_was_deleted_elsewhere_is_not_made_anew(
    stack: Stack, kubernetes: Kubernetes, tmp_path: Path
) -> None:
    name = f"k{secrets.token_hex(4)}"
    async with reconciling(stack, kubernetes, tmp_path):
        await kubernetes.create("KafkaInstance", name, instance_spec())
        status = await kubernetes.until("KafkaInstance", name, "Running")
        await ask(stack, "DELETE", f"instances/{status['id']}")
        gone = await kubernetes.until("KafkaInstance", name, "InstanceGone")
        assert gone["id"] == status["id"]
        named = [each["name"] for each in (await ask(stack, "GET", "instances"))["items"]]
        assert name not in named


async def test_errors_are_conditions_and_end(stack: Stack, kubernetes: Kubernetes, tmp_path: Path) -> None:
    name = f"k{secrets.token_hex(4)}"
    async with reconciling(stack, kubernetes, tmp_path):
        await kubernetes.create("KafkaInstance", name, instance_spec(whitelist=["10.0.0.0/99"]))
        refused = await kubernetes.until("KafkaInstance", name, "Invalid")
        assert "10.0.0.0/99" in refused["conditions"][0]["message"]
        await kubernetes.change("KafkaInstance", name, 2, instance_spec())
        await kubernetes.until("KafkaInstance", name, "Running")
    # without a console: told, and everything goes on when it is back
    async with reconciling(stack, kubernetes, tmp_path, console="http://127.0.0.1:1"):
        await kubernetes.until("KafkaInstance", name, "ConsoleUnavailable")
    async with reconciling(stack, kubernetes, tmp_path):
        await kubernetes.until("KafkaInstance", name, "Running")
        await ask(
            stack, "DELETE", f"instances/{(await kubernetes.until('KafkaInstance', name, 'Running'))['id']}"
        )

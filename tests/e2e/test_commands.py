"""The command contract on a running stack: every command, as a script would use it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.stack import ROOT, Stack


def portico(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PORTICO_DATA_DIR": str(stack.data_dir)}
    return subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.main", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
    )


def answer(stack: Stack, *arguments: str) -> Any:
    result = portico(stack, *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


RATES = ("--produce-rate", "20MB/s", "--consume-rate", "40MB/s", "--capacity", "10GB")


def test_life_of_an_instance(stack: Stack) -> None:
    created = answer(stack, "instance", "create", "cli-life", *RATES, "--whitelist", "127.0.0.1/32")
    assert created["state"] == "running"
    assert created["produce_rate_bytes_per_s"] == 20_000_000
    assert created["capacity_bytes"] == 10_000_000_000
    assert created["bootstrap_servers"].startswith("127.0.0.1:")
    assert [item["id"] for item in answer(stack, "instance", "list") if item["name"] == "cli-life"] == [
        created["id"]
    ]
    assert answer(stack, "instance", "show", "cli-life")["id"] == created["id"]
    assert (
        answer(stack, "instance", "resize", created["id"], "--capacity", "20GB")["capacity_bytes"]
        == 2 * 10**10
    )
    answer(stack, "instance", "suspend", "cli-life")
    assert answer(stack, "instance", "show", "cli-life")["state"] == "suspended"
    assert answer(stack, "instance", "resume", "cli-life")["state"] == "running"
    assert answer(stack, "instance", "delete", "cli-life")["deleted"] is True
    gone = portico(stack, "instance", "show", created["id"])
    assert gone.returncode == 1
    assert len(gone.stderr.strip().splitlines()) == 1


def test_the_status_of_the_whole(stack: Stack) -> None:
    before = answer(stack, "status")["instances"].get("suspended", 0)
    made = answer(stack, "instance", "create", "cli-status", *RATES, "--allow-all")
    answer(stack, "instance", "suspend", made["id"])
    told = answer(stack, "status")
    assert (told["health"]["status"], told["instances"]["suspended"]) == ("ok", before + 1)
    shown = portico(stack, "status")
    assert shown.returncode == 0, shown.stderr
    assert f"{before + 1} suspended" in shown.stdout and "quota master" in shown.stdout
    answer(stack, "instance", "delete", made["id"])


def test_topics_whitelist_groups_and_quota(stack: Stack) -> None:
    limits = ("--partitions-max", "5", "--partitions-default", "2", "--message-bytes-max", "2000000")
    made = answer(stack, "instance", "create", "cli-things", *RATES, "--allow-all", *limits)
    assert (made["limits"]["partitions_default"], made["limits"]["message_bytes_max"]) == (2, 2_000_000)
    topic = answer(
        stack,
        "topic",
        "create",
        "cli-things",
        "orders",
        "--partitions",
        "3",
        "--config",
        "retention.ms=3600000",
    )
    assert len(topic["partitions"]) == 3
    assert {"orders"} == {item["name"] for item in answer(stack, "topic", "list", "cli-things")}
    too_many = portico(stack, "topic", "create", "cli-things", "more", "--partitions", "3")
    assert too_many.returncode == 1
    assert "5" in too_many.stderr
    altered = answer(stack, "topic", "alter", "cli-things", "orders", "--config", "retention.ms=7200000")
    assert {"name": "retention.ms", "value": "7200000"}.items() <= next(
        config for config in altered["configs"] if config["name"] == "retention.ms"
    ).items()
    bad = portico(
        stack, "topic", "alter", "cli-things", "orders", "--config", "unclean.leader.election.enable=true"
    )
    assert bad.returncode in (1, 2)
    assert "unclean.leader.election.enable" in bad.stderr
    sending = ("message", "send", "cli-things", "orders", "--partition", "1", "--key", "k")
    hostile = "[red]\x9b31m[/nothing]"
    assert answer(stack, *sending, "--value", '{"amount": 120}', "--header", "a=b")["offset"] == 0
    assert answer(stack, *sending, "--value", hostile)["offset"] == 1
    assert answer(stack, *sending, "--tombstone")["offset"] == 2
    found = answer(stack, "message", "list", "cli-things", "orders", "--where", "@.amount > 100")
    assert [one["offset"] for one in found["messages"]] == [0]
    shown = portico(stack, "message", "list", "cli-things", "orders")
    assert [line.split("  ")[0] for line in shown.stdout.splitlines()] == ["1:2", "1:1", "1:0"]
    assert [line.split("  ")[3] for line in shown.stdout.splitlines()] == [
        "-",
        "hex:" + hostile.encode().hex(),
        '{"amount": 120}',
    ]
    answer(stack, "topic", "delete-records", "cli-things", "orders")
    shown = answer(stack, "whitelist", "set", "cli-things", "10.0.0.0/8")
    assert shown == {"allow_all": False, "cidrs": ["10.0.0.0/8"]}
    assert answer(stack, "whitelist", "add", "cli-things", "127.0.0.1/32")["cidrs"] == [
        "10.0.0.0/8",
        "127.0.0.1/32",
    ]
    assert answer(stack, "whitelist", "remove", "cli-things", "10.0.0.0/8")["cidrs"] == ["127.0.0.1/32"]
    assert answer(stack, "group", "list", "cli-things") == []
    view = answer(stack, "quota", "show", "cli-things")
    assert view["produce"]["purchased_per_s"] == 20_000_000
    assert portico(stack, "topic", "delete", "cli-things", "orders").returncode == 0
    answer(stack, "instance", "delete", "cli-things")


def test_tables_for_people(stack: Stack) -> None:
    portico(stack, "instance", "create", "cli-table", *RATES, "--allow-all")
    for command in (
        ("instance", "list"),
        ("instance", "show", "cli-table"),
        ("topic", "list", "cli-table"),
        ("group", "list", "cli-table"),
        ("whitelist", "show", "cli-table"),
        ("quota", "show", "cli-table"),
        ("quota", "list"),
        ("tenant", "list"),
        ("key", "list"),
    ):
        result = portico(stack, *command)
        assert result.returncode == 0, (command, result.stderr)
        assert result.stdout.strip()
    portico(stack, "instance", "delete", "cli-table")


def test_wrong_values_are_usage_errors(stack: Stack) -> None:
    slow = portico(stack, "instance", "create", "slow", "--produce-rate", "1kB/s", *RATES[2:], "--allow-all")
    assert slow.returncode == 2
    assert "100" in slow.stderr
    assert "Traceback" not in slow.stderr
    address = portico(stack, "instance", "create", "odd", *RATES, "--whitelist", "300.0.0.1/32")
    assert address.returncode == 2
    assert "300.0.0.1/32" in address.stderr


def test_tenants_and_keys(stack: Stack) -> None:
    answer(stack, "tenant", "create", "acme")
    key = answer(stack, "key", "create", "deploy", "--tenant", "acme")
    environment = os.environ | {"PORTICO_URL": stack.console_url, "PORTICO_API_KEY": key["secret"]}
    listing = subprocess.run(
        [sys.executable, "-m", "runtime.start", "ctl.main", "instance", "list", "--json"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert json.loads(listing.stdout) == []
    assert portico(stack, "key", "delete", key["id"], "--tenant", "acme").returncode == 0
    pair = answer(stack, "key", "create", "scripts", "--ckafka", "--tenant", "acme", "--role", "viewer")
    assert (pair["secret_id"][:4], pair["role"], len(pair["secret_key"])) == ("AKID", "viewer", 32)
    [listed] = answer(stack, "key", "list", "--ckafka", "--tenant", "acme")
    assert listed["secret_id"] == pair["secret_id"]
    assert "secret_key" not in listed
    assert portico(stack, "key", "delete", pair["secret_id"], "--ckafka").returncode == 0
    assert answer(stack, "key", "list", "--ckafka", "--tenant", "acme") == []


def test_doctor_finds_a_healthy_stack_healthy(stack: Stack) -> None:
    result = portico(stack, "doctor", "--json")
    findings = json.loads(result.stdout)
    assert result.returncode == 0, findings
    assert {"python", "disk", "console", "brokers", "gateways", "control"} <= {f["subject"] for f in findings}


def test_a_second_stack_on_the_same_data_is_refused(stack: Stack) -> None:
    result = portico(stack, "up", "--data-dir", str(stack.data_dir), "--console", "127.0.0.1:9")
    assert result.returncode == 1
    assert "already running" in result.stderr


def test_the_ready_file_is_the_stack_file(stack: Stack) -> None:
    ready = json.loads((stack.data_dir / "ready.json").read_text())
    assert ready["console"] == stack.console_url
    assert ready["api_key"] == stack.api_key
    assert set(ready["pids"]) == {"control", "brokers", "gateways"}
    assert Path(stack.data_dir / "stack.json").stat().st_mode & 0o777 == 0o600

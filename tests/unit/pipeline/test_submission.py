"""Command lines of spark-submit."""

from pathlib import Path

from pipeline.spark_at import SparkAt
from pipeline.submission import DeployMode, Files, server_settings, submission

FILES = Files(Path("/p/submitted.py"), (Path("/j/kafka.jar"), Path("/j/delta.jar")))
SETTINGS = {"spark.local.dir": "/scratch", "spark.ui.enabled": "false", "spark.jars": "theirs"}


def settings_in(command: list[str]) -> dict[str, str]:
    pairs = [command[at + 1].partition("=") for at, word in enumerate(command) if word == "--conf"]
    return {name: value for name, _, value in pairs}


def test_a_job_beside_its_driver_brings_all_it_needs() -> None:
    at = SparkAt("spark://host:7077", {"spark.ui.enabled": "true"})
    command = submission(["load", "shop"], at, DeployMode.CLIENT, FILES, SETTINGS)
    assert command[:4] == ["--master", "spark://host:7077", "--deploy-mode", "client"]
    assert command[-3:] == ["/p/submitted.py", "load", "shop"]
    found = settings_in(command)
    assert found["spark.jars"] == "/j/kafka.jar,/j/delta.jar" and found["spark.local.dir"] == "/scratch"
    assert found["spark.ui.enabled"] == "true", "who gives a setting has it"


def test_a_driver_in_kubernetes_finds_all_in_its_image() -> None:
    command = submission(["load"], SparkAt("k8s://https://h"), DeployMode.CLUSTER, FILES, SETTINGS)
    assert command[-2:] == ["local:///p/submitted.py", "load"]
    found = settings_in(command)
    assert found["spark.jars"] == "local:///j/kafka.jar,local:///j/delta.jar"
    assert "spark.local.dir" not in found, "a folder of this machine"


def test_a_connect_server_is_for_this_machine_unless_a_token_is_asked_for() -> None:
    command = submission(["connect"], SparkAt(), DeployMode.CLIENT, FILES, SETTINGS)
    assert command[-1] == "spark-internal"
    assert server_settings({}) == {"spark.connect.grpc.binding.address": "127.0.0.1"}
    assert server_settings({"SPARK_CONNECT_AUTHENTICATE_TOKEN": "x"}) == {}

"""Where Spark runs, as the command line says it."""

import pytest

from ctl.errors import CommandError
from ctl.pipeline.spark_options import spark_at
from pipeline.memory import job_memory
from pipeline.spark_at import SparkAt

GIB = 1024**3


def test_settings_are_names_and_values() -> None:
    given = spark_at("spark://host:7077", ["spark.executor.memory=2g", "spark.x=a=b"])
    assert given == SparkAt("spark://host:7077", {"spark.executor.memory": "2g", "spark.x": "a=b"})
    assert not given.is_local
    assert spark_at(None, None).is_local


@pytest.mark.parametrize("wrong", ["spark.executor.memory", "executor.memory=2g", "=x", ""])
def test_anything_else_is_refused(wrong: str) -> None:
    with pytest.raises(CommandError, match="NAME=VALUE"):
        spark_at(None, [wrong])


@pytest.mark.parametrize(
    "name", ["spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "spark.ssl.keyPassword"]
)
def test_a_secret_is_no_argument(name: str) -> None:
    with pytest.raises(CommandError, match="SPARK_CONF_DIR") as refused:
        spark_at(None, [f"{name}=hush"])
    assert "hush" not in str(refused.value)


def test_a_server_is_asked_in_place_of_a_master() -> None:
    given = spark_at(None, None, "sc://host:15002/;use_ssl=true")
    assert given.is_connect and not given.is_local
    with pytest.raises(CommandError, match="--master or --remote"):
        spark_at("local[2]", None, "sc://host")
    with pytest.raises(CommandError, match="sc://HOST:PORT"):
        spark_at(None, None, "spark://host")
    with pytest.raises(CommandError, match="SPARK_CONNECT_AUTHENTICATE_TOKEN") as refused:
        spark_at(None, None, "sc://host/;token=hush")
    assert "hush" not in str(refused.value)


def test_memory_is_a_part_of_the_machine_or_of_its_container() -> None:
    assert job_memory([16 * GIB]) == 4 * GIB
    assert job_memory([64 * GIB, 8 * GIB]) == 2 * GIB
    assert job_memory([2 * GIB]) == GIB
    assert job_memory([512 * GIB]) == 8 * GIB

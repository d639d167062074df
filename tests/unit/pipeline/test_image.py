"""What containers of the pipeline's image run."""

import sys

from pipeline.image import container_command

TOLD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.9:7078",
    "SPARK_EXECUTOR_ID": "4",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.10",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "load-exec-4",
    "SPARK_CLASSPATH": ":/opt/more/*",
    **{f"SPARK_JAVA_OPT_{n}": f"-Dn={n}" for n in range(11)},
}


def test_an_executor_is_what_spark_says_in_its_environment() -> None:
    java, *words = container_command(["executor"], TOLD, "/opt/spark", "/opt/java/bin/java")
    assert java == "/opt/java/bin/java"
    assert words[:11] == [f"-Dn={n}" for n in range(11)], "options are in their order, 10 behind 9"
    assert words[11:15] == ["-Xms2g", "-Xmx2g", "-cp", ":/opt/more/*:/opt/spark/jars/*"]
    told = dict(zip(words[16::2], words[17::2], strict=True))
    assert told["--driver-url"] == TOLD["SPARK_DRIVER_URL"] and told["--podName"] == "load-exec-4"


def test_a_driver_binds_to_its_own_address() -> None:
    words = container_command(["driver", "--class", "X"], {"SPARK_DRIVER_BIND_ADDRESS": "10.0.0.9"}, "/s", "")
    assert words[0] == "/s/bin/spark-submit" and "spark.driver.bindAddress=10.0.0.9" in words
    assert words[-2:] == ["--class", "X"]


def test_all_else_is_ours() -> None:
    command = [sys.executable, "-m", "runtime.start", "ctl.main", "pipeline", "load"]
    assert container_command(["ctl.main", "pipeline", "load"], {}, "", "") == command

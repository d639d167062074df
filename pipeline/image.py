"""The image of the pipeline's jobs: what it holds besides packages, and what a container of it runs.

Spark starts its own containers in Kubernetes as `driver ...` and `executor`, like those of its own image, and
says in the environment what an executor is; all others are processes of ours.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from pipeline.jars import JARS, STORE_JARS, cache_dir, ensure_jars
from pipeline.java import find_java, package_dir, spark_java_home

_EXECUTOR: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_TOLD: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")


def prepare() -> None:
    """Fetch the jars and set up Java, both below XDG_CACHE_HOME. Raises: PipelineError."""
    ensure_jars(print, (*JARS, *STORE_JARS))
    spark_java_home(cache_dir())


def container_command(
    words: Sequence[str], environment: Mapping[str, str], spark: str, java: str
) -> list[str]:
    """What a container runs whose arguments are `words`. `spark` and `java` are where these are. Pure."""
    if words[:1] == ["driver"]:
        address = environment["SPARK_DRIVER_BIND_ADDRESS"]
        command = [f"{spark}/bin/spark-submit", "--conf", f"spark.driver.bindAddress={address}"]
        return [*command, "--deploy-mode", "client", *words[1:]]
    if words[:1] == ["executor"]:
        numbered = {
            int(found[1]): value
            for name, value in environment.items()
            if (found := _JAVA_OPTION.fullmatch(name))
        }
        options = [value for _, value in sorted(numbered.items())]
        memory = environment["SPARK_EXECUTOR_MEMORY"]
        classes = ":".join(filter(None, (environment.get("SPARK_CLASSPATH"), f"{spark}/jars/*")))
        told = [word for option, name in _TOLD.items() for word in (option, environment[name])]
        return [java, *options, f"-Xms{memory}", f"-Xmx{memory}", "-cp", classes, _EXECUTOR, *told]
    return [sys.executable, "-m", "runtime.start", *words]


def main() -> None:
    """Become that process."""
    home = package_dir("pyspark")
    assert home is not None, "the image has Spark"
    if java := spark_java_home(cache_dir()):
        os.environ["JAVA_HOME"] = java
    command = container_command(sys.argv[1:], os.environ, str(home), str(find_java()))
    os.execve(command[0], command, {**os.environ, "SPARK_HOME": str(home)})


if __name__ == "__main__":
    main()

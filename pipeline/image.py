"""What an image of the pipeline's jobs holds besides packages: made while it is built, then read-only."""

from pipeline.jars import JARS, S3_JARS, cache_dir, ensure_jars
from pipeline.java import spark_java_home


def prepare() -> None:
    """Fetch the jars and set up Java, both below XDG_CACHE_HOME. Raises: PipelineError."""
    ensure_jars(print, (*JARS, *S3_JARS))
    spark_java_home(cache_dir())

"""Alerts back to the instance, through Spark's Kafka sink: at least once, so each has a key of its own."""

from pyspark.sql import DataFrame

from pipeline.activity.intake import Source


def send_alerts(records: DataFrame, source: Source, topic: str) -> None:
    """Produce rows with `key` and `value`. Returns when every one is acknowledged by all replicas."""
    settings = {"bootstrap.servers": source.bootstrap_servers, "acks": "all", **source.settings}
    output = records.write.format("kafka").options(
        **{f"kafka.{name}": value for name, value in settings.items()}
    )
    output.option("topic", topic).mode("append").save()

"""Produce and consume with confluent-kafka, and know afterwards what was acknowledged: as the drills do."""

from confluent_kafka.admin import AdminClient, NewTopic

from ctl.drills.load import NumberedProducer as CountingProducer
from ctl.drills.load import read_all

__all__ = ["CountingProducer", "create_topic", "read_all"]


def create_topic(bootstrap: str, name: str, partitions: int = 1) -> None:
    """Create a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions)]).values():
        future.result(15)

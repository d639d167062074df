"""The topics of an instance that activity goes through."""

from collections.abc import Iterable
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline.errors import PipelineError
from pipeline.ingest.offsets import KafkaSource, SourceOffsets

PAGE_VIEWS: Final = "page_views"
POSTS: Final = "posts"
FOLLOWS: Final = "follows"
LOGINS: Final = "logins"
SERVICE_METRICS: Final = "service_metrics"
INPUT_TOPICS: Final = (PAGE_VIEWS, POSTS, FOLLOWS, LOGINS, SERVICE_METRICS)
ABUSE_ALERTS: Final = "abuse_alerts"
OPS_ALERTS: Final = "ops_alerts"
PARTITIONS: Final = 4
_TIMEOUT_S: Final = 20


def ensure_topics(source: KafkaSource, names: Iterable[str]) -> None:
    """Create those that are missing. Raises: PipelineError."""
    wanted = list(names)
    missing = [name for name in wanted if name not in SourceOffsets(source).topics(wanted)]
    if not missing:
        return
    admin = AdminClient({"bootstrap.servers": source.bootstrap, "log_level": 0} | dict(source.settings))
    for name, future in admin.create_topics([NewTopic(name, PARTITIONS) for name in missing]).items():
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise PipelineError(f"topic {name} could not be created: {error.args[0].str()}") from error

"""DescribeLogDirs (35), v1-2.

Behaviour: the one log directory with the size of each partition asked for (null: all).
Deliberately not done: total and usable bytes (v4, KIP-827); several log directories.
Versions: v2 flexible.
"""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from broker.entities import response_shape
from wire.api_table import ApiKey
from wire.codec import duration

if TYPE_CHECKING:
    from broker.app import Broker
    from broker.call import Call


def handle(broker: "Broker", call: "Call") -> None:
    """Answer the sizes."""
    shape = response_shape(ApiKey.DESCRIBE_LOG_DIRS, call.api_version)
    if call.request.topics is None:
        asked = {topic.name: range(len(topic.partitions)) for topic in broker.topics}
    else:
        asked = {each.topic: each.partitions for each in call.request.topics}
    topics = []
    for name, indexes in asked.items():
        topic = broker.topics.get(name)
        if topic is None:
            continue
        partitions = tuple(
            shape.nested(
                "DescribeLogDirsPartition",
                partition_index=index,
                partition_size=log.size_bytes,
                offset_lag=0,
                is_future_key=False,
            )
            for index in indexes
            if (log := topic.partition(index)) is not None
        )
        topics.append(shape.nested("DescribeLogDirsTopic", name=name, partitions=partitions))
    result = shape.nested(
        "DescribeLogDirsResult",
        error_code=ErrorCode.none,
        log_dir=str(broker.config.data_dir.resolve()),
        topics=tuple(topics),
    )
    call.reply(shape.make(throttle_time=duration(0), error_code=ErrorCode.none, results=(result,)))

"""DescribeLogDirs (35), v1-5.

Behaviour: each log directory with the size of each replica of this broker that is asked for (null: all);
one that has failed with KAFKA_STORAGE_ERROR and nothing else.
Deliberately not done: moving replicas between directories; none is cordoned (v5).
Versions: v2 flexible; v3 an error of the whole answer; v4 total and usable bytes (KIP-827).
"""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from kio.schema.errors import ErrorCode
from kio.static.protocol import Entity

from broker.metadata.metadata_cache import MetadataCache
from broker.replication.partition import Partition
from broker.replication.replicas import Replicas
from broker.requests.call import Call
from broker.storage.manager import LogManager
from wire.api_table import ApiKey
from wire.build import response_shape
from wire.codec import duration


class _Deps(Protocol):
    logs: LogManager
    metadata: MetadataCache
    replicas: Replicas


def handle(call: Call, deps: _Deps) -> None:
    shape = response_shape(ApiKey.DESCRIBE_LOG_DIRS, call.api_version)
    found: dict[Path, dict[str, list[Entity]]] = {path: {} for path in deps.logs.directories}
    for partition in _asked(deps, call):
        log = partition.log
        if log.directory.parent not in found:
            continue  # its directory has failed just now
        found[log.directory.parent].setdefault(partition.topic, []).append(
            shape.nested(
                "DescribeLogDirsPartition",
                partition_index=partition.index,
                partition_size=log.size_bytes,
                offset_lag=max(log.high_watermark - log.log_end_offset, 0),
                is_future_key=False,
            )
        )
    sizes = {path: shutil.disk_usage(path) for path in found}
    results = tuple(
        shape.nested(
            "DescribeLogDirsResult",
            error_code=ErrorCode.none,
            total_bytes=sizes[path].total,
            usable_bytes=sizes[path].free,
            is_cordoned=False,
            log_dir=str(path.resolve()),
            topics=tuple(
                shape.nested("DescribeLogDirsTopic", name=name, partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        )
        for path, topics in found.items()
    )
    failed = tuple(
        shape.nested(
            "DescribeLogDirsResult",
            error_code=ErrorCode.kafka_storage_error,
            log_dir=str(path.absolute()),
            topics=(),
            total_bytes=-1,
            usable_bytes=-1,
            is_cordoned=False,
        )
        for path in deps.logs.offline_directories
    )
    call.reply(shape.make(throttle_time=duration(0), error_code=ErrorCode.none, results=results + failed))


def _asked(deps: _Deps, call: Call) -> Iterable[Partition]:
    topics = call.request.topics
    named: Iterable[tuple[str, int]]
    if topics is not None:
        named = ((each.topic, index) for each in topics for index in dict.fromkeys(each.partitions))
    elif call.instance_id is not None:
        owned = deps.metadata.of_instance(call.instance_id)
        named = ((topic.name, index) for topic in owned for index in topic.partitions)
    else:
        return deps.replicas
    hosted = (deps.replicas.hosted(*key) for key in dict.fromkeys(named))
    return (partition for partition in hosted if partition is not None)

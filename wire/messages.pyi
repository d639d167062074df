"""Made by `python -m tests.tidy.message_types --rewrite`."""

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, GroupId, ProducerId, TopicName, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import Records, TZAware, i8, i16, i32, i32Timedelta, i64, i64Timedelta
from kio.static.protocol import Header

@dataclass(frozen=True, kw_only=True)
class _Entity:
    __type__: ClassVar[EntityType]
    __version__: ClassVar[i16]
    __flexible__: ClassVar[bool]

@dataclass(frozen=True, kw_only=True)
class _Payload(_Entity):
    __api_key__: ClassVar[i16]
    @property
    def __header_schema__(self) -> type[Header]: ...

@dataclass(frozen=True, kw_only=True)
class PartitionProduceData(_Entity):
    index: i32
    records: Records | None

@dataclass(frozen=True, kw_only=True)
class TopicProduceData(_Entity):
    name: TopicName
    """v0-12"""
    partition_data: tuple[PartitionProduceData, ...]
    topic_id: UUID | None
    """v13"""

@dataclass(frozen=True, kw_only=True)
class ProduceRequest(_Payload):
    acks: i16
    timeout: i32Timedelta
    topic_data: tuple[TopicProduceData, ...]
    transactional_id: TransactionalId | None
    """v3-13"""

@dataclass(frozen=True, kw_only=True)
class PartitionProduceResponse(_Entity):
    index: i32
    error_code: ErrorCode
    base_offset: i64
    log_append_time_ms: i64
    """v2"""
    log_append_time: TZAware | None
    """v3-13"""
    log_start_offset: i64
    """v5-13"""
    record_errors: tuple[BatchIndexAndErrorMessage, ...]
    """v8-13"""
    error_message: str | None
    """v8-13"""
    current_leader: ProduceResponseLeaderIdAndEpoch
    """v10-13"""

@dataclass(frozen=True, kw_only=True)
class TopicProduceResponse(_Entity):
    name: TopicName
    """v0-12"""
    partition_responses: tuple[PartitionProduceResponse, ...]
    topic_id: UUID | None
    """v13"""

@dataclass(frozen=True, kw_only=True)
class ProduceResponse(_Payload):
    responses: tuple[TopicProduceResponse, ...]
    throttle_time: i32Timedelta
    """v1-13"""
    node_endpoints: tuple[ProduceResponseNodeEndpoint, ...]
    """v10-13"""

@dataclass(frozen=True, kw_only=True)
class BatchIndexAndErrorMessage(_Entity):
    batch_index: i32
    """v8-13"""
    batch_index_error_message: str | None
    """v8-13"""

@dataclass(frozen=True, kw_only=True)
class ProduceResponseLeaderIdAndEpoch(_Entity):
    leader_id: BrokerId
    """v10-13"""
    leader_epoch: i32
    """v10-13"""

@dataclass(frozen=True, kw_only=True)
class ProduceResponseNodeEndpoint(_Entity):
    node_id: BrokerId
    """v10-13"""
    host: str
    """v10-13"""
    port: i32
    """v10-13"""
    rack: str | None
    """v10-13"""

@dataclass(frozen=True, kw_only=True)
class FetchPartition(_Entity):
    partition: i32
    fetch_offset: i64
    partition_max_bytes: i32
    log_start_offset: i64
    """v5-18"""
    current_leader_epoch: i32
    """v9-18"""
    last_fetched_epoch: i32
    """v12-18"""
    replica_directory_id: UUID | None
    """v17-18"""
    high_watermark: i64
    """v18"""

@dataclass(frozen=True, kw_only=True)
class FetchTopic(_Entity):
    topic: TopicName
    """v0-12"""
    partitions: tuple[FetchPartition, ...]
    topic_id: UUID | None
    """v13-18"""

@dataclass(frozen=True, kw_only=True)
class FetchRequest(_Payload):
    replica_id: BrokerId
    """v0-14"""
    max_wait: i32Timedelta
    min_bytes: i32
    topics: tuple[FetchTopic, ...]
    max_bytes: i32
    """v3-18"""
    isolation_level: i8
    """v4-18"""
    session_id: i32
    """v7-18"""
    session_epoch: i32
    """v7-18"""
    forgotten_topics_data: tuple[ForgottenTopic, ...]
    """v7-18"""
    rack_id: str
    """v11-18"""
    cluster_id: str | None
    """v12-18"""
    replica_state: ReplicaState
    """v15-18"""

@dataclass(frozen=True, kw_only=True)
class ForgottenTopic(_Entity):
    topic: TopicName
    """v7-12"""
    partitions: tuple[i32, ...]
    """v7-18"""
    topic_id: UUID | None
    """v13-18"""

@dataclass(frozen=True, kw_only=True)
class ReplicaState(_Entity):
    replica_id: BrokerId
    """v15-18"""
    replica_epoch: i64
    """v15-18"""

@dataclass(frozen=True, kw_only=True)
class PartitionData(_Entity):
    partition_index: i32
    error_code: ErrorCode
    high_watermark: i64
    records: Records | None
    last_stable_offset: i64
    """v4-18"""
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    """v4-18"""
    log_start_offset: i64
    """v5-18"""
    preferred_read_replica: BrokerId
    """v11-18"""
    diverging_epoch: FetchResponseEpochEndOffset
    """v12-18"""
    current_leader: FetchResponseLeaderIdAndEpoch
    """v12-18"""
    snapshot_id: SnapshotId
    """v12-18"""

@dataclass(frozen=True, kw_only=True)
class FetchableTopicResponse(_Entity):
    topic: TopicName
    """v0-12"""
    partitions: tuple[PartitionData, ...]
    topic_id: UUID | None
    """v13-18"""

@dataclass(frozen=True, kw_only=True)
class FetchResponse(_Payload):
    responses: tuple[FetchableTopicResponse, ...]
    throttle_time: i32Timedelta
    """v1-18"""
    error_code: ErrorCode
    """v7-18"""
    session_id: i32
    """v7-18"""
    node_endpoints: tuple[FetchResponseNodeEndpoint, ...]
    """v16-18"""

@dataclass(frozen=True, kw_only=True)
class AbortedTransaction(_Entity):
    producer_id: ProducerId
    """v4-18"""
    first_offset: i64
    """v4-18"""

@dataclass(frozen=True, kw_only=True)
class FetchResponseEpochEndOffset(_Entity):
    epoch: i32
    """v12-18"""
    end_offset: i64
    """v12-18"""

@dataclass(frozen=True, kw_only=True)
class FetchResponseLeaderIdAndEpoch(_Entity):
    leader_id: BrokerId
    """v12-18"""
    leader_epoch: i32
    """v12-18"""

@dataclass(frozen=True, kw_only=True)
class SnapshotId(_Entity):
    end_offset: i64
    """v12-18"""
    epoch: i32
    """v12-18"""

@dataclass(frozen=True, kw_only=True)
class FetchResponseNodeEndpoint(_Entity):
    node_id: BrokerId
    """v16-18"""
    host: str
    """v16-18"""
    port: i32
    """v16-18"""
    rack: str | None
    """v16-18"""

@dataclass(frozen=True, kw_only=True)
class ListOffsetsPartition(_Entity):
    partition_index: i32
    timestamp: i64
    max_num_offsets: i32
    """v0"""
    current_leader_epoch: i32
    """v4-11"""

@dataclass(frozen=True, kw_only=True)
class ListOffsetsTopic(_Entity):
    name: TopicName
    partitions: tuple[ListOffsetsPartition, ...]

@dataclass(frozen=True, kw_only=True)
class ListOffsetsRequest(_Payload):
    replica_id: BrokerId
    topics: tuple[ListOffsetsTopic, ...]
    isolation_level: i8
    """v2-11"""
    timeout: i32Timedelta
    """v10-11"""

@dataclass(frozen=True, kw_only=True)
class ListOffsetsPartitionResponse(_Entity):
    partition_index: i32
    error_code: ErrorCode
    old_style_offsets: tuple[i64, ...]
    """v0"""
    timestamp: i64
    """v1-11"""
    offset: i64
    """v1-11"""
    leader_epoch: i32
    """v4-11"""

@dataclass(frozen=True, kw_only=True)
class ListOffsetsTopicResponse(_Entity):
    name: TopicName
    partitions: tuple[ListOffsetsPartitionResponse, ...]

@dataclass(frozen=True, kw_only=True)
class ListOffsetsResponse(_Payload):
    topics: tuple[ListOffsetsTopicResponse, ...]
    throttle_time: i32Timedelta
    """v2-11"""

@dataclass(frozen=True, kw_only=True)
class MetadataRequestTopic(_Entity):
    name: TopicName | None
    topic_id: UUID | None
    """v10-13"""

@dataclass(frozen=True, kw_only=True)
class MetadataRequest(_Payload):
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool
    """v4-13"""
    include_cluster_authorized_operations: bool
    """v8-10"""
    include_topic_authorized_operations: bool
    """v8-13"""

@dataclass(frozen=True, kw_only=True)
class MetadataResponseBroker(_Entity):
    node_id: BrokerId
    host: str
    port: i32
    rack: str | None
    """v1-13"""

@dataclass(frozen=True, kw_only=True)
class MetadataResponsePartition(_Entity):
    error_code: ErrorCode
    partition_index: i32
    leader_id: BrokerId
    replica_nodes: tuple[BrokerId, ...]
    isr_nodes: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]
    """v5-13"""
    leader_epoch: i32
    """v7-13"""

@dataclass(frozen=True, kw_only=True)
class MetadataResponseTopic(_Entity):
    error_code: ErrorCode
    name: TopicName | None
    partitions: tuple[MetadataResponsePartition, ...]
    is_internal: bool
    """v1-13"""
    topic_authorized_operations: i32
    """v8-13"""
    topic_id: UUID | None
    """v10-13"""

@dataclass(frozen=True, kw_only=True)
class MetadataResponse(_Payload):
    brokers: tuple[MetadataResponseBroker, ...]
    topics: tuple[MetadataResponseTopic, ...]
    controller_id: BrokerId
    """v1-13"""
    cluster_id: str | None
    """v2-13"""
    throttle_time: i32Timedelta
    """v3-13"""
    cluster_authorized_operations: i32
    """v8-10"""
    error_code: ErrorCode
    """v13"""

@dataclass(frozen=True, kw_only=True)
class OffsetCommitRequestPartition(_Entity):
    partition_index: i32
    committed_offset: i64
    committed_metadata: str | None
    committed_leader_epoch: i32
    """v6-10"""

@dataclass(frozen=True, kw_only=True)
class OffsetCommitRequestTopic(_Entity):
    name: TopicName
    """v2-9"""
    partitions: tuple[OffsetCommitRequestPartition, ...]
    topic_id: UUID | None
    """v10"""

@dataclass(frozen=True, kw_only=True)
class OffsetCommitRequest(_Payload):
    group_id: GroupId
    generation_id_or_member_epoch: i32
    member_id: str
    retention_time: i64Timedelta
    """v2-4"""
    topics: tuple[OffsetCommitRequestTopic, ...]
    group_instance_id: str | None
    """v7-10"""

@dataclass(frozen=True, kw_only=True)
class OffsetCommitResponsePartition(_Entity):
    partition_index: i32
    error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class OffsetCommitResponseTopic(_Entity):
    name: TopicName
    """v2-9"""
    partitions: tuple[OffsetCommitResponsePartition, ...]
    topic_id: UUID | None
    """v10"""

@dataclass(frozen=True, kw_only=True)
class OffsetCommitResponse(_Payload):
    topics: tuple[OffsetCommitResponseTopic, ...]
    throttle_time: i32Timedelta
    """v3-10"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchRequestTopic(_Entity):
    name: TopicName
    """v1-7"""
    partition_indexes: tuple[i32, ...]
    """v1-7"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchRequest(_Payload):
    group_id: GroupId
    """v1-7"""
    topics: tuple[OffsetFetchRequestTopic, ...] | None
    """v1-7"""
    require_stable: bool
    """v7-10"""
    groups: tuple[OffsetFetchRequestGroup, ...]
    """v8-10"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchRequestTopics(_Entity):
    name: TopicName
    """v8-9"""
    partition_indexes: tuple[i32, ...]
    """v8-10"""
    topic_id: UUID | None
    """v10"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchRequestGroup(_Entity):
    group_id: GroupId
    """v8-10"""
    topics: tuple[OffsetFetchRequestTopics, ...] | None
    """v8-10"""
    member_id: str | None
    """v9-10"""
    member_epoch: i32
    """v9-10"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponsePartition(_Entity):
    partition_index: i32
    """v1-7"""
    committed_offset: i64
    """v1-7"""
    metadata: str | None
    """v1-7"""
    error_code: ErrorCode
    """v1-7"""
    committed_leader_epoch: i32
    """v5-7"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponseTopic(_Entity):
    name: TopicName
    """v1-7"""
    partitions: tuple[OffsetFetchResponsePartition, ...]
    """v1-7"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponse(_Payload):
    topics: tuple[OffsetFetchResponseTopic, ...]
    """v1-7"""
    error_code: ErrorCode
    """v2-7"""
    throttle_time: i32Timedelta
    """v3-10"""
    groups: tuple[OffsetFetchResponseGroup, ...]
    """v8-10"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponsePartitions(_Entity):
    partition_index: i32
    """v8-10"""
    committed_offset: i64
    """v8-10"""
    committed_leader_epoch: i32
    """v8-10"""
    metadata: str | None
    """v8-10"""
    error_code: ErrorCode
    """v8-10"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponseTopics(_Entity):
    name: TopicName
    """v8-9"""
    partitions: tuple[OffsetFetchResponsePartitions, ...]
    """v8-10"""
    topic_id: UUID | None
    """v10"""

@dataclass(frozen=True, kw_only=True)
class OffsetFetchResponseGroup(_Entity):
    group_id: GroupId
    """v8-10"""
    topics: tuple[OffsetFetchResponseTopics, ...]
    """v8-10"""
    error_code: ErrorCode
    """v8-10"""

@dataclass(frozen=True, kw_only=True)
class FindCoordinatorRequest(_Payload):
    key: str
    """v0-3"""
    key_type: i8
    """v1-6"""
    coordinator_keys: tuple[str, ...]
    """v4-6"""

@dataclass(frozen=True, kw_only=True)
class FindCoordinatorResponse(_Payload):
    error_code: ErrorCode
    """v0-3"""
    node_id: BrokerId
    """v0-3"""
    host: str
    """v0-3"""
    port: i32
    """v0-3"""
    throttle_time: i32Timedelta
    """v1-6"""
    error_message: str | None
    """v1-3"""
    coordinators: tuple[Coordinator, ...]
    """v4-6"""

@dataclass(frozen=True, kw_only=True)
class Coordinator(_Entity):
    key: str
    """v4-6"""
    node_id: BrokerId
    """v4-6"""
    host: str
    """v4-6"""
    port: i32
    """v4-6"""
    error_code: ErrorCode
    """v4-6"""
    error_message: str | None
    """v4-6"""

@dataclass(frozen=True, kw_only=True)
class JoinGroupRequestProtocol(_Entity):
    name: str
    metadata: bytes

@dataclass(frozen=True, kw_only=True)
class JoinGroupRequest(_Payload):
    group_id: GroupId
    session_timeout: i32Timedelta
    member_id: str
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    rebalance_timeout: i32Timedelta
    """v1-9"""
    group_instance_id: str | None
    """v5-9"""
    reason: str | None
    """v8-9"""

@dataclass(frozen=True, kw_only=True)
class JoinGroupResponseMember(_Entity):
    member_id: str
    metadata: bytes
    group_instance_id: str | None
    """v5-9"""

@dataclass(frozen=True, kw_only=True)
class JoinGroupResponse(_Payload):
    error_code: ErrorCode
    generation_id: i32
    protocol_name: str | None
    leader: str
    member_id: str
    members: tuple[JoinGroupResponseMember, ...]
    throttle_time: i32Timedelta
    """v2-9"""
    protocol_type: str | None
    """v7-9"""
    skip_assignment: bool
    """v9"""

@dataclass(frozen=True, kw_only=True)
class HeartbeatRequest(_Payload):
    group_id: GroupId
    generation_id: i32
    member_id: str
    group_instance_id: str | None
    """v3-4"""

@dataclass(frozen=True, kw_only=True)
class HeartbeatResponse(_Payload):
    error_code: ErrorCode
    throttle_time: i32Timedelta
    """v1-4"""

@dataclass(frozen=True, kw_only=True)
class LeaveGroupRequest(_Payload):
    group_id: GroupId
    member_id: str
    """v0-2"""
    members: tuple[MemberIdentity, ...]
    """v3-5"""

@dataclass(frozen=True, kw_only=True)
class MemberIdentity(_Entity):
    member_id: str
    """v3-5"""
    group_instance_id: str | None
    """v3-5"""
    reason: str | None
    """v5"""

@dataclass(frozen=True, kw_only=True)
class LeaveGroupResponse(_Payload):
    error_code: ErrorCode
    throttle_time: i32Timedelta
    """v1-5"""
    members: tuple[MemberResponse, ...]
    """v3-5"""

@dataclass(frozen=True, kw_only=True)
class MemberResponse(_Entity):
    member_id: str
    """v3-5"""
    group_instance_id: str | None
    """v3-5"""
    error_code: ErrorCode
    """v3-5"""

@dataclass(frozen=True, kw_only=True)
class SyncGroupRequestAssignment(_Entity):
    member_id: str
    assignment: bytes

@dataclass(frozen=True, kw_only=True)
class SyncGroupRequest(_Payload):
    group_id: GroupId
    generation_id: i32
    member_id: str
    assignments: tuple[SyncGroupRequestAssignment, ...]
    group_instance_id: str | None
    """v3-5"""
    protocol_type: str | None
    """v5"""
    protocol_name: str | None
    """v5"""

@dataclass(frozen=True, kw_only=True)
class SyncGroupResponse(_Payload):
    error_code: ErrorCode
    assignment: bytes
    throttle_time: i32Timedelta
    """v1-5"""
    protocol_type: str | None
    """v5"""
    protocol_name: str | None
    """v5"""

@dataclass(frozen=True, kw_only=True)
class DescribeGroupsRequest(_Payload):
    groups: tuple[GroupId, ...]
    include_authorized_operations: bool
    """v3-6"""

@dataclass(frozen=True, kw_only=True)
class DescribedGroupMember(_Entity):
    member_id: str
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes
    group_instance_id: str | None
    """v4-6"""

@dataclass(frozen=True, kw_only=True)
class DescribeGroupsResponseDescribedGroup(_Entity):
    error_code: ErrorCode
    group_id: GroupId
    group_state: str
    protocol_type: str
    protocol_data: str
    members: tuple[DescribedGroupMember, ...]
    authorized_operations: i32
    """v3-6"""
    error_message: str | None
    """v6"""

@dataclass(frozen=True, kw_only=True)
class DescribeGroupsResponse(_Payload):
    groups: tuple[DescribeGroupsResponseDescribedGroup, ...]
    throttle_time: i32Timedelta
    """v1-6"""

@dataclass(frozen=True, kw_only=True)
class ListGroupsRequest(_Payload):
    states_filter: tuple[str, ...]
    """v4-5"""
    types_filter: tuple[str, ...]
    """v5"""

@dataclass(frozen=True, kw_only=True)
class ListedGroup(_Entity):
    group_id: GroupId
    protocol_type: str
    group_state: str
    """v4-5"""
    group_type: str
    """v5"""

@dataclass(frozen=True, kw_only=True)
class ListGroupsResponse(_Payload):
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...]
    throttle_time: i32Timedelta
    """v1-5"""

@dataclass(frozen=True, kw_only=True)
class SaslHandshakeRequest(_Payload):
    mechanism: str

@dataclass(frozen=True, kw_only=True)
class SaslHandshakeResponse(_Payload):
    error_code: ErrorCode
    mechanisms: tuple[str, ...]

@dataclass(frozen=True, kw_only=True)
class ApiVersionsRequest(_Payload):
    client_software_name: str
    """v3-4"""
    client_software_version: str
    """v3-4"""

@dataclass(frozen=True, kw_only=True)
class ApiVersion(_Entity):
    api_key: i16
    min_version: i16
    max_version: i16

@dataclass(frozen=True, kw_only=True)
class ApiVersionsResponse(_Payload):
    error_code: ErrorCode
    api_keys: tuple[ApiVersion, ...]
    throttle_time: i32Timedelta
    """v1-4"""
    supported_features: tuple[SupportedFeatureKey, ...]
    """v3-4"""
    finalized_features_epoch: i64
    """v3-4"""
    finalized_features: tuple[FinalizedFeatureKey, ...]
    """v3-4"""
    zk_migration_ready: bool
    """v3-4"""

@dataclass(frozen=True, kw_only=True)
class SupportedFeatureKey(_Entity):
    name: str
    """v3-4"""
    min_version: i16
    """v3-4"""
    max_version: i16
    """v3-4"""

@dataclass(frozen=True, kw_only=True)
class FinalizedFeatureKey(_Entity):
    name: str
    """v3-4"""
    max_version_level: i16
    """v3-4"""
    min_version_level: i16
    """v3-4"""

@dataclass(frozen=True, kw_only=True)
class CreatableReplicaAssignment(_Entity):
    partition_index: i32
    broker_ids: tuple[BrokerId, ...]

@dataclass(frozen=True, kw_only=True)
class CreatableTopicConfig(_Entity):
    name: str
    value: str | None

@dataclass(frozen=True, kw_only=True)
class CreatableTopic(_Entity):
    name: TopicName
    num_partitions: i32
    replication_factor: i16
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]

@dataclass(frozen=True, kw_only=True)
class CreateTopicsRequest(_Payload):
    topics: tuple[CreatableTopic, ...]
    timeout: i32Timedelta
    validate_only: bool

@dataclass(frozen=True, kw_only=True)
class CreatableTopicResult(_Entity):
    name: TopicName
    error_code: ErrorCode
    error_message: str | None
    topic_config_error_code: i16
    """v5-7"""
    num_partitions: i32
    """v5-7"""
    replication_factor: i16
    """v5-7"""
    configs: tuple[CreatableTopicConfigs, ...] | None
    """v5-7"""
    topic_id: UUID | None
    """v7"""

@dataclass(frozen=True, kw_only=True)
class CreateTopicsResponse(_Payload):
    throttle_time: i32Timedelta
    topics: tuple[CreatableTopicResult, ...]

@dataclass(frozen=True, kw_only=True)
class CreatableTopicConfigs(_Entity):
    name: str
    """v5-7"""
    value: str | None
    """v5-7"""
    read_only: bool
    """v5-7"""
    config_source: i8
    """v5-7"""
    is_sensitive: bool
    """v5-7"""

@dataclass(frozen=True, kw_only=True)
class DeleteTopicsRequest(_Payload):
    topic_names: tuple[TopicName, ...]
    """v1-5"""
    timeout: i32Timedelta
    topics: tuple[DeleteTopicState, ...]
    """v6"""

@dataclass(frozen=True, kw_only=True)
class DeleteTopicState(_Entity):
    name: TopicName | None
    """v6"""
    topic_id: UUID | None
    """v6"""

@dataclass(frozen=True, kw_only=True)
class DeletableTopicResult(_Entity):
    name: TopicName | None
    error_code: ErrorCode
    error_message: str | None
    """v5-6"""
    topic_id: UUID | None
    """v6"""

@dataclass(frozen=True, kw_only=True)
class DeleteTopicsResponse(_Payload):
    throttle_time: i32Timedelta
    responses: tuple[DeletableTopicResult, ...]

@dataclass(frozen=True, kw_only=True)
class DeleteRecordsPartition(_Entity):
    partition_index: i32
    offset: i64

@dataclass(frozen=True, kw_only=True)
class DeleteRecordsTopic(_Entity):
    name: TopicName
    partitions: tuple[DeleteRecordsPartition, ...]

@dataclass(frozen=True, kw_only=True)
class DeleteRecordsRequest(_Payload):
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: i32Timedelta

@dataclass(frozen=True, kw_only=True)
class DeleteRecordsPartitionResult(_Entity):
    partition_index: i32
    low_watermark: i64
    error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class DeleteRecordsTopicResult(_Entity):
    name: TopicName
    partitions: tuple[DeleteRecordsPartitionResult, ...]

@dataclass(frozen=True, kw_only=True)
class DeleteRecordsResponse(_Payload):
    throttle_time: i32Timedelta
    topics: tuple[DeleteRecordsTopicResult, ...]

@dataclass(frozen=True, kw_only=True)
class InitProducerIdRequest(_Payload):
    transactional_id: TransactionalId | None
    transaction_timeout: i32Timedelta
    producer_id: ProducerId
    """v3-5"""
    producer_epoch: i16
    """v3-5"""

@dataclass(frozen=True, kw_only=True)
class InitProducerIdResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    producer_id: ProducerId
    producer_epoch: i16

@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderPartition(_Entity):
    partition: i32
    current_leader_epoch: i32
    leader_epoch: i32

@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderTopic(_Entity):
    topic: TopicName
    partitions: tuple[OffsetForLeaderPartition, ...]

@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderEpochRequest(_Payload):
    topics: tuple[OffsetForLeaderTopic, ...]
    replica_id: BrokerId
    """v3-4"""

@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderEpochResponseEpochEndOffset(_Entity):
    error_code: ErrorCode
    partition: i32
    leader_epoch: i32
    end_offset: i64

@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderTopicResult(_Entity):
    topic: TopicName
    partitions: tuple[OffsetForLeaderEpochResponseEpochEndOffset, ...]

@dataclass(frozen=True, kw_only=True)
class OffsetForLeaderEpochResponse(_Payload):
    throttle_time: i32Timedelta
    topics: tuple[OffsetForLeaderTopicResult, ...]

@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnTopic(_Entity):
    name: TopicName
    partitions: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnRequest(_Payload):
    v3_and_below_transactional_id: TransactionalId
    """v0-3"""
    v3_and_below_producer_id: ProducerId
    """v0-3"""
    v3_and_below_producer_epoch: i16
    """v0-3"""
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...]
    """v0-3"""
    transactions: tuple[AddPartitionsToTxnTransaction, ...]
    """v4-5"""

@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnTransaction(_Entity):
    transactional_id: TransactionalId
    """v4-5"""
    producer_id: ProducerId
    """v4-5"""
    producer_epoch: i16
    """v4-5"""
    verify_only: bool
    """v4-5"""
    topics: tuple[AddPartitionsToTxnTopic, ...]
    """v4-5"""

@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnPartitionResult(_Entity):
    partition_index: i32
    partition_error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnTopicResult(_Entity):
    name: TopicName
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]

@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnResponse(_Payload):
    throttle_time: i32Timedelta
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...]
    """v0-3"""
    error_code: ErrorCode
    """v4-5"""
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...]
    """v4-5"""

@dataclass(frozen=True, kw_only=True)
class AddPartitionsToTxnResult(_Entity):
    transactional_id: TransactionalId
    """v4-5"""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...]
    """v4-5"""

@dataclass(frozen=True, kw_only=True)
class AddOffsetsToTxnRequest(_Payload):
    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: i16
    group_id: GroupId

@dataclass(frozen=True, kw_only=True)
class AddOffsetsToTxnResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class EndTxnRequest(_Payload):
    transactional_id: TransactionalId
    producer_id: ProducerId
    producer_epoch: i16
    committed: bool

@dataclass(frozen=True, kw_only=True)
class EndTxnResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    producer_id: ProducerId
    """v5"""
    producer_epoch: i16
    """v5"""

@dataclass(frozen=True, kw_only=True)
class WritableTxnMarkerTopic(_Entity):
    name: TopicName
    partition_indexes: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class WritableTxnMarker(_Entity):
    producer_id: ProducerId
    producer_epoch: i16
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: i32
    transaction_version: i8
    """v2"""

@dataclass(frozen=True, kw_only=True)
class WriteTxnMarkersRequest(_Payload):
    markers: tuple[WritableTxnMarker, ...]

@dataclass(frozen=True, kw_only=True)
class WritableTxnMarkerPartitionResult(_Entity):
    partition_index: i32
    error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class WritableTxnMarkerTopicResult(_Entity):
    name: TopicName
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]

@dataclass(frozen=True, kw_only=True)
class WritableTxnMarkerResult(_Entity):
    producer_id: ProducerId
    topics: tuple[WritableTxnMarkerTopicResult, ...]

@dataclass(frozen=True, kw_only=True)
class WriteTxnMarkersResponse(_Payload):
    markers: tuple[WritableTxnMarkerResult, ...]

@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitRequestPartition(_Entity):
    partition_index: i32
    committed_offset: i64
    committed_metadata: str | None
    committed_leader_epoch: i32
    """v2-5"""

@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitRequestTopic(_Entity):
    name: TopicName
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]

@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitRequest(_Payload):
    transactional_id: TransactionalId
    group_id: GroupId
    producer_id: ProducerId
    producer_epoch: i16
    topics: tuple[TxnOffsetCommitRequestTopic, ...]
    generation_id: i32
    """v3-5"""
    member_id: str
    """v3-5"""
    group_instance_id: str | None
    """v3-5"""

@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitResponsePartition(_Entity):
    partition_index: i32
    error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitResponseTopic(_Entity):
    name: TopicName
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]

@dataclass(frozen=True, kw_only=True)
class TxnOffsetCommitResponse(_Payload):
    throttle_time: i32Timedelta
    topics: tuple[TxnOffsetCommitResponseTopic, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeAclsRequest(_Payload):
    resource_type_filter: i8
    resource_name_filter: str | None
    pattern_type_filter: i8
    principal_filter: str | None
    host_filter: str | None
    operation: i8
    permission_type: i8

@dataclass(frozen=True, kw_only=True)
class AclDescription(_Entity):
    principal: str
    host: str
    operation: i8
    permission_type: i8

@dataclass(frozen=True, kw_only=True)
class DescribeAclsResource(_Entity):
    resource_type: i8
    resource_name: str
    pattern_type: i8
    acls: tuple[AclDescription, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeAclsResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    error_message: str | None
    resources: tuple[DescribeAclsResource, ...]

@dataclass(frozen=True, kw_only=True)
class AclCreation(_Entity):
    resource_type: i8
    resource_name: str
    resource_pattern_type: i8
    principal: str
    host: str
    operation: i8
    permission_type: i8

@dataclass(frozen=True, kw_only=True)
class CreateAclsRequest(_Payload):
    creations: tuple[AclCreation, ...]

@dataclass(frozen=True, kw_only=True)
class AclCreationResult(_Entity):
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True, kw_only=True)
class CreateAclsResponse(_Payload):
    throttle_time: i32Timedelta
    results: tuple[AclCreationResult, ...]

@dataclass(frozen=True, kw_only=True)
class DeleteAclsFilter(_Entity):
    resource_type_filter: i8
    resource_name_filter: str | None
    pattern_type_filter: i8
    principal_filter: str | None
    host_filter: str | None
    operation: i8
    permission_type: i8

@dataclass(frozen=True, kw_only=True)
class DeleteAclsRequest(_Payload):
    filters: tuple[DeleteAclsFilter, ...]

@dataclass(frozen=True, kw_only=True)
class DeleteAclsMatchingAcl(_Entity):
    error_code: ErrorCode
    error_message: str | None
    resource_type: i8
    resource_name: str
    pattern_type: i8
    principal: str
    host: str
    operation: i8
    permission_type: i8

@dataclass(frozen=True, kw_only=True)
class DeleteAclsFilterResult(_Entity):
    error_code: ErrorCode
    error_message: str | None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]

@dataclass(frozen=True, kw_only=True)
class DeleteAclsResponse(_Payload):
    throttle_time: i32Timedelta
    filter_results: tuple[DeleteAclsFilterResult, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeConfigsResource(_Entity):
    resource_type: i8
    resource_name: str
    configuration_keys: tuple[str, ...] | None

@dataclass(frozen=True, kw_only=True)
class DescribeConfigsRequest(_Payload):
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool
    include_documentation: bool
    """v3-4"""

@dataclass(frozen=True, kw_only=True)
class DescribeConfigsSynonym(_Entity):
    name: str
    value: str | None
    source: i8

@dataclass(frozen=True, kw_only=True)
class DescribeConfigsResourceResult(_Entity):
    name: str
    value: str | None
    read_only: bool
    config_source: i8
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: i8
    """v3-4"""
    documentation: str | None
    """v3-4"""

@dataclass(frozen=True, kw_only=True)
class DescribeConfigsResult(_Entity):
    error_code: ErrorCode
    error_message: str | None
    resource_type: i8
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeConfigsResponse(_Payload):
    throttle_time: i32Timedelta
    results: tuple[DescribeConfigsResult, ...]

@dataclass(frozen=True, kw_only=True)
class AlterConfigsRequestAlterableConfig(_Entity):
    name: str
    value: str | None

@dataclass(frozen=True, kw_only=True)
class AlterConfigsRequestAlterConfigsResource(_Entity):
    resource_type: i8
    resource_name: str
    configs: tuple[AlterConfigsRequestAlterableConfig, ...]

@dataclass(frozen=True, kw_only=True)
class AlterConfigsRequest(_Payload):
    resources: tuple[AlterConfigsRequestAlterConfigsResource, ...]
    validate_only: bool

@dataclass(frozen=True, kw_only=True)
class AlterConfigsResponseAlterConfigsResourceResponse(_Entity):
    error_code: ErrorCode
    error_message: str | None
    resource_type: i8
    resource_name: str

@dataclass(frozen=True, kw_only=True)
class AlterConfigsResponse(_Payload):
    throttle_time: i32Timedelta
    responses: tuple[AlterConfigsResponseAlterConfigsResourceResponse, ...]

@dataclass(frozen=True, kw_only=True)
class DescribableLogDirTopic(_Entity):
    topic: TopicName
    partitions: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsRequest(_Payload):
    topics: tuple[DescribableLogDirTopic, ...] | None

@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsPartition(_Entity):
    partition_index: i32
    partition_size: i64
    offset_lag: i64
    is_future_key: bool

@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsTopic(_Entity):
    name: TopicName
    partitions: tuple[DescribeLogDirsPartition, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsResult(_Entity):
    error_code: ErrorCode
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: i64
    """v4-5"""
    usable_bytes: i64
    """v4-5"""
    is_cordoned: bool
    """v5"""

@dataclass(frozen=True, kw_only=True)
class DescribeLogDirsResponse(_Payload):
    throttle_time: i32Timedelta
    results: tuple[DescribeLogDirsResult, ...]
    error_code: ErrorCode
    """v3-5"""

@dataclass(frozen=True, kw_only=True)
class SaslAuthenticateRequest(_Payload):
    auth_bytes: bytes

@dataclass(frozen=True, kw_only=True)
class SaslAuthenticateResponse(_Payload):
    error_code: ErrorCode
    error_message: str | None
    auth_bytes: bytes
    session_lifetime: i64Timedelta
    """v1-2"""

@dataclass(frozen=True, kw_only=True)
class CreatePartitionsAssignment(_Entity):
    broker_ids: tuple[BrokerId, ...]

@dataclass(frozen=True, kw_only=True)
class CreatePartitionsTopic(_Entity):
    name: TopicName
    count: i32
    assignments: tuple[CreatePartitionsAssignment, ...] | None

@dataclass(frozen=True, kw_only=True)
class CreatePartitionsRequest(_Payload):
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: i32Timedelta
    validate_only: bool

@dataclass(frozen=True, kw_only=True)
class CreatePartitionsTopicResult(_Entity):
    name: TopicName
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True, kw_only=True)
class CreatePartitionsResponse(_Payload):
    throttle_time: i32Timedelta
    results: tuple[CreatePartitionsTopicResult, ...]

@dataclass(frozen=True, kw_only=True)
class DeleteGroupsRequest(_Payload):
    groups_names: tuple[GroupId, ...]

@dataclass(frozen=True, kw_only=True)
class DeletableGroupResult(_Entity):
    group_id: GroupId
    error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class DeleteGroupsResponse(_Payload):
    throttle_time: i32Timedelta
    results: tuple[DeletableGroupResult, ...]

@dataclass(frozen=True, kw_only=True)
class ElectLeadersRequestTopicPartitions(_Entity):
    topic: TopicName
    partitions: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class ElectLeadersRequest(_Payload):
    topic_partitions: tuple[ElectLeadersRequestTopicPartitions, ...] | None
    timeout: i32Timedelta
    election_type: i8
    """v1-2"""

@dataclass(frozen=True, kw_only=True)
class PartitionResult(_Entity):
    partition_id: i32
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True, kw_only=True)
class ReplicaElectionResult(_Entity):
    topic: TopicName
    partition_result: tuple[PartitionResult, ...]

@dataclass(frozen=True, kw_only=True)
class ElectLeadersResponse(_Payload):
    throttle_time: i32Timedelta
    replica_election_results: tuple[ReplicaElectionResult, ...]
    error_code: ErrorCode
    """v1-2"""

@dataclass(frozen=True, kw_only=True)
class IncrementalAlterConfigsRequestAlterableConfig(_Entity):
    name: str
    config_operation: i8
    value: str | None

@dataclass(frozen=True, kw_only=True)
class IncrementalAlterConfigsRequestAlterConfigsResource(_Entity):
    resource_type: i8
    resource_name: str
    configs: tuple[IncrementalAlterConfigsRequestAlterableConfig, ...]

@dataclass(frozen=True, kw_only=True)
class IncrementalAlterConfigsRequest(_Payload):
    resources: tuple[IncrementalAlterConfigsRequestAlterConfigsResource, ...]
    validate_only: bool

@dataclass(frozen=True, kw_only=True)
class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(_Entity):
    error_code: ErrorCode
    error_message: str | None
    resource_type: i8
    resource_name: str

@dataclass(frozen=True, kw_only=True)
class IncrementalAlterConfigsResponse(_Payload):
    throttle_time: i32Timedelta
    responses: tuple[IncrementalAlterConfigsResponseAlterConfigsResourceResponse, ...]

@dataclass(frozen=True, kw_only=True)
class ReassignablePartition(_Entity):
    partition_index: i32
    replicas: tuple[BrokerId, ...] | None

@dataclass(frozen=True, kw_only=True)
class ReassignableTopic(_Entity):
    name: TopicName
    partitions: tuple[ReassignablePartition, ...]

@dataclass(frozen=True, kw_only=True)
class AlterPartitionReassignmentsRequest(_Payload):
    timeout: i32Timedelta
    topics: tuple[ReassignableTopic, ...]
    allow_replication_factor_change: bool
    """v1"""

@dataclass(frozen=True, kw_only=True)
class ReassignablePartitionResponse(_Entity):
    partition_index: i32
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True, kw_only=True)
class ReassignableTopicResponse(_Entity):
    name: TopicName
    partitions: tuple[ReassignablePartitionResponse, ...]

@dataclass(frozen=True, kw_only=True)
class AlterPartitionReassignmentsResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    error_message: str | None
    responses: tuple[ReassignableTopicResponse, ...]
    allow_replication_factor_change: bool
    """v1"""

@dataclass(frozen=True, kw_only=True)
class ListPartitionReassignmentsTopics(_Entity):
    name: TopicName
    partition_indexes: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class ListPartitionReassignmentsRequest(_Payload):
    timeout: i32Timedelta
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None

@dataclass(frozen=True, kw_only=True)
class OngoingPartitionReassignment(_Entity):
    partition_index: i32
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...]
    removing_replicas: tuple[BrokerId, ...]

@dataclass(frozen=True, kw_only=True)
class OngoingTopicReassignment(_Entity):
    name: TopicName
    partitions: tuple[OngoingPartitionReassignment, ...]

@dataclass(frozen=True, kw_only=True)
class ListPartitionReassignmentsResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    error_message: str | None
    topics: tuple[OngoingTopicReassignment, ...]

@dataclass(frozen=True, kw_only=True)
class OffsetDeleteRequestPartition(_Entity):
    partition_index: i32

@dataclass(frozen=True, kw_only=True)
class OffsetDeleteRequestTopic(_Entity):
    name: TopicName
    partitions: tuple[OffsetDeleteRequestPartition, ...]

@dataclass(frozen=True, kw_only=True)
class OffsetDeleteRequest(_Payload):
    group_id: GroupId
    topics: tuple[OffsetDeleteRequestTopic, ...]

@dataclass(frozen=True, kw_only=True)
class OffsetDeleteResponsePartition(_Entity):
    partition_index: i32
    error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class OffsetDeleteResponseTopic(_Entity):
    name: TopicName
    partitions: tuple[OffsetDeleteResponsePartition, ...]

@dataclass(frozen=True, kw_only=True)
class OffsetDeleteResponse(_Payload):
    error_code: ErrorCode
    throttle_time: i32Timedelta
    topics: tuple[OffsetDeleteResponseTopic, ...]

@dataclass(frozen=True, kw_only=True)
class UserName(_Entity):
    name: str

@dataclass(frozen=True, kw_only=True)
class DescribeUserScramCredentialsRequest(_Payload):
    users: tuple[UserName, ...] | None

@dataclass(frozen=True, kw_only=True)
class CredentialInfo(_Entity):
    mechanism: i8
    iterations: i32

@dataclass(frozen=True, kw_only=True)
class DescribeUserScramCredentialsResult(_Entity):
    user: str
    error_code: ErrorCode
    error_message: str | None
    credential_infos: tuple[CredentialInfo, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeUserScramCredentialsResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    error_message: str | None
    results: tuple[DescribeUserScramCredentialsResult, ...]

@dataclass(frozen=True, kw_only=True)
class ScramCredentialDeletion(_Entity):
    name: str
    mechanism: i8

@dataclass(frozen=True, kw_only=True)
class ScramCredentialUpsertion(_Entity):
    name: str
    mechanism: i8
    iterations: i32
    salt: bytes
    salted_password: bytes

@dataclass(frozen=True, kw_only=True)
class AlterUserScramCredentialsRequest(_Payload):
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]

@dataclass(frozen=True, kw_only=True)
class AlterUserScramCredentialsResult(_Entity):
    user: str
    error_code: ErrorCode
    error_message: str | None

@dataclass(frozen=True, kw_only=True)
class AlterUserScramCredentialsResponse(_Payload):
    throttle_time: i32Timedelta
    results: tuple[AlterUserScramCredentialsResult, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeClusterRequest(_Payload):
    include_cluster_authorized_operations: bool
    endpoint_type: i8
    """v1-2"""
    include_fenced_brokers: bool
    """v2"""

@dataclass(frozen=True, kw_only=True)
class DescribeClusterBroker(_Entity):
    broker_id: BrokerId
    host: str
    port: i32
    rack: str | None
    is_fenced: bool
    """v2"""

@dataclass(frozen=True, kw_only=True)
class DescribeClusterResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    error_message: str | None
    cluster_id: str
    controller_id: BrokerId
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: i32
    endpoint_type: i8
    """v1-2"""

@dataclass(frozen=True, kw_only=True)
class DescribeProducersRequestTopicRequest(_Entity):
    name: TopicName
    partition_indexes: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeProducersRequest(_Payload):
    topics: tuple[DescribeProducersRequestTopicRequest, ...]

@dataclass(frozen=True, kw_only=True)
class ProducerState(_Entity):
    producer_id: ProducerId
    producer_epoch: i32
    last_sequence: i32
    last_timestamp: i64
    coordinator_epoch: i32
    current_txn_start_offset: i64

@dataclass(frozen=True, kw_only=True)
class PartitionResponse(_Entity):
    partition_index: i32
    error_code: ErrorCode
    error_message: str | None
    active_producers: tuple[ProducerState, ...]

@dataclass(frozen=True, kw_only=True)
class TopicResponse(_Entity):
    name: TopicName
    partitions: tuple[PartitionResponse, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeProducersResponse(_Payload):
    throttle_time: i32Timedelta
    topics: tuple[TopicResponse, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeTransactionsRequest(_Payload):
    transactional_ids: tuple[TransactionalId, ...]

@dataclass(frozen=True, kw_only=True)
class TopicData(_Entity):
    topic: TopicName
    partitions: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeTransactionsResponseTransactionState(_Entity):
    error_code: ErrorCode
    transactional_id: TransactionalId
    transaction_state: str
    transaction_timeout: i32Timedelta
    transaction_start_time: i64
    producer_id: ProducerId
    producer_epoch: i16
    topics: tuple[TopicData, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeTransactionsResponse(_Payload):
    throttle_time: i32Timedelta
    transaction_states: tuple[DescribeTransactionsResponseTransactionState, ...]

@dataclass(frozen=True, kw_only=True)
class ListTransactionsRequest(_Payload):
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[ProducerId, ...]
    duration_filter: i64
    """v1-2"""
    transactional_id_pattern: str | None
    """v2"""

@dataclass(frozen=True, kw_only=True)
class ListTransactionsResponseTransactionState(_Entity):
    transactional_id: TransactionalId
    producer_id: ProducerId
    transaction_state: str

@dataclass(frozen=True, kw_only=True)
class ListTransactionsResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    unknown_state_filters: tuple[str, ...]
    transaction_states: tuple[ListTransactionsResponseTransactionState, ...]

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupHeartbeatRequestTopicPartitions(_Entity):
    topic_id: UUID | None
    partitions: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupHeartbeatRequest(_Payload):
    group_id: GroupId
    member_id: str
    member_epoch: i32
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: i32Timedelta
    subscribed_topic_names: tuple[TopicName, ...] | None
    server_assignor: str | None
    topic_partitions: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None
    subscribed_topic_regex: str | None
    """v1"""

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupHeartbeatResponseTopicPartitions(_Entity):
    topic_id: UUID | None
    partitions: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupHeartbeatResponseAssignment(_Entity):
    topic_partitions: tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...]

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupHeartbeatResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    error_message: str | None
    member_id: str | None
    member_epoch: i32
    heartbeat_interval: i32Timedelta
    assignment: ConsumerGroupHeartbeatResponseAssignment | None

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupDescribeRequest(_Payload):
    group_ids: tuple[GroupId, ...]
    include_authorized_operations: bool

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupDescribeResponseTopicPartitions(_Entity):
    topic_id: UUID | None
    topic_name: TopicName
    partitions: tuple[i32, ...]

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupDescribeResponseAssignment(_Entity):
    topic_partitions: tuple[ConsumerGroupDescribeResponseTopicPartitions, ...]

@dataclass(frozen=True, kw_only=True)
class Member(_Entity):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: i32
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[TopicName, ...]
    subscribed_topic_regex: str | None
    assignment: ConsumerGroupDescribeResponseAssignment
    target_assignment: ConsumerGroupDescribeResponseAssignment
    member_type: i8
    """v1"""

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupDescribeResponseDescribedGroup(_Entity):
    error_code: ErrorCode
    error_message: str | None
    group_id: GroupId
    group_state: str
    group_epoch: i32
    assignment_epoch: i32
    assignor_name: str
    members: tuple[Member, ...]
    authorized_operations: i32

@dataclass(frozen=True, kw_only=True)
class ConsumerGroupDescribeResponse(_Payload):
    throttle_time: i32Timedelta
    groups: tuple[ConsumerGroupDescribeResponseDescribedGroup, ...]

@dataclass(frozen=True, kw_only=True)
class GetTelemetrySubscriptionsRequest(_Payload):
    client_instance_id: UUID | None

@dataclass(frozen=True, kw_only=True)
class GetTelemetrySubscriptionsResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    client_instance_id: UUID | None
    subscription_id: i32
    accepted_compression_types: tuple[i8, ...]
    push_interval: i32Timedelta
    telemetry_max_bytes: i32
    delta_temporality: bool
    requested_metrics: tuple[str, ...]

@dataclass(frozen=True, kw_only=True)
class PushTelemetryRequest(_Payload):
    client_instance_id: UUID | None
    subscription_id: i32
    terminating: bool
    compression_type: i8
    metrics: bytes

@dataclass(frozen=True, kw_only=True)
class PushTelemetryResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode

@dataclass(frozen=True, kw_only=True)
class ListConfigResourcesRequest(_Payload):
    resource_types: tuple[i8, ...]
    """v1"""

@dataclass(frozen=True, kw_only=True)
class ConfigResource(_Entity):
    resource_name: str
    resource_type: i8
    """v1"""

@dataclass(frozen=True, kw_only=True)
class ListConfigResourcesResponse(_Payload):
    throttle_time: i32Timedelta
    error_code: ErrorCode
    config_resources: tuple[ConfigResource, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsRequestTopicRequest(_Entity):
    name: TopicName

@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsRequestCursor(_Entity):
    topic_name: TopicName
    partition_index: i32

@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsRequest(_Payload):
    topics: tuple[DescribeTopicPartitionsRequestTopicRequest, ...]
    response_partition_limit: i32
    cursor: DescribeTopicPartitionsRequestCursor | None

@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition(_Entity):
    error_code: ErrorCode
    partition_index: i32
    leader_id: BrokerId
    leader_epoch: i32
    replica_nodes: tuple[BrokerId, ...]
    isr_nodes: tuple[BrokerId, ...]
    eligible_leader_replicas: tuple[BrokerId, ...] | None
    last_known_elr: tuple[BrokerId, ...] | None
    offline_replicas: tuple[BrokerId, ...]

@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic(_Entity):
    error_code: ErrorCode
    name: TopicName | None
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
    topic_authorized_operations: i32

@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsResponseCursor(_Entity):
    topic_name: TopicName
    partition_index: i32

@dataclass(frozen=True, kw_only=True)
class DescribeTopicPartitionsResponse(_Payload):
    throttle_time: i32Timedelta
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: DescribeTopicPartitionsResponseCursor | None

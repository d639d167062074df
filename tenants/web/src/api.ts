// The console API's types, as tenants/api/models.py and contracts/quota_view.py publish them.
// Sizes are bytes, rates bytes/s, `..._at` and `at` RFC 3339 in UTC, `..._ms` epoch ms or durations.

export type Role = 'owner' | 'viewer' | 'operator';
export type InstanceState = 'creating' | 'running' | 'suspended' | 'deleting' | 'failed';
export type FullBehaviour = 'reject' | 'stall';

export interface FieldFault {
  field: string;
  message: string;
}
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  errors?: FieldFault[] | null;
}

export interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

export interface Session {
  user: string;
  role: Role;
  tenant: string;
  csrf_token: string;
}
export interface Me {
  kind: string;
  name: string;
  role: Role;
  tenant: string;
  address: string | null;
}
export interface Tenant {
  name: string;
  instances: number;
  created_at: string;
}
export interface Key {
  id: string;
  name: string;
  role: Role;
  tenant: string;
  created_at: string;
  last_used_at: string | null;
}
export interface KeyCreated extends Key {
  secret: string;
}

export interface Limits {
  partitions_max: number;
  connections_max: number;
  connections_per_ip_max: number;
  connection_rate_max: number;
  message_bytes_max: number;
  request_bytes_max: number;
  retention_ms_max: number;
}
export interface InstanceCreate {
  name: string;
  produce_rate_bytes_per_s: number;
  consume_rate_bytes_per_s: number;
  capacity_bytes: number;
  whitelist?: string[];
  allow_all?: boolean;
  limits?: Partial<Limits>;
  full_behaviour?: FullBehaviour;
  auto_create_topics?: boolean;
  legacy_clients?: boolean;
}
export interface InstanceChange {
  name?: string;
  produce_rate_bytes_per_s?: number;
  consume_rate_bytes_per_s?: number;
  capacity_bytes?: number;
  limits?: Partial<Limits>;
  full_behaviour?: FullBehaviour;
  auto_create_topics?: boolean;
  legacy_clients?: boolean;
}
export interface Instance {
  id: string;
  name: string;
  tenant: string;
  state: InstanceState;
  state_reason: string | null;
  bootstrap_servers: string;
  produce_rate_bytes_per_s: number;
  consume_rate_bytes_per_s: number;
  capacity_bytes: number;
  stored_bytes: number | null;
  blocked: boolean | null;
  limits: Limits;
  partitions: number | null;
  connections: number;
  full_behaviour: FullBehaviour;
  auto_create_topics: boolean;
  legacy_clients: boolean;
  allow_all: boolean;
  whitelist: string[];
  created_at: string;
  updated_at: string;
  revision: number;
  applied: boolean;
}

export interface Whitelist {
  allow_all: boolean;
  cidrs: string[];
}
export interface TopicWhitelist {
  topic: string;
  inherits: boolean;
  cidrs: string[];
}
export interface Refusal {
  address: string;
  at: string;
  gateway: string;
}
export interface Refusals {
  items: Refusal[];
  closed: Record<string, number>;
}

export interface TopicSummary {
  name: string;
  partitions: number;
  replication_factor: number;
  stored_bytes: number | null;
  has_whitelist: boolean;
}
export interface Partition {
  partition: number;
  leader: number | null;
  replicas: number[];
  isr: number[];
  log_start_offset: number | null;
  high_watermark: number | null;
  size_bytes: number | null;
}
export interface TopicConfig {
  name: string;
  value: string | null;
  is_default: boolean;
  editable: boolean;
  about: string | null;
}
export interface Topic {
  name: string;
  partitions: Partition[];
  configs: TopicConfig[];
  stored_bytes: number | null;
  whitelist: string[] | null;
}
export interface DeleteRecordsResult {
  partitions: { partition: number; log_start_offset: number | null; error: string | null }[];
}

export interface GroupSummary {
  group: string;
  state: string;
  protocol_type: string;
}
export interface Member {
  member_id: string;
  group_instance_id: string | null;
  client_id: string;
  client_host: string;
  assignment: { topic: string; partitions: number[] }[];
}
export interface CommittedOffset {
  topic: string;
  partition: number;
  committed_offset: number;
  log_end_offset: number | null;
  lag: number | null;
  metadata: string | null;
}
export interface Group extends GroupSummary {
  protocol: string;
  members: Member[];
  offsets: CommittedOffset[];
  lag: number;
}

export type ResetTo = 'earliest' | 'latest' | 'datetime' | 'offset' | 'shift' | 'offsets';
export interface ResetOffsetsRequest {
  to: ResetTo;
  at?: string;
  offset?: number;
  shift?: number;
  topics?: { topic: string; partitions?: number[] }[];
  execute?: boolean;
}
export interface ResetOffset {
  topic: string;
  partition: number;
  committed_offset: number | null;
  new_offset: number | null;
  note: string | null;
}
export interface ResetOffsetsResult {
  group: string;
  executed: boolean;
  partitions: ResetOffset[];
}

export interface Broker {
  cluster_id: string;
  node_id: number;
  host: string;
  port: number;
  live: boolean;
  seen_at: string | null;
  /** Registered with its cluster; null like the rest while the cluster does not answer. */
  alive: boolean | null;
  rack: string | null;
  is_controller: boolean | null;
  leaders: number | null;
  replicas: number | null;
  in_sync: number | null;
  under_replicated: number | null;
  log_bytes: number | null;
}
export interface Cluster {
  cluster_id: string;
  controller_id: number | null;
  brokers: number | null;
  partitions: number | null;
  under_replicated: number | null;
  offline: number | null;
}
export interface Brokers {
  items: Broker[];
  clusters: Cluster[];
}
export interface ClusterPartition {
  cluster_id: string;
  topic: string;
  partition: number;
  instance_id: string | null;
  tenant: string | null;
  instance: string | null;
  leader: number | null;
  replicas: number[];
  isr: number[];
  offline_replicas: number[];
  under_replicated: boolean;
}
export interface Gateway {
  consumer: string;
  applied_revision: number;
  live: boolean;
  connections: number;
}
export interface Health {
  status: string;
  revision?: number | null;
  brokers_live?: number | null;
  gateways?: Gateway[] | null;
  quota_master?: boolean | null;
}

export interface AuditEntry {
  id: number;
  at: string;
  actor: string;
  tenant: string | null;
  action: string;
  subject: string;
  detail: string;
  address: string | null;
}

export type Direction = 'produce' | 'consume';
export type Rule = 'no_brokers' | 'hold' | 'below_gate' | 'ratio_met' | 'headroom' | 'level' | 'room' | 'static';

export interface BrokerDirection {
  rate_bytes_per_s: number;
  share_bytes_per_s: number;
  proportion_bytes_per_s: number;
  allocated_bytes_per_s: number;
  applied_bytes_per_s: number;
  throttled_ms_per_s: number;
  below_gate: boolean;
  bytes_total: number;
  refused_total: number;
}
export interface BrokerQuota {
  point: string;
  node_id: number;
  partitions_led: number;
  stored_bytes: number;
  silent: boolean;
  on_lease: boolean;
  blocked: boolean;
  lease_epoch: number;
  report_age_ms: number;
  produce: BrokerDirection;
  consume: BrokerDirection;
}
export interface DirectionQuota {
  purchased_bytes_per_s: number;
  rate_bytes_per_s: number;
  allocated_bytes_per_s: number;
  rule: Rule;
  explanation: string;
  reserved_bytes_per_s: number;
  p_min_bytes_per_s: number;
  p_max_bytes_per_s: number;
  p_ratio: number | null;
  throttled_ms_per_s: number;
}
export type Series = (number | null)[];
export interface HistoryDirection {
  rate_bytes_per_s: Series;
  share_bytes_per_s: Series;
  proportion_bytes_per_s: Series;
  allocated_bytes_per_s: Series;
  throttled_ms_per_s: Series;
}
export interface HistoryBroker {
  node_id: number;
  produce: HistoryDirection;
  consume: HistoryDirection;
}
export interface History {
  at_ms: number[];
  stored_bytes: number[];
  blocked: boolean[];
  brokers: HistoryBroker[];
}
export interface QuotaView {
  instance_id: string;
  tenant: string;
  name: string;
  at_ms: number;
  policy: string;
  period_ms: number;
  capacity_bytes: number;
  stored_bytes: number;
  stored_left_bytes: number;
  unblock_below_bytes: number;
  blocked: boolean;
  produce: DirectionQuota;
  consume: DirectionQuota;
  brokers: BrokerQuota[];
  history: History;
}
export interface QuotaOverview {
  at_ms: number;
  policy: string;
  instances: QuotaView[];
}

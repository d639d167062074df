// The console API's types, as tenants/api/models.py and contracts/quota_view.py publish them.
// Sizes are bytes, rates bytes/s, `..._at` and `at` RFC 3339 in UTC, `..._ms` epoch ms or durations.

export type Role = 'owner' | 'viewer' | 'operator';
export type InstanceState = 'creating' | 'running' | 'suspended' | 'failed' | 'deleted' | 'purging' | 'purged';
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
export interface Amounts {
  instances: number;
  produce_rate_bytes_per_s: number;
  consume_rate_bytes_per_s: number;
  capacity_bytes: number;
  partitions: number;
  connections: number;
  faults: number;
}
export type FaultKind =
  'latency' | 'throttling' | 'leader_loss' | 'connection_reset' | 'message_too_large' | 'corrupt_checksum';
export interface FaultStart {
  kind: FaultKind;
  duration_s: number;
  share_percent?: number;
  delay_ms?: number;
  throttle_time_ms?: number;
  apis?: string[];
  above_bytes?: number;
  once?: boolean;
}
export interface Fault {
  id: string;
  kind: FaultKind;
  summary: string;
  active: boolean;
  started_at: string;
  ends_at: string;
  ended_at: string | null;
  started_by: string;
  ended_by: string | null;
}
export interface Ceilings {
  name: string;
  ceilings: Amounts;
  sold: Amounts;
  left: Amounts;
  own: string[];
}
export interface DeletedInstance {
  id: string;
  name: string;
  tenant: string;
  state: InstanceState;
  deleted_at: string;
  purge_after: string;
  stored_bytes: number | null;
  waits_for: string | null;
}
export interface AbsentInstance {
  id: string;
  tenant: string | null;
  name: string | null;
  cluster_id: string | null;
  absent_since: string | null;
  stored_bytes: number;
  partitions: number;
  holders: string[];
  purged: boolean;
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
  /** 0: what goes with the byte rates. */
  request_percent?: number;
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
  request_percent?: number;
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
  request_percent: number;
  request_percent_derived: boolean;
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

export interface DamagedLog {
  topic: string;
  partition: number;
  instance_id: string | null;
  first_offset: number;
  next_offset: number;
  kind: string;
  replicas: number;
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
  damaged_logs: DamagedLog[];
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
  rate_per_s: number;
  share_per_s: number;
  proportion_per_s: number;
  allocated_per_s: number;
  applied_per_s: number;
  throttled_ms_per_s: number;
  below_gate: boolean;
  used_total: number;
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
  /** Refused requests by error or close cause. */
  refusals: Record<string, number>;
}
/** Request time of one broker or gateway worker; rates are us of CPU per second. */
export interface CpuPoint {
  point: string;
  /** -1: a gateway worker. */
  node_id: number;
  silent: boolean;
  on_lease: boolean;
  lease_epoch: number;
  report_age_ms: number;
  flow: BrokerDirection;
}
export interface CpuQuota {
  request_percent: number;
  total: DirectionQuota;
  points: CpuPoint[];
  /** Others at which the tenant may turn up, and the sum of the static shares that they apply. */
  idle_points: number;
  idle_share_per_s: number;
}
export interface DirectionQuota {
  purchased_per_s: number;
  rate_per_s: number;
  allocated_per_s: number;
  rule: Rule;
  explanation: string;
  reserved_per_s: number;
  p_min_per_s: number;
  p_max_per_s: number;
  p_ratio: number | null;
  throttled_ms_per_s: number;
}
export type Series = (number | null)[];
export interface HistoryDirection {
  rate_per_s: Series;
  share_per_s: Series;
  proportion_per_s: Series;
  allocated_per_s: Series;
  throttled_ms_per_s: Series;
}
export interface HistoryBroker {
  node_id: number;
  produce: HistoryDirection;
  consume: HistoryDirection;
}
export interface HistoryCpu {
  point: string;
  flow: HistoryDirection;
}
export interface History {
  at_ms: number[];
  stored_bytes: number[];
  blocked: boolean[];
  brokers: HistoryBroker[];
  cpu: HistoryCpu[];
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
  cpu: CpuQuota;
  brokers: BrokerQuota[];
  history: History;
}
export interface QuotaOverview {
  at_ms: number;
  policy: string;
  instances: QuotaView[];
}

// --- the pipeline: runs of jobs, usage, bills, advice ---------------------------------------------

export type RunState = 'running' | 'lost' | 'succeeded' | 'failed' | 'stopped';
export interface Run {
  id: string;
  job: string;
  subject: string;
  state: RunState;
  started_at: string;
  updated_at: string;
  heard_at: string;
  /** 0: not known, or a job without an end. */
  planned: number;
  done: number;
  unit: string;
  rate_per_s: number;
  figures: Record<string, number>;
  error: string;
}

export interface UsagePeriod {
  at: string;
  produce_bytes: number;
  consume_bytes: number;
  produce_requests: number;
  consume_requests: number;
  refused: number;
  produce_throttled_ms: number;
  consume_throttled_ms: number;
  blocked_ms: number;
  /** Null until the period is over. */
  stored_bytes_avg: number | null;
  gb_hours: number;
  produce_peak_bytes_per_s: number;
  consume_peak_bytes_per_s: number;
  recovered_bytes: number;
  completeness: number | null;
  estimated: boolean;
  state: 'open' | 'complete' | null;
}
export interface UsageTotals {
  produce_bytes: number;
  consume_bytes: number;
  produce_requests: number;
  consume_requests: number;
  refused: number;
  produce_throttled_ms: number;
  consume_throttled_ms: number;
  blocked_ms: number;
  /** Exact decimal. */
  gb_hours: string;
  estimated: boolean;
}
export interface Usage {
  available: boolean;
  hint: string | null;
  from: string;
  to: string;
  items: UsagePeriod[];
  totals: UsageTotals | null;
  p95: { produce_bytes_per_s: number; consume_bytes_per_s: number } | null;
}

export type BillState = 'open' | 'closing' | 'closed';
export interface Bill {
  instance_id: string;
  tenant: string;
  name: string;
  month: string;
  state: BillState;
  currency: string;
  minor_unit_digits: number;
  lines_minor: number;
  adjustments_minor: number;
  total_minor: number;
  estimated: boolean;
  completeness: number | null;
  produce_p95_bytes_per_s: number;
  consume_p95_bytes_per_s: number;
  gaps: string;
  hold_reason: string;
  price_version: number;
  usage_version: number;
  updated_at: string;
  closed_at: string | null;
}
export interface Bills {
  available: boolean;
  hint: string | null;
  items: Bill[];
}
export type Dimension = 'produce' | 'consume' | 'requests' | 'storage' | 'bandwidth_p95' | 'provisioned';
export interface BillLine {
  dimension: Dimension;
  quantity: string;
  unit: string;
  amount_minor: number;
  detail: string;
}
export interface Adjustment {
  month: string;
  bill_month: string;
  dimension: Dimension;
  quantity_delta: string;
  unit: string;
  amount_delta_minor: number;
  reason: string;
  created_at: string;
}
export interface BillDetail extends Bill {
  lines: BillLine[];
  adjustments: Adjustment[];
  corrections: Adjustment[];
}
export interface BillOverview {
  available: boolean;
  hint: string | null;
  month: string;
  months: string[];
  totals: { currency: string; minor_unit_digits: number; total_minor: number; bills: number; estimated: boolean }[];
  items: (Bill & { deleted: boolean })[];
}

export type Urgency = 'now' | 'soon' | 'saving' | 'none';
export type SizeAction = 'keep' | 'grow' | 'shrink';
export interface Advice {
  run_date: string;
  instance_id: string;
  computed_at_ms: number;
  history_hours: number;
  is_enough_history: boolean;
  urgency: Urgency;
  reason: string;
  produce_rate_bytes_per_s: number;
  consume_rate_bytes_per_s: number;
  capacity_bytes: number;
  produce_peak_bytes_per_s: number;
  consume_peak_bytes_per_s: number;
  stored_bytes: number;
  recommended_produce_rate_bytes_per_s: number;
  recommended_consume_rate_bytes_per_s: number;
  recommended_capacity_bytes: number;
  produce_action: SizeAction;
  consume_action: SizeAction;
  capacity_action: SizeAction;
  growth_bytes_per_day: number | null;
  days_to_full: number | null;
  days_to_full_low: number | null;
  days_to_full_high: number | null;
  /** Null for tenants, like the two below. */
  produce_usable_share: number | null;
  consume_usable_share: number | null;
  moves: number;
  moves_reason: string;
  bill_now_minor: number | null;
  bill_recommended_minor: number | null;
  currency: string | null;
}
export interface SkewSummary {
  direction: Direction;
  p_ratio_min: number | null;
  share_of_time_uneven: number | null;
  usable_share: number | null;
  throttled_total_ms: number;
}
export interface Skew extends SkewSummary {
  at_ms: number[];
  p_ratio: Series;
  usable_share_history: Series;
  points: { point: string; node_id: number; partitions_led: number; bytes: number; throttled_ms: number }[];
}
export interface Forecast {
  metric: 'produce' | 'consume' | 'stored';
  model: 'none' | 'seasonal_naive' | 'seasonal_trend';
  start_ms: number;
  expected: number[];
  low: number[];
  high: number[];
  mae: number | null;
  mae_seasonal_naive: number | null;
}
export interface Move {
  topic: string;
  partition: number;
  from_node_id: number;
  to_node_id: number;
  replicas: number[];
  is_leadership_only: boolean;
  moved_bytes: number;
  usable_share_before: number;
  usable_share_after: number;
  step: number;
}
export interface AdvisedInstance {
  tenant: string;
  name: string;
  advice: Advice;
  skew: SkewSummary[];
}
export interface AdviceOverview {
  available: boolean;
  hint: string | null;
  items: AdvisedInstance[];
}
export interface InstanceAdvice {
  available: boolean;
  hint: string | null;
  advice: Advice | null;
  forecast: Forecast[];
  skew: Skew[] | null;
  moves: Move[] | null;
}

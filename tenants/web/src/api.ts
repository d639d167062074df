// The console API's types under the pages' names: all made from its OpenAPI document (`npm run types`).
// Sizes are bytes, rates bytes/s, `..._at` and `at` RFC 3339 in UTC, `..._ms` epoch ms or durations.

import type { components, paths } from './schema';

type Schemas = components['schemas'];

export type { paths };
export type Role = Schemas['Role'];
export type Permission = Schemas['Permission'];
export type RoleList = Schemas['RoleList'];
export type InstanceState = Schemas['ConsoleState'];
/** What went wrong; also what never reached the API, which has fewer fields. */
export type Problem = Omit<Schemas['Problem'], 'instance'>;

export interface Page<T> {
  items: T[];
  next_cursor?: string | null;
}

export type Session = Schemas['SessionView'];
export type Tenant = Schemas['TenantView'];
export type Amounts = Schemas['AmountsView'];
export type DeletedInstance = Schemas['DeletedView'];
export type AbsentInstance = Schemas['AbsentView'];
export type SignInAnswer = Schemas['SignInAnswer'];
export type SignInOffer = Schemas['SignInOffer'];
export type SignInLink = Schemas['SignInLink'];
export type GroupRole = Schemas['GroupRoleView'];
export type Member = Schemas['TenantMember'];
export type Invitation = Schemas['InvitationView'];
export type InvitationShown = Schemas['InvitationShown'];
export type SessionSummary = Schemas['SessionSummary'];
export type Key = Schemas['KeyView'];
export type KeyCreated = Schemas['KeyCreated'];

export type InstanceCreate = Schemas['InstanceCreate'];
export type InstanceChange = Schemas['InstanceChange'];
export type Limits = Schemas['LimitsView'];
export type Instance = Schemas['InstanceView'];
export type FaultKind = Schemas['FaultKind'];
export type FaultStart = Schemas['FaultStart'];
export type Fault = Schemas['FaultView'];

export type SeriesView = Schemas['SeriesView'];
export type SeriesKind = Exclude<Schemas['Kind'], 'fleet'>;
export type MarkList = Schemas['MarkList'];

export type Alarm = Schemas['AlarmView'];
export type AlarmList = Schemas['AlarmList'];
export type Client = Schemas['ClientView'];
export type ClientList = Schemas['ClientList'];
export type Connected = Schemas['ConnectedView'];
export type ConnectedList = Schemas['Connections'];
export type AlarmRule = Schemas['AlarmRuleView'];
export type AlarmRuleOrder = Schemas['AlarmRuleOrder'];
export type AlarmHistory = Schemas['AlarmHistory'];
export type AlarmKind = Schemas['AlarmKind'];
export type RaisedAlarms = Schemas['RaisedAlarms'];
export type Slowness = Schemas['SlownessView'];
export type SchemaRegistry = Schemas['SchemaRegistryView'];
export type Costs = Schemas['CostView'];
export type LimitCosts = Schemas['LimitCostView'];
export type CostLine = Schemas['CostLineView'];
export type LeftOut = Schemas['LeftOut'];
export type Email = Schemas['EmailView'];
export type EmailList = Schemas['EmailList'];
export type LinkFollowed = Schemas['LinkFollowed'];
export type Webhook = Schemas['WebhookView'];
export type WebhookCreated = Schemas['WebhookCreated'];
export type Delivery = Schemas['DeliveryView'];
export type DeliveryList = Schemas['DeliveryList'];

export type Whitelist = Schemas['WhitelistView'];
export type WhitelistChange = Schemas['WhitelistChange'];

export type TopicSummary = Schemas['TopicSummary'];
export type TopicConfig = Schemas['ConfigView'];
export type Topic = Schemas['TopicView'];
export type Payload = Schemas['Payload'];
export type Message = Schemas['MessageView'];
export type MessageList = Schemas['MessageList'];
export type MessageSent = Schemas['MessageSent'];
export type MessageQuery = NonNullable<
  paths['/v1/instances/{instance}/topics/{topic}/messages']['get']['parameters']['query']
>;
export type GroupSummary = Schemas['GroupSummary'];
export type CommittedOffset = Schemas['CommittedOffset'];
export type Group = Schemas['GroupView'];
export type ResetTo = Schemas['ResetTo'];
export type ResetOffsetsRequest = Schemas['ResetOffsetsRequest'];
export type ResetOffsetsResult = Schemas['ResetOffsetsResult'];

export type Broker = Schemas['BrokerView'];
export type Cluster = Schemas['ClusterView'];
export type InstanceMove = Schemas['MoveView'];
export type ClusterPartition = Schemas['ClusterPartitionView'];
export type AuditEntry = Schemas['AuditView'];

export type Direction = 'produce' | 'consume';
export type Rule = Schemas['Rule'];
export type BrokerDirection = Schemas['PointFlow'];
export type BrokerQuota = Schemas['BrokerQuota'];
export type CpuPoint = Schemas['CpuPoint'];
export type CpuQuota = Schemas['CpuQuota'];
export type DirectionQuota = Schemas['DirectionQuota'];
export type Series = (number | null)[];
export type HistoryDirection = Schemas['HistoryDirection'];
export type History = Schemas['History'];
export type QuotaView = Schemas['InstanceQuota'];

export type RunState = Schemas['RunState'];
export type Run = Schemas['RunView'];
export type Schedule = Schemas['ScheduleView'];
export type ScheduledJob = Schemas['ScheduledJob'];
export type UsagePeriod = Schemas['UsagePeriod'];
export type Resolution = Schemas['Resolution'];
export type Usage = Schemas['UsageView'];
export type Bill = Schemas['BillView'];
export type Dimension = Schemas['Dimension'];
export type Adjustment = Schemas['AdjustmentView'];
export type BillDetail = Schemas['BillDetailView'];
export type BillOverview = Schemas['BillOverview'];

export type Urgency = Schemas['Urgency'];
export type Advice = Schemas['AdviceRow'];
export type SkewSummary = Schemas['SkewSummary'];
export type Skew = Schemas['SkewRow'];
export type Forecast = Schemas['ForecastRow'];
export type Move = Schemas['MoveRow'];
export type AdvisedInstance = Schemas['AdvisedInstance'];
export type InstanceAdvice = Schemas['AdviceView'];

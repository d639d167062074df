// What the API says by a code, in words. What it says in sentences is English.

import type { AlarmKind, Permission } from '../api';
import { m } from '../paraglide/messages';

type Words = Record<string, () => string>;

const INSTANCE_STATE: Words = {
  creating: m.instance_state_creating,
  running: m.instance_state_running,
  suspended: m.instance_state_suspended,
  failed: m.instance_state_failed,
  deleted: m.instance_state_deleted,
  purging: m.instance_state_purging,
  purged: m.instance_state_purged,
};
const RUN_STATE: Words = {
  running: m.run_state_running,
  lost: m.run_state_lost,
  succeeded: m.run_state_succeeded,
  failed: m.run_state_failed,
  stopped: m.run_state_stopped,
};
const ROLE: Words = {
  admin: m.role_admin,
  operator: m.role_operator,
  owner: m.role_owner,
  developer: m.role_developer,
  viewer: m.role_viewer,
};
const SEVERITY: Words = {
  critical: m.severity_critical,
  warning: m.severity_warning,
};
const HEALTH: Words = {
  trouble: m.health_trouble,
  throttled: m.health_throttled,
  blocked: m.health_blocked,
  busy: m.health_busy,
  calm: m.health_calm,
};
const CLIENT_STATE: Words = {
  live: m.client_state_live,
  silent: m.client_state_silent,
  disconnected: m.client_state_disconnected,
  ended: m.client_state_ended,
};
const MOVE_PHASE: Words = {
  copying: m.move_phase_copying,
  switching: m.move_phase_switching,
  switched: m.move_phase_switched,
  purging: m.move_phase_purging,
  done: m.move_phase_done,
  cancelling: m.move_phase_cancelling,
  cancelled: m.move_phase_cancelled,
};
const ALARM_EVENT: Words = {
  raised: m.alarm_event_raised,
  cleared: m.alarm_event_cleared,
  acknowledged: m.alarm_event_acknowledged,
  silenced: m.alarm_event_silenced,
  unsilenced: m.alarm_event_unsilenced,
};
const SIZE_ACTION: Words = {
  keep: m.size_action_keep,
  grow: m.size_action_grow,
  shrink: m.size_action_shrink,
};
const METRIC: Words = {
  produce: m.metric_produce,
  consume: m.metric_consume,
  stored: m.metric_stored,
};
const CONSOLE_HEALTH: Words = {
  ok: m.console_health_ok,
  degraded: m.console_health_degraded,
};
const GROUP_STATE: Words = {
  Stable: m.group_state_stable,
  Empty: m.group_state_empty,
  PreparingRebalance: m.group_state_preparing_rebalance,
  CompletingRebalance: m.group_state_completing_rebalance,
  Assigning: m.group_state_assigning,
  Reconciling: m.group_state_reconciling,
  Dead: m.group_state_dead,
};

/** A code that is newer than these pages is shown as it is. */
const nameIn =
  (words: Words) =>
  (code: string | undefined): string =>
    code === undefined ? '' : (words[code]?.() ?? code);

export const stateName = nameIn(INSTANCE_STATE);
export const runStateName = nameIn(RUN_STATE);
export const roleName = nameIn(ROLE);
export const severityName = nameIn(SEVERITY);
export const healthName = nameIn(HEALTH);
export const clientStateName = nameIn(CLIENT_STATE);
export const phaseName = nameIn(MOVE_PHASE);
export const alarmEventName = nameIn(ALARM_EVENT);
export const actionName = nameIn(SIZE_ACTION);
export const metricName = nameIn(METRIC);
export const consoleHealthName = nameIn(CONSOLE_HEALTH);
/** Kafka's own names come in capitals: `PreparingRebalance`. */
export const groupStateName = (state: string): string =>
  GROUP_STATE[state]?.() ?? state.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();

interface AlarmWords {
  title: () => string;
  unit: () => string;
  remedy: () => string;
}
const ALARMS: Record<AlarmKind, AlarmWords> = {
  throttled_produce: {
    title: m.alarm_throttled_produce_title,
    unit: m.alarm_throttled_produce_unit,
    remedy: m.alarm_throttled_produce_remedy,
  },
  throttled_consume: {
    title: m.alarm_throttled_consume_title,
    unit: m.alarm_throttled_consume_unit,
    remedy: m.alarm_throttled_consume_remedy,
  },
  full: { title: m.alarm_full_title, unit: m.alarm_full_unit, remedy: m.alarm_full_remedy },
  unknown_address: {
    title: m.alarm_unknown_address_title,
    unit: m.alarm_unknown_address_unit,
    remedy: m.alarm_unknown_address_remedy,
  },
  wrong_passwords: {
    title: m.alarm_wrong_passwords_title,
    unit: m.alarm_wrong_passwords_unit,
    remedy: m.alarm_wrong_passwords_remedy,
  },
  lag_growing: { title: m.alarm_lag_growing_title, unit: m.alarm_lag_growing_unit, remedy: m.alarm_lag_growing_remedy },
  lag_seconds: { title: m.alarm_lag_seconds_title, unit: m.alarm_lag_seconds_unit, remedy: m.alarm_lag_seconds_remedy },
  bill_above: { title: m.alarm_bill_above_title, unit: m.alarm_bill_above_unit, remedy: m.alarm_bill_above_remedy },
  cluster_trouble: {
    title: m.alarm_cluster_trouble_title,
    unit: m.alarm_cluster_trouble_unit,
    remedy: m.alarm_cluster_trouble_remedy,
  },
  broker_silent: {
    title: m.alarm_broker_silent_title,
    unit: m.alarm_broker_silent_unit,
    remedy: m.alarm_broker_silent_remedy,
  },
  gateway_silent: {
    title: m.alarm_gateway_silent_title,
    unit: m.alarm_gateway_silent_unit,
    remedy: m.alarm_gateway_silent_remedy,
  },
  certificate_ends: {
    title: m.alarm_certificate_ends_title,
    unit: m.alarm_certificate_ends_unit,
    remedy: m.alarm_certificate_ends_remedy,
  },
};
/** What is said about every alarm of a kind; `told` by the API where these pages do not know the kind. */
export const alarmWord = (kind: string, what: keyof AlarmWords, told: string): string =>
  (ALARMS as Partial<Record<string, AlarmWords>>)[kind]?.[what]() ?? told;

/** What the API says of something in words is several sentences now and none then: it ends in one stop. */
export const sentence = (said: string): string => said.trimEnd().replace(/[.。]*$/, '.');

const PERMISSIONS: Record<Permission, () => string> = {
  read: m.permission_read,
  read_messages: m.permission_read_messages,
  read_masked: m.permission_read_masked,
  send_messages: m.permission_send_messages,
  topics: m.permission_topics,
  alarms: m.permission_alarms,
  instances: m.permission_instances,
  keys: m.permission_keys,
  members: m.permission_members,
  audit: m.permission_audit,
  every_tenant: m.permission_every_tenant,
  staff: m.permission_staff,
};
export const permissionWords = (permission: Permission, told: string): string => PERMISSIONS[permission]?.() ?? told;

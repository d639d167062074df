// What the steps of the quota rule mean, in words; the numbers come with the API's own explanation.

import type { DirectionQuota, QuotaView, Rule } from '../api';
import type { Flow } from './series';
import { formatBytes } from './units';
import { m } from '../paraglide/messages';

export const RULES: Record<Rule, { title: string; about: string }> = {
  no_brokers: { title: m.nothing_to_share_yet(), about: m.no_broker_has_reported_a_partition_of_this() },
  hold: {
    title: m.holding(),
    about: m.a_new_quota_master_waits_for_two_reports_of(),
  },
  below_gate: {
    title: m.static_shares_q_f(),
    about: m.each_uses_less_than_80_percent_of_its_static(),
  },
  ratio_met: {
    title: m.shares_follow_traffic_q_p(),
    about: m.one_passed_80_percent_of_its_share_and_the(),
  },
  headroom: {
    title: m.uneven_traffic_headroom(),
    about: m.one_passed_80_percent_of_its_share_and_the_2(),
  },
  level: {
    title: m.more_is_wanted_than_t_water_level(),
    about: m.policy_fair_each_gets_what_its_clients_want(),
  },
  room: {
    title: m.everybody_gets_what_it_wants(),
    about: m.policy_fair_less_is_wanted_than_t_each_gets(),
  },
  static: { title: m.static_policy_q_f(), about: m.the_operator_chose_fixed_shares_whatever_the() },
};

export interface Verdict {
  title: string;
  about: string;
  /** With the numbers of the last decision. */
  explanation: string;
}

/** One direction of bytes, or request time, over all points. */
export const totalOf = (view: QuotaView, flow: Flow): DirectionQuota => (flow === 'cpu' ? view.cpu.total : view[flow]);

/** The step that decides over one flow now: a full instance's block comes before any share. */
export function verdictOf(view: QuotaView, of: Flow): Verdict {
  if (view.blocked && of === 'produce') {
    return {
      title: m.blocked_the_instance_is_full(),
      about: m.step_1_at_capacity_produce_is_blocked_on(),
      explanation: m.stored_bytes_of_capacity_bytes_are_stored({
        stored_bytes: formatBytes(view.stored_bytes),
        capacity_bytes: formatBytes(view.capacity_bytes),
        unblock_below_bytes: formatBytes(view.unblock_below_bytes),
      }),
    };
  }
  const flow = totalOf(view, of);
  const rule = RULES[flow.rule] ?? { title: flow.rule, about: '' };
  return { ...rule, explanation: flow.explanation || rule.about };
}

/** What the letters of the rule stand for; shown beside every chart and table that uses them. */
export const LETTERS: [string, string][] = [
  ['T', m.the_rate_the_instance_bought()],
  ['r', m.rate_now_what_was_used_between_the_last_two()],
  ['F', m.static_share_t_by_partitions_led_of_request()],
  ['P', m.share_in_proportion_to_traffic()],
  ['q', m.allocated_what_the_broker_or_worker_lets()],
];

export const FLOWS: readonly Flow[] = ['produce', 'consume', 'cpu'];

export type Pressure = 'calm' | 'busy' | 'throttled';

/** How a direction does: held back at all, near what was bought, or neither. */
export function pressureOf(direction: DirectionQuota): Pressure {
  if (direction.throttled_ms_per_s > 0) return 'throttled';
  return direction.rate_per_s >= 0.8 * direction.purchased_per_s ? 'busy' : 'calm';
}

/** Milliseconds of each second in which the instance was held back, for whatever it uses most. */
export const heldBackMs = (view: QuotaView): number =>
  Math.max(...FLOWS.map((flow) => totalOf(view, flow).throttled_ms_per_s));

/** Throttled milliseconds of each second as people read them. */
export const formatThrottle = (msPerS: number): string => (msPerS === 0 ? m.none() : `${Math.round(msPerS)} ms/s`);

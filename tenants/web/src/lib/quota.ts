// What the steps of the quota rule mean, in words; the numbers come with the API's own explanation.

import type { Direction, DirectionQuota, QuotaView, Rule } from '../api';
import { formatBytes } from './units';

export const RULES: Record<Rule, { title: string; about: string }> = {
  no_brokers: { title: 'Nothing to share yet', about: 'No broker has reported a partition of this instance.' },
  hold: {
    title: 'Holding',
    about: 'A new quota master waits for two reports of every broker; until then each keeps the rate it applies.',
  },
  below_gate: {
    title: 'Static shares: q = F',
    about: 'Every broker carries less than 80 % of its static share, so each may use that share.',
  },
  ratio_met: {
    title: 'Shares follow traffic: q = P',
    about: 'Some broker passed 80 % of its share and the traffic is even (Pmin / Pmax is at least 0.8).',
  },
  headroom: {
    title: 'Uneven traffic: headroom',
    about:
      'Some broker passed 80 % of its share and the traffic is uneven: the busiest get P, the others P plus a tenth of Pmax, so that they can show they want more.',
  },
  level: {
    title: 'More is wanted than T: water level',
    about:
      'Policy fair: each broker gets what its clients want, but none more than the level at which it all adds up to T.',
  },
  room: {
    title: 'Everybody gets what it wants',
    about: 'Policy fair: less is wanted than T; each broker gets what its clients want and a part of what is left.',
  },
  static: { title: 'Static policy: q = F', about: 'The operator chose fixed shares, whatever the traffic.' },
};

export interface Verdict {
  title: string;
  about: string;
  /** With the numbers of the last decision. */
  explanation: string;
}

/** The step that decides over one direction now: a full instance's block comes before any share. */
export function verdictOf(view: QuotaView, direction: Direction): Verdict {
  if (view.blocked && direction === 'produce') {
    return {
      title: 'Blocked: the instance is full',
      about:
        'Step 1: at capacity produce is blocked on every broker; consume is untouched. Delete records, shorten retention or resize.',
      explanation: `${formatBytes(view.stored_bytes)} of ${formatBytes(view.capacity_bytes)} are stored; produce resumes below ${formatBytes(view.unblock_below_bytes)}.`,
    };
  }
  const flow = view[direction];
  const rule = RULES[flow.rule] ?? { title: flow.rule, about: '' };
  return { ...rule, explanation: flow.explanation || rule.about };
}

/** What the letters of the rule stand for; shown beside every chart and table that uses them. */
export const LETTERS: [string, string][] = [
  ['T', 'the rate the instance bought'],
  ['r', 'rate now: bytes between the last two reports over the time between them'],
  ['F', 'static share: T by partitions led'],
  ['P', 'share in proportion to traffic'],
  ['q', 'allocated: what the broker lets through'],
];

export type Pressure = 'calm' | 'busy' | 'throttled';

/** How a direction does: held back at all, near what was bought, or neither. */
export function pressureOf(direction: DirectionQuota): Pressure {
  if (direction.throttled_ms_per_s > 0) return 'throttled';
  return direction.rate_per_s >= 0.8 * direction.purchased_per_s ? 'busy' : 'calm';
}

export interface Totals {
  produce: number;
  consume: number;
  stored: number;
  capacity: number;
  throttled: number;
  blocked: number;
}

/** Sums over all instances, for the operator's first line. */
export function totalsOf(views: readonly QuotaView[]): Totals {
  const totals: Totals = { produce: 0, consume: 0, stored: 0, capacity: 0, throttled: 0, blocked: 0 };
  for (const view of views) {
    totals.produce += view.produce.rate_per_s;
    totals.consume += view.consume.rate_per_s;
    totals.stored += view.stored_bytes;
    totals.capacity += view.capacity_bytes;
    if (view.produce.throttled_ms_per_s > 0 || view.consume.throttled_ms_per_s > 0) totals.throttled += 1;
    if (view.blocked) totals.blocked += 1;
  }
  return totals;
}

/** Throttled milliseconds of each second as people read them. */
export const formatThrottle = (msPerS: number): string => (msPerS === 0 ? 'none' : `${Math.round(msPerS)} ms/s`);

// What the steps of the quota rule mean, in words; the numbers come with the API's own explanation.

import type { DirectionQuota, QuotaView, Rule } from '../api';
import type { Flow } from './series';
import { formatBytes } from './units';

export const RULES: Record<Rule, { title: string; about: string }> = {
  no_brokers: { title: 'Nothing to share yet', about: 'No broker has reported a partition of this instance.' },
  hold: {
    title: 'Holding',
    about: 'A new quota master waits for two reports of everybody; until then each keeps the rate it applies.',
  },
  below_gate: {
    title: 'Static shares: q = F',
    about: 'Each uses less than 80 % of its static share, so it may use that share.',
  },
  ratio_met: {
    title: 'Shares follow traffic: q = P',
    about: 'One passed 80 % of its share and the traffic is even (Pmin / Pmax is at least 0.8).',
  },
  headroom: {
    title: 'Uneven traffic: headroom',
    about:
      'One passed 80 % of its share and the traffic is uneven: the busiest get P, the others P plus a tenth of Pmax, so that they can show they want more.',
  },
  level: {
    title: 'More is wanted than T: water level',
    about: 'Policy fair: each gets what its clients want, but none more than the level at which it all adds up to T.',
  },
  room: {
    title: 'Everybody gets what it wants',
    about: 'Policy fair: less is wanted than T; each gets what its clients want and a part of what is left.',
  },
  static: { title: 'Static policy: q = F', about: 'The operator chose fixed shares, whatever the traffic.' },
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
      title: 'Blocked: the instance is full',
      about:
        'Step 1: at capacity produce is blocked on every broker; consume is untouched. Delete records, shorten retention or resize.',
      explanation: `${formatBytes(view.stored_bytes)} of ${formatBytes(view.capacity_bytes)} are stored; produce resumes below ${formatBytes(view.unblock_below_bytes)}.`,
    };
  }
  const flow = totalOf(view, of);
  const rule = RULES[flow.rule] ?? { title: flow.rule, about: '' };
  return { ...rule, explanation: flow.explanation || rule.about };
}

/** What the letters of the rule stand for; shown beside every chart and table that uses them. */
export const LETTERS: [string, string][] = [
  ['T', 'the rate the instance bought'],
  ['r', 'rate now: what was used between the last two reports over the time between them'],
  ['F', 'static share: T by partitions led; of request time half for brokers, half for gateway workers'],
  ['P', 'share in proportion to traffic'],
  ['q', 'allocated: what the broker or worker lets through'],
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
export const formatThrottle = (msPerS: number): string => (msPerS === 0 ? 'none' : `${Math.round(msPerS)} ms/s`);

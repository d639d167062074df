// Advice in words.

import type { Advice, SkewSummary, Urgency } from '../api';
import type { Tone } from '../ui/Badge.svelte';
import { formatBytes, formatRate } from './units';

export const URGENCIES: Record<Urgency, { tone: Tone; text: string; about: string }> = {
  now: { tone: 'danger', text: 'now', about: 'Clients are held back or refused, or will be within days' },
  soon: { tone: 'warn', text: 'soon', about: 'A size will be outgrown' },
  saving: { tone: 'info', text: 'saving', about: 'A smaller size would do' },
  none: { tone: 'ok', text: 'fits', about: 'The sizes fit' },
};

export interface Size {
  label: string;
  now: string;
  recommended: string;
  action: 'keep' | 'grow' | 'shrink';
}

export function sizesOf(advice: Advice): Size[] {
  return [
    {
      label: 'Produce',
      now: formatRate(advice.produce_rate_bytes_per_s),
      recommended: formatRate(advice.recommended_produce_rate_bytes_per_s),
      action: advice.produce_action,
    },
    {
      label: 'Consume',
      now: formatRate(advice.consume_rate_bytes_per_s),
      recommended: formatRate(advice.recommended_consume_rate_bytes_per_s),
      action: advice.consume_action,
    },
    {
      label: 'Capacity',
      now: formatBytes(advice.capacity_bytes),
      recommended: formatBytes(advice.recommended_capacity_bytes),
      action: advice.capacity_action,
    },
  ];
}

const days = (count: number): string => (count < 10 ? count.toFixed(1) : String(Math.round(count)));

/** `in 12 days`, with its band behind; a dash where it does not fill. */
export function fullIn(advice: Advice): { text: string; band: string } {
  if (advice.days_to_full === null) {
    return { text: advice.is_enough_history ? 'not in sight' : 'not known yet', band: '' };
  }
  const low = advice.days_to_full_low;
  const high = advice.days_to_full_high;
  const band = low === null ? '' : high === null ? `${days(low)} days or more` : `${days(low)} to ${days(high)} days`;
  return { text: `in ${days(advice.days_to_full)} days`, band };
}

/** The lower one of both directions, of those that are known. */
export function leastOf(skew: readonly SkewSummary[], pick: (one: SkewSummary) => number | null): number | null {
  const known = skew.map(pick).filter((value) => value !== null);
  return known.length === 0 ? null : Math.min(...known);
}

export const formatShare = (share: number | null): string => (share === null ? '–' : share.toFixed(2));

// Advice in words.

import type { Advice, SkewSummary, Urgency } from '../api';
import type { Tone } from '../ui/Badge.svelte';
import { formatBytes, formatRate } from './units';
import { m } from '../paraglide/messages';

export const URGENCIES: Record<Urgency, { tone: Tone; text: string; about: string }> = {
  now: { tone: 'danger', text: m.urgency_now(), about: m.clients_are_held_back_or_refused_or_will_be() },
  soon: { tone: 'warn', text: m.urgency_soon(), about: m.a_size_will_be_outgrown() },
  saving: { tone: 'info', text: m.urgency_saving(), about: m.a_smaller_size_would_do() },
  none: { tone: 'ok', text: m.urgency_fits(), about: m.the_sizes_fit() },
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
      label: m.produce(),
      now: formatRate(advice.produce_rate_bytes_per_s),
      recommended: formatRate(advice.recommended_produce_rate_bytes_per_s),
      action: advice.produce_action,
    },
    {
      label: m.consume(),
      now: formatRate(advice.consume_rate_bytes_per_s),
      recommended: formatRate(advice.recommended_consume_rate_bytes_per_s),
      action: advice.consume_action,
    },
    {
      label: m.capacity(),
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
    return { text: advice.is_enough_history ? m.not_in_sight() : m.not_known_yet(), band: '' };
  }
  const low = advice.days_to_full_low;
  const high = advice.days_to_full_high;
  const band =
    low === null
      ? ''
      : high === null
        ? m.low_days_or_more({ low: days(low) })
        : m.low_to_high_days({ low: days(low), high: days(high) });
  return { text: m.in_days_to_full_days({ days_to_full: days(advice.days_to_full) }), band };
}

/** The lower one of both directions, of those that are known. */
export function leastOf(skew: readonly SkewSummary[], pick: (one: SkewSummary) => number | null): number | null {
  const known = skew.map(pick).filter((value) => value !== null);
  return known.length === 0 ? null : Math.min(...known);
}

export const formatShare = (share: number | null): string => (share === null ? '–' : share.toFixed(2));

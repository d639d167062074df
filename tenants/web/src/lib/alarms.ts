// Alarms in words: what state one is in, when it is raised, in which order people read them.

import type { Alarm, AlarmRule } from '../api';
import type { Tone } from '../ui/Badge.svelte';
import { formatCount } from './units';
import { m } from '../paraglide/messages';
import { alarmWord } from './words';

export const SILENCES: [number, string][] = [
  [1, m.n_1_hour()],
  [4, m.n_4_hours()],
  [24, m.n_1_day()],
  [7 * 24, m.n_7_days()],
  [30 * 24, m.n_30_days()],
];
const HOUR_MS = 3_600_000;
const LONGEST_HOURS = 30 * 24;
/** The longest silence ends before the API's bound, also by a clock that is ahead of its. */
const MARGIN_MS = 300_000;

export const silenceEnd = (hours: number, nowMs: number): string =>
  new Date(nowMs + hours * HOUR_MS - (hours === LONGEST_HOURS ? MARGIN_MS : 0)).toISOString();

/** Also while nobody tells the figure: it stays raised until somebody does. */
export const isRaised = (alarm: Alarm): boolean => alarm.raised_at !== null;
/** Somebody has seen it, or nobody wants to be told. */
export const isQuiet = (alarm: Alarm): boolean => alarm.acknowledged_at !== null || alarm.silenced_until !== null;

export function stateWords(alarm: Alarm): [Tone, string] {
  if (isRaised(alarm)) {
    const tone = isQuiet(alarm) ? 'warn' : 'danger';
    return alarm.state === 'unknown' ? [tone, m.raised_unknown_now()] : [tone, m.raised()];
  }
  if (!alarm.rule.enabled) return ['neutral', m.alarm_off()];
  return alarm.state === 'ok' ? ['ok', m.alarm_ok()] : ['neutral', m.unknown()];
}

/** Raised first, those that nobody has seen before the others; unknown before well, off last. */
export function inOrder(alarms: Alarm[]): Alarm[] {
  const rank = (alarm: Alarm): number => {
    if (isRaised(alarm)) return isQuiet(alarm) ? 1 : 0;
    if (!alarm.rule.enabled) return 4;
    return alarm.state === 'unknown' ? 2 : 3;
  };
  return [...alarms].sort((one, other) => rank(one) - rank(other));
}

/** The figures of a rule. A figure of now has no window, and keeps none. */
export function ruleWords(rule: AlarmRule): string {
  if (!rule.enabled) return m.off_it_is_not_looked_at();
  const window = rule.window_minutes > 0 ? m.within_window_minutes_min({ window_minutes: rule.window_minutes }) : '';
  const looks = (count: number): string => m.looks_counted({ count });
  return m.from_threshold_unit_window_raised_after({
    threshold: formatCount(rule.threshold),
    unit: alarmWord(rule.kind, 'unit', rule.unit),
    window,
    raise_after: looks(rule.raise_after),
    clear_after: looks(rule.clear_after),
  });
}

/** A whole number as people type it; null: it is none. */
export function wholeNumber(text: string): number | null {
  const digits = text.replace(/[\s,_]/g, '');
  return /^\d{1,15}$/.test(digits) ? Number(digits) : null;
}

// Alarms in words: what state one is in, when it is raised, in which order people read them.

import type { Alarm, AlarmRule } from '../api';
import type { Tone } from '../ui/Badge.svelte';
import { counted, formatCount } from './units';

export const SILENCES: [number, string][] = [
  [1, '1 hour'],
  [4, '4 hours'],
  [24, '1 day'],
  [7 * 24, '7 days'],
  [30 * 24, '30 days'],
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
    return alarm.state === 'unknown' ? [tone, 'raised, unknown now'] : [tone, 'raised'];
  }
  if (!alarm.rule.enabled) return ['neutral', 'off'];
  return alarm.state === 'ok' ? ['ok', 'ok'] : ['neutral', 'unknown'];
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
  if (!rule.enabled) return 'Off: it is not looked at';
  const window = rule.window_minutes > 0 ? ` within ${rule.window_minutes} min` : '';
  const looks = (count: number): string => counted(count, 'look');
  return `From ${formatCount(rule.threshold)} (${rule.unit})${window}; raised after ${looks(rule.raise_after)}, cleared after ${looks(rule.clear_after)} of 10 s`;
}

/** A whole number as people type it; null: it is none. */
export function wholeNumber(text: string): number | null {
  const digits = text.replace(/[\s,_]/g, '');
  return /^\d{1,15}$/.test(digits) ? Number(digits) : null;
}

// Months, and series of usage as charts and tables take them. Usage and bills are counted in UTC.

import type { UsagePeriod } from '../api';
import { m } from '../paraglide/messages';
import { tag } from './language';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const monthOf = (atMs: number): string => new Date(atMs).toISOString().slice(0, 7);

export const isMonth = (text: string | null): text is string => text !== null && /^\d{4}-(0[1-9]|1[0-2])$/.test(text);

/** From the first instant of a month to the first of the next. */
export function monthSpan(month: string): [number, number] {
  const [year, number] = month.split('-').map(Number) as [number, number];
  return [Date.UTC(year, number - 1), Date.UTC(year, number)];
}

/** The newest first, at most five years. */
export function monthsSince(firstMs: number, nowMs: number): string[] {
  const months: string[] = [];
  const first = monthOf(Math.min(firstMs, nowMs));
  for (let at = nowMs; monthOf(at) >= first && months.length < 60; at = monthSpan(monthOf(at))[0] - 1) {
    months.push(monthOf(at));
  }
  return months;
}

const NAMED = new Intl.DateTimeFormat(tag(), { month: 'long', year: 'numeric', timeZone: 'UTC' });
export const monthName = (month: string): string => NAMED.format(new Date(monthSpan(month)[0]));

const DAY = new Intl.DateTimeFormat(tag(), { month: 'short', day: 'numeric', timeZone: 'UTC' });
const TIME = new Intl.DateTimeFormat(tag(), { hour: '2-digit', minute: '2-digit', hour12: false, timeZone: 'UTC' });
/** `Nov 5`, or `Nov 5, 13:00 UTC` where it is not midnight. */
export const formatUtcDay = (atMs: number): string => DAY.format(new Date(atMs));
export const formatUtcHour = (atMs: number): string =>
  m.at_utc({ day: DAY.format(new Date(atMs)), time: TIME.format(new Date(atMs)).replace(/^24/, '00') });
export const formatUtcTick = (atMs: number): string =>
  atMs % DAY_MS === 0 ? formatUtcDay(atMs) : TIME.format(new Date(atMs)).replace(/^24/, '00');

export type Column = (number | null)[];

export interface UsageSeries {
  atS: number[];
  produce: Column;
  consume: Column;
  stored: Column;
  produceThrottled: Column;
  consumeThrottled: Column;
}

/** Every period that is over, from `fromMs` to the end of the last one known; unknown ones are gaps. */
export function seriesOf(items: readonly UsagePeriod[], fromMs: number, stepMs = HOUR_MS): UsageSeries {
  // One that is not over has no average, and its rates would be too low.
  const over = items.filter((item) => item.stored_bytes_avg !== null);
  const known = new Map(over.map((item) => [Date.parse(item.at), item]));
  const last = over.length === 0 ? fromMs : Date.parse(over[over.length - 1]!.at);
  const series: UsageSeries = {
    atS: [],
    produce: [],
    consume: [],
    stored: [],
    produceThrottled: [],
    consumeThrottled: [],
  };
  const seconds = stepMs / 1000;
  const push = (at: number, period: UsagePeriod | undefined): void => {
    series.atS.push(at / 1000);
    series.produce.push(period ? period.produce_bytes / seconds : null);
    series.consume.push(period ? period.consume_bytes / seconds : null);
    series.stored.push(period ? period.stored_bytes_avg : null);
    series.produceThrottled.push(period ? period.produce_throttled_ms / seconds : null);
    series.consumeThrottled.push(period ? period.consume_throttled_ms / seconds : null);
  };
  for (let at = fromMs; at <= last; at += stepMs) push(at, known.get(at));
  // Steps are drawn from a point to the next: the last period needs its end.
  if (over.length > 0) push(last + stepMs, known.get(last));
  return series;
}

/** What is drawn of a month: its hours; five minutes while there are few of them. */
export interface Drawn {
  stepMs: number;
  items: readonly UsagePeriod[];
}

export const SLOT_MS = 300_000;
const FEW_HOURS = 12;

/** The span whose five minutes should be drawn instead of hours; null: hours do. */
export function fineSpan(hours: readonly UsagePeriod[]): [number, number] | null {
  const first = hours[0];
  const last = hours[hours.length - 1];
  if (first === undefined || last === undefined) return null;
  const span: [number, number] = [Date.parse(first.at), Date.parse(last.at) + HOUR_MS];
  return span[1] - span[0] <= FEW_HOURS * HOUR_MS ? span : null;
}

export interface Day {
  atMs: number;
  produceBytes: number;
  consumeBytes: number;
  gbHours: number;
  throttledMs: number;
  refused: number;
  producePeak: number;
  consumePeak: number;
  /** Hours of it that are known. */
  hours: number;
  estimated: boolean;
  open: boolean;
  /** Some of it is counted, and not settled yet. */
  provisional: boolean;
}

/** Hours by day of UTC, the newest first. */
export function daily(items: readonly UsagePeriod[]): Day[] {
  const days = new Map<number, Day>();
  for (const item of items) {
    const atMs = Math.floor(Date.parse(item.at) / DAY_MS) * DAY_MS;
    const day = days.get(atMs) ?? {
      atMs,
      produceBytes: 0,
      consumeBytes: 0,
      gbHours: 0,
      throttledMs: 0,
      refused: 0,
      producePeak: 0,
      consumePeak: 0,
      hours: 0,
      estimated: false,
      open: false,
      provisional: false,
    };
    day.produceBytes += item.produce_bytes;
    day.consumeBytes += item.consume_bytes;
    day.gbHours += item.gb_hours;
    day.throttledMs += item.produce_throttled_ms + item.consume_throttled_ms;
    day.refused += item.refused;
    day.producePeak = Math.max(day.producePeak, item.produce_peak_bytes_per_s);
    day.consumePeak = Math.max(day.consumePeak, item.consume_peak_bytes_per_s);
    day.hours += 1;
    day.estimated ||= item.estimated;
    day.open ||= item.state === 'open';
    day.provisional ||= item.provisional;
    days.set(atMs, day);
  }
  return [...days.values()].sort((a, b) => b.atMs - a.atMs);
}

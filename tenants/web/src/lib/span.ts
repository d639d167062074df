// Which time charts show, as the page's URL says: the last so long, or from a moment to another.

import { m } from '../paraglide/messages';

export type Range = { last: string; ms: number } | { fromMs: number; toMs: number };

const MINUTE = 60_000;
const DAY = 86_400_000;
export const LASTS: [string, number, string][] = [
  ['15m', 15 * MINUTE, m.last_15_min()],
  ['1h', 60 * MINUTE, m.last_1_h()],
  ['6h', 360 * MINUTE, m.last_6_h()],
  ['24h', DAY, m.last_24_h()],
  ['7d', 7 * DAY, m.last_7_d()],
  ['30d', 30 * DAY, m.last_30_d()],
];
/** Where a Prometheus tells of longer times. */
export const LONGER: [string, number, string][] = [
  ['90d', 90 * DAY, m.last_90_d()],
  ['1y', 365 * DAY, m.last_1_y()],
];
export const SPAN_MS_MIN = 60_000;
/** What is recorded. */
export const SPAN_MS_MAX = 31 * DAY;
/** What any deployment tells of at once. */
const SPAN_MS_LONGEST = 366 * DAY;

export const lastsOf = (longestMs: number): typeof LASTS => [...LASTS, ...LONGER.filter(([, ms]) => ms <= longestMs)];
export const lastOf = (name: string): Range | null => {
  const found = [...LASTS, ...LONGER].find(([one]) => one === name);
  return found ? { last: found[0], ms: found[1] } : null;
};
export const HOUR: Range = { last: '1h', ms: 60 * MINUTE };

export const isLast = (range: Range): range is { last: string; ms: number } => 'last' in range;

/** What somebody typed that is no span counts as none. */
export function rangeOf(said: URLSearchParams, fallback: Range = HOUR): Range {
  const named = lastOf(said.get('range') ?? '');
  if (named !== null) return named;
  const [fromMs, toMs] = ['from', 'to'].map((name) => Date.parse(said.get(name) ?? ''));
  if (!Number.isFinite(fromMs) || !Number.isFinite(toMs)) return fallback;
  return fixed(fromMs!, toMs!) ?? fallback;
}

/** A span that charts can show: at least a minute, at most what is told of at once. */
export function fixed(fromMs: number, toMs: number, longestMs = SPAN_MS_LONGEST): Range | null {
  if (!(fromMs >= 0) || toMs <= fromMs || toMs - fromMs > longestMs) return null;
  const missing = Math.max(0, SPAN_MS_MIN - (toMs - fromMs)) / 2;
  return { fromMs: Math.round(fromMs - missing), toMs: Math.round(toMs + missing) };
}

export function paramsOf(range: Range): Record<string, string> {
  if (isLast(range)) return { range: range.last };
  return { from: new Date(range.fromMs).toISOString(), to: new Date(range.toMs).toISOString() };
}

/** `said` with another range. */
export function withRange(said: URLSearchParams, range: Range): URLSearchParams {
  const changed = new URLSearchParams(said);
  for (const name of ['range', 'from', 'to']) changed.delete(name);
  for (const [name, value] of Object.entries(paramsOf(range))) changed.set(name, value);
  return changed;
}

/** What the API is asked for. */
export function boundsOf(range: Range, nowMs: number): { from: string; to?: string } {
  if (isLast(range)) return { from: new Date(nowMs - range.ms).toISOString() };
  return { from: new Date(range.fromMs).toISOString(), to: new Date(range.toMs).toISOString() };
}

/** The same in seconds, for an axis. */
export function spanOf(range: Range, nowMs: number): [number, number] {
  return isLast(range) ? [(nowMs - range.ms) / 1000, nowMs / 1000] : [range.fromMs / 1000, range.toMs / 1000];
}

const pad = (value: number): string => String(value).padStart(2, '0');

/** As an input of type datetime-local has it. */
export function localText(atMs: number): string {
  const at = new Date(atMs);
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day}T${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

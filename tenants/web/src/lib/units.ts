// Sizes, rates and times as people read and write them. Decimal units (MB = 10^6), as everywhere in Portico.

import { m } from '../paraglide/messages';
import { regionalTag, tag } from './language';

const FACTORS: Record<string, number> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};
const STEPS: [string, number][] = [
  ['TB', 1e12],
  ['GB', 1e9],
  ['MB', 1e6],
  ['kB', 1e3],
];
const BINARY_STEPS: [string, number][] = [
  ['TiB', 2 ** 40],
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
];

function significant(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}

export function formatBytes(count: number): string {
  for (const [index, [unit, factor]] of STEPS.entries()) {
    if (Math.abs(count) < factor) continue;
    const text = significant(count / factor);
    // 999,999 bytes are 1 MB, not 1000 kB.
    const above = STEPS[index - 1];
    return text === '1000' && above ? `1 ${above[0]}` : `${text} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

/** CPU time per second out of microseconds: 1,000 ms/s are one core. */
export function formatCpu(usPerS: number): string {
  const ms = usPerS / 1000;
  return `${ms >= 100 ? formatCount(ms) : significant(ms)} ms/s`;
}

export const formatRate = (bytesPerS: number): string => `${formatBytes(bytesPerS)}/s`;

/** The shortest text that parses back to exactly this many bytes; for forms. */
export function exactBytes(count: number): string {
  for (const [unit, factor] of [...STEPS, ...BINARY_STEPS]) {
    const value = count / factor;
    if (value >= 1 && Number.isInteger(value * 100)) return `${value} ${unit}`;
  }
  return `${count} B`;
}

export const exactRate = (bytesPerS: number): string => `${exactBytes(bytesPerS)}/s`;

export type Parsed = { value: number } | { problem: string };

/** Bytes of `10 GB`, `512KiB`, `20MB/s` (rates only). A bare number is refused: its unit would be a guess. */
export function parseBytes(text: string, kind: 'size' | 'rate'): Parsed {
  const example = kind === 'rate' ? '20 MB/s' : '10 GB';
  const match = /^\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*(\/s)?\s*$/i.exec(text);
  const factor = match?.[2] === undefined ? undefined : FACTORS[match[2].toLowerCase()];
  if (!match || factor === undefined || (match[3] && kind === 'size')) {
    return { problem: m.write_it_like_example_b_kb_mb_gb_tb_kib_mib({ example }) };
  }
  const value = Math.round(Number(match[1]) * factor);
  if (value <= 0) return { problem: m.must_be_more_than_zero() };
  if (value > Number.MAX_SAFE_INTEGER) return { problem: m.too_large() };
  return { value };
}

type Duration = 'd' | 'h' | 'min' | 's' | 'ms';
const DURATIONS: [Exclude<Duration, 'ms'>, number][] = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
];
const TIMES: Record<Duration, (inputs: { count: number }) => string> = {
  d: m.duration_d,
  h: m.duration_h,
  min: m.duration_min,
  s: m.duration_s,
  ms: m.duration_ms,
};

function duration(ms: number, part: (count: number, unit: Duration) => string): string {
  const sign = ms < 0 ? '-' : '';
  let rest = Math.abs(ms);
  const parts: string[] = [];
  for (const [unit, size] of DURATIONS) {
    const whole = Math.floor(rest / size);
    if (whole > 0) parts.push(part(whole, unit));
    rest -= whole * size;
    if (parts.length === 2) break;
  }
  if (parts.length === 0) return sign + part(Math.round(rest), 'ms');
  return sign + parts.join(' ');
}

export const formatDuration = (ms: number): string => duration(ms, (count, unit) => TIMES[unit]({ count }));
/** As it is typed in every language, for forms. */
export const typedDuration = (ms: number): string => duration(ms, (count, unit) => `${count} ${unit}`);

/** How long a group is behind; null: not known, or not yet. Not known is never 0. */
export function formatLag(seconds: number | null): string {
  return seconds === null ? '…' : seconds === 0 ? m.duration_s({ count: 0 }) : formatDuration(seconds * 1000);
}

/** Milliseconds of `7d`, `12 h`, `30 min`, `90s`, `500 ms`. */
export function parseDuration(text: string): Parsed {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(d|days?|h|hours?|min|minutes?|s|seconds?|ms)\s*$/i.exec(text);
  if (!match) return { problem: m.write_it_like_7_d_12_h_30_min_or_90_s() };
  const word = match[2]!.toLowerCase();
  const unit = word === 'ms' ? 'ms' : word.startsWith('min') ? 'min' : word[0]!;
  const size = unit === 'ms' ? 1 : (DURATIONS.find(([name]) => name === unit)?.[1] ?? 1);
  return { value: Math.round(Number(match[1]) * size) };
}

const whole = new Intl.NumberFormat(tag(), { maximumFractionDigits: 0 });
export const formatCount = (value: number): string => whole.format(value);

export function formatPercent(part: number, of: number): string {
  if (of <= 0) return '–';
  const percent = (100 * part) / of;
  return percent > 0 && percent < 0.1 ? '<0.1 %' : `${percent >= 10 ? Math.round(percent) : percent.toFixed(1)} %`;
}

/** An amount in minor units (cents) with the currency's symbol or code. */
export function formatMoney(minor: number, digits: number, currency: string): string {
  const options = {
    style: 'currency',
    currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  } as const;
  return new Intl.NumberFormat(tag(), options).format(minor / 10 ** digits);
}

/** An exact decimal of the API, grouped and without trailing zeros: `1234.500000` is 1,234.5. */
export function formatQuantity(decimal: string): string {
  const [integer = '0', fraction = ''] = decimal.replace('-', '').split('.');
  const grouped = integer.replace(/\B(?=(\d{3})+$)/g, ',');
  const rest = fraction.replace(/0+$/, '');
  return `${decimal.startsWith('-') ? '-' : ''}${grouped}${rest && `.${rest}`}`;
}

const clock = new Intl.DateTimeFormat(regionalTag(), {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
});
const stamp = new Intl.DateTimeFormat(regionalTag(), {
  year: 'numeric',
  month: 'short',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
  timeZoneName: 'short',
});

/** Local date and time with its zone. */
export const formatTime = (at: string | number): string => stamp.format(new Date(at));
export const formatClock = (atMs: number): string => clock.format(new Date(atMs));
export const zoneName = (): string =>
  stamp.formatToParts(new Date()).find((part) => part.type === 'timeZoneName')?.value ?? m.local_time();

const date = new Intl.DateTimeFormat(regionalTag(), { month: 'short', day: '2-digit' });
export const formatDate = (at: string | number): string => date.format(new Date(at));

/** A part of a whole that is only told as 100 % when it is all of it. */
export const formatShareDone = (share: number): string => `${Math.floor(Math.min(1, share) * 1000) / 10} %`;

export function formatAgo(at: string | number, nowMs: number): string {
  const age = nowMs - new Date(at).getTime();
  if (age < 2000) return m.just_now();
  const text = formatDuration(age).split(' ').slice(0, 2).join(' ');
  return m.ago({ time: text });
}

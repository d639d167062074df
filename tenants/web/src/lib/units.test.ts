import { describe, expect, it } from 'vitest';
import {
  exactBytes,
  exactRate,
  formatAgo,
  formatBytes,
  formatDuration,
  formatLag,
  formatMoney,
  formatPercent,
  formatQuantity,
  formatRate,
  parseBytes,
  parseDuration,
} from './units';

describe('formatBytes', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1 kB'],
    [12_345, '12.3 kB'],
    [999_999, '1 MB'],
    [20_000_000, '20 MB'],
    [100_000_000, '100 MB'],
    [1_500_000_000, '1.5 GB'],
    [-2000, '-2 kB'],
  ])('%d is %s', (count, text) => expect(formatBytes(count)).toBe(text));
  it('adds the second for rates', () => expect(formatRate(5_000_000)).toBe('5 MB/s'));
});

describe('parseBytes', () => {
  it.each([
    ['20MB/s', 'rate', 20_000_000],
    ['20 mb', 'rate', 20_000_000],
    ['10 GB', 'size', 10_000_000_000],
    ['512KiB', 'size', 524_288],
    ['1.5 GiB', 'size', 1_610_612_736],
    ['100 B', 'size', 100],
  ] as const)('%s as a %s', (text, kind, value) => expect(parseBytes(text, kind)).toEqual({ value }));
  it.each([
    ['10 GB/s', 'size'],
    ['', 'size'],
    ['fast', 'rate'],
    ['10', 'size'],
    ['-5 MB', 'size'],
    ['0 MB', 'size'],
    ['5 XB', 'size'],
  ] as const)('refuses %s as a %s', (text, kind) => expect(parseBytes(text, kind)).toHaveProperty('problem'));
});

describe('exactBytes', () => {
  it.each([20_000_000, 10_000_000_000, 1_048_588, 104_857_600, 524_288, 123_456_789, 1])(
    '%d survives the form',
    (count) => {
      expect(parseBytes(exactBytes(count), 'size')).toEqual({ value: count });
      expect(parseBytes(exactRate(count), 'rate')).toEqual({ value: count });
    },
  );
  it('prefers the plain unit', () => expect(exactBytes(20_000_000)).toBe('20 MB'));
});

describe('durations', () => {
  it.each([
    [0, '0 ms'],
    [999, '999 ms'],
    [90_000, '1 min 30 s'],
    [7 * 86_400_000, '7 d'],
    [-3_600_000, '-1 h'],
  ])('%d ms is %s', (ms, text) => expect(formatDuration(ms)).toBe(text));
  it.each([
    ['7d', 604_800_000],
    ['12 hours', 43_200_000],
    ['30 min', 1_800_000],
    ['90 s', 90_000],
    ['500ms', 500],
  ])('%s', (text, value) => expect(parseDuration(text)).toEqual({ value }));
  it('refuses a bare number', () => expect(parseDuration('7')).toHaveProperty('problem'));
  it('says how long a group is behind, and never 0 for what is not known', () => {
    expect(formatLag(null)).toBe('…');
    expect(formatLag(0)).toBe('0 s');
    expect(formatLag(0.25)).toBe('250 ms');
    expect(formatLag(3_725.5)).toBe('1 h 2 min');
  });

  it('says how long ago', () => {
    expect(formatAgo(1000, 2000)).toBe('just now');
    expect(formatAgo(0, 65_000)).toBe('1 min ago');
    expect(formatAgo('1970-01-01T00:00:00Z', 2 * 86_400_000)).toBe('2 d ago');
  });
});

describe('formatPercent', () => {
  it.each([
    [1, 0, '–'],
    [0, 10, '0.0 %'],
    [1, 100_000, '<0.1 %'],
    [5, 10, '50 %'],
  ])('%d of %d is %s', (part, of, text) => expect(formatPercent(part, of)).toBe(text));
});

describe('formatMoney', () => {
  it.each([
    [123456, 2, 'USD', '$1,234.56'],
    [-5, 2, 'USD', '-$0.05'],
    [1500, 0, 'JPY', '¥1,500'],
    [12345, 3, 'KWD', 'KWD 12.345'],
  ])('%d with %d digits of %s is %s', (minor, digits, currency, text) =>
    expect(formatMoney(minor, digits, currency).replaceAll('\u00a0', ' ')).toBe(text),
  );
});

describe('formatQuantity', () => {
  it.each([
    ['1234567.500000', '1,234,567.5'],
    ['0.000000', '0'],
    ['-1000.000001', '-1,000.000001'],
    ['12', '12'],
  ])('%s is %s', (decimal, text) => expect(formatQuantity(decimal)).toBe(text));
});

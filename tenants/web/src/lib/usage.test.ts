import { describe, expect, it } from 'vitest';
import type { UsagePeriod } from '../api';
import {
  daily,
  fineSpan,
  formatUtcHour,
  formatUtcTick,
  isMonth,
  monthName,
  monthSpan,
  monthsSince,
  seriesOf,
} from './usage';

const START = Date.UTC(2026, 9, 31, 22);

function hour(number: number, changes: Partial<UsagePeriod> = {}): UsagePeriod {
  return {
    at: new Date(START + number * 3_600_000).toISOString(),
    produce_bytes: 3600,
    consume_bytes: 7200,
    produce_requests: 1,
    consume_requests: 1,
    refused: 1,
    produce_throttled_ms: 36,
    consume_throttled_ms: 0,
    blocked_ms: 0,
    stored_bytes_avg: 5,
    gb_hours: 0.5,
    produce_peak_bytes_per_s: number,
    consume_peak_bytes_per_s: 1,
    recovered_bytes: 0,
    completeness: 1,
    estimated: false,
    state: 'complete',
    provisional: false,
    ...changes,
  };
}

describe('months', () => {
  it('span whole months of UTC', () => {
    expect(monthSpan('2026-12')).toEqual([Date.UTC(2026, 11, 1), Date.UTC(2027, 0, 1)]);
    expect(monthName('2026-11')).toBe('November 2026');
  });
  it('are listed from the newest', () => {
    expect(monthsSince(Date.UTC(2026, 10, 30), Date.UTC(2027, 0, 1))).toEqual(['2027-01', '2026-12', '2026-11']);
    expect(monthsSince(Date.UTC(2030, 1), Date.UTC(2027, 0, 1))).toEqual(['2027-01']);
    expect(monthsSince(0, Date.UTC(2027, 0, 1))).toHaveLength(60);
  });
  it.each(['2026-13', '2026-1', 'x', '', null])('%s is none', (text) => expect(isMonth(text)).toBe(false));
});

describe('seriesOf', () => {
  it('has a gap where an hour is not known, and ends with the last known', () => {
    const series = seriesOf([hour(0), hour(2)], START);
    expect(series.atS).toHaveLength(4);
    expect(series.produce).toEqual([1, null, 1, 1]);
    expect(series.produceThrottled).toEqual([0.01, null, 0.01, 0.01]);
  });
  it('leaves out an hour that is not over', () => {
    const series = seriesOf([hour(0), hour(1, { stored_bytes_avg: null })], START);
    expect(series.produce).toEqual([1, 1]);
  });
  it('is a single gap when nothing is known', () => {
    expect(seriesOf([], START).produce).toEqual([null]);
  });
});

describe('fineSpan', () => {
  it('is that of few hours, the running one included', () => {
    expect(fineSpan([hour(0), hour(1)])).toEqual([START, START + 7_200_000]);
    expect(fineSpan([hour(0), hour(12)])).toBeNull();
    expect(fineSpan([])).toBeNull();
  });
});

describe('daily', () => {
  it('sums hours by day of UTC, the newest first', () => {
    const [second, first] = daily([hour(0), hour(1), hour(2, { estimated: true, state: 'open' })]);
    expect(first).toMatchObject({ produceBytes: 7200, hours: 2, producePeak: 1, gbHours: 1, open: false });
    expect(second).toMatchObject({ produceBytes: 3600, hours: 1, estimated: true, open: true });
  });
});

describe('times of UTC', () => {
  it('are told as such', () => {
    expect(formatUtcHour(Date.UTC(2026, 10, 5, 0))).toBe('Nov 5, 00:00 UTC');
    expect(formatUtcTick(Date.UTC(2026, 10, 5))).toBe('Nov 5');
    expect(formatUtcTick(Date.UTC(2026, 10, 5, 13))).toBe('13:00');
  });
});

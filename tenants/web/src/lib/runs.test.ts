import { describe, expect, it } from 'vitest';
import type { Run } from '../api';
import { cpuSecondsPerGb, formatCompact, formatFigure, leftMs, RunRates, splitFigures, tookMs } from './runs';

function run(changes: Partial<Run> = {}): Run {
  return {
    id: 'run-0001',
    job: 'load',
    subject: 'shop',
    state: 'running',
    started_at: '2026-11-01T00:00:00Z',
    updated_at: '2026-11-01T00:00:10Z',
    heard_at: '2026-11-01T00:00:10Z',
    planned: 1000,
    done: 100,
    unit: 'records',
    rate_per_s: 10,
    figures: {},
    error: '',
    ...changes,
  };
}

describe('RunRates', () => {
  it('is the average until a second look, then the newest', () => {
    const rates = new RunRates();
    rates.look([run()]);
    expect(rates.of(run())).toBe(10);
    const later = run({ updated_at: '2026-11-01T00:00:12Z', done: 300 });
    rates.look([later]);
    expect(rates.of(later)).toBe(100);
    rates.look([later]);
    expect(rates.of(later)).toBe(100);
    expect(rates.of(run({ state: 'succeeded' }))).toBe(10);
  });
});

describe('a run', () => {
  it('tells what is left only while it runs and moves', () => {
    expect(leftMs(run(), 100)).toBe(9000);
    expect(leftMs(run(), 0)).toBeNull();
    expect(leftMs(run({ planned: 0 }), 100)).toBeNull();
    expect(leftMs(run({ state: 'lost' }), 100)).toBeNull();
    expect(tookMs(run())).toBe(10_000);
  });
  it('costs CPU seconds for each GB that it says it worked on', () => {
    expect(cpuSecondsPerGb(run({ figures: { cpu_ms: 30_000, bytes: 2_000_000_000 } }))).toBe(15);
    expect(cpuSecondsPerGb(run({ figures: { cpu_ms: 500 }, unit: 'bytes', done: 100_000_000 }))).toBe(5);
    expect(cpuSecondsPerGb(run({ figures: { cpu_ms: 500 } }))).toBeNull();
    expect(cpuSecondsPerGb(run({ figures: { bytes: 500 } }))).toBeNull();
  });
  it('has its lag apart from other figures', () => {
    const { lag, other } = splitFigures(run({ figures: { rows: 1, lag_records: 2, flags: 3 } }));
    expect(lag).toEqual([['lag_records', 2]]);
    expect(other.map(([name]) => name)).toEqual(['flags', 'rows']);
  });
});

describe('formatFigure', () => {
  it.each([
    ['bytes', 1_500_000, '1.5 MB'],
    ['copied_bytes', 10, '10 B'],
    ['lag_ms', 90_000, '1 min 30 s'],
    ['rows', 123_456, '123.5K'],
  ])('%s of %d is %s', (name, value, text) => expect(formatFigure(name, value)).toBe(text));
});

describe('formatCompact', () => {
  it.each([
    [0, '0'],
    [0.2, '<1'],
    [9999, '9999'],
    [12_345, '12.3K'],
    [2_000_000_000, '2B'],
  ])('%f is %s', (value, text) => expect(formatCompact(value)).toBe(text));
});

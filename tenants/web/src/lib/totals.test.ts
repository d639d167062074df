import { describe, expect, it } from 'vitest';
import type { History, QuotaOverview, QuotaView } from '../api';
import { TotalSeries } from './totals';

const overview = (atS: number, ...rates: number[]): QuotaOverview => ({
  at_ms: atS * 1000,
  policy: 'seed',
  version: 1,
  instances: rates.map((rate, index) => {
    const direction = { rate_per_s: rate, throttled_ms_per_s: rate > 10 ? 5 : 0 };
    return {
      instance_id: `i${index}`,
      produce: direction,
      consume: direction,
      cpu: { total: { rate_per_s: 0, throttled_ms_per_s: 0 } },
      stored_bytes: 0,
      capacity_bytes: 1,
      blocked: false,
    } as unknown as QuotaView;
  }),
});
function history(atMs: number[], rates: number[]): History {
  const line = {
    rate_per_s: rates,
    throttled_ms_per_s: rates.map((rate) => (rate > 10 ? 5 : 0)),
    share_per_s: [],
    proportion_per_s: [],
    allocated_per_s: [],
  };
  return {
    at_ms: atMs,
    stored_bytes: rates,
    blocked: rates.map(() => false),
    brokers: [{ node_id: 1, produce: line, consume: line }],
    cpu: [],
  };
}

describe('TotalSeries', () => {
  it('sums every event and keeps a window', () => {
    const totals = new TotalSeries(10);
    for (let atS = 1; atS <= 20; atS += 1) totals.append(overview(atS, atS, 1));
    totals.append(overview(20, 99));
    const { atS, produce, throttled } = totals.columns();
    expect(atS).toEqual([10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
    expect(produce.at(-1)).toBe(21);
    expect(throttled.slice(0, 2)).toEqual([0, 1]);
    expect(totals.recent('i0').produce).toHaveLength(20);
  });
  it('puts history before what was seen live, and bridges reports that fall between seconds', () => {
    const totals = new TotalSeries(100);
    totals.append(overview(105, 7, 8));
    const histories = new Map([
      ['i0', history([102_400, 103_400, 104_400, 105_400], [1, 2, 3, 99])],
      ['i1', history([102_600, 104_600], [10, 20])],
    ]);
    totals.seed(histories, 105);
    const { atS, produce } = totals.columns();
    expect(atS).toEqual([102, 103, 104, 105]);
    expect(produce).toEqual([1, 12, 13, 15]);
    expect(totals.recent('i0').produce.slice(-4)).toEqual([1, 2, 3, 7]);
    expect(totals.recent('i0').produce).toHaveLength(60);
  });
  it('forgets instances that are gone', () => {
    const totals = new TotalSeries(10);
    totals.append(overview(1, 5, 6));
    totals.append(overview(2, 5));
    expect(totals.recent('i1').produce).toEqual([]);
  });
});

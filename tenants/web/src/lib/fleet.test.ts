import { describe, expect, it } from 'vitest';
import { after, Trails, type FleetFrame, type FleetRow } from './fleet';

const ROW = { name: 'shop', tenant: 'acme', produce_per_s: 1, blocked: false } as FleetRow;
const WHOLE = {
  whole: true,
  at_ms: 1,
  policy: 'fair',
  totals: { instances: 2 },
  rows: { a: ROW, b: { ...ROW, name: 'till' } },
  walls: { pressure: ['a', 'b'], produce: ['b', 'a'] },
  gone: [],
} as unknown as FleetFrame;

describe('the picture of all instances', () => {
  it('is everything, and then what changed', () => {
    const first = after(null, WHOLE)!;
    const next = after(first, {
      ...WHOLE,
      whole: false,
      at_ms: 2,
      totals: {},
      rows: { b: { blocked: true } },
      walls: { pressure: ['b'] },
      gone: ['a'],
    })!;
    expect(next.rows).toEqual({ b: { ...ROW, name: 'till', blocked: true } });
    expect(next.walls).toEqual({ pressure: ['b'], produce: ['b', 'a'] });
    expect([next.atMs, next.totals.instances]).toEqual([2, 2]);
    expect(Object.keys(first.rows)).toEqual(['a', 'b']);
  });

  it('waits for everything', () => expect(after(null, { ...WHOLE, whole: false })).toBeNull());

  it('remembers two minutes of those that are shown', () => {
    const trails = new Trails();
    const fleet = after(null, WHOLE)!;
    for (let n = 0; n < 70; n += 1) trails.take(fleet);
    expect(trails.of('a').produce).toHaveLength(60);
    trails.take({ ...fleet, rows: {} });
    expect(trails.of('a').produce).toEqual([]);
  });
});

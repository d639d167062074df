import { describe, expect, it } from 'vitest';
import { boundsOf, fixed, HOUR, lastOf, lastsOf, paramsOf, rangeOf, spanOf, withRange } from './span';

const NOW = Date.parse('2026-11-24T12:00:00Z');

describe('the span of charts', () => {
  it('survives the URL', () => {
    const some = { fromMs: NOW - 3_600_000, toMs: NOW };
    for (const range of [lastOf('7d')!, some]) {
      expect(rangeOf(new URLSearchParams(paramsOf(range)))).toEqual(range);
    }
  });

  it('is an hour where nothing sensible is said', () => {
    for (const said of ['', 'range=9y', 'from=x&to=y', 'from=2026-11-24T12:00:00Z', 'from=1970-01-01&to=2026-01-01']) {
      expect(rangeOf(new URLSearchParams(said))).toEqual(HOUR);
    }
    expect(rangeOf(new URLSearchParams('from=2026-11-24T12:00:00Z&to=2026-11-23T12:00:00Z'))).toEqual(HOUR);
  });

  it('is a minute at least', () => {
    expect(fixed(NOW, NOW + 10_000)).toEqual({ fromMs: NOW - 25_000, toMs: NOW + 35_000 });
    expect(fixed(NOW, NOW)).toBeNull();
  });

  it('is longer where more is told of', () => {
    const day = 86_400_000;
    const names = (days: number): string[] => lastsOf(days * day).map(([name]) => name);
    expect(names(31).at(-1)).toBe('30d');
    expect(names(366).slice(-2)).toEqual(['90d', '1y']);
    expect(rangeOf(new URLSearchParams('range=90d'))).toEqual({ last: '90d', ms: 90 * day });
    expect(fixed(NOW - 90 * day, NOW)).not.toBeNull();
    expect(fixed(NOW - 90 * day, NOW, 31 * day)).toBeNull();
    expect(fixed(NOW - 367 * day, NOW)).toBeNull();
  });

  it('keeps what else the URL says', () => {
    const said = withRange(new URLSearchParams('topic=orders&range=1h'), { fromMs: 0, toMs: 60_000 });
    expect([...said.keys()]).toEqual(['topic', 'from', 'to']);
  });

  it('ends now, or where it says', () => {
    expect(boundsOf(HOUR, NOW)).toEqual({ from: '2026-11-24T11:00:00.000Z' });
    expect(spanOf({ fromMs: 1000, toMs: 61_000 }, NOW)).toEqual([1, 61]);
  });
});

import { describe, expect, it } from 'vitest';
import { KINDS, leftOf, orderOf, type Asked } from './faults';

const asked: Asked = { kind: 'latency', durationS: 60, delay: '300', share: '50', above: '1000', once: false };

describe('orderOf', () => {
  it('says only what the kind takes', () => {
    expect(orderOf(asked)).toEqual({
      order: { kind: 'latency', duration_s: 60, delay_ms: 300, share_percent: 50 },
    });
    expect(orderOf({ ...asked, kind: 'throttling' })).toEqual({
      order: { kind: 'throttling', duration_s: 60, throttle_time_ms: 300 },
    });
    expect(orderOf({ ...asked, kind: 'message_too_large' })).toEqual({
      order: { kind: 'message_too_large', duration_s: 60, above_bytes: 1000, share_percent: 50 },
    });
  });
  it('has no share of everybody', () =>
    expect(orderOf({ ...asked, kind: 'connection_reset', once: true })).toEqual({
      order: { kind: 'connection_reset', duration_s: 60, once: true },
    }));
  it.each(['', '-1', '1.5', 'x'])('refuses %j where a number is wanted', (delay) => {
    const found = orderOf({ ...asked, delay });
    expect('faults' in found && Object.keys(found.faults)).toEqual(['delay_ms']);
  });
  it('does not look at fields of other kinds', () => {
    for (const { kind } of KINDS.filter((one) => !one.takes.includes('above_bytes')))
      expect('order' in orderOf({ ...asked, kind, above: 'x' })).toBe(true);
  });
});

describe('leftOf', () => {
  const endsAt = '2026-11-22T10:05:00Z';
  it.each([
    ['2026-11-22T10:00:55Z', '4:05'],
    ['2026-11-22T10:04:59.5Z', '0:01'],
    ['2026-11-22T10:05:01Z', '0:00'],
  ])('%s leaves %s', (now, left) => expect(leftOf(endsAt, Date.parse(now))).toBe(left));
});

import { describe, expect, it } from 'vitest';
import type { Alarm } from '../api';
import { ALL, filterOf, queryOf, shows } from './alarm_filter';

const OPEN = { kind: 'full', severity: 'critical', instance_id: 'i1', acknowledged_at: null, silenced_until: null };
const alarm = (other: Partial<Alarm> = {}): Alarm => ({ ...OPEN, ...other }) as Alarm;

describe('the filter of alarms', () => {
  it('reads back what it writes', () => {
    const filter = { state: 'open', severity: 'warning', kind: 'full', instance: 'a&b=c' } as const;
    expect(filterOf(queryOf(filter).slice(1))).toEqual(filter);
    expect(queryOf(ALL)).toBe('');
  });
  it('takes what it does not know for none', () => expect(filterOf('state=odd&severity=9&else=1')).toEqual({ ...ALL }));
  it('shows what fits all that is asked', () => {
    expect(shows(ALL, alarm())).toBe(true);
    const seen = alarm({ acknowledged_at: '2026-11-24T00:00:00Z' });
    expect(shows({ ...ALL, state: 'open' }, seen)).toBe(false);
    expect(shows({ ...ALL, state: 'acknowledged' }, seen)).toBe(true);
    expect(shows({ ...ALL, state: 'silenced' }, seen)).toBe(false);
    expect(shows({ ...ALL, severity: 'warning' }, alarm())).toBe(false);
    expect(shows({ ...ALL, kind: 'full', instance: 'i1' }, alarm())).toBe(true);
    expect(shows({ ...ALL, instance: 'i2' }, alarm())).toBe(false);
  });
});

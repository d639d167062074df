import { describe, expect, it } from 'vitest';
import type { Alarm, AlarmRule } from '../api';
import { inOrder, isQuiet, isRaised, ruleWords, silenceEnd, stateWords, wholeNumber } from './alarms';

const RULE: AlarmRule = {
  kind: 'unknown_address',
  title: 'an unknown address knocks',
  unit: 'refused connections',
  enabled: true,
  threshold: 5,
  window_minutes: 10,
  raise_after: 1,
  clear_after: 6,
};
const WELL: Alarm = {
  kind: 'unknown_address',
  subject: '',
  instance_id: 'i1',
  tenant: 'acme',
  instance_name: 'shop',
  severity: 'warning',
  title: 'an unknown address knocks',
  state: 'ok',
  since: '2026-11-24T00:00:00Z',
  raised_at: null,
  known_at: '2026-11-24T00:00:00Z',
  value: 0,
  says: 'nobody was refused',
  remedy: 'Admit it.',
  acknowledged_at: null,
  acknowledged_by: null,
  silenced_until: null,
  silenced_by: null,
  rule: RULE,
};
const RAISED: Alarm = { ...WELL, state: 'raised', raised_at: '2026-11-24T00:00:00Z' };
const SEEN: Alarm = { ...RAISED, acknowledged_at: '2026-11-24T00:01:00Z' };
const UNKNOWN: Alarm = { ...WELL, state: 'unknown' };
const OFF: Alarm = { ...UNKNOWN, rule: { ...RULE, enabled: false } };

describe('states', () => {
  it('says what is known', () => {
    expect(stateWords(WELL)).toEqual(['ok', 'ok']);
    expect(stateWords(RAISED)).toEqual(['danger', 'raised']);
    expect(stateWords(SEEN)).toEqual(['warn', 'raised']);
    expect(stateWords({ ...RAISED, state: 'unknown' })).toEqual(['danger', 'raised, unknown now']);
    expect(stateWords(UNKNOWN)).toEqual(['neutral', 'unknown']);
    expect(stateWords(OFF)).toEqual(['neutral', 'off']);
  });
  it('stays raised while nobody tells', () => expect(isRaised({ ...RAISED, state: 'unknown' })).toBe(true));
  it('is quiet once seen or silenced', () => {
    expect(isQuiet(RAISED)).toBe(false);
    expect(isQuiet({ ...RAISED, silenced_until: '2026-11-25T00:00:00Z' })).toBe(true);
  });
  it('puts first what needs somebody', () =>
    expect(inOrder([OFF, WELL, UNKNOWN, SEEN, RAISED])).toEqual([RAISED, SEEN, UNKNOWN, WELL, OFF]));
});

describe('rules', () => {
  it('are told with their figures', () => {
    expect(ruleWords(RULE)).toBe(
      'From 5 (refused connections) within 10 min; raised after 1 look, cleared after 6 looks of 10 s',
    );
    expect(ruleWords({ ...RULE, window_minutes: 0 })).not.toContain('within');
    expect(ruleWords(OFF.rule)).toBe('Off: it is not looked at');
  });
  it('take whole numbers', () => {
    expect(wholeNumber('100,000')).toBe(100_000);
    for (const text of ['', '-1', '1.5', 'x', '9'.repeat(16)]) expect(wholeNumber(text)).toBeNull();
  });
});

it('silences until a time, the longest within the bound', () => {
  expect(silenceEnd(4, Date.UTC(2026, 10, 24))).toBe('2026-11-24T04:00:00.000Z');
  expect(silenceEnd(720, Date.UTC(2026, 10, 24))).toBe('2026-12-23T23:55:00.000Z');
});

import { expect, it } from 'vitest';
import type { Costs, LimitCosts } from '../api';
import { costRows, leftOut, moneyOf, resizedWords } from './costs';

const COSTS: Costs = {
  available: true,
  hint: null,
  instance_id: 'iabc',
  month: '2026-11',
  provisional: true,
  known_until: '2026-11-27T13:00:00Z',
  currency: 'USD',
  minor_unit_digits: 2,
  price_version: 3,
  so_far_minor: 123_456,
  projected_minor: 150_000,
  lines: [
    {
      dimension: 'storage',
      unit: 'GB-hours',
      quantity: '1234.500000',
      amount_minor: 123_456,
      projected_quantity: '1500.000000',
      projected_minor: 150_000,
    },
  ],
  left_out: [
    { dimension: 'bandwidth_p95', cause: 'five_minutes', reason: '' },
    { dimension: 'requests', cause: 'no_price', reason: '' },
  ],
};
const EARLY: Costs = {
  ...COSTS,
  projected_minor: null,
  lines: [{ ...COSTS.lines[0]!, projected_quantity: null, projected_minor: null }],
  left_out: [],
};

it('has a row of each dimension, so far and at the end', () =>
  expect(costRows(COSTS)).toEqual([
    {
      title: 'Storage',
      soFar: '1,234.5 GB-hours',
      amount: '$1,234.56',
      atEnd: '1,500 GB-hours',
      amountThen: '$1,500.00',
    },
  ]));

it('shows nothing, and not zero, where nothing is projected', () => {
  expect(costRows(EARLY)[0]).toMatchObject({ amount: '$1,234.56', atEnd: '–', amountThen: '–' });
  expect(moneyOf(EARLY, EARLY.projected_minor)).toBe('–');
  expect(moneyOf({ ...COSTS, currency: null }, 5)).toBe('–');
  expect(moneyOf(COSTS, 0)).toBe('$0.00');
});

it('says two decimals of much and all of little', () => {
  const of = (quantity: string): string => costRows({ ...COSTS, lines: [{ ...COSTS.lines[0]!, quantity }] })[0]!.soFar;
  expect(of('122902.394049')).toBe('122,902.39 GB-hours');
  expect(of('0.000003')).toBe('0.000003 GB-hours');
  expect(of('7.000000')).toBe('7 GB-hours');
});

it('names what is left out, with why, and adjustments in any case', () => {
  const [p95, requests, adjustments] = leftOut(COSTS);
  expect(p95).toMatch(/^Bandwidth.*pipeline/);
  expect(requests).toMatch(/^Requests.*no price/);
  expect(adjustments).toMatch(/[Aa]djustments/);
  expect(leftOut(EARLY)).toEqual([adjustments]);
});

it('says what other rates cost, and how much more or less that is', () => {
  const asked: LimitCosts = {
    available: true,
    hint: null,
    instance_id: 'iabc',
    month: '2026-11',
    currency: 'USD',
    minor_unit_digits: 2,
    price_version: 3,
    now_minor: 2160,
    then_minor: 4320,
  };
  const less = { ...asked, then_minor: 720 };
  expect(resizedWords(asked)).toMatch(/cost \$43\.20 .*, \$21\.60 more than now \(\$21\.60\)/);
  expect(resizedWords(less)).toMatch(/cost \$7\.20 .*, \$14\.40 less than now \(\$21\.60\)/);
  expect(resizedWords({ ...asked, now_minor: 0, then_minor: 0 })).toMatch(/cost \$0\.00 .*, as much as now/);
  expect(resizedWords({ ...asked, then_minor: null })).toBe(null);
});

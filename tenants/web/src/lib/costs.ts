// What the month that goes on costs, as a table and sentences take it.

import type { Costs, LeftOut, LimitCosts } from '../api';
import { m } from '../paraglide/messages';
import { titleOf } from './billing';
import { formatMoney, formatQuantity } from './units';

export interface CostRow {
  title: string;
  soFar: string;
  amount: string;
  atEnd: string;
  amountThen: string;
}

/** Nothing is said of what is not known: it is no zero. */
const UNKNOWN = '–';

/** Minor units as money of these costs. */
export function moneyOf(costs: Pick<Costs, 'currency' | 'minor_unit_digits'>, minor: number | null): string {
  if (minor === null || costs.currency === null || costs.minor_unit_digits === null) return UNKNOWN;
  return formatMoney(minor, costs.minor_unit_digits, costs.currency);
}

/** Of more than one, two decimals say enough of what is provisional. */
function shortly(decimal: string, unit: string): string {
  const [integer = '0', fraction = ''] = decimal.split('.');
  return `${formatQuantity(integer === '0' ? decimal : `${integer}.${fraction.slice(0, 2)}`)} ${unit}`;
}

export const costRows = (costs: Costs): CostRow[] =>
  costs.lines.map((line) => ({
    title: titleOf(line.dimension),
    soFar: shortly(line.quantity, line.unit),
    amount: moneyOf(costs, line.amount_minor),
    atEnd: line.projected_quantity === null ? UNKNOWN : shortly(line.projected_quantity, line.unit),
    amountThen: moneyOf(costs, line.projected_minor),
  }));

const CAUSES: Record<LeftOut['cause'], (inputs: { what: string }) => string> = {
  five_minutes: m.left_out_for_five_minutes,
  no_price: m.left_out_for_no_price,
};

/** What the bill will have beside the costs, each in a sentence; the last is never known before. */
export const leftOut = (costs: Costs): string[] => [
  ...costs.left_out.map((one) => CAUSES[one.cause]({ what: titleOf(one.dimension) })),
  m.left_out_adjustments(),
];

/** What other rates cost than those of now; null: they have no price, or nobody knows it. */
export function resizedWords(told: LimitCosts): string | null {
  if (told.now_minor === null || told.then_minor === null) return null;
  const then = moneyOf(told, told.then_minor);
  const difference = moneyOf(told, Math.abs(told.then_minor - told.now_minor));
  if (told.then_minor === told.now_minor) return m.rates_cost_as_much({ then });
  return told.then_minor > told.now_minor
    ? m.rates_cost_more({ then, difference, now: moneyOf(told, told.now_minor) })
    : m.rates_cost_less({ then, difference, now: moneyOf(told, told.now_minor) });
}

// What the month that goes on costs, as a table and sentences take it.

import type { Costs, LeftOut } from '../api';
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
export function moneyOf(costs: Costs, minor: number | null): string {
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

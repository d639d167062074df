// Points of a chart for who does not see it: which keys lead from one to the next, and rows of a table.

export type Points = readonly [readonly number[], ...(readonly (number | null | undefined)[])[]];

/** Points of a span at which anything is known, by place. */
export function known([atS, ...columns]: Points, [from, to]: readonly [number, number]): number[] {
  const places: number[] = [];
  for (const [place, at] of atS.entries()) {
    const isKnown = columns.some((column) => column[place] !== null && column[place] !== undefined);
    if (at >= from && at <= to && isKnown) places.push(place);
  }
  return places;
}

/** Where a key leads from a point, or from none; null: away from all, undefined: nowhere, or it is no such key. */
export function led(key: string, from: number | null, places: readonly number[]): number | null | undefined {
  if (key === 'Escape') return null;
  if (key === 'Home') return places[0];
  if (key === 'End') return places.at(-1);
  const many = Math.max(1, Math.round(places.length / 10));
  const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -many, PageUp: many }[key];
  if (step === undefined) return undefined;
  // Whoever begins hears the newest first.
  if (from === null) return places.at(-1);
  // One that is known no more lies between two.
  const before = places.filter((place) => place < from).length;
  const to = before + step - (step > 0 && places[before] !== from ? 1 : 0);
  return places[Math.min(places.length - 1, Math.max(0, to))];
}

/** What is not known is no zero. */
export const textOf = (value: number | null | undefined, format: (value: number) => string): string =>
  value === null || value === undefined ? '–' : format(value);

export interface PointRow {
  atS: number;
  values: string[];
}

/** Of places, the newest first, as many as `most`. */
export const rowsOf = (
  [atS, ...columns]: Points,
  places: readonly number[],
  format: (value: number) => string,
  most: number,
): PointRow[] =>
  places
    .slice(-most)
    .reverse()
    .map((place) => ({ atS: atS[place]!, values: columns.map((column) => textOf(column[place], format)) }));

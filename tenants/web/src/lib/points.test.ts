import { describe, expect, it } from 'vitest';
import { known, led, rowsOf, type Points } from './points';

const POINTS: Points = [
  [10, 20, 30, 40, 50],
  [1, 2, null, null, 4],
  [0, 5, 6, undefined, null],
];

describe('known', () => {
  it.each<[[number, number], number[]]>([
    [
      [0, 99],
      [0, 1, 2, 4],
    ],
    [
      [20, 40],
      [1, 2],
    ],
    [[31, 49], []],
    [[60, 99], []],
  ])('has the points of %j with a value', (span, places) => expect(known(POINTS, span)).toEqual(places));
  it('has none of nothing', () => expect(known([[]], [0, 99])).toEqual([]));
});

describe('led', () => {
  const places = [...Array(21).keys()].map((number) => number + 5).filter((place) => place !== 9);
  it.each<[string, number | null, number | null | undefined]>([
    ['ArrowLeft', 7, 6],
    ['ArrowRight', 7, 8],
    ['ArrowLeft', 5, 5],
    ['ArrowRight', 25, 25],
    ['ArrowLeft', 10, 8],
    ['ArrowRight', 8, 10],
    ['ArrowLeft', null, 25],
    ['ArrowRight', null, 25],
    ['PageDown', 15, 13],
    ['PageUp', 15, 17],
    ['Home', null, 5],
    ['End', 7, 25],
    ['Escape', 7, null],
    ['Tab', 7, undefined],
    ['ArrowDown', 7, undefined],
  ])('%s from %j is %j', (key, from, to) => expect(led(key, from, places)).toBe(to));
  it('leads on from a point that is known no more', () => {
    expect(led('ArrowLeft', 9, places)).toBe(8);
    expect(led('ArrowRight', 9, places)).toBe(10);
    expect(led('ArrowLeft', 2, places)).toBe(5);
  });
  it('leads nowhere where nothing is', () => expect(led('ArrowLeft', null, [])).toBeUndefined());
});

describe('rowsOf', () => {
  const said = (value: number): string => `${value} B`;
  it('has the newest first, and unknown values are not zero', () =>
    expect(rowsOf(POINTS, [0, 2, 4], said, 9)).toEqual([
      { atS: 50, values: ['4 B', '–'] },
      { atS: 30, values: ['–', '6 B'] },
      { atS: 10, values: ['1 B', '0 B'] },
    ]));
  it('has no more than may be', () => expect(rowsOf(POINTS, [0, 2, 4], said, 1).map((row) => row.atS)).toEqual([50]));
});

// Quota over time as aligned columns for charts: history first, then one point per event.

import type { BrokerDirection, Direction, History, HistoryDirection, QuotaView, Series } from '../api';

export interface Track {
  rate: Series;
  share: Series;
  proportion: Series;
  allocated: Series;
  throttled: Series;
}
export type Measure = keyof Track;
type Tracks = Record<Direction, Track>;

const MEASURES: readonly Measure[] = ['rate', 'share', 'proportion', 'allocated', 'throttled'];
const DIRECTIONS: readonly Direction[] = ['produce', 'consume'];
/** A stream that paused longer than this leaves a gap in the lines instead of a bridge. */
const GAP_S = 30;

const FIELD: Record<Measure, keyof HistoryDirection & keyof BrokerDirection> = {
  rate: 'rate_per_s',
  share: 'share_per_s',
  proportion: 'proportion_per_s',
  allocated: 'allocated_per_s',
  throttled: 'throttled_ms_per_s',
};

const emptyTrack = (length: number): Track =>
  Object.fromEntries(MEASURES.map((measure) => [measure, Array<number | null>(length).fill(null)])) as unknown as Track;
const emptyTracks = (length: number): Tracks => ({ produce: emptyTrack(length), consume: emptyTrack(length) });

/** Invariant: every column is as long as `atS`, whose times only grow. */
export class QuotaSeries {
  readonly atS: number[] = [];
  readonly stored: Series = [];
  readonly byNode = new Map<number, Tracks>();
  #keepS: number;

  constructor(keepS: number, history?: History) {
    this.#keepS = keepS;
    if (history === undefined) return;
    this.atS.push(...history.at_ms.map((ms) => ms / 1000));
    this.stored.push(...history.stored_bytes);
    for (const broker of history.brokers) {
      const tracks = emptyTracks(0);
      for (const direction of DIRECTIONS) {
        for (const measure of MEASURES) tracks[direction][measure].push(...broker[direction][FIELD[measure]]);
      }
      this.byNode.set(broker.node_id, tracks);
    }
  }

  get nodes(): number[] {
    return [...this.byNode.keys()].sort((a, b) => a - b);
  }

  /** Adds the newest point; one that is not newer than the last changes nothing. */
  append(view: QuotaView): void {
    const atS = view.at_ms / 1000;
    const last = this.atS.at(-1);
    if (last !== undefined && atS <= last) return;
    if (last !== undefined && atS - last > GAP_S) this.#push(last + 1, null);
    this.#push(atS, view);
    this.#trim(atS - this.#keepS);
  }

  #push(atS: number, view: QuotaView | null): void {
    for (const broker of view?.brokers ?? []) {
      if (!this.byNode.has(broker.node_id)) this.byNode.set(broker.node_id, emptyTracks(this.atS.length));
    }
    this.atS.push(atS);
    this.stored.push(view?.stored_bytes ?? null);
    for (const [node, tracks] of this.byNode) {
      const broker = view?.brokers.find((found) => found.node_id === node);
      for (const direction of DIRECTIONS) {
        for (const measure of MEASURES)
          tracks[direction][measure].push(broker ? broker[direction][FIELD[measure]] : null);
      }
    }
  }

  #trim(sinceS: number): void {
    const first = this.#indexOf(sinceS);
    if (first === 0) return;
    this.atS.splice(0, first);
    this.stored.splice(0, first);
    for (const tracks of this.byNode.values()) {
      for (const direction of DIRECTIONS) for (const measure of MEASURES) tracks[direction][measure].splice(0, first);
    }
  }

  #indexOf(sinceS: number): number {
    const found = this.atS.findIndex((atS) => atS >= sinceS);
    return found === -1 ? this.atS.length : found;
  }

  /** Times since `sinceS`. */
  times(sinceS: number): number[] {
    return this.atS.slice(this.#indexOf(sinceS));
  }

  storedSince(sinceS: number): Series {
    return this.stored.slice(this.#indexOf(sinceS));
  }

  /** One measure of one broker, or of all: rates add up, of throttled time the worst counts. */
  column(direction: Direction, measure: Measure, node: number | null, sinceS: number): Series {
    const from = this.#indexOf(sinceS);
    if (node !== null) return this.byNode.get(node)?.[direction][measure].slice(from) ?? [];
    const columns = [...this.byNode.values()].map((tracks) => tracks[direction][measure]);
    const together = (a: number, b: number): number => (measure === 'throttled' ? Math.max(a, b) : a + b);
    return this.atS.slice(from).map((_, offset) =>
      columns.reduce<number | null>((sum, column) => {
        const value = column[from + offset] ?? null;
        return value === null ? sum : sum === null ? value : together(sum, value);
      }, null),
    );
  }
}

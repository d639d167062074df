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
/** A direction of bytes, or request time. */
export type Flow = Direction | 'cpu';

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
const each = (track: Track, change: (series: Series, measure: Measure) => void): void => {
  for (const measure of MEASURES) change(track[measure], measure);
};
const emptyTracks = (length: number): Tracks => ({ produce: emptyTrack(length), consume: emptyTrack(length) });

/** Invariant: every column is as long as `atS`, whose times only grow. */
export class QuotaSeries {
  readonly atS: number[] = [];
  readonly stored: Series = [];
  readonly byNode = new Map<number, Tracks>();
  /** Request time of brokers and gateway workers. */
  readonly byPoint = new Map<string, Track>();
  #keepS: number;

  constructor(keepS: number, history?: History) {
    this.#keepS = keepS;
    if (history === undefined) return;
    this.atS.push(...history.at_ms.map((ms) => ms / 1000));
    this.stored.push(...history.stored_bytes);
    for (const broker of history.brokers) {
      const tracks = emptyTracks(0);
      for (const direction of DIRECTIONS) {
        each(tracks[direction], (series, measure) => series.push(...broker[direction][FIELD[measure]]));
      }
      this.byNode.set(broker.node_id, tracks);
    }
    for (const { point, flow } of history.cpu) {
      const track = emptyTrack(0);
      each(track, (series, measure) => series.push(...flow[FIELD[measure]]));
      this.byPoint.set(point, track);
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
    for (const { point } of view?.cpu.points ?? []) {
      if (!this.byPoint.has(point)) this.byPoint.set(point, emptyTrack(this.atS.length));
    }
    this.atS.push(atS);
    this.stored.push(view?.stored_bytes ?? null);
    for (const [node, tracks] of this.byNode) {
      const broker = view?.brokers.find((found) => found.node_id === node);
      for (const direction of DIRECTIONS) {
        each(tracks[direction], (series, measure) => series.push(broker ? broker[direction][FIELD[measure]] : null));
      }
    }
    for (const [point, track] of this.byPoint) {
      const flow = view?.cpu.points.find((found) => found.point === point)?.flow;
      each(track, (series, measure) => series.push(flow ? flow[FIELD[measure]] : null));
    }
  }

  #trim(sinceS: number): void {
    const first = this.#indexOf(sinceS);
    if (first === 0) return;
    this.atS.splice(0, first);
    this.stored.splice(0, first);
    for (const tracks of this.byNode.values()) {
      for (const direction of DIRECTIONS) each(tracks[direction], (series) => series.splice(0, first));
    }
    for (const track of this.byPoint.values()) each(track, (series) => series.splice(0, first));
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

  /** One measure of one broker, or of all. Of request time it is of all points: they are not brokers alone. */
  column(flow: Flow, measure: Measure, node: number | null, sinceS: number): Series {
    const from = this.#indexOf(sinceS);
    if (flow === 'cpu')
      return this.#sum(
        [...this.byPoint.values()].map((track) => track[measure]),
        measure,
        from,
      );
    if (node !== null) return this.byNode.get(node)?.[flow][measure].slice(from) ?? [];
    return this.#sum(
      [...this.byNode.values()].map((tracks) => tracks[flow][measure]),
      measure,
      from,
    );
  }

  /** Rates add up, of throttled time the worst counts. */
  #sum(columns: Series[], measure: Measure, from: number): Series {
    const together = (a: number, b: number): number => (measure === 'throttled' ? Math.max(a, b) : a + b);
    return this.atS.slice(from).map((_, offset) =>
      columns.reduce<number | null>((sum, column) => {
        const value = column[from + offset] ?? null;
        return value === null ? sum : sum === null ? value : together(sum, value);
      }, null),
    );
  }
}

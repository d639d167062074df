// The dashboard's picture: everything once, then what changed (`GET /v1/fleet/stream`).

export const WALLS = ['pressure', 'produce', 'consume', 'stored', 'skew', 'unused'] as const;
export type Wall = (typeof WALLS)[number];

export interface FleetTotals {
  instances: number;
  produce_per_s: number;
  consume_per_s: number;
  produce_bought_per_s: number;
  consume_bought_per_s: number;
  stored_bytes: number;
  capacity_bytes: number;
  throttled: number;
  blocked: number;
  silent: number;
}

export interface FleetRow {
  name: string;
  tenant: string;
  produce_per_s: number;
  consume_per_s: number;
  produce_bought_per_s: number;
  consume_bought_per_s: number;
  throttled_ms_per_s: number;
  stored_bytes: number;
  capacity_bytes: number;
  blocked: boolean;
  skew_percent: number;
  silent_brokers: number;
}

export interface FleetFrame {
  whole: boolean;
  at_ms: number;
  policy: string;
  totals: Partial<FleetTotals>;
  rows: Record<string, Partial<FleetRow>>;
  walls: Partial<Record<Wall, string[]>>;
  gone: string[];
}

export interface Fleet {
  atMs: number;
  policy: string;
  totals: FleetTotals;
  rows: Record<string, FleetRow>;
  walls: Record<Wall, string[]>;
}

/** The picture after a frame; null: a change came before there was anything. */
export function after(before: Fleet | null, frame: FleetFrame): Fleet | null {
  const { at_ms: atMs, policy } = frame;
  if (frame.whole)
    return {
      atMs,
      policy,
      totals: frame.totals as FleetTotals,
      rows: frame.rows as Record<string, FleetRow>,
      walls: frame.walls as Record<Wall, string[]>,
    };
  if (before === null) return null;
  const rows = { ...before.rows };
  for (const id of frame.gone) delete rows[id];
  for (const [id, changed] of Object.entries(frame.rows)) rows[id] = { ...rows[id], ...changed } as FleetRow;
  return {
    atMs,
    policy,
    totals: { ...before.totals, ...frame.totals },
    rows,
    walls: { ...before.walls, ...frame.walls },
  };
}

/** What was seen of each instance since the page was opened, for small lines; two seconds apart. */
export class Trails {
  #of = new Map<string, { produce: number[]; consume: number[] }>();

  take(fleet: Fleet): void {
    for (const id of this.#of.keys()) if (!(id in fleet.rows)) this.#of.delete(id);
    for (const [id, row] of Object.entries(fleet.rows)) {
      const trail = this.of(id);
      this.#of.set(id, {
        produce: [...trail.produce, row.produce_per_s].slice(-60),
        consume: [...trail.consume, row.consume_per_s].slice(-60),
      });
    }
  }

  of(id: string): { produce: number[]; consume: number[] } {
    return this.#of.get(id) ?? { produce: [], consume: [] };
  }
}

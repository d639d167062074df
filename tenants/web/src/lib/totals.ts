// What the operator's dashboard remembers while it is open: sums over all instances and a minute of each.

import type { History, QuotaOverview } from '../api';
import { totalsOf } from './quota';

type Column = (number | null)[];

export interface Recent {
  produce: Column;
  consume: Column;
}

const RECENT = 60;
/** Reports of different instances fall into different moments: a value counts for this many seconds. */
const HOLD_S = 3;
const NAMES = ['produce', 'consume', 'throttled', 'blocked'] as const;
type Sums = Record<(typeof NAMES)[number], number>;

/** The history of one instance as sums over its brokers, by whole second. */
function bySecond(history: History): Map<number, Sums> {
  const sums = new Map<number, Sums>();
  for (const [index, atMs] of history.at_ms.entries()) {
    const here: Sums = { produce: 0, consume: 0, throttled: 0, blocked: history.blocked[index] ? 1 : 0 };
    for (const broker of history.brokers) {
      for (const direction of ['produce', 'consume'] as const) {
        here[direction] += broker[direction].rate_per_s[index] ?? 0;
        if ((broker[direction].throttled_ms_per_s[index] ?? 0) > 0) here.throttled = 1;
      }
    }
    sums.set(Math.round(atMs / 1000), here);
  }
  return sums;
}

function heldAt(sums: Map<number, Sums>, second: number): Sums | undefined {
  for (let back = 0; back < HOLD_S; back += 1) {
    const found = sums.get(second - back);
    if (found !== undefined) return found;
  }
  return undefined;
}

export class TotalSeries {
  #keepS: number;
  #atS: number[] = [];
  #columns = { produce: [] as Column, consume: [] as Column, throttled: [] as Column, blocked: [] as Column };
  #recent = new Map<string, Recent>();

  constructor(keepS: number) {
    this.#keepS = keepS;
  }

  /** What happened before the page was opened; only right when it holds every instance. */
  seed(histories: Map<string, History>, untilS: number): void {
    const all = new Map([...histories].map(([id, history]) => [id, bySecond(history)]));
    const end = Math.min(Math.floor(untilS), Math.ceil(this.#atS[0] ?? untilS) - 1);
    const times: number[] = [];
    const columns = {
      produce: [] as number[],
      consume: [] as number[],
      throttled: [] as number[],
      blocked: [] as number[],
    };
    for (let second = end - this.#keepS; second <= end; second += 1) {
      const present = [...all.values()].map((sums) => heldAt(sums, second)).filter((sums) => sums !== undefined);
      if (present.length === 0) continue;
      times.push(second);
      for (const name of NAMES) columns[name].push(present.reduce((sum, one) => sum + one[name], 0));
    }
    this.#atS.unshift(...times);
    for (const name of NAMES) this.#columns[name].unshift(...columns[name]);
    for (const [id, sums] of all) {
      const now = this.recent(id);
      const past = Array.from({ length: RECENT - now.produce.length }, (_, index) =>
        heldAt(sums, end - (RECENT - now.produce.length) + 1 + index),
      );
      const join = (name: 'produce' | 'consume'): Column =>
        [...past.map((one) => one?.[name] ?? 0), ...now[name]].slice(-RECENT);
      this.#recent.set(id, { produce: join('produce'), consume: join('consume') });
    }
  }

  append(overview: QuotaOverview): void {
    const atS = overview.at_ms / 1000;
    if (atS <= (this.#atS.at(-1) ?? 0)) return;
    const totals = totalsOf(overview.instances);
    this.#atS.push(atS);
    for (const name of NAMES) this.#columns[name].push(totals[name]);
    const old = this.#atS.findIndex((time) => time >= atS - this.#keepS);
    this.#atS.splice(0, old);
    for (const column of Object.values(this.#columns)) column.splice(0, old);
    this.#remember(overview);
  }

  #remember(overview: QuotaOverview): void {
    const seen = new Set<string>();
    for (const view of overview.instances) {
      seen.add(view.instance_id);
      const recent = this.#recent.get(view.instance_id) ?? { produce: [], consume: [] };
      for (const direction of ['produce', 'consume'] as const)
        recent[direction] = [...recent[direction], view[direction].rate_per_s].slice(-RECENT);
      this.#recent.set(view.instance_id, recent);
    }
    for (const id of this.#recent.keys()) if (!seen.has(id)) this.#recent.delete(id);
  }

  columns(): { atS: number[]; produce: Column; consume: Column; throttled: Column; blocked: Column } {
    const { produce, consume, throttled, blocked } = this.#columns;
    return {
      atS: [...this.#atS],
      produce: [...produce],
      consume: [...consume],
      throttled: [...throttled],
      blocked: [...blocked],
    };
  }

  recent(instanceId: string): Recent {
    const { produce = [], consume = [] } = this.#recent.get(instanceId) ?? {};
    return { produce, consume };
  }
}

// What the operator's dashboard remembers while it is open: sums over all instances and a minute of each.

import type { QuotaOverview } from '../api';
import { totalsOf } from './quota';

type Column = (number | null)[];

export interface Recent {
  produce: Column;
  consume: Column;
}

const RECENT = 60;

export class TotalSeries {
  #keepS: number;
  #atS: number[] = [];
  #columns = { produce: [] as Column, consume: [] as Column, throttled: [] as Column, blocked: [] as Column };
  #recent = new Map<string, Recent>();

  constructor(keepS: number) {
    this.#keepS = keepS;
  }

  append(overview: QuotaOverview): void {
    const atS = overview.at_ms / 1000;
    if (atS <= (this.#atS.at(-1) ?? 0)) return;
    const totals = totalsOf(overview.instances);
    this.#atS.push(atS);
    for (const name of ['produce', 'consume', 'throttled', 'blocked'] as const) this.#columns[name].push(totals[name]);
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
      for (const direction of ['produce', 'consume'] as const) recent[direction] = [...recent[direction], view[direction].rate_bytes_per_s].slice(-RECENT);
      this.#recent.set(view.instance_id, recent);
    }
    for (const id of this.#recent.keys()) if (!seen.has(id)) this.#recent.delete(id);
  }

  columns(): { atS: number[]; produce: Column; consume: Column; throttled: Column; blocked: Column } {
    const { produce, consume, throttled, blocked } = this.#columns;
    return { atS: [...this.#atS], produce: [...produce], consume: [...consume], throttled: [...throttled], blocked: [...blocked] };
  }

  recent(instanceId: string): Recent {
    const { produce = [], consume = [] } = this.#recent.get(instanceId) ?? {};
    return { produce, consume };
  }
}

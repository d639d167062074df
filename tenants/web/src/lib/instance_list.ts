// Which instances are listed and in which order, as the page's URL says.

import type { Instance } from '../api';

export const SORTS = ['name', 'tenant', 'state', 'produce', 'consume', 'stored', 'partitions', 'connections'] as const;
export type Sort = (typeof SORTS)[number];
export const HEALTHS = ['trouble', 'throttled', 'blocked', 'busy', 'calm'] as const;
export type Health = (typeof HEALTHS)[number];

export interface ListFilter {
  sought: string;
  state: string;
  health: string;
  tenant: string;
  sort: Sort;
  down: boolean;
}

/** What somebody typed that means nothing counts as not said. */
export function filterOf(query: string): ListFilter {
  const said = new URLSearchParams(query);
  const sort = said.get('sort') ?? '';
  return {
    sought: said.get('q') ?? '',
    state: said.get('state') ?? '',
    health: HEALTHS.find((one) => one === said.get('health')) ?? '',
    tenant: said.get('tenant') ?? '',
    sort: SORTS.find((one) => one === sort.replace(/^-/, '')) ?? 'name',
    down: sort.startsWith('-'),
  };
}

export function queryOf(filter: ListFilter): string {
  const said = new URLSearchParams();
  if (filter.sought !== '') said.set('q', filter.sought);
  for (const name of ['state', 'health', 'tenant'] as const) if (filter[name] !== '') said.set(name, filter[name]);
  if (filter.sort !== 'name' || filter.down) said.set('sort', `${filter.down ? '-' : ''}${filter.sort}`);
  return said.toString();
}

/** What an operator should know first; null: nobody tells of it now. */
export function healthOf(instance: Instance): Health | null {
  if (instance.state === 'failed' || instance.cluster_trouble !== null) return 'trouble';
  const { traffic } = instance;
  if (instance.blocked) return 'blocked';
  if (traffic === null) return null;
  if (traffic.throttled_ms_per_s > 0) return 'throttled';
  const busy =
    traffic.produce_bytes_per_s >= 0.8 * instance.produce_rate_bytes_per_s ||
    traffic.consume_bytes_per_s >= 0.8 * instance.consume_rate_bytes_per_s;
  return busy ? 'busy' : 'calm';
}

const KEYS: Record<Sort, (one: Instance) => string | number> = {
  name: (one) => one.name,
  tenant: (one) => one.tenant,
  state: (one) => one.state,
  produce: (one) => one.traffic?.produce_bytes_per_s ?? -1,
  consume: (one) => one.traffic?.consume_bytes_per_s ?? -1,
  stored: (one) => (one.stored_bytes ?? -1) / Math.max(1, one.capacity_bytes),
  partitions: (one) => one.partitions ?? -1,
  connections: (one) => one.connections,
};

export function listed(all: readonly Instance[], filter: ListFilter): Instance[] {
  const words = filter.sought.toLowerCase().split(/\s+/);
  const key = KEYS[filter.sort];
  const sign = filter.down ? -1 : 1;
  const compare = (a: string | number, b: string | number): number => (a < b ? -1 : a > b ? 1 : 0);
  return all
    .filter((one) => {
      if (filter.state !== '' && one.state !== filter.state) return false;
      if (filter.tenant !== '' && one.tenant !== filter.tenant) return false;
      if (filter.health !== '' && healthOf(one) !== filter.health) return false;
      const text = `${one.name} ${one.id} ${one.tenant} ${one.state} ${one.bootstrap_servers}`.toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => sign * compare(key(a), key(b)) || compare(a.name, b.name) || compare(a.id, b.id));
}

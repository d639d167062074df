// Which of an instance's connected clients are listed and in which order, as the page's URL says.

import type { Connected } from '../api';
import { m } from '../paraglide/messages';
import { admits } from './cidrs';

export const SORTS = ['client', 'address', 'user', 'connections', 'ended', 'in', 'out', 'bytes'] as const;
export type Sort = (typeof SORTS)[number];

export interface ConnectedOrder {
  sought: string;
  sort: Sort;
  down: boolean;
}

/** Who carries most comes first, unless somebody said otherwise. */
export function orderOf(query: string): ConnectedOrder {
  const said = new URLSearchParams(query);
  const wanted = said.get('sort') ?? '';
  const sort = SORTS.find((one) => one === wanted.replace(/^-/, ''));
  const sought = said.get('q') ?? '';
  return sort === undefined ? { sought, sort: 'bytes', down: true } : { sought, sort, down: wanted.startsWith('-') };
}

export function queryOf(order: ConnectedOrder): string {
  const said = new URLSearchParams();
  if (order.sought !== '') said.set('q', order.sought);
  if (order.sort !== 'bytes' || !order.down) said.set('sort', `${order.down ? '-' : ''}${order.sort}`);
  return said.toString();
}

/** Tells rows apart, whatever clients call themselves. */
export const keyOf = (one: Connected): string => JSON.stringify([one.address, one.client_id, one.user, one.software]);

const KEYS: Record<Sort, (one: Connected) => string | number> = {
  client: (one) => one.client_id,
  address: (one) => one.address,
  user: (one) => one.user,
  connections: (one) => one.connections,
  ended: (one) => one.ended_per_s,
  in: (one) => one.in_bytes_per_s,
  out: (one) => one.out_bytes_per_s,
  bytes: (one) => one.in_bytes_per_s + one.out_bytes_per_s,
};

export function listed(all: readonly Connected[], order: ConnectedOrder): Connected[] {
  const words = order.sought.toLowerCase().split(/\s+/);
  const key = KEYS[order.sort];
  const sign = order.down ? -1 : 1;
  const compare = (a: string | number, b: string | number): number =>
    typeof a === 'string' ? a.localeCompare(String(b), 'en', { numeric: true }) : a - Number(b);
  return all
    .filter((one) => {
      const text = `${one.address} ${one.client_id} ${one.user} ${one.software}`.toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => sign * compare(key(a), key(b)) || compare(keyOf(a), keyOf(b)));
}

/** A client that dials again and again: it ends more connections than it keeps, and at least one in five seconds. */
export const redials = (one: Connected): boolean => one.ended_per_s >= 0.2 && one.ended_per_s > one.connections;

/** Whom a change of the whitelist cuts: who is admitted by none of the entries that stay. */
export const cutBy = (all: readonly Connected[], staying: readonly string[]): Connected[] =>
  all.filter((one) => !staying.some((cidr) => admits(cidr, one.address)));

/** Addresses with the client ids, each once, in a list to read. */
export const named = (all: readonly Connected[]): string =>
  [...new Set(all.map((one) => `${one.address} ${one.client_id}`.trim()))].join(m.list_separator());

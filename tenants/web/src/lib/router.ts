// Routes live behind the #, so the console serves one file and any prefix works.

import { ALL, filterOf, queryOf, type AlarmFilter } from './alarm_filter';

export type Route =
  | { page: 'instances'; query?: string }
  | { page: 'alarms'; filter: AlarmFilter }
  | { page: 'webhooks' }
  | { page: 'instance'; id: string; tab: InstanceTab; item: string | null; query?: string }
  | { page: 'dashboard'; query?: string }
  | { page: 'brokers' }
  | { page: 'bills' }
  | { page: 'pipeline' }
  | { page: 'tenants' }
  | { page: 'keys' }
  | { page: 'audit' }
  | { page: 'members' }
  | { page: 'groups' }
  | { page: 'account' }
  | { page: 'invitation'; secret: string }
  | { page: 'mail'; secret: string }
  | { page: 'missing'; path: string };

export const INSTANCE_TABS = [
  'overview',
  'topics',
  'groups',
  'clients',
  'connections',
  'alarms',
  'whitelist',
  'quota',
  'history',
  'usage',
  'bill',
  'faults',
] as const;
export type InstanceTab = (typeof INSTANCE_TABS)[number];
/** Tabs that show one thing of several: a topic, a group, a month. */
const WITH_ITEM: readonly InstanceTab[] = ['topics', 'groups', 'usage', 'bill'];
const PLAIN = [
  'instances',
  'dashboard',
  'brokers',
  'bills',
  'pipeline',
  'tenants',
  'keys',
  'audit',
  'webhooks',
  'members',
  'groups',
  'account',
] as const;

const isTab = (text: string): text is InstanceTab => (INSTANCE_TABS as readonly string[]).includes(text);

function decode(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

/** The path, and the query behind its `?`. */
function splitOnce(text: string): [string, string | null] {
  const at = text.indexOf('?');
  const path = (at < 0 ? text : text.slice(0, at)).replace(/\/$/, '');
  return [path, at < 0 ? null : text.slice(at + 1)];
}

export function parseRoute(hash: string): Route {
  const [path, query] = splitOnce(hash.replace(/^#?\/?/, ''));
  const missing: Route = { page: 'missing', path };
  if (path === 'alarms') return { page: 'alarms', filter: query === null ? ALL : filterOf(query) };
  const parts = path === '' ? [] : path.split('/').map(decode);
  if (parts.some((part) => part === null || part === '')) return missing;
  const [head, id, tab, item, ...rest] = parts as string[];
  const more = query === null || query === '' ? {} : { query };
  if (head === undefined || (head === 'instances' && id === undefined)) return { page: 'instances', ...more };
  if (head === 'dashboard' && id === undefined) return { page: 'dashboard', ...more };
  if (head === 'instances' && id !== undefined) {
    const name = tab ?? 'overview';
    const hasItem = item !== undefined;
    if (!isTab(name) || rest.length > 0 || (hasItem && !WITH_ITEM.includes(name))) return missing;
    return { page: 'instance', id, tab: name, item: item ?? null, ...more };
  }
  if (query !== null) return missing;
  if (head === 'invitation' && id !== undefined && parts.length === 2) return { page: 'invitation', secret: id };
  if (head === 'mail' && id !== undefined && parts.length === 2) return { page: 'mail', secret: id };
  const plain = PLAIN.find((name) => name === head);
  return plain && parts.length === 1 ? { page: plain } : missing;
}

export function hrefOf(route: Exclude<Route, { page: 'missing' | 'invitation' | 'mail' }>): string {
  if (route.page === 'alarms') return `#/alarms${queryOf(route.filter)}`;
  const query = 'query' in route && route.query ? `?${route.query}` : '';
  if (route.page !== 'instance') return `#/${route.page}${query}`;
  const base = `#/instances/${encodeURIComponent(route.id)}/${route.tab}`;
  return (route.item === null ? base : `${base}/${encodeURIComponent(route.item)}`) + query;
}

export const instanceHref = (id: string, tab: InstanceTab = 'overview', item: string | null = null): string =>
  hrefOf({ page: 'instance', id, tab, item });

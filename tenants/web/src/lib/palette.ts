// What the palette offers for a text: pages, tabs and orders from what is known here; names from the API.

import type { Instance } from '../api';
import { api, told } from './client';
import { hrefOf, instanceHref } from './router';

/** A place to go to, or an order; `run` only where an address cannot say it. */
export type Offer = { id: string; label: string; about?: string } & ({ href: string } | { run: () => unknown });
export interface OfferGroup {
  title: string;
  offers: Offer[];
}

const FOUND_MAX = 8;

/** Those that have every word of the text, in their label or in what is said about them. */
export function having(offers: readonly Offer[], text: string): Offer[] {
  const words = text.toLowerCase().split(/\s+/);
  return offers.filter(({ label, about }) => {
    const own = `${label} ${about ?? ''}`.toLowerCase();
    return words.every((word) => own.includes(word));
  });
}

/** The address that opens the form of a new instance. */
export const createHref = (): string => hrefOf({ page: 'instances', query: 'open=create' });

export async function soughtInstances(search: string, everyTenant: boolean): Promise<Offer[]> {
  const query = { search, limit: FOUND_MAX, tenant: everyTenant ? '*' : null };
  const found = await told(api.GET('/v1/instances', { params: { query } }));
  return found.items.map((one) => ({
    id: `instance-${one.id}`,
    label: one.name,
    about: everyTenant ? `${one.id} · ${one.tenant}` : one.id,
    href: instanceHref(one.id),
  }));
}

export async function soughtTopics(instance: Instance, search: string): Promise<Offer[]> {
  const params = { path: { instance: instance.id }, query: { search, limit: FOUND_MAX } };
  const found = await told(api.GET('/v1/instances/{instance}/topics', { params }));
  return found.items.map(({ name }) => ({
    id: `topic-${name}`,
    label: name,
    href: instanceHref(instance.id, 'topics', name),
  }));
}

export async function soughtGroups(instance: Instance, search: string): Promise<Offer[]> {
  const params = { path: { instance: instance.id }, query: { search, limit: FOUND_MAX } };
  const found = await told(api.GET('/v1/instances/{instance}/groups', { params }));
  return found.items.map(({ group }) => ({
    id: `group-${group}`,
    label: group,
    href: instanceHref(instance.id, 'groups', group),
  }));
}

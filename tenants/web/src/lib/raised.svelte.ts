// What is raised, of all that whoever is logged in may see: asked for once for the menu and all pages.

import type { Alarm } from '../api';
import { isQuiet } from './alarms';
import { api, everything } from './client';
import { Resource } from './resource.svelte';
import { session } from './session.svelte';

/** One page holds so many: beyond that a look asks again. */
const PAGE = 1000;
/** Figures are looked at every 10 s. */
const EVERY_MS = 10_000;

function byInstance(alarms: Alarm[]): Map<string, Alarm[]> {
  const found = new Map<string, Alarm[]>();
  for (const alarm of alarms) {
    if (alarm.instance_id !== null) found.set(alarm.instance_id, [...(found.get(alarm.instance_id) ?? []), alarm]);
  }
  return found;
}

class Raised {
  readonly found = new Resource<Alarm[]>(() =>
    everything(
      (page) => api.GET('/v1/alarms', { params: { query: { tenant: session.isOperator ? '*' : null, ...page } } }),
      5 * PAGE,
      PAGE,
    ),
  );
  /** By instance; the operators' own have none. */
  readonly byInstance = $derived(byInstance(this.found.data ?? []));
  /** What nobody has seen or silenced. */
  readonly loud = $derived((this.found.data ?? []).filter((alarm) => !isQuiet(alarm)));

  /** For `$effect`: looks again and again, until the stop. */
  poll(): () => void {
    this.found.reset();
    return this.found.poll(EVERY_MS);
  }
}

export const raised = new Raised();

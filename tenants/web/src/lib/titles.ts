// What the tabs of an instance are called, in the language of whoever reads.

import { m } from '../paraglide/messages';
import type { InstanceTab } from './router';

export const TAB_TITLES: Record<InstanceTab, () => string> = {
  overview: m.overview,
  topics: m.topics,
  groups: m.groups,
  clients: m.clients,
  connections: m.connections_tab,
  alarms: m.alarms,
  whitelist: m.whitelist,
  quota: m.quota,
  history: m.history,
  usage: m.usage,
  bill: m.bill,
  faults: m.faults,
};

// Which of the raised alarms are shown, as the page's URL says.

import type { Alarm } from '../api';

export const STATES = ['open', 'acknowledged', 'silenced'] as const;
export const SEVERITIES = ['critical', 'warning'] as const;
export type AlarmStateFilter = (typeof STATES)[number] | '';
export type SeverityFilter = (typeof SEVERITIES)[number] | '';

/** Empty: whatever it is. */
export interface AlarmFilter {
  state: AlarmStateFilter;
  severity: SeverityFilter;
  kind: string;
  /** An instance's id. */
  instance: string;
}
export const ALL: AlarmFilter = { state: '', severity: '', kind: '', instance: '' };

/** What somebody typed that is no state and no severity counts as none. */
export function filterOf(query: string): AlarmFilter {
  const said = new URLSearchParams(query);
  return {
    state: STATES.find((one) => one === said.get('state')) ?? '',
    severity: SEVERITIES.find((one) => one === said.get('severity')) ?? '',
    kind: said.get('kind') ?? '',
    instance: said.get('instance') ?? '',
  };
}

export function queryOf(filter: AlarmFilter): string {
  const said = Object.entries(filter).filter(([, value]) => value !== '');
  return said.length === 0 ? '' : `?${new URLSearchParams(said)}`;
}

function isIn(state: AlarmStateFilter, alarm: Alarm): boolean {
  if (state === 'acknowledged') return alarm.acknowledged_at !== null;
  if (state === 'silenced') return alarm.silenced_until !== null;
  return state === '' || (alarm.acknowledged_at === null && alarm.silenced_until === null);
}

export const shows = (filter: AlarmFilter, alarm: Alarm): boolean =>
  isIn(filter.state, alarm) &&
  (filter.severity === '' || alarm.severity === filter.severity) &&
  (filter.kind === '' || alarm.kind === filter.kind) &&
  (filter.instance === '' || alarm.instance_id === filter.instance);

// What people do about an alarm: an instance's, or one of the operators' own.

import type { Alarm } from '../api';
import { api } from './client';

const ofInstance = (alarm: Alarm, instance: string) => ({ path: { instance, kind: alarm.kind } });
const own = (alarm: Alarm) => ({ path: { kind: alarm.kind }, query: { subject: alarm.subject } });

export async function acknowledge(alarm: Alarm): Promise<void> {
  const id = alarm.instance_id;
  if (id === null) await api.POST('/v1/alarms/{kind}/acknowledge', { params: own(alarm) });
  else await api.POST('/v1/instances/{instance}/alarms/{kind}/acknowledge', { params: ofInstance(alarm, id) });
}

export async function silence(alarm: Alarm, until: string): Promise<void> {
  const id = alarm.instance_id;
  const body = { until };
  if (id === null) await api.PUT('/v1/alarms/{kind}/silence', { params: own(alarm), body });
  else await api.PUT('/v1/instances/{instance}/alarms/{kind}/silence', { params: ofInstance(alarm, id), body });
}

export async function unsilence(alarm: Alarm): Promise<void> {
  const id = alarm.instance_id;
  if (id === null) await api.DELETE('/v1/alarms/{kind}/silence', { params: own(alarm) });
  else await api.DELETE('/v1/instances/{instance}/alarms/{kind}/silence', { params: ofInstance(alarm, id) });
}

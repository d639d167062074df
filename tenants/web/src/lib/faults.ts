// Injected faults: what each kind does and takes, and how long one still acts.

import type { FaultKind, FaultStart } from '../api';
import { m } from '../paraglide/messages';

export type Parameter = 'delay_ms' | 'throttle_time_ms' | 'share_percent' | 'above_bytes' | 'once';

export interface KindOf {
  kind: FaultKind;
  title: string;
  about: string;
  takes: readonly Parameter[];
}

export const KINDS: readonly KindOf[] = [
  {
    kind: 'latency',
    title: m.latency(),
    about: m.requests_wait_before_anything_is_done_with(),
    takes: ['delay_ms', 'share_percent'],
  },
  {
    kind: 'throttling',
    title: m.throttling(),
    about: m.answers_say_throttle_time_ms_and_connections(),
    takes: ['throttle_time_ms'],
  },
  {
    kind: 'leader_loss',
    title: m.leader_loss(),
    about: m.produce_fetch_and_listoffsets_are_answered(),
    takes: ['share_percent'],
  },
  {
    kind: 'connection_reset',
    title: m.connection_reset(),
    about: m.connections_are_reset_before_a_request_is(),
    takes: ['share_percent', 'once'],
  },
  {
    kind: 'message_too_large',
    title: m.message_too_large(),
    about: m.produce_is_answered_message_too_large_for(),
    takes: ['above_bytes', 'share_percent'],
  },
  {
    kind: 'corrupt_checksum',
    title: m.corrupt_checksum(),
    about: m.produce_is_answered_corrupt_message(),
    takes: ['share_percent'],
  },
];

export interface Asked {
  kind: FaultKind;
  durationS: number;
  delay: string;
  share: string;
  above: string;
  once: boolean;
}

const wholeOf = (text: string): number | null => (/^\d{1,9}$/.test(text.trim()) ? Number(text.trim()) : null);

/** The order, or what is wrong with it by field. The API checks bounds. */
export function orderOf(asked: Asked): { order: FaultStart } | { faults: Record<string, string> } {
  const takes = KINDS.find((one) => one.kind === asked.kind)?.takes ?? [];
  const order: FaultStart = { kind: asked.kind, duration_s: asked.durationS };
  const faults: Record<string, string> = {};
  const take = (name: Exclude<Parameter, 'once'>, text: string, unit: string): void => {
    const value = wholeOf(text);
    if (value === null) faults[name] = m.enter_a_whole_number_of_unit({ unit });
    else order[name] = value;
  };
  if (takes.includes('delay_ms')) take('delay_ms', asked.delay, m.unit_milliseconds());
  if (takes.includes('throttle_time_ms')) take('throttle_time_ms', asked.delay, m.unit_milliseconds());
  if (takes.includes('above_bytes')) take('above_bytes', asked.above, m.unit_bytes());
  if (takes.includes('once') && asked.once) order.once = true;
  else if (takes.includes('share_percent')) take('share_percent', asked.share, m.unit_percent());
  return Object.keys(faults).length > 0 ? { faults } : { order };
}

/** `4:05`, and `0:00` when it is over. */
export function leftOf(endsAt: string, nowMs: number): string {
  const leftS = Math.max(0, Math.ceil((Date.parse(endsAt) - nowMs) / 1000));
  return `${Math.floor(leftS / 60)}:${String(leftS % 60).padStart(2, '0')}`;
}

// Injected faults: what each kind does and takes, and how long one still acts.

import type { FaultKind, FaultStart } from '../api';

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
    title: 'Latency',
    about: 'Requests wait before anything is done with them.',
    takes: ['delay_ms', 'share_percent'],
  },
  {
    kind: 'throttling',
    title: 'Throttling',
    about: 'Answers say throttle_time_ms, and connections are left unread for so long, as above the quota.',
    takes: ['throttle_time_ms'],
  },
  {
    kind: 'leader_loss',
    title: 'Leader loss',
    about: 'Produce, Fetch and ListOffsets are answered NOT_LEADER_OR_FOLLOWER.',
    takes: ['share_percent'],
  },
  {
    kind: 'connection_reset',
    title: 'Connection reset',
    about: 'Connections are reset, before a request is passed on or when its answer comes.',
    takes: ['share_percent', 'once'],
  },
  {
    kind: 'message_too_large',
    title: 'Message too large',
    about: 'Produce is answered MESSAGE_TOO_LARGE for batches above a size.',
    takes: ['above_bytes', 'share_percent'],
  },
  {
    kind: 'corrupt_checksum',
    title: 'Corrupt checksum',
    about: 'Produce is answered CORRUPT_MESSAGE.',
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
    if (value === null) faults[name] = `Enter a whole number of ${unit}`;
    else order[name] = value;
  };
  if (takes.includes('delay_ms')) take('delay_ms', asked.delay, 'milliseconds');
  if (takes.includes('throttle_time_ms')) take('throttle_time_ms', asked.delay, 'milliseconds');
  if (takes.includes('above_bytes')) take('above_bytes', asked.above, 'bytes');
  if (takes.includes('once') && asked.once) order.once = true;
  else if (takes.includes('share_percent')) take('share_percent', asked.share, 'percent');
  return Object.keys(faults).length > 0 ? { faults } : { order };
}

/** `4:05`, and `0:00` when it is over. */
export function leftOf(endsAt: string, nowMs: number): string {
  const leftS = Math.max(0, Math.ceil((Date.parse(endsAt) - nowMs) / 1000));
  return `${Math.floor(leftS / 60)}:${String(leftS % 60).padStart(2, '0')}`;
}

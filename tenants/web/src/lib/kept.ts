// What was recorded, as charts take it: columns over the times of its steps.

import type { MarkList, SeriesView } from '../api';
import { m } from '../paraglide/messages';

export type Column = (number | null)[];

export function timesOf(view: SeriesView | null): number[] {
  const any = view === null ? [] : (Object.values(view.metrics)[0] ?? []);
  return any.map((_, place) => (view!.start_ms + place * view!.step_ms) / 1000);
}

export const columnOf = (view: SeriesView | null, metric: string): Column => view?.metrics[metric] ?? [];

/** The last value that is known. */
export function newestOf(view: SeriesView | null, metric: string): number | null {
  return columnOf(view, metric).findLast((value) => value !== null) ?? null;
}

/** How old the newest value is; null: nothing is known. A step is told when it has begun, so a fresh one has an age. */
export function ageMs(view: SeriesView | null, nowMs: number): number | null {
  return view === null || view.newest_at_ms === null ? null : Math.max(0, nowMs - view.newest_at_ms);
}

/** Whether it is older than it should be while everything works. */
export const isOld = (view: SeriesView, nowMs: number): boolean =>
  (ageMs(view, nowMs) ?? Infinity) > 2 * view.step_ms + 60_000;

export interface ChartMark {
  atS: number;
  text: string;
  tone: 'danger' | 'neutral';
}

const WORDS: Record<string, string> = {
  'instance.create': m.mark_created(),
  'instance.change': m.mark_changed(),
  'instance.delete': m.mark_deleted(),
  'instance.suspend': m.mark_suspended(),
  'instance.resume': m.mark_resumed(),
  'instance.undelete': m.taken_back(),
  'instance.purge': m.mark_purged(),
  'fault.start': m.fault_injected(),
  'fault.end': m.fault_ended(),
  'alarm.raised': m.alarm_raised(),
  'alarm.cleared': m.alarm_cleared(),
};

export const wordOf = (kind: string): string => WORDS[kind] ?? kind;

export function marksOf(found: MarkList | null): ChartMark[] {
  return (found?.items ?? []).map((mark) => ({
    atS: Date.parse(mark.at) / 1000,
    text: `${wordOf(mark.kind)}: ${mark.says}`,
    tone: mark.kind === 'alarm.raised' ? 'danger' : 'neutral',
  }));
}

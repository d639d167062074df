// What is shown of pipeline runs: how fast they are now, how far, and what lags.

import type { Run } from '../api';
import { formatBytes, formatDuration } from './units';
import { tag } from './language';

interface Seen {
  atMs: number;
  done: number;
  rate: number | null;
}

/** Rates from one look to the next; the average of the whole run until there are two. */
export class RunRates {
  #seen = new Map<string, Seen>();

  look(runs: readonly Run[]): void {
    const next = new Map<string, Seen>();
    for (const run of runs) {
      const atMs = Date.parse(run.updated_at);
      const before = this.#seen.get(run.id);
      if (before === undefined) next.set(run.id, { atMs, done: run.done, rate: null });
      else if (atMs - before.atMs < 900) next.set(run.id, before);
      else {
        const rate = Math.max(0, (1000 * (run.done - before.done)) / (atMs - before.atMs));
        next.set(run.id, { atMs, done: run.done, rate });
      }
    }
    this.#seen = next;
  }

  of(run: Run): number {
    const rate = run.state === 'running' ? this.#seen.get(run.id)?.rate : null;
    return rate ?? run.rate_per_s;
  }
}

export const tookMs = (run: Run): number => Date.parse(run.updated_at) - Date.parse(run.started_at);

/** Milliseconds until what is planned is done; null where that cannot be said. */
export function leftMs(run: Run, rate: number): number | null {
  if (run.state !== 'running' || run.planned <= run.done || rate <= 0) return null;
  return (1000 * (run.planned - run.done)) / rate;
}

/** CPU seconds for a GB that it worked on; null for runs that do not say how many bytes that was. */
export function cpuSecondsPerGb(run: Run): number | null {
  const bytes = run.unit === 'bytes' ? run.done : (run.figures.bytes ?? 0);
  const cpuMs = run.figures.cpu_ms;
  return bytes > 0 && cpuMs !== undefined ? cpuMs / 1000 / (bytes / 1e9) : null;
}

const isLag = (name: string): boolean => /(^|_)lag(_|$)/.test(name);

/** Figures that say how far behind a run is, and the others. */
export function splitFigures(run: Run): { lag: [string, number][]; other: [string, number][] } {
  const all = Object.entries(run.figures).sort(([a], [b]) => a.localeCompare(b));
  return { lag: all.filter(([name]) => isLag(name)), other: all.filter(([name]) => !isLag(name)) };
}

/** A figure by the unit at the end of its name. */
export function formatFigure(name: string, value: number): string {
  if (/(^|_)bytes$/.test(name)) return formatBytes(value);
  if (/_ms$/.test(name)) return formatDuration(value);
  return formatCompact(value);
}

const COMPACT = new Intl.NumberFormat(tag(), { notation: 'compact', maximumFractionDigits: 1 });
/** Long numbers shortened for narrow places: 12.3M. */
export function formatCompact(value: number): string {
  if (value > 0 && value < 1) return '<1';
  return value < 10_000 ? String(Math.round(value)) : COMPACT.format(value);
}

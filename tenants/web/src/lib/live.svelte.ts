// One instance's quota, live: its history, then every event of the stream.

import type { QuotaView } from '../api';
import { api, messageOf, path, told } from './client';
import { QuotaSeries } from './series';
import { openStream, type StreamState } from './stream';

export const HISTORY_S = 3600;
const RETRY_MS = 2000;
/** Reports come each second: older than this, numbers are not of now. */
const OLD_MS = 6000;

export class LiveQuota {
  view = $state.raw<QuotaView | null>(null);
  /** Changed in place; `beat` says when. */
  series = $state.raw(new QuotaSeries(HISTORY_S));
  beat = $state(0);
  stream = $state<StreamState>('connecting');
  error = $state<string | null>(null);
  /** Moves on while nothing arrives, so that what is shown has an age. */
  nowMs = $state(Date.now());
  #id: string;
  #closed = false;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(id: string) {
    this.#id = id;
  }

  /** For `$effect`, once: opens the stream, returns the stop. The history is read anew after every interruption. */
  open(): () => void {
    const close = openStream<QuotaView>(`${path('instances', this.#id, 'quota')}/stream`, {
      message: (view) => this.#take(view),
      state: (state) => {
        if (state === 'connecting') {
          clearTimeout(this.#retry);
          void this.#loadHistory();
        }
        this.stream = state;
      },
      problem: (detail) => (this.error = detail),
    });
    const clock = setInterval(() => (this.nowMs = Date.now()), 1000);
    return () => {
      this.#closed = true;
      clearInterval(clock);
      clearTimeout(this.#retry);
      close();
    };
  }

  /** How old the numbers are, when they are not of now. */
  get ageMs(): number | null {
    const age = this.view === null ? 0 : this.nowMs - this.view.at_ms;
    return age > OLD_MS ? age : null;
  }

  #take(view: QuotaView): void {
    this.nowMs = Date.now();
    this.view = view;
    this.error = null;
    this.series.append(view);
    this.beat += 1;
  }

  async #loadHistory(): Promise<void> {
    try {
      const view = await told(
        api.GET('/v1/instances/{instance}/quota', {
          params: { path: { instance: this.#id }, query: { seconds: HISTORY_S } },
        }),
      );
      if (this.#closed) return;
      this.series = new QuotaSeries(HISTORY_S, view.history);
      this.#take(view);
    } catch (error) {
      if (this.view === null) this.error = messageOf(error);
      if (!this.#closed) this.#retry = setTimeout(() => void this.#loadHistory(), RETRY_MS);
    }
  }
}

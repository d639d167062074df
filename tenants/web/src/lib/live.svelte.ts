// One instance's quota, live: its history, then every event of the stream.

import type { QuotaView } from '../api';
import { api, messageOf, path, told } from './client';
import { QuotaSeries } from './series';
import { openStream, type StreamState } from './stream';

export const HISTORY_S = 3600;
const RETRY_MS = 2000;

export class LiveQuota {
  view = $state.raw<QuotaView | null>(null);
  /** Changed in place; `beat` says when. */
  series = $state.raw(new QuotaSeries(HISTORY_S));
  beat = $state(0);
  stream = $state<StreamState>('connecting');
  error = $state<string | null>(null);
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
    return () => {
      this.#closed = true;
      clearTimeout(this.#retry);
      close();
    };
  }

  #take(view: QuotaView): void {
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

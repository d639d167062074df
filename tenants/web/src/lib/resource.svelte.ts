// Something read from the API: its data, whether it is loading, why it failed; optionally asked again and again.

import { messageOf } from './client';

export class Resource<T> {
  data = $state.raw<T | null>(null);
  error = $state<string | null>(null);
  loading = $state(false);
  #load: () => Promise<T>;
  #asked = 0;

  constructor(load: () => Promise<T>) {
    this.#load = load;
  }

  async refresh(): Promise<void> {
    const asked = ++this.#asked;
    this.loading = true;
    try {
      const data = await this.#load();
      if (asked !== this.#asked) return;
      this.data = data;
      this.error = null;
    } catch (error) {
      if (asked !== this.#asked) return;
      this.error = messageOf(error);
    } finally {
      if (asked === this.#asked) this.loading = false;
    }
  }

  /** Forget the data of another subject; an answer still under way is dropped. */
  reset(): void {
    this.#asked += 1;
    this.data = null;
    this.error = null;
    this.loading = false;
  }

  /** For `$effect`: reads now and every `periodMs` while the page is visible; returns the stop. */
  poll(periodMs: number): () => void {
    void this.refresh();
    const timer = setInterval(() => {
      if (!document.hidden && !this.loading) void this.refresh();
    }, periodMs);
    return () => {
      this.#asked += 1;
      clearInterval(timer);
    };
  }
}

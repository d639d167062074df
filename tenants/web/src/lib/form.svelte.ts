// A form on its way to the API: busy, faults next to fields, everything else in a banner.

import { ApiProblem, messageOf } from './client';

export class Form {
  busy = $state(false);
  banner = $state<string | null>(null);
  faults = $state<Record<string, string>>({});
  #known: readonly string[];

  /** `known`: the fields this form shows; faults of others go to the banner. */
  constructor(known: readonly string[] = []) {
    this.#known = known;
  }

  /** Faults found before sending; true when there are none. */
  check(faults: Record<string, string | undefined | null>): boolean {
    this.banner = null;
    this.faults = Object.fromEntries(Object.entries(faults).filter(([, text]) => text)) as Record<string, string>;
    return Object.keys(this.faults).length === 0;
  }

  /** True when `action` went through. */
  async send(action: () => Promise<void>): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    this.banner = null;
    try {
      await action();
      return true;
    } catch (error) {
      this.#show(error);
      return false;
    } finally {
      this.busy = false;
    }
  }

  #show(error: unknown): void {
    const faults = error instanceof ApiProblem ? error.fields() : {};
    const shown: Record<string, string> = {};
    const others: string[] = [];
    for (const [field, message] of Object.entries(faults)) {
      const name = this.#known.find((known) => field === known || field.startsWith(`${known}.`));
      if (name !== undefined) shown[name] ??= message;
      else others.push(`${field}: ${message}`);
    }
    this.faults = shown;
    if (others.length > 0) this.banner = others.join('; ');
    else if (Object.keys(shown).length === 0) this.banner = messageOf(error);
  }
}

// Short confirmations of what was done, read out by screen readers; for a while some of it can be undone.

interface Toast {
  id: number;
  text: string;
  undo?: () => Promise<unknown>;
}

const SHOWN_MS = 4_000;
const UNDONE_WITHIN_MS = 30_000;

class Toasts {
  items = $state<Toast[]>([]);
  #next = 1;

  say(text: string, undo?: () => Promise<unknown>): void {
    const id = this.#next++;
    this.items.push({ id, text, undo });
    setTimeout(() => this.#drop(id), undo ? UNDONE_WITHIN_MS : SHOWN_MS);
  }

  undo(toast: Toast): void {
    this.#drop(toast.id);
    void toast.undo?.();
  }

  #drop(id: number): void {
    this.items = this.items.filter((toast) => toast.id !== id);
  }
}

export const toasts = new Toasts();

// Short confirmations of what was done, read out by screen readers.

interface Toast {
  id: number;
  text: string;
}

class Toasts {
  items = $state<Toast[]>([]);
  #next = 1;

  say(text: string): void {
    const id = this.#next++;
    this.items.push({ id, text });
    setTimeout(() => (this.items = this.items.filter((toast) => toast.id !== id)), 4000);
  }
}

export const toasts = new Toasts();

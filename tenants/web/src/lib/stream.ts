// Server-sent events with a retry of our own: a browser gives up on a stream that answered an error, and
// a hidden tab should not hold one of the few connections a browser has per host.

import { apiUrl } from './url';

export type StreamState = 'connecting' | 'live' | 'lost' | 'paused';

export interface StreamHandlers<T> {
  message: (value: T) => void;
  state: (state: StreamState) => void;
  /** The console is there but has nothing to tell: the quota master does not answer. */
  problem: (detail: string) => void;
}

const RETRY_MS = 2000;

export function openStream<T>(target: string, handlers: StreamHandlers<T>): () => void {
  let source: EventSource | null = null;
  let retry: ReturnType<typeof setTimeout> | undefined;

  const receive = (event: MessageEvent<string>): void => {
    handlers.state('live');
    handlers.message(JSON.parse(event.data) as T);
  };
  const close = (): void => {
    clearTimeout(retry);
    source?.close();
    source = null;
  };
  const open = (): void => {
    close();
    handlers.state('connecting');
    source = new EventSource(apiUrl(target), { withCredentials: true });
    source.onmessage = receive;
    source.addEventListener('problem', (event: MessageEvent<string>) => {
      handlers.state('live');
      handlers.problem((JSON.parse(event.data) as { detail: string }).detail);
    });
    source.onerror = () => {
      handlers.state('lost');
      close();
      retry = setTimeout(open, RETRY_MS);
    };
  };
  const onVisibility = (): void => {
    if (document.hidden) {
      close();
      handlers.state('paused');
    } else if (source === null) open();
  };

  document.addEventListener('visibilitychange', onVisibility);
  if (document.hidden) handlers.state('paused');
  else open();
  return () => {
    document.removeEventListener('visibilitychange', onVisibility);
    close();
  };
}

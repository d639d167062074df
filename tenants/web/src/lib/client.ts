// One way to call the API: JSON in and out, the CSRF header on writes, problems as exceptions.

import type { Problem } from '../api';

export class ApiProblem extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
  get status(): number {
    return this.problem.status;
  }
  /** Messages by field; a fault of `a.b` is also found as `a`. */
  fields(): Record<string, string> {
    const found: Record<string, string> = {};
    for (const { field, message } of this.problem.errors ?? []) {
      const name = field.replace(/^body\./, '');
      found[name] ??= message;
    }
    return found;
  }
}

let csrfToken = '';
let onUnauthorized: () => void = () => {};

export function setCsrfToken(token: string): void {
  csrfToken = token;
}
export function whenUnauthorized(action: () => void): void {
  onUnauthorized = action;
}

export const apiUrl = (path: string): string => new URL(`v1/${path}`, document.baseURI).href;

/** `/`-joined path with every part escaped. */
export const path = (...parts: string[]): string => parts.map(encodeURIComponent).join('/');

export function query(values: Record<string, string | number | null | undefined>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== '');
  if (pairs.length === 0) return '';
  return `?${new URLSearchParams(pairs.map(([key, value]) => [key, String(value)]))}`;
}

async function problemOf(response: Response): Promise<Problem> {
  const fallback: Problem = {
    type: 'about:blank',
    title: response.statusText || 'Request failed',
    status: response.status,
    detail: `The console answered ${response.status} ${response.statusText}`.trim(),
  };
  if (!(response.headers.get('content-type') ?? '').includes('json')) return fallback;
  try {
    return { ...fallback, ...((await response.json()) as Partial<Problem>), status: response.status };
  } catch {
    return fallback;
  }
}

export async function call<T>(
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  target: string,
  body?: unknown,
): Promise<T> {
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (method !== 'GET') headers['X-CSRF-Token'] = csrfToken;
  let response: Response;
  try {
    response = await fetch(apiUrl(target), {
      method,
      headers,
      credentials: 'same-origin',
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiProblem({
      type: 'about:blank',
      title: 'Not reachable',
      status: 0,
      detail: 'The console cannot be reached. Check that it is running; the page tries again by itself.',
    });
  }
  if (!response.ok) {
    const problem = new ApiProblem(await problemOf(response));
    if (response.status === 401 && target !== 'session') onUnauthorized();
    throw problem;
  }
  if (response.status === 204 || response.headers.get('content-length') === '0') return undefined as T;
  return (await response.json()) as T;
}

export const get = <T>(target: string): Promise<T> => call<T>('GET', target);

/** Every page of a listing, up to `max` items, so that search and sort see all of it. */
export async function getAll<T>(target: string, max = 5000): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null | undefined;
  do {
    const joint = target.includes('?') ? '&' : '?';
    const more = cursor ? `&cursor=${encodeURIComponent(cursor)}` : '';
    const page = await get<{ items: T[]; next_cursor?: string | null }>(`${target}${joint}limit=200${more}`);
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && items.length < max);
  return items;
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : 'Something unexpected happened';

// The API's client, with the types of its OpenAPI document: the CSRF header on writes, problems as exceptions.

import createClient, { type Middleware } from 'openapi-fetch';
import type { Page, paths, Problem } from '../api';
import { root } from './url';
import { m } from '../paraglide/messages';

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
    title: response.statusText || m.request_failed(),
    status: response.status,
    detail: m
      .the_console_answered_status_status_text({ status: response.status, status_text: response.statusText })
      .trim(),
  };
  if (!(response.headers.get('content-type') ?? '').includes('json')) return fallback;
  try {
    return { ...fallback, ...((await response.json()) as Partial<Problem>), status: response.status };
  } catch {
    return fallback;
  }
}

const ours: Middleware = {
  onRequest({ request }) {
    request.headers.set('Accept', 'application/json');
    if (request.method !== 'GET') request.headers.set('X-CSRF-Token', csrfToken);
    return request;
  },
  async onResponse({ response, schemaPath }) {
    if (response.ok) return;
    const problem = new ApiProblem(await problemOf(response));
    if (response.status === 401 && schemaPath !== '/v1/session') onUnauthorized();
    throw problem;
  },
  onError() {
    return new ApiProblem({
      type: 'about:blank',
      title: m.not_reachable(),
      status: 0,
      detail: m.the_console_cannot_be_reached_check_that_it(),
    });
  },
};

/** One method per HTTP method. They resolve only when all went well: see `told`. */
export const api = createClient<paths>({
  baseUrl: new URL('.', root).href.replace(/\/$/, ''),
  credentials: 'same-origin',
});
api.use(ours);

/** What the API answered, as JSON: nobody asks for CSV here. */
export async function told<T>(answer: Promise<{ data?: T }>): Promise<Exclude<T, string>> {
  return (await answer).data as Exclude<T, string>;
}

/** Path parameters that pages hand to their parts. */
export type TopicPlace = { instance: string; topic: string };
export type GroupPlace = { instance: string; group: string };

/** Every page of a listing, up to `max` items, so that search and sort see all of it. */
export async function everything<T>(
  page: (query: { limit: number; cursor?: string }) => Promise<{ data?: Page<T> }>,
  max = 5000,
  limit = 200,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null | undefined;
  do {
    const found: Page<T> = await told(page(cursor ? { limit, cursor } : { limit }));
    items.push(...found.items);
    cursor = found.next_cursor;
  } while (cursor && items.length < max);
  return items;
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : m.something_unexpected_happened();

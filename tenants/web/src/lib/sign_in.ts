// What a browser comes back with from the identity provider, and what it went for.

import type { SignInAnswer } from '../api';

/** Linking is for who is logged in: the session stays, and another account belongs to it. */
export type Purpose = 'log-in' | 'link';
const KEY = 'portico-sign-in';

export function remember(purpose: Purpose): void {
  sessionStorage.setItem(KEY, purpose);
}

export function recall(): Purpose {
  const found = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  return found === 'link' ? 'link' : 'log-in';
}

/** Null: this is no answer of a provider's. */
export function answerOf(search: string): SignInAnswer | null {
  const said = new URLSearchParams(search);
  const state = said.get('state');
  if (state === null || (said.get('code') === null && said.get('error') === null)) return null;
  return { state, code: said.get('code'), error: said.get('error'), iss: said.get('iss') };
}

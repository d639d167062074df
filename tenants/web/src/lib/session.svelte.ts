// Who is logged in, kept for the life of the page; the cookie is the browser's own.

import type { Permission, Session, SignInAnswer } from '../api';
import { api, ApiProblem, setCsrfToken, told, whenUnauthorized } from './client';
import { remember, type Purpose } from './sign_in';

class SessionState {
  current = $state<Session | null>(null);
  /** False until the first answer, so that the login page does not flash. */
  known = $state(false);
  problem = $state<string | null>(null);
  expired = $state(false);

  get isOperator(): boolean {
    return this.may('every_tenant');
  }

  may(permission: Permission): boolean {
    return this.current?.permissions.includes(permission) ?? false;
  }

  #set(session: Session | null): void {
    this.current = session;
    setCsrfToken(session?.csrf_token ?? '');
  }

  async load(): Promise<void> {
    try {
      this.#set(await told(api.GET('/v1/session')));
      this.problem = null;
      this.known = true;
    } catch (error) {
      const isAnswer = error instanceof ApiProblem && error.status === 401;
      this.problem = isAnswer ? null : (error as Error).message;
      this.known = isAnswer;
      if (!isAnswer) setTimeout(() => void this.load(), 2000);
    }
  }

  async logIn(user: string, password: string): Promise<void> {
    this.#set(await told(api.POST('/v1/session', { body: { user, password } })));
    this.expired = false;
  }

  async accept(secret: string, password: string): Promise<void> {
    this.#set(await told(api.POST('/v1/invitation/accept', { body: { secret, password } })));
    this.expired = false;
  }

  /** To the identity provider; the browser comes back with an answer in its address. */
  async signIn(purpose: Purpose): Promise<void> {
    const begun = await told(api.POST('/v1/sign-in'));
    remember(purpose);
    location.assign(begun.url);
  }

  /** With what the browser came back with. */
  async finishSignIn(answer: SignInAnswer): Promise<void> {
    this.#set(await told(api.POST('/v1/sign-in/answer', { body: answer })));
    this.expired = false;
  }

  async logOut(): Promise<void> {
    try {
      await api.DELETE('/v1/session');
    } finally {
      this.#set(null);
    }
  }

  lose(): void {
    if (this.current === null) return;
    this.#set(null);
    this.expired = true;
  }
}

export const session = new SessionState();
whenUnauthorized(() => session.lose());

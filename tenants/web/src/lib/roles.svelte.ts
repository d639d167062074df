// The table of who may do what, as the API tells it: asked for once.

import type { Permission, Role, RoleList } from '../api';
import { api, told } from './client';
import { session } from './session.svelte';
import { permissionWords } from './words';

class Roles {
  #table = $state.raw<RoleList | null>(null);

  async load(): Promise<void> {
    this.#table ??= await told(api.GET('/v1/roles'));
  }

  /** Roles that whoever is logged in may give and take, the least first. */
  get grants(): Role[] {
    const own = this.#table?.items.find((one) => one.role === session.current?.role);
    return [...(own?.grants ?? [])].reverse();
  }

  /** What a role may do, in words. */
  meanings(role: Role): string[] {
    const held: Permission[] = this.#table?.items.find((one) => one.role === role)?.permissions ?? [];
    return (this.#table?.meanings ?? [])
      .filter((one) => held.includes(one.permission))
      .map((one) => permissionWords(one.permission, one.meaning));
  }
}

export const roles = new Roles();

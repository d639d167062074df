// Texts of the pages are in the catalogue, whole in each language.

/// <reference types="vite/client" />
import { parse } from 'svelte/compiler';
import { expect, it } from 'vitest';
import en from '../../messages/en.json';
import zh from '../../messages/zh.json';
import left from './texts_left.json';

type Messages = Record<string, unknown>;
const sources = import.meta.glob<string>(['../pages/**/*.svelte', '../ui/*.svelte', '../App.svelte'], {
  query: '?raw',
  import: 'default',
  eager: true,
});
const SPOKEN = ['aria-label', 'title', 'placeholder', 'label', 'alt', 'action', 'what', 'hint', 'about'];
/** What is the same in every language. */
const NAMES = ['Portico', 'Ctrl K'];

/** Texts in a tree of Svelte's: between tags, and in attributes that are read or seen. */
function literals(node: unknown, found: string[] = []): string[] {
  if (Array.isArray(node)) for (const one of node) literals(one, found);
  else if (node !== null && typeof node === 'object') {
    const { type, name, value, data } = node as { type?: string; name?: string; value?: unknown; data?: string };
    if (type === 'Attribute' && !SPOKEN.includes(name ?? '')) {
      if (Array.isArray(value)) return found;
    }
    if (type === 'Text' && /\p{L}{2}/u.test(data ?? '') && !NAMES.includes((data ?? '').trim())) found.push(data!.trim());
    for (const [key, one] of Object.entries(node)) if (key !== 'metadata') literals(one, found);
  }
  return found;
}
const textsOf = (source: string): string[] => literals(parse(source, { modern: true }).fragment);

/** The variables of a message, in any of its forms. */
const variables = (message: unknown): string[] =>
  [...new Set([...JSON.stringify(message).matchAll(/\{([a-z_]+)\}/g)].map((match) => match[1]!))].sort();

it('has each message in each language, with the same variables', () => {
  expect(Object.keys(zh)).toEqual(Object.keys(en));
  for (const [key, message] of Object.entries(en as Messages)) {
    if (key === '$schema') continue;
    expect([key, variables((zh as Messages)[key])]).toEqual([key, variables(message)]);
    expect(JSON.stringify((zh as Messages)[key])).not.toBe('""');
  }
});

it('finds texts between tags and in what is read out, and nothing else', () => {
  expect(textsOf('<p class="small one">Hello {name}</p><i title="of all"></i>')).toEqual(['Hello', 'of all']);
  expect(textsOf('<p>{m.hello()}</p><b aria-label={m.all()}>B/s</b>')).toEqual([]);
});

it('has no text in a component but in those that are left, of which each has some', () => {
  const having = Object.entries(sources)
    .filter(([, source]) => textsOf(source).length > 0)
    .map(([path]) => path.replace('../', ''));
  expect(having.sort()).toEqual(left);
}, 60_000);

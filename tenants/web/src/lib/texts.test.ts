// Texts of the pages are in the catalogue, whole in each language.

/// <reference types="vite/client" />
import { parse } from 'svelte/compiler';
import { expect, it } from 'vitest';
import en from '../../messages/en.json';
import zh from '../../messages/zh.json';

type Messages = Record<string, unknown>;
type Tree = Record<string, unknown> & { type?: string; name?: string; data?: string; value?: unknown };
const components = import.meta.glob<string>(['../pages/**/*.svelte', '../ui/*.svelte', '../App.svelte'], {
  query: '?raw',
  import: 'default',
  eager: true,
});
const modules = import.meta.glob<string>(['./*.ts', '!./*.test.ts', '!./snippets.ts', '!./language.ts'], {
  query: '?raw',
  import: 'default',
  eager: true,
});
const SPOKEN = ['aria-label', 'title', 'placeholder', 'label', 'alt', 'action', 'what', 'hint', 'about', 'warning'];
/** What is the same in every language, and examples of what is typed. */
const NAMES = [
  ...['Portico', 'Ctrl K', 'Apache Kafka', 'Standard Webhooks', 'Pmin / Pmax', 'URL', 'JSON', 'CSV', 'NDJSON', 'FOCUS'],
  ...['Avro', 'Protobuf', 'JSON schema', 'hex', 'null', '0 ms/s', 'v1/openapi.json'],
  ...['orders', 'deploy', 'ann', 'acme', 'pager', 'shop-lake', 'kafka-developers', 'shop.Order', 'name=value'],
  ...['Edge', 'Opera', 'Firefox', 'Chrome', 'Safari', 'Android', 'Windows', 'Linux'],
  ...['@.amount > 100', 'https://example.com/hook', 'https://registry.example.com', 'ops@example.com'],
];
/** Strings of scripts that look like a sentence and are none. */
const CODE =
  /^(Enter$|Escape$|Home$|End$|Accept$|\[data-|#|\(prefers-|11px |portico instance move |-100|[A-Z][a-z]+\/[A-Z]|M[\d.]+ ?[\d.]+|\d+ [kMGT]?B|--)/;

/** Texts in a tree of Svelte's: between tags, in attributes that are read or seen, sentences in scripts. */
function literals(node: unknown, found: string[] = []): string[] {
  if (Array.isArray(node)) for (const one of node) literals(one, found);
  else if (node !== null && typeof node === 'object') {
    const { type, name, value, data } = node as Tree;
    if (type === 'ImportDeclaration' || type?.startsWith('TSLiteral')) return found;
    if (type === 'StyleDirective' || (type === 'RegularElement' && name === 'code')) return found;
    if (type === 'Attribute' && !SPOKEN.includes(name ?? '') && Array.isArray(value)) return found;
    if (type === 'Text' && isText(data ?? '')) found.push(data!.trim());
    if (type === 'Fragment')
      for (const one of (node as { nodes: Tree[] }).nodes)
        if (one.type === 'ExpressionTag') found.push(...shown(one.expression as Tree).filter(isText));
    const said = type === 'TemplateElement' ? (value as { cooked: string }).cooked : value;
    if ((type === 'Literal' || type === 'TemplateElement') && typeof said === 'string' && isSentence(said))
      found.push(said.trim());
    for (const [key, one] of Object.entries(node)) if (key !== 'metadata') literals(one, found);
  }
  return found;
}
/** Strings that an expression between tags may come to: one word of them is text, too. */
function shown(expression: Tree): string[] {
  const { type, value, consequent, alternate, left, right } = expression;
  if (type === 'ConditionalExpression') return [...shown(consequent as Tree), ...shown(alternate as Tree)];
  if (type === 'LogicalExpression') return [...shown(left as Tree), ...shown(right as Tree)];
  return type === 'Literal' && typeof value === 'string' ? [value] : [];
}
const isText = (text: string): boolean => /\p{L}{2}/u.test(text) && !NAMES.includes(text.trim());
/** Two words, or one with a capital in front. */
const isSentence = (text: string): boolean =>
  isText(text) && (/\p{L}{2,} \p{L}|\p{L},? \p{L}{2,}/u.test(text) || /^[A-Z][a-z]+…?$/.test(text)) && !CODE.test(text);

function textsOf(source: string): string[] {
  const tree = parse(source, { modern: true });
  return literals([tree.fragment, tree.instance, tree.module]);
}

/** The variables of a message, in any of its forms. */
const variables = (message: unknown): string[] =>
  [...new Set([...JSON.stringify(message).matchAll(/\{([a-z_0-9]+)\}/g)].map((match) => match[1]!))].sort();

it('has each message in each language, with the same variables', () => {
  expect(Object.keys(zh)).toEqual(Object.keys(en));
  for (const [key, message] of Object.entries(en as Messages)) {
    if (key === '$schema') continue;
    expect([key, variables((zh as Messages)[key])]).toEqual([key, variables(message)]);
    expect(JSON.stringify((zh as Messages)[key])).not.toBe('""');
  }
});

it('has no message that no page says', () => {
  const said = new Set(
    [...Object.values(components), ...Object.values(modules)].flatMap((source) =>
      [...source.matchAll(/\bm\s*\.([a-z_0-9]+)/g)].map((match) => match[1]!),
    ),
  );
  expect(Object.keys(en).filter((key) => key !== '$schema' && !said.has(key))).toEqual([]);
});

it('finds texts between tags, in what is read out and in scripts, and nothing else', () => {
  expect(textsOf('<p class="small one">Hello {name}</p><i title="of all"></i>')).toEqual(['Hello', 'of all']);
  expect(textsOf('<p>{m.hello()}</p><b aria-label={m.all()}>B/s</b><code>portico up</code>')).toEqual([]);
  expect(textsOf("<script>const a = ['produce', 'Undo']; b = `${c} is gone`;</script>")).toEqual(['Undo', 'is gone']);
  expect(new Set(textsOf("<b>{busy ? 'Saving…' : m.save()}</b>"))).toEqual(new Set(['Saving…']));
  expect(textsOf("<b class={a ? 'on' : 'off'}>{state === 'open' ? m.open() : 'closed'}</b>")).toEqual(['closed']);
});

it.each(Object.entries(components))('has no text in %s', (_, source) => expect(textsOf(source)).toEqual([]));
it.each(Object.entries(modules))('has no text in %s', (_, source) =>
  expect(textsOf(`<script lang="ts">${source}</script>`)).toEqual([]),
);

// Texts can be read on whatever they may stand on (WCAG 2.2, 1.4.3), light and dark.

import { expect, it } from 'vitest';
import css from '../tokens.css?raw';

type Theme = Record<string, string>;
const TEXTS = ['text', 'text-2', 'text-3'];
const GROUNDS = ['bg', 'surface', 'sunken', 'hover', 'accent-soft'];

const colors = (text: string): Theme =>
  Object.fromEntries([...text.matchAll(/--([a-z0-9-]+): (#[0-9a-f]{6});/g)].map((match) => [match[1]!, match[2]!]));

function luminance(color: string): number {
  const parts = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) / 255);
  const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}
function contrast(one: string, other: string): number {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light! + 0.05) / (dark! + 0.05);
}

const [light, dark] = css.split('prefers-color-scheme: dark') as [string, string];
it.each([
  ['light', colors(light)],
  ['dark', { ...colors(light), ...colors(dark) }],
] as [string, Theme][])('%s texts stand out from all that they stand on', (_, theme) => {
  for (const text of TEXTS)
    for (const ground of GROUNDS)
      expect([text, ground, contrast(theme[text]!, theme[ground]!) >= 4.5]).toEqual([text, ground, true]);
});

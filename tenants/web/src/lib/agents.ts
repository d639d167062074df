// What a browser calls itself, as a person would.

import { m } from '../paraglide/messages';

const BROWSERS: [RegExp, string][] = [
  [/\bEdg\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\//, 'Firefox'],
  [/Chrome\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
];
const SYSTEMS: [RegExp, string][] = [
  [/\b(iPhone|iPad)\b/, 'iOS'],
  [/\bAndroid\b/, 'Android'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
];

const first = (known: [RegExp, string][], text: string): string | undefined =>
  known.find(([pattern]) => pattern.test(text))?.[1];

export function agentName(agent: string | null): string {
  if (!agent) return m.unknown();
  const browser = first(BROWSERS, agent);
  const system = first(SYSTEMS, agent);
  return browser ? (system ? m.browser_on_system({ browser, system }) : browser) : agent.slice(0, 40);
}

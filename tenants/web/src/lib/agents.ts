// What a browser calls itself, as a person would.

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
  if (!agent) return 'unknown';
  const browser = first(BROWSERS, agent);
  const system = first(SYSTEMS, agent);
  return browser ? (system ? `${browser} on ${system}` : browser) : agent.slice(0, 40);
}

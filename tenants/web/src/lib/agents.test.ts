import { expect, test } from 'vitest';
import { agentName } from './agents';

test('browsers are called as people call them', () => {
  const chrome = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Safari/537.36';
  expect(agentName(chrome)).toBe('Chrome on Linux');
  expect(agentName(`${chrome} Edg/142.0`)).toBe('Edge on Linux');
  const phone = 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Safari/604.1';
  expect(agentName(phone)).toBe('Safari on iOS');
  expect(agentName('curl/8.5')).toBe('curl/8.5');
  expect(agentName(null)).toBe('unknown');
});

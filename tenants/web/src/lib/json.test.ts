import { describe, expect, it } from 'vitest';
import { indentJson } from './json';

describe('JSON with line breaks', () => {
  it('says what was written', () => {
    const text = '{"a":[1, 2.50],"b":{},"c":"x, {\\"y\\": 1}","n":12345678901234567890,"a":[ ]}';
    const shown = indentJson(text);
    expect(shown.split('\n')).toEqual([
      '{',
      '  "a": [',
      '    1,',
      '    2.50',
      '  ],',
      '  "b": {},',
      '  "c": "x, {\\"y\\": 1}",',
      '  "n": 12345678901234567890,',
      '  "a": []',
      '}',
    ]);
  });
  it('stays small where values are deep', () => {
    expect(indentJson('['.repeat(5000) + ']'.repeat(5000)).length).toBeLessThan(1_000_000);
  });
});

import { describe, expect, it } from 'vitest';
import { sentence } from './words';

describe('sentence', () => {
  it.each([
    ['producers are blocked: 1 MB of 1 MB are stored', 'producers are blocked: 1 MB of 1 MB are stored.'],
    [
      'throttled 97 % of the last 5 min; 1 MB/s now. Shares follow traffic.',
      'throttled 97 % of the last 5 min; 1 MB/s now. Shares follow traffic.',
    ],
    ['it was cut off.. ', 'it was cut off.'],
  ])('%s ends in one stop', (said, expected) => expect(sentence(said)).toBe(expected));
});

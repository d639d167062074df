import { expect, test } from 'vitest';
import { answerOf } from './sign_in';

test('an answer has a state, and a code or an error', () => {
  expect(answerOf('?code=c&state=s')).toEqual({ state: 's', code: 'c', error: null, iss: null });
  expect(answerOf('?error=access_denied&state=s&iss=https%3A%2F%2Fid')).toEqual({
    state: 's',
    code: null,
    error: 'access_denied',
    iss: 'https://id',
  });
  for (const other of ['', '?code=c', '?state=s', '?x=1']) expect(answerOf(other)).toBeNull();
});

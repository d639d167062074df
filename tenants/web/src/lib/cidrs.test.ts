import { describe, expect, it } from 'vitest';
import { admits, asCidr, splitCidrs } from './cidrs';

describe('asCidr', () => {
  it.each([
    ['10.1.2.3', '10.1.2.3/32'],
    ['::ffff:10.1.2.3', '10.1.2.3/32'],
    ['2001:db8::1', '2001:db8::1/128'],
    ['10.0.0.0/8', '10.0.0.0/8'],
  ])('%s is %s', (address, cidr) => expect(asCidr(address)).toBe(cidr));
});

describe('splitCidrs', () => {
  it('takes commas, blanks and lines, once each', () =>
    expect(splitCidrs('10.0.0.0/8, 127.0.0.1\n::1 10.0.0.0/8')).toEqual({
      cidrs: ['10.0.0.0/8', '127.0.0.1/32', '::1/128'],
    }));
  it('takes nothing at all', () => expect(splitCidrs(' \n')).toEqual({ cidrs: [] }));
  it.each(['10.0.0', '10.0.0.256', '10.0.0.0/33', '10.0.0.0/', 'example.org', '2001:db8::/129', '1.2.3.4/8/9'])(
    'names %s',
    (text) => {
      const outcome = splitCidrs(`127.0.0.1 ${text}`);
      expect('problem' in outcome && outcome.problem.startsWith(text)).toBe(true);
    },
  );
});

describe('admits', () => {
  it.each([
    ['10.0.0.0/8', '10.1.2.3', true],
    ['10.0.0.0/8', '11.0.0.0', false],
    ['10.1.2.3/32', '10.1.2.3', true],
    ['10.1.2.3/32', '10.1.2.2', false],
    ['0.0.0.0/0', '203.0.113.9', true],
    ['0.0.0.0/0', '2001:db8::1', false],
    ['10.0.0.0/8', '::ffff:10.1.2.3', true],
    ['2001:db8::/32', '2001:db8:1::1', true],
    ['2001:db8::/32', '2001:db9::1', false],
    ['::1/128', '::1', true],
    ['::/0', '2001:db8:0:0:0:0:0:1', true],
    ['2001:db8::1/128', '2001:db8:0:0:0:0:0:1', true],
    ['10.0.0.0/8', '', false],
  ])('%s and %s: %s', (cidr, address, expected) => expect(admits(cidr, address)).toBe(expected));
});

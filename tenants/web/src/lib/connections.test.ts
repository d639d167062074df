import { describe, expect, it } from 'vitest';
import type { Connected } from '../api';
import { cutBy, keyOf, listed, named, orderOf, queryOf, redials } from './connections';

const one = (address: string, more: Partial<Connected> = {}): Connected => ({
  address,
  client_id: '',
  user: '',
  software: '',
  connections: 1,
  ended_per_s: 0,
  in_bytes_per_s: 0,
  out_bytes_per_s: 0,
  ...more,
});
const ALL = [
  one('10.0.0.10', { client_id: 'orders', in_bytes_per_s: 5, connections: 2 }),
  one('10.0.0.9', { client_id: 'Mail', out_bytes_per_s: 9, user: 'ann' }),
  one('10.0.0.9', { client_id: 'mail', in_bytes_per_s: 9, software: 'librdkafka 2.5' }),
];
const addresses = (query: string): string[] => listed(ALL, orderOf(query)).map((each) => each.address);

describe('connected clients', () => {
  it('come with who carries most first, those that carry the same always in the same order', () => {
    expect(listed(ALL, orderOf(''))).toEqual([ALL[2], ALL[1], ALL[0]]);
    expect(listed([...ALL].reverse(), orderOf(''))).toEqual([ALL[2], ALL[1], ALL[0]]);
  });
  it('are sorted as the URL says, numbers in addresses as numbers', () => {
    expect(addresses('sort=address')).toEqual(['10.0.0.9', '10.0.0.9', '10.0.0.10']);
    expect(addresses('sort=-connections')[0]).toBe('10.0.0.10');
    expect(addresses('sort=-in')[0]).toBe('10.0.0.9');
  });
  it('are found by every word, in whatever is told of them', () => {
    expect(listed(ALL, orderOf('q=10.0.0.9+ann'))).toEqual([ALL[1]]);
    expect(listed(ALL, orderOf('q=RDKAFKA'))).toEqual([ALL[2]]);
    expect(addresses('q=nobody')).toEqual([]);
  });
  it('keep their order in the URL, the usual one unsaid', () => {
    for (const query of ['', 'q=a+b&sort=-ended', 'sort=bytes', 'sort=user']) {
      expect(queryOf(orderOf(query))).toBe(query);
    }
    expect(queryOf(orderOf('sort=-nothing'))).toBe('');
  });
  it('are told apart whatever they call themselves', () => {
    expect(keyOf(one('a', { client_id: 'b c' }))).not.toBe(keyOf(one('a b', { client_id: 'c' })));
  });
  it('dial again and again when more end than are open', () => {
    expect(redials(one('a', { ended_per_s: 3, connections: 1 }))).toBe(true);
    expect(redials(one('a', { ended_per_s: 3, connections: 40 }))).toBe(false);
    expect(redials(one('a', { ended_per_s: 0.1, connections: 0 }))).toBe(false);
  });
  it('are cut where nothing of the whitelist that stays admits them', () => {
    expect(cutBy(ALL, ['10.0.0.9/32'])).toEqual([ALL[0]]);
    expect(cutBy(ALL, ['10.0.0.0/24'])).toEqual([]);
    expect(cutBy(ALL, [])).toEqual(ALL);
  });
  it('are named by their address and what they call themselves, each once', () => {
    expect(named(ALL)).toBe('10.0.0.10 orders; 10.0.0.9 Mail; 10.0.0.9 mail');
    expect(named([one('10.0.0.1'), one('10.0.0.1', { software: 'librdkafka 2.5' })])).toBe('10.0.0.1');
  });
});

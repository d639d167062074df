// Whitelist entries as people type them. The API has the last word; this only catches slips early.

import { m } from '../paraglide/messages';

const V4 = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/;

function problemOf(entry: string): string | null {
  const [address = '', prefix, ...rest] = entry.split('/');
  const v4 = V4.exec(address);
  const isV6 = !v4 && address.includes(':') && /^[0-9a-f:.]+$/i.test(address);
  if (rest.length > 0 || (!v4 && !isV6)) return m.entry_is_not_an_address_or_cidr_like_10_0_0({ entry });
  if (v4 && v4.slice(1).some((part) => Number(part) > 255)) return m.entry_is_not_an_ipv4_address({ entry });
  if (prefix === undefined) return null;
  const bits = v4 ? 32 : 128;
  return /^\d{1,3}$/.test(prefix) && Number(prefix) <= bits
    ? null
    : m.entry_the_prefix_must_be_0_to_bits({ entry, bits });
}

/** An address alone as the CIDR of that one address. */
export function asCidr(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address;
  if (mapped.includes('/')) return mapped;
  return mapped.includes(':') ? `${mapped}/128` : `${mapped}/32`;
}

export type Cidrs = { cidrs: string[] } | { problem: string };

/** Entries between commas, blanks or lines; the first one that cannot be right is named. */
export function splitCidrs(text: string): Cidrs {
  const entries = text.split(/[\s,;]+/).filter(Boolean);
  for (const entry of entries) {
    const problem = problemOf(entry);
    if (problem !== null) return { problem };
  }
  return { cidrs: [...new Set(entries.map(asCidr))] };
}

/** The address as a number and how many bits it has; null: it is none. */
function numberOf(address: string): { value: bigint; bits: number } | null {
  const v4 = V4.exec(address);
  if (v4) return { value: v4.slice(1).reduce((sum, part) => sum * 256n + BigInt(part), 0n), bits: 32 };
  if (!/^[0-9a-f:]+$/i.test(address) || !address.includes(':')) return null;
  const [front = '', back] = address.split('::');
  const groups = (text: string): string[] => text.split(':').filter(Boolean);
  const [before, behind] = [groups(front), groups(back ?? '')];
  const all = [...before, ...Array<string>(Math.max(0, 8 - before.length - behind.length)).fill('0'), ...behind];
  return { value: all.reduce((sum, group) => sum * 65_536n + BigInt(`0x${group}`), 0n), bits: 128 };
}

/** Whether an entry of a whitelist, as the API writes it, admits an address. */
export function admits(cidr: string, address: string): boolean {
  const [network = '', prefix = '0'] = cidr.split('/');
  const one = numberOf(network);
  const other = numberOf(asCidr(address).split('/')[0]!);
  if (one === null || other === null || one.bits !== other.bits) return false;
  const shift = BigInt(one.bits - Number(prefix));
  return one.value >> shift === other.value >> shift;
}

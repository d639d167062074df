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

// The languages of the pages: what each calls itself, and its tag.

import { getLocale, type Locale } from '../paraglide/runtime';

export const NAMES: Record<Locale, string> = { en: 'English', zh: '中文' };
export const TAGS: Record<Locale, string> = { en: 'en-US', zh: 'zh-CN' };

/** Of what is written in the language that is chosen, for numbers. */
export const tag = (): string => TAGS[getLocale()];

/** The same as the reader's own region writes it, for dates: whoever reads English may be anywhere. */
export function regionalTag(): string {
  const own = globalThis.navigator?.languages ?? [];
  return own.find((one) => one.split('-')[0] === getLocale()) ?? tag();
}

// The languages of the pages: what each calls itself, and its tag.

import { getLocale, type Locale } from '../paraglide/runtime';

export const NAMES: Record<Locale, string> = { en: 'English', zh: '中文' };
export const TAGS: Record<Locale, string> = { en: 'en', zh: 'zh-CN' };

/** For `lang`, of what is written in the language that is chosen. */
export const tag = (): string => TAGS[getLocale()];

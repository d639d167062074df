import { afterEach, expect, it, vi } from 'vitest';
import { overwriteGetLocale } from '../paraglide/runtime';
import { m } from '../paraglide/messages';
import { regionalTag, tag } from './language';
import { formatDuration, parseDuration, typedDuration } from './units';

afterEach(() => {
  vi.unstubAllGlobals();
  overwriteGetLocale(() => 'en');
});

it('writes dates as the region of the reader does, where it speaks the language that is chosen', () => {
  vi.stubGlobal('navigator', { languages: ['de-DE', 'en-GB', 'zh-HK'] });
  expect([tag(), regionalTag()]).toEqual(['en-US', 'en-GB']);
  overwriteGetLocale(() => 'zh');
  expect([tag(), regionalTag()]).toEqual(['zh-CN', 'zh-HK']);
  vi.stubGlobal('navigator', { languages: ['de-DE'] });
  expect(regionalTag()).toBe('zh-CN');
});

it('counts in the words of each language', () => {
  expect([1, 2, 1234].map((count) => m.alarms_counted({ count }))).toEqual(['1 alarm', '2 alarms', '1,234 alarms']);
  overwriteGetLocale(() => 'zh');
  expect([1, 1234].map((count) => m.alarms_counted({ count }))).toEqual(['1 个告警', '1,234 个告警']);
  expect(formatDuration(90_000)).toBe('1 分钟 30 秒');
});

it('types durations so that they can be read again, whatever the language', () => {
  overwriteGetLocale(() => 'zh');
  expect(parseDuration(typedDuration(604_800_000))).toEqual({ value: 604_800_000 });
});

import { describe, expect, it } from 'vitest';
import { ALL } from './alarm_filter';
import { hrefOf, instanceHref, parseRoute, type Route } from './router';

describe('parseRoute', () => {
  it.each(['', '#', '#/', '#/instances', '#/instances/'])('%s is the list', (hash) =>
    expect(parseRoute(hash)).toEqual({ page: 'instances' }),
  );
  it('opens an invitation by its secret', () => {
    expect(parseRoute('#/invitation/s3cret')).toEqual({ page: 'invitation', secret: 's3cret' });
    expect(parseRoute('#/invitation').page).toBe('missing');
  });
  it("opens a mail's link by its secret", () => {
    expect(parseRoute('#/mail/confirm.e1.s3cret')).toEqual({ page: 'mail', secret: 'confirm.e1.s3cret' });
    expect(parseRoute('#/mail').page).toBe('missing');
  });
  it('opens an instance on its overview', () =>
    expect(parseRoute('#/instances/iabc')).toEqual({ page: 'instance', id: 'iabc', tab: 'overview', item: null }));
  it.each([
    '#/nothing',
    '#/keys/5',
    '#/instances/i/unknown',
    '#/instances/i/quota/x',
    '#/instances//topics',
    '#/instances/i/topics/a/b',
    '#/%E0%A4%A',
  ])('%s is missing', (hash) => expect(parseRoute(hash).page).toBe('missing'));
  it('keeps a filter of alarms, and a query of nothing else', () => {
    expect(parseRoute('#/alarms')).toEqual({ page: 'alarms', filter: ALL });
    expect(parseRoute('#/alarms?kind=full&instance=i1')).toEqual({
      page: 'alarms',
      filter: { ...ALL, kind: 'full', instance: 'i1' },
    });
    expect(parseRoute('#/keys?kind=full').page).toBe('missing');
  });
  it('reads back what hrefOf writes, odd names included', () => {
    const routes: Exclude<Route, { page: 'missing' | 'invitation' | 'mail' }>[] = [
      { page: 'dashboard' },
      { page: 'keys' },
      { page: 'alarms', filter: { ...ALL, state: 'open', instance: 'a&b#c' } },
      { page: 'pipeline' },
      { page: 'dashboard', query: 'range=6h' },
      { page: 'instances', query: 'q=a+b&sort=-stored' },
      { page: 'instance', id: 'orders', tab: 'history', item: null, query: 'range=7d&topic=a%26b' },
      { page: 'bills' },
      { page: 'instance', id: 'orders', tab: 'bill', item: '2026-11' },
      { page: 'instance', id: 'orders', tab: 'groups', item: 'a/b c#%ü' },
      { page: 'instance', id: 'orders', tab: 'topics', item: '.hidden' },
    ];
    for (const route of routes) expect(parseRoute(hrefOf(route))).toEqual(route);
    expect(instanceHref('i1', 'quota')).toBe('#/instances/i1/quota');
  });
});

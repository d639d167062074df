import { describe, expect, it } from 'vitest';
import type { BrokerDirection, BrokerQuota, CpuPoint, CpuQuota, DirectionQuota, History, QuotaView } from '../api';
import { formatThrottle, heldBackMs, pressureOf, verdictOf } from './quota';
import { QuotaSeries } from './series';

const flow = (rate: number, throttled = 0): BrokerDirection => ({
  rate_per_s: rate,
  share_per_s: 30,
  proportion_per_s: 3 * rate,
  allocated_per_s: 40,
  applied_per_s: 40,
  throttled_ms_per_s: throttled,
  below_gate: rate < 24,
  used_total: 0,
  refused_total: 0,
});
const broker = (nodeId: number, rate: number, throttled = 0): BrokerQuota => ({
  point: `broker-${nodeId}`,
  node_id: nodeId,
  partitions_led: 1,
  stored_bytes: 5,
  silent: false,
  on_lease: true,
  refusals: {},
  blocked: false,
  lease_epoch: 1,
  report_age_ms: 0,
  produce: flow(rate, throttled),
  consume: flow(0),
});
const direction = (rate: number, throttled = 0): DirectionQuota => ({
  purchased_per_s: 100,
  rate_per_s: rate,
  allocated_per_s: 100,
  rule: 'below_gate',
  explanation: '',
  reserved_per_s: 0,
  p_min_per_s: 0,
  p_max_per_s: 0,
  p_ratio: null,
  throttled_ms_per_s: throttled,
});
const point = (name: string, rate: number, throttled = 0): CpuPoint => ({
  point: name,
  node_id: -1,
  silent: false,
  on_lease: true,
  lease_epoch: 1,
  report_age_ms: 0,
  flow: flow(rate, throttled),
});
const cpu = (points: CpuPoint[], throttled = 0): CpuQuota => ({
  request_percent: 50,
  total: direction(10, throttled),
  points,
  idle_points: 0,
  idle_share_per_s: 0,
});
const view = (atS: number, brokers: BrokerQuota[], extra: Partial<QuotaView> = {}): QuotaView => ({
  instance_id: 'i1',
  tenant: 'default',
  name: 'orders',
  at_ms: atS * 1000,
  policy: 'seed',
  period_ms: 1000,
  capacity_bytes: 100,
  stored_bytes: 7,
  stored_left_bytes: 93,
  unblock_below_bytes: 98,
  blocked: false,
  produce: direction(10),
  consume: direction(20),
  cpu: cpu([]),
  brokers,
  history: { at_ms: [], stored_bytes: [], blocked: [], brokers: [], cpu: [] },
  version: 1,
  ...extra,
});
const line = (values: (number | null)[]) => ({
  rate_per_s: values,
  share_per_s: values,
  proportion_per_s: values,
  allocated_per_s: values,
  throttled_ms_per_s: values,
});
const history: History = {
  at_ms: [1000, 2000],
  stored_bytes: [1, 2],
  blocked: [false, false],
  brokers: [{ node_id: 1, produce: line([10, 11]), consume: line([null, null]) }],
  cpu: [{ point: 'gateway-0', flow: line([null, 70]) }],
};

describe('QuotaSeries', () => {
  it('goes on where history ends and ignores what is not newer', () => {
    const series = new QuotaSeries(3600, history);
    series.append(view(2, [broker(1, 99)]));
    series.append(view(3, [broker(1, 12)]));
    expect(series.times(0)).toEqual([1, 2, 3]);
    expect(series.column('produce', 'rate', 1, 0)).toEqual([10, 11, 12]);
    expect(series.storedSince(2)).toEqual([2, 7]);
  });
  it('keeps columns aligned when a broker comes late or leaves', () => {
    const series = new QuotaSeries(3600, history);
    series.append(view(3, [broker(1, 12), broker(2, 5)]));
    series.append(view(4, [broker(2, 6)]));
    expect(series.nodes).toEqual([1, 2]);
    expect(series.column('produce', 'rate', 1, 0)).toEqual([10, 11, 12, null]);
    expect(series.column('produce', 'rate', 2, 0)).toEqual([null, null, 5, 6]);
  });
  it('adds rates over brokers and takes the worst throttled time', () => {
    const series = new QuotaSeries(3600);
    series.append(view(1, [broker(1, 12, 300), broker(2, 5, 100)]));
    expect(series.column('produce', 'rate', null, 0)).toEqual([17]);
    expect(series.column('produce', 'throttled', null, 0)).toEqual([300]);
    expect(series.column('produce', 'rate', 9, 0)).toEqual([]);
  });
  it('keeps request time by point, of brokers and gateway workers alike', () => {
    const series = new QuotaSeries(10, history);
    series.append(view(3, [], { cpu: cpu([point('gateway-0', 80, 5), point('broker-1', 20, 9)]) }));
    series.append(view(4, [], { cpu: cpu([point('broker-1', 21)]) }));
    expect([...series.byPoint.keys()]).toEqual(['gateway-0', 'broker-1']);
    expect(series.byPoint.get('gateway-0')!.rate).toEqual([null, 70, 80, null]);
    expect(series.column('cpu', 'rate', null, 0)).toEqual([null, 70, 100, 21]);
    expect(series.column('cpu', 'throttled', 1, 0)).toEqual([null, 70, 9, 0]);
    series.append(view(14, [], { cpu: cpu([point('broker-1', 22)]) }));
    expect(series.byPoint.get('gateway-0')!.rate).toEqual([null, null]);
  });
  it('leaves a gap after a pause', () => {
    const series = new QuotaSeries(3600);
    series.append(view(1, [broker(1, 12)]));
    series.append(view(100, [broker(1, 13)]));
    expect(series.times(0)).toEqual([1, 2, 100]);
    expect(series.column('produce', 'rate', null, 0)).toEqual([12, null, 13]);
  });
  it('forgets what is older than it should keep', () => {
    const series = new QuotaSeries(10);
    for (let atS = 1; atS <= 30; atS += 1) series.append(view(atS, [broker(1, atS)]));
    expect(series.times(0)[0]).toBe(20);
    expect(series.column('produce', 'rate', 1, 0)).toHaveLength(11);
    expect(series.storedSince(0)).toHaveLength(11);
  });
});

describe('quota words', () => {
  it('tells throttled from busy from calm', () => {
    expect(pressureOf(direction(10))).toBe('calm');
    expect(pressureOf(direction(80))).toBe('busy');
    expect(pressureOf(direction(10, 1))).toBe('throttled');
    expect(formatThrottle(0)).toBe('none');
    expect(formatThrottle(123.4)).toBe('123 ms/s');
  });
  it('puts the block before any share, for produce alone', () => {
    const full = view(1, [], { blocked: true, stored_bytes: 2000, capacity_bytes: 2000, unblock_below_bytes: 1960 });
    expect(verdictOf(full, 'produce').explanation).toBe('2 kB of 2 kB are stored; produce resumes below 1.96 kB.');
    expect(verdictOf(full, 'consume').title).toBe('Static shares: q = F');
  });
  it("prefers the API's sentence with the numbers", () => {
    const told = view(1, [], { produce: { ...direction(1), rule: 'headroom', explanation: 'broker 1 carries most' } });
    expect(verdictOf(told, 'produce').explanation).toBe('broker 1 carries most');
    expect(verdictOf(told, 'consume').explanation).toContain('80 %');
  });
  it('tells of request time by the same words', () => {
    const spent = view(1, [], { cpu: cpu([], 40) });
    expect(verdictOf(spent, 'cpu').title).toBe('Static shares: q = F');
    expect(heldBackMs(spent)).toBe(40);
    expect(verdictOf({ ...spent, blocked: true }, 'cpu').title).toBe('Static shares: q = F');
  });
});

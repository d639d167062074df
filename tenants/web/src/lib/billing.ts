// Bills in words.

import type { Dimension } from '../api';

export const DIMENSIONS: Record<Dimension, { title: string; about: string }> = {
  produce: { title: 'Produced', about: 'bytes that were produced' },
  consume: { title: 'Consumed', about: 'bytes that were consumed' },
  requests: { title: 'Requests', about: 'produce and fetch requests' },
  storage: { title: 'Storage', about: 'stored bytes over time' },
  bandwidth_p95: { title: 'Bandwidth, 95th percentile', about: 'of the month’s 5-minute averages, by nearest rank' },
  provisioned: { title: 'Provisioned bandwidth', about: 'the limits bought, produce and consume, over time' },
};

export const titleOf = (dimension: Dimension): string => DIMENSIONS[dimension]?.title ?? dimension;

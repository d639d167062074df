// Bills in words.

import type { Dimension } from '../api';
import { m } from '../paraglide/messages';

export const DIMENSIONS: Record<Dimension, { title: string; about: string }> = {
  produce: { title: m.produced(), about: m.bytes_that_were_produced() },
  consume: { title: m.consumed(), about: m.bytes_that_were_consumed() },
  requests: { title: m.requests(), about: m.produce_and_fetch_requests() },
  storage: { title: m.storage(), about: m.stored_bytes_over_time() },
  bandwidth_p95: { title: m.bandwidth_95th_percentile(), about: m.of_the_months_5_minute_averages_by_nearest() },
  provisioned: { title: m.provisioned_bandwidth(), about: m.the_limits_bought_produce_and_consume_over() },
};

export const titleOf = (dimension: Dimension): string => DIMENSIONS[dimension]?.title ?? dimension;

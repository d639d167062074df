// How much time the series of an instance tell of at once: more where the deployment has a Prometheus.

import { SPAN_MS_MAX } from './span';

/** As the last answer said. */
export const longest = $state({ ms: SPAN_MS_MAX });

/* SPDX-License-Identifier: Apache-2.0
 *
 * What numbers mean. A metric is a definition with its source and caveats, written once and shared by
 * all fields that show it: those with its name, with one of its keys, or that name it themselves.
 * Words for a key that means the same wherever it stands are here, too; a field has its own only where it
 * means something else.
 */
#ifndef SUBJECTS_MEANINGS_H
#define SUBJECTS_MEANINGS_H

#include <stddef.h>

struct metric {
	const char *name;
	const char *unit;
	const char *definition;
	const char *source;
	const char *caveats; /* NULL: none */
	const char *keys;    /* others under which JSON and CSV show it, with spaces between them */
};

struct metric_group {
	const char *name;
	const struct metric *metrics;
	size_t n;
	const char *symbols; /* in its definitions; NULL: none */
};

#define METRICS(array) (array), sizeof(array) / sizeof((array)[0])

extern const struct metric_group routing_metrics, timeline_metrics, counters_metrics, comm_metrics,
	work_metrics, steps_metrics, inference_metrics, memory_metrics, overhead_metrics;

/* Sources and caveats that several groups have. */
#define FROM_DEVICE "measured by the device's activity records"
#define NO_RECORDS "n/a in runs without device records."

/* In a few words, what a key means in every row that has no words of its own; NULL: no such key. */
const char *key_meaning(const char *key);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions behind every number that moescope shows.
 */
#ifndef CMD_METRICS_H
#define CMD_METRICS_H

struct metric {
	const char *group;
	const char *name;
	const char *unit;
	const char *definition;
	const char *source;
	const char *caveats; /* "": none */
};

/* By group, in the order to show; ends with a NULL name. */
extern const struct metric metrics[];

/* A metric by its name, or by the key under which JSON and CSV show it; NULL when there is none. */
const struct metric *metric_find(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/runs/RUN/timeline and what is below it: lanes, boxes, sums, search and find. docs/serve.md
 * describes them. They load no tables: everything comes from the index of the run. Any thread.
 */
#ifndef SURFACES_HTTP_TIMELINE_ROUTES_H
#define SURFACES_HTTP_TIMELINE_ROUTES_H

#include "surfaces/http/routes.h"

/* Status 0: the index is being made. */
struct reply timeline_reply(const struct routes *routes, const struct target *target);

/* For the description of all requests. */
struct timeline_route {
	const char *name; /* behind "timeline"; "": of the lanes */
	const char *words, *reply;
	struct {
		const char *name, *help;
	} parameters[5]; /* until one without a name */
};
extern const struct timeline_route timeline_routes[]; /* until one without words */

#endif

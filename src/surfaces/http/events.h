/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of server-sent events: one says "changed" at most once a second while its run grows, and
 * "gone" when it is no longer there. A run is looked at once, however many follow it.
 */
#ifndef SURFACES_HTTP_EVENTS_H
#define SURFACES_HTTP_EVENTS_H

#include <microhttpd.h>

struct events;

/* NULL: no memory or no thread. */
struct events *events_new(void);
/* The response of a stream about the run at `path`, which it takes over. NULL: no memory. */
struct MHD_Response *events_response(struct events *events, char *path,
				     struct MHD_Connection *connection);
/* All streams end. */
void events_stop(struct events *events);
/* After events_stop, when all responses are gone. */
void events_free(struct events *events);

#endif

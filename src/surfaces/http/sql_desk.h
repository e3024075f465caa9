/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries over HTTP, one at a time: whoever comes meanwhile is told to come again, so that queries never
 * take all threads from the views. Any thread.
 */
#ifndef SURFACES_HTTP_SQL_DESK_H
#define SURFACES_HTTP_SQL_DESK_H

#include <pthread.h>
#include <stdbool.h>

struct sql_desk {
	pthread_mutex_t lock; /* of the rest */
	bool taken, closed;
	struct sql *running; /* that can be interrupted; NULL: none */
};

void sql_desk_init(struct sql_desk *desk);
/* Ends the query that runs; there will be no other. */
void sql_desk_close(struct sql_desk *desk);
void sql_desk_release(struct sql_desk *desk);

#endif

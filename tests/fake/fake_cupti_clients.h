/* SPDX-License-Identifier: Apache-2.0
 *
 * A libcupti for two clients in a process: one subscriber, one pair of callbacks, and buffers that
 * go to whoever is registered when they are returned, as in CUPTI 13.0. The library has this table
 * as the symbol `fake_clients`.
 */
#ifndef FAKE_CUPTI_CLIENTS_H
#define FAKE_CUPTI_CLIENTS_H

#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>

struct fake_clients {
	/* n bytes of records, into a buffer that CUPTI then keeps, when any kind is on. */
	void (*work)(size_t n);
	bool (*enabled)(CUpti_ActivityKind kind);
	bool (*subscribed)(void);
	/* Calls that arrived in all. */
	unsigned int (*calls)(void);
	/* errno as the last of them found it; each leaves EDOM. */
	int (*errno_found)(void);
};

#endif

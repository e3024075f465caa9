/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine does: processors, pressure, memory, disks, networks, nodes of memory. One thread.
 */
#ifndef HOST_MACHINE_MACHINE_H
#define HOST_MACHINE_MACHINE_H

#include <stdint.h>

#include "host/machine/readings.h"

#define MACHINE_NODES_MOST 64

/* What does not change while a program runs. */
struct machine {
	int64_t tick_ns;   /* of the kernel's clocks */
	int64_t slow_ns;   /* when what changes slowly was read last; 0: never */
	char *text;	   /* room for a file */
	size_t nodes;	   /* of memory */
	uint64_t *node_of; /* mask of nodes, by processor */
	size_t n_node_of;
};

void machine_init(struct machine *m, struct readings *r);
void machine_release(struct machine *m);
/* One look at everything. */
void machine_look(struct machine *m, struct readings *r, int64_t now_ns);
/* The nodes of the processors of a list such as "0-3,8", as a mask; 0: the machine does not tell. */
uint64_t machine_nodes(const struct machine *m, const char *cpus);

#endif

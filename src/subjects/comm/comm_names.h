/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels communicate, over what, and what they are called. One thread.
 */
#ifndef SUBJECTS_COMM_NAMES_H
#define SUBJECTS_COMM_NAMES_H

#include "subjects/comm/comm.h"

#define COMM_NONE COMM_TRANSPORTS /* not communication */

/* What is known of a launch. */
struct comm_launch {
	uint8_t looked_at;
	uint8_t transport; /* enum comm_transport, or COMM_NONE */
	uint32_t name;	   /* into names; when it is communication */
};

struct comm_names {
	const struct run *run;
	const struct kernel_classes *classes;
	struct comm_launch *launches; /* by launch id */
	size_t launches_capacity;
	char **texts; /* each once */
	size_t n, capacity;
};

void comm_names_init(struct comm_names *names, const struct run *run,
		     const struct kernel_classes *classes);
void comm_names_release(struct comm_names *names);
int comm_names_launch(struct comm_names *names, uint32_t launch, struct comm_launch *ret_launch);

#endif

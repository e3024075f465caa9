/* SPDX-License-Identifier: Apache-2.0
 *
 * The file in which `doctor --stress` leaves what a machine has proved, and from which the probe
 * takes it: one line for each CUPTI and driver that passed, the last one counts. Untrusted input.
 */
#ifndef DEVICE_PROOF_H
#define DEVICE_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proof_line {
	uint32_t cupti;	       /* version of CUPTI's API */
	char driver[64];       /* as in "580.95.05" */
	bool graphs;	       /* detaching beside CUDA graphs is safe */
	double launch_ns;      /* what attaching adds to a kernel launched by the host */
	double node_ns;	       /* to a kernel of a graph */
	uint64_t window_bytes; /* device memory that a window leaves behind */
};

/* Of the loaded driver, "" when it cannot be told. */
void driver_version(char *version, size_t size);
/* True and *ret_line for a CUPTI and driver that the file has. */
bool proof_read(uint32_t cupti, const char *driver, struct proof_line *ret_line);
/* Appends. path: where; 0 or -errno. */
int proof_append(const struct proof_line *line, char *path, size_t size);

#endif

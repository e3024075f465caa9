/* SPDX-License-Identifier: Apache-2.0
 *
 * Which boot of which machine this process runs in. All processes of one boot share CLOCK_MONOTONIC,
 * whatever becomes of the wall clock. Any thread; reads /proc, so not on a hot path.
 */
#ifndef BASE_BOOT_H
#define BASE_BOOT_H

#include <stdbool.h>
#include <stdint.h>

#define BOOT_ID_BYTES 16

struct boot {
	char id[BOOT_ID_BYTES]; /* all zero: not known */
	int64_t offset_ns;	/* of CLOCK_MONOTONIC here, in a time namespace, to the machine's */
};

/* False, and all zero, when it cannot be told. */
bool boot_read(struct boot *ret_boot);

/* From the texts of /proc/sys/kernel/random/boot_id and /proc/self/timens_offsets (NULL: the kernel
 * has no time namespaces). */
bool boot_parse(const char *id, const char *offsets, struct boot *ret_boot);

#endif

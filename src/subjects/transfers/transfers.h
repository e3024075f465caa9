/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and sets by kind, host memory and devices.
 *
 * bandwidth  bytes / device time of the timed ones that tell their bytes
 * overlap    length of (these and kernels of the same device at once) / length of these
 * staged     a copy from a device to the host and, at most TRANSFER_STAGED_NS after its end, one of
 *            as many bytes from the host to another device, both of one process: taken for one move
 *            between the devices by way of the host. Each copy is in one move at most.
 */
#ifndef SUBJECTS_TRANSFERS_H
#define SUBJECTS_TRANSFERS_H

#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

#define TRANSFER_SMALL_BYTES 65536 /* below it a copy takes its fixed cost, whatever its size */
#define TRANSFER_STAGED_NS 1000000
#define TRANSFER_STAGED_BYTES 4096 /* below it equal sizes say nothing: scalars, flags */
#define TRANSFER_HOST (-1)

struct attribution;
struct device_lanes;

struct transfer_row {
	const char *kind;   /* "HtoD" "DtoH" "DtoD" "PtoP" …, "memset" */
	const char *memory; /* "pageable" "pinned" "device" …: the host's side where there is one */
	bool is_set;
	int64_t src, dst;		 /* device, or TRANSFER_HOST; a set has no src */
	char src_name[24], dst_name[24]; /* "host" or "gpu 0" */
	uint64_t count, small, untimed, asynchronous;
	uint64_t not_told;		/* whether they were asynchronous */
	uint64_t bytes, bytes_not_told; /* of those that tell them; how many do not */
	int64_t time_ns;
	struct value bandwidth_bytes_per_s, overlap_pct;
	/* The most that this way can do, and the share of it that was reached. */
	struct value limit_bytes_per_s, limit_pct;
};

/* Moves between two devices by way of the host. */
struct staged_row {
	uint32_t src, dst;
	uint64_t count, bytes; /* bytes once, not out and in */
	int64_t time_ns;       /* sum, from the begin of the copy out to the end of the copy in */
};

struct transfers {
	struct transfer_row *rows; /* copies before sets, by time, largest first */
	size_t n;
	/* Copies only; sets beside them. */
	uint64_t count, small, bytes, bytes_not_told, untimed;
	int64_t time_ns;
	uint64_t sets, set_bytes, set_bytes_not_told, sets_untimed;
	int64_t set_time_ns;
	struct staged_row *staged; /* by src, then dst */
	size_t n_staged;
	uint64_t staged_count, staged_bytes;
	uint64_t without_call; /* left out: a part of the run was chosen, and no call says which */
};

int transfers_analyze(const struct run *run, const struct selection *sel,
		      struct transfers *ret_transfers);
/* Fills limit_*: with the host, what was measured for pinned memory, which the way can do whatever
 * memory is used; within a device, half of its memory's rate, since each byte is read and written;
 * of sets all of it. Nothing is known of ways between devices. */
struct peaks_file;
void transfer_limits_fill(const struct run *run, const struct peaks_file *peaks,
			  struct transfers *transfers);
/* With what is there already. */
int transfers_analyze_at(const struct attribution *at, const struct device_lanes *lanes,
			 const struct selection *sel, struct transfers *ret_transfers);
void transfers_release(struct transfers *transfers);

/* Its fields; see transfers_fields.c. */
struct field_set;
extern const struct field_set transfers_fields, transfers_total;

#endif

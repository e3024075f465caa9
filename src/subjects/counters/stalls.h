/* SPDX-License-Identifier: Apache-2.0
 *
 * Where warps wait and for what, by the samples of instructions that 'run --counters pc' takes: by kernel and reason, and
 * by line of the source. Without line information an instruction stands for itself.
 *
 * A sample is a warp at an instruction, with the reason for which it did not go on; "selected": it did. NVIDIA counts a
 * sample a second time if the scheduler could issue no warp at all then ("not issued"): these cost time.
 */
#ifndef SUBJECTS_STALLS_H
#define SUBJECTS_STALLS_H

#include "subjects/numbers/value.h"
#include "tables/tables.h"

struct stalled_kernel {
	char *name, *short_name; /* as those of the table of kernels */
	uint64_t samples;
};

struct stall_row {
	const struct stalled_kernel *kernel;
	const char *stall; /* NVIDIA's name, without what all have in common */
	uint64_t samples, not_issued;
	struct value kernel_pct; /* of the kernel's samples */
};

struct stalled_line {
	const struct stalled_kernel *kernel;
	const char *file; /* NULL: no line information */
	uint32_t line;
	char source[64]; /* both in short, "moe.cu:12"; else the instruction, "+0x1f0" */
	uint64_t offset; /* of the instruction, in the kernel, with the most samples */
	uint64_t samples, not_issued;
	struct value share_pct, kernel_pct; /* of all samples; of the kernel's */
	const char *stall;		    /* the most frequent reason to wait; NULL: none */
	struct value stall_pct;		    /* of the line's samples */
};

struct stalls {
	struct stalled_kernel *kernels;
	struct stall_row *reasons;  /* kernels with the most samples first, then reasons */
	struct stalled_line *lines; /* by samples */
	size_t n_kernels, n_reasons, n_lines;
	uint64_t samples; /* of these kernels */
	uint64_t dropped, driver,
		unnamed; /* by the hardware; of kernels of the driver; of what CUPTI did not name */
	char (*names)[48]; /* of reasons */
};

int stalls_analyze(const struct run *run, struct stalls *ret_stalls);
void stalls_release(struct stalls *stalls);

struct field_set;
extern const struct field_set stall_reasons_fields, stalled_lines_fields;

#endif

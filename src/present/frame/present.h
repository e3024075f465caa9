/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers out: every view of a run as text, JSON or CSV, and the files of other viewers. Views never
 * compute; they ask src/subjects. One thread at a time per run.
 */
#ifndef PRESENT_PRESENT_H
#define PRESENT_PRESENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "tables/tables.h"

struct present_options {
	bool json, csv, color, utf8;	 /* csv: the rows of the table as CSV */
	int width;			 /* columns of the terminal, 80 when not a terminal */
	size_t limit;			 /* rows; 0: all */
	const char *sort;		 /* column key, NULL: default */
	bool by_shape, by_stack;	 /* of ops */
	int layer;			 /* -1 all */
	int64_t step_first, step_last;	 /* inclusive window; INT64_MIN/MAX: open */
	int phase;			 /* -1 all */
	double capacity_factors[8];	 /* routing what-ifs */
	unsigned int n_capacity_factors; /* 0: 1.25 alone */
	unsigned int tile_rows;		 /* 0: 64 */
	int kernels_by;			 /* enum kernels_by */
	const char *classes;		 /* file of kernel classes; NULL: the built-in ones alone */
	const char *
		peaks; /* file of measured peaks (device/sheets/peaks.h); NULL: data sheets alone */
};

/* A view: one table, or a document of several. */
struct section;
/* "report" "ops" "steps" "routing" "routing-steps" "routing-experts" "memory" "kernels" "api"
 * "transfers" "comm" "moe" "counters" "efficiency" "dashboard"; NULL when there is no such view. */
const struct section *section_find(const char *name);
/* What a run must be loaded with for a view with these options. */
struct run_want section_want(const struct section *section, const struct present_options *options);
/* As text, JSON or CSV, as the options say. 0 or -errno with err filled; write errors stay in
 * ferror(out). */
int section_render(const struct section *section, const struct run *run,
		   const struct present_options *options, FILE *out, struct err *err);

/* Chrome trace JSON in the form of PyTorch's profiler. Needs every kind of record. */
int present_chrome(const struct run *run, FILE *out, struct err *err);
/* Compressed; -ENOTSUP where present_chrome_packs says no. */
int present_chrome_gzip(const struct run *run, FILE *out, struct err *err);
/* The processes of one rank alone. */
int present_chrome_rank(const struct run *run, uint32_t rank, bool gzip, FILE *out,
			struct err *err);
bool present_chrome_packs(void);
/* A Perfetto trace (protobuf), for ui.perfetto.dev and Perfetto's tools. Likewise. */
int present_perfetto(const struct run *run, FILE *out, struct err *err);
/* Folded stacks, for flame graphs: device time under the stacks that launched it, and the time of
 * the host itself. Likewise. */
int present_folded(const struct run *run, FILE *out, struct err *err);
int present_folded_host(const struct run *run, FILE *out, struct err *err);
/* Profiles of threads and streams for speedscope. Likewise. */
int present_speedscope(const struct run *run, FILE *out, struct err *err);

#endif

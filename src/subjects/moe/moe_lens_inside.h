/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the files of the MoE lens: moe_lens.c puts it together, moe_lens_names.c says what names
 * mean, moe_lens_places.c what the place of a kernel in the program does, moe_lens_modules.c
 * what modules of PyTorch do, moe_lens_sets.c measures sets of kernels,
 * moe_lens_cost.c compares
 * kernels with and without communication beside them. One thread.
 */
#ifndef SUBJECTS_MOE_LENS_INSIDE_H
#define SUBJECTS_MOE_LENS_INSIDE_H

#include <regex.h>

#include "subjects/moe/moe_lens.h"
#include "subjects/numbers/intervals.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/lanes.h"

#define MOE_NO_LAYER (-1)
#define MOE_NO_NAMED UINT32_MAX

/* What the name of a range or operation tells. */
struct moe_word {
	uint8_t looked_at;
	uint8_t part; /* MOE_PARTS: nothing */
	uint8_t pass; /* MOE_PASSES: nothing */
	bool certain; /* only mixtures of experts have it */
	bool all_to_all;
	int32_t layer; /* MOE_NO_LAYER: none */
};

/* What the name of a kernel tells; part and pass as above. */
struct moe_kernel {
	uint8_t looked_at;
	uint8_t part, pass;
	bool moves, expert; /* communicates; for expert parallelism */
	bool notify, all_to_all, decides, certain, product;
	uint8_t precision; /* 0: not told */
};

struct moe_names {
	const struct run *run;
	const struct kernel_classes *classes;
	regex_t *regexes;
	struct moe_word *words; /* by string id */
	size_t words_capacity;
	struct moe_kernel *kernels; /* by launch id */
	size_t kernels_capacity;
};

int moe_names_init(struct moe_names *names, const struct run *run,
		   const struct kernel_classes *classes);
void moe_names_release(struct moe_names *names);
int moe_names_word(struct moe_names *names, uint32_t string, struct moe_word *ret_word);
int moe_names_kernel(struct moe_names *names, uint32_t launch, struct moe_kernel *ret_kernel);
const char *moe_precision_name(unsigned int precision); /* NULL for 0 */
#define MOE_PRECISIONS 5

struct moe_moment {
	int64_t time_ns;
	uint32_t thread;
	uint16_t shard;
};

/* A module of PyTorch that runs, with what it and those around it tell. */
struct moe_module {
	int64_t start_ns, end_ns;
	int64_t part_start_ns; /* of the one that names the part */
	uint32_t name, thread;
	uint32_t below; /* index, or MOE_NO_NAMED */
	int32_t layer;
	uint16_t shard;
	uint8_t part;
	bool certain;
};

struct moe_modules {
	struct moe_module *of; /* by process, thread, start */
	size_t n, hint;
};

int moe_modules_init(struct moe_modules *modules, const struct run *run, struct moe_names *names);
void moe_modules_release(struct moe_modules *modules);
/* The innermost of the thread at that moment; NULL: none. */
const struct moe_module *moe_modules_find(struct moe_modules *modules, uint16_t shard,
					  uint32_t thread, int64_t time_ns);

/* What the ranges around a moment tell. */
struct moe_place {
	uint8_t part, pass; /* MOE_PARTS, MOE_PASSES: nothing */
	bool certain, all_to_all;
	bool module; /* in a module of PyTorch */
	int32_t layer;
	uint32_t named; /* the innermost range that names a part: index; NO_NAMED: none */
	uint32_t order; /* position of that range among those of its name in its step, from 1 */
};

struct moe_places {
	const struct attribution *at;
	struct moe_place *of; /* of each of at->ranges */
	uint32_t *lenders;    /* thread of each process; 0: none */
	struct moe_modules modules;
	bool backward; /* something in the run is of a backward pass */
	bool certain;  /* something is of a mixture of experts */
	size_t hint;
};

int moe_places_init(struct moe_places *places, const struct attribution *at,
		    struct moe_names *names);
void moe_places_release(struct moe_places *places);
/* The place of a call; `range` is its innermost range or NO_RANGE. */
struct moe_place moe_places_find(struct moe_places *places, size_t range, uint32_t call);

/* The union of kernels that come by their start: its length but for the last stretch, and that. */
struct moe_stretch {
	int64_t closed_ns, start_ns, end_ns;
};

/* What communication is measured together with: all compute, that of another pass, attention of its
 * own, both of these, and compute of each pass. */
enum {
	MOE_WITH_COMPUTE,
	MOE_WITH_OTHER,
	MOE_WITH_ATTENTION,
	MOE_WITH_BATCH,
	MOE_WITH_PASS,
	MOE_WITHS = MOE_WITH_PASS + MOE_PASSES,
};

struct moe_comm_sets {
	bool any;
	struct moe_stretch comm, notify;
	struct moe_stretch with[MOE_WITHS]; /* unions of comm and that */
};

/* Of one device; zero to begin with. */
struct moe_sets {
	struct moe_stretch kernels, compute;
	struct moe_stretch of[MOE_PARTS][MOE_PASSES];
	struct moe_stretch pass[MOE_PASSES], other[MOE_PASSES], attention[MOE_PASSES],
		batch[MOE_PASSES];
	struct moe_comm_sets rows[2][MOE_PASSES], all; /* dispatch and combine */
};

/* Every kernel by its start; then also one of the two that follow if it does that. */
void moe_sets_kernel(struct moe_sets *sets, enum moe_part part, enum moe_pass pass,
		     int64_t start_ns, int64_t end_ns);
void moe_sets_comm(struct moe_sets *sets, enum moe_part part, enum moe_pass pass, bool notify,
		   int64_t start_ns, int64_t end_ns);
void moe_sets_compute(struct moe_sets *sets, enum moe_part part, enum moe_pass pass,
		      int64_t start_ns, int64_t end_ns);
/* Adds the times of the device. *other_ns, *attention_ns: communication beside these. */
void moe_sets_put(const struct moe_sets *sets, struct moe_lens *lens, int64_t *other_ns,
		  int64_t *attention_ns);

/* A kernel that does not communicate, for the comparison. */
struct moe_sample {
	uint32_t launch, site; /* site: string id of the named range; 0: the step */
	uint64_t instance;
	int64_t start_ns, duration_ns;
	uint32_t total, order; /* launches in the instance; position among them */
	int8_t beside;	       /* 1 beside, 0 clear, -1 between */
};

/* Sorts the samples. */
int moe_cost_measure(const struct moe_names *names, struct moe_sample *samples, size_t n,
		     struct moe_cost *ret_cost);
void moe_cost_release(struct moe_cost *cost);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a mixture of experts on the device: how long each takes in which pass, and how much of
 * the communication between experts is hidden behind other work.
 *
 * part       of a kernel, by the names of the ranges and operations around its launch, innermost
 *            first, and by its class (kernel_class.h). Kernels of expert parallelism are dispatch or
 *            combine wherever they are launched, and there the range says which: the gradient of a
 *            dispatch is a combine kernel in the range of the dispatch. Kernels of attention and
 *            routing are so inside of wider ranges too. An all-to-all that no range names is the
 *            dispatch before the experts and the combine after them; in a backward pass the other
 *            way round. "mlp" and "ffn" stand for experts in runs that have any
 * pass       forward, backward, weight gradient: by the names of ranges and operations, then by the
 *            phase of the range, then by the kernel's name. In a run with a backward pass, work of
 *            operations outside of it and of modules of PyTorch is forward; in one without any sign of
 *            a backward pass all work is. What nothing tells is unknown
 * modules    frames of PyTorch's modules name parts as ranges do, and "DecoderLayer_3" a layer. A
 *            backward operation belongs where the forward one does that an arrow leads to it from
 * lent       PyTorch runs backward passes on threads of its own. A launch there belongs to the part
 *            that the range open on the thread with most such ranges names, unless that is forward
 *
 * time       length of the union of the kernels on a device, summed over devices
 * moves      the kernel communicates: of dispatch or combine only these are counted as communication
 * hidden     of communication: beside kernels that do not communicate; exposed: the rest
 * beside     the same by the pass of the kernels beside it; passes may overlap each other
 * notify     kernels that exchange counts and wait for the others, before and after the transfer
 * two-batch  communication beside work that cannot be of its own batch: of the other direction (for
 *            backward only forward: weight gradients are its own), or attention of the same pass
 * cost       kernels of one place of the program that ran both with communication beside (for 90% of
 *            their time) and without (at most 10%). A place: the launch configuration, the innermost
 *            named range (else the step), how often it is launched in there, and its position
 *            among these. Extra time: sum over those beside - their count * mean of those without.
 *            Over the first quarter of a million kernels
 * layers     by the number that ranges give; else the position of each named range in its step
 *
 * Untimed kernels are counted and have no time. Pure, any thread; linear in kernels.
 */
#ifndef SUBJECTS_MOE_LENS_H
#define SUBJECTS_MOE_LENS_H

#include "device/sheets/kernel_class.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

struct attribution;
struct device_lanes;

enum moe_pass { MOE_FORWARD, MOE_BACKWARD, MOE_WEIGHT, MOE_UNKNOWN, MOE_PASSES };
enum moe_overlap { MOE_NO_OVERLAP, MOE_FORWARD_BACKWARD, MOE_TWO_BATCHES };

const char *moe_part_name(enum moe_part part);	/* "attention" … "rest" */
const char *moe_pass_name(enum moe_pass pass);	/* "forward" "backward" "weight" "unknown" */
const char *moe_overlap_name(enum moe_overlap); /* "none" … */

/* Communication of a part and pass, or of all. */
struct moe_comm {
	uint64_t count;
	int64_t time_ns, notify_ns;
	int64_t hidden_ns, exposed_ns;
	int64_t beside_ns[MOE_PASSES];
	int64_t two_batch_ns;
	struct value hidden_pct;
};

struct moe_row {
	uint64_t count, untimed;
	int64_t time_ns;
	struct moe_comm comm; /* count 0: none */
};

/* A kernel with and without communication beside it. */
struct moe_cost_row {
	char *name, *short_name; /* demangled */
	uint32_t name_id;	 /* string id */
	uint64_t beside, clear;
	double beside_ns, clear_ns; /* means; of clear weighted as those beside */
	double extra_ns;
};

struct moe_cost {
	struct moe_cost_row *rows; /* by extra time, largest first */
	size_t n;
	uint64_t compared; /* kernels beside communication that have others to compare */
	struct value extra_ns, slower_pct; /* of the time that they would have taken */
};

struct moe_layer {
	int64_t number;
	uint64_t count;
	int64_t sum_ns[MOE_PARTS];  /* of durations */
	int64_t comm_ns, hidden_ns; /* of durations; of each kernel what lies beside others */
};

struct moe_lens {
	const char *reason; /* why there is nothing; NULL: there is */
	struct moe_row rows[MOE_PARTS][MOE_PASSES];
	struct moe_comm comm;
	int64_t kernels_ns; /* union of all kernels */
	enum moe_overlap overlap;
	struct value two_batch_pct; /* of the time of communication */
	struct moe_cost cost;
	struct moe_layer *layers; /* by number */
	size_t n_layers;
	bool layers_with[MOE_PARTS]; /* a layer has time in this part */
	const char *layers_by;	     /* "ranges", "order" */
	const char *layers_none;     /* why there are none */
	const char *precision;	     /* of the products of experts, by most of their time; NULL */
	const char *shared_none;     /* why no shared expert is told apart; NULL: it is */
};

int moe_lens_analyze_at(const struct attribution *at, const struct device_lanes *lanes,
			const struct selection *sel, const struct kernel_classes *classes,
			struct moe_lens *ret_lens);
void moe_lens_release(struct moe_lens *lens);

/* Its fields; see moe_fields.c. */
struct field_set;
enum moe_form {
	MOE_BY_PART = 1 << 0,
	MOE_BY_COMM = 1 << 1, /* the rows that communicate, and what of it is hidden */
};

extern const struct field_set moe_fields; /* in these forms */
extern const struct field_set moe_cost_fields, moe_layers_fields, moe_total;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels inside of calls; see device_inside.h.
 */
#include "subjects/calls/device_inside.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/calls/library_calls.h"
#include "subjects/shared/attribution.h"

#define NESTED_MOST                                                                                \
	8 /* calls into libraries inside each other: cuBLAS calls cuBLASLt, and no deeper */

struct timed_call {
	int64_t start_ns, end_ns;
	uint32_t thread, call;
	uint16_t shard;
};

struct work {
	int64_t device_ns;
	double flops;
	uint64_t kernels;
};

static int by_place(const void *a, const void *b)
{
	const struct timed_call *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->thread, y->thread) ?: CMP(x->start_ns, y->start_ns) ?:
	       CMP(y->end_ns, x->end_ns);
}

static struct timed_call *sort_calls(const struct table_library_call *t)
{
	struct timed_call *calls = array_new(t->n, sizeof(*calls));

	for (size_t i = 0; calls && i < t->n; i++)
		calls[i] = (struct timed_call){ .start_ns = t->start_ns[i],
						.end_ns = t->start_ns[i] + t->duration_ns[i],
						.thread = t->thread[i],
						.call = (uint32_t)i,
						.shard = t->shard[i] };
	if (calls)
		qsort(calls, t->n, sizeof(*calls), by_place);
	return calls;
}

/* The innermost call around a moment of a thread; NULL: none. */
static const struct timed_call *find_around(const struct timed_call *calls, size_t n,
					    uint16_t shard, uint32_t thread, int64_t time_ns)
{
	struct timed_call wanted = {
		.shard = shard, .thread = thread, .start_ns = time_ns, .end_ns = INT64_MIN
	};
	size_t low = 0;

	ORDER_FIND(low, n, n, by_place(&calls[probe], &wanted) <= 0);
	for (size_t back = 0; back < NESTED_MOST && low > 0; back++) {
		const struct timed_call *call = &calls[--low];

		if (call->shard != shard || call->thread != thread)
			return NULL;
		if (time_ns <= call->end_ns)
			return call;
	}
	return NULL;
}

static double products_of(const struct table_library_call *t, size_t i)
{
	uint64_t batch = t->batch[i] ? t->batch[i] : 1;

	return 2.0 * (double)t->gemm_m[i] * (double)t->gemm_n[i] * (double)t->gemm_k[i] *
	       (double)batch;
}

static void add_kernels(const struct attribution *at, const struct timed_call *calls,
			const uint32_t *row_of, uint8_t *seen, struct work *work)
{
	const struct run *run = at->run;
	const struct table_library_call *t = &run->library_call;

	for (size_t i = 0; i < run->kernel.n; i++) {
		uint32_t api = at->kernel_call[i];
		const struct timed_call *call;

		if (api == NO_CALL32 || run->kernel.untimed[i])
			continue;
		call = find_around(calls, t->n, run->api.shard[api], run->api.thread[api],
				   run->api.start_ns[api]);
		if (!call)
			continue;
		work[row_of[call->call]].device_ns += run->kernel.duration_ns[i];
		work[row_of[call->call]].kernels++;
		if (!seen[call->call])
			work[row_of[call->call]].flops += products_of(t, call->call);
		seen[call->call] = 1;
	}
}

int device_inside(const struct attribution *at, const uint32_t *row_of, struct call_row *rows,
		  size_t n)
{
	size_t n_calls = at->run->library_call.n;
	struct timed_call *calls = NULL;
	uint8_t *seen = NULL;
	struct work *work = calloc(n + 1, sizeof(*work));
	int r = work ? 0 : -ENOMEM;

	if (r == 0 && n_calls && at->run->kernel.n) {
		calls = sort_calls(&at->run->library_call);
		seen = calloc(n_calls, 1);
		if (calls && seen)
			add_kernels(at, calls, row_of, seen, work);
		else
			r = -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		bool any = work[i].kernels && work[i].device_ns > 0;

		rows[i].device_ns =
			any ? value_of((double)work[i].device_ns)
			    : value_absent("no kernel that was launched inside is recorded");
		rows[i].flops_per_s =
			any && work[i].flops > 0
				? value_of(work[i].flops * 1e9 / (double)work[i].device_ns)
				: value_absent("no product of matrices with its kernels");
	}
	free(calls);
	free(seen);
	free(work);
	return r;
}

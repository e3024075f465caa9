/* SPDX-License-Identifier: Apache-2.0
 *
 * Growth of live memory; see heap_growth.h.
 */
#include "subjects/heap/heap_growth.h"

#include <math.h>

#define LEAST_NS INT64_C(1000000000) /* a shorter program has only its start */
#define FROM_SHARE 0.25
#define TO_SHARE 0.95
#define LEAST_SAMPLES 16
#define LEAST_PARTS 6	/* in which something was kept */
#define EARLY_SHARE 0.3 /* of what was kept, at least, comes from the first half */
#define RISEN_SHARE 0.5 /* of what was kept */
#define SIGMAS 3.0

struct growth_window growth_window(int64_t first_ns, int64_t last_ns)
{
	double whole = (double)(last_ns - first_ns);

	if (last_ns - first_ns < LEAST_NS)
		return (struct growth_window){ 0, 0 };
	return (struct growth_window){ first_ns + (int64_t)(whole * FROM_SHARE),
				       first_ns + (int64_t)(whole * TO_SHARE) };
}

static int part_of(const struct growth_window *w, int64_t time_ns)
{
	return (int)((double)(time_ns - w->from_ns) / (double)(w->to_ns - w->from_ns) *
		     GROWTH_PARTS);
}

void growth_add(struct growth *g, const struct growth_window *w, int64_t time_ns, int64_t held_ns,
		uint64_t bytes, int sign)
{
	double b = (double)bytes;

	if (time_ns < w->from_ns || time_ns >= w->to_ns)
		return;
	if (w->to_ns - w->from_ns > g->window_ns)
		g->window_ns = w->to_ns - w->from_ns;
	g->risen += sign * b;
	/* Of those freed, what was allocated before the window was never counted as kept. */
	if (time_ns - held_ns < w->from_ns)
		return;
	g->kept[part_of(w, time_ns - held_ns)] += sign * b;
	g->squares += sign * b * b;
	g->samples += sign;
}

struct value growth_of(const struct growth *g)
{
	double kept = 0, early = 0;
	int parts = 0;

	for (int i = 0; i < GROWTH_PARTS; i++) {
		kept += g->kept[i];
		early += i < GROWTH_PARTS / 2 ? g->kept[i] : 0;
		parts += g->kept[i] > 0;
	}
	if (g->samples < LEAST_SAMPLES || parts < LEAST_PARTS || early < EARLY_SHARE * kept ||
	    g->risen < RISEN_SHARE * kept || g->risen < SIGMAS * sqrt(g->squares))
		return value_absent("it does not grow steadily");
	return value_of(g->risen);
}

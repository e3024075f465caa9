/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules of PyTorch as profilers see them (frames "nn.Module: MixtralAttention_0"), for the MoE lens;
 * see moe_lens.h. Pure, one thread.
 *
 * Other frames of Python are left alone: names of files and functions tell too much and too little.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/moe/moe_lens_inside.h"

#define MODULE "nn.Module: "

static int modules_by_start(const void *a, const void *b)
{
	const struct moe_module *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->thread, y->thread) ?:
	       CMP(x->start_ns, y->start_ns) ?: CMP(y->end_ns, x->end_ns) ?: CMP(x->name, y->name);
}

/* The number in "MixtralDecoderLayer_12": profilers number the modules of a class. */
static int32_t layer_in_class(const char *name)
{
	const char *underscore = strrchr(name, '_');
	long number;
	char *end;

	if (!underscore || underscore - name < 5 || strncasecmp(underscore - 5, "layer", 5) != 0)
		return MOE_NO_LAYER;
	number = strtol(underscore + 1, &end, 10);
	return end > underscore + 1 && !*end && number >= 0 && number < 100000 ? (int32_t)number
									       : MOE_NO_LAYER;
}

static int place_modules(struct moe_modules *modules, struct moe_names *names,
			 const struct run *run)
{
	uint32_t open = MOE_NO_NAMED;

	for (size_t i = 0; i < modules->n; i++) {
		struct moe_module *m = &modules->of[i];
		const char *name = run_string(run, m->name) + strlen(MODULE);
		struct moe_word word;
		int r = moe_names_word(names, m->name, &word);

		if (r < 0)
			return r;
		if (i && (m->shard != m[-1].shard || m->thread != m[-1].thread))
			open = MOE_NO_NAMED;
		while (open != MOE_NO_NAMED && modules->of[open].end_ns <= m->start_ns)
			open = modules->of[open].below;
		m->below = open;
		m->part = open == MOE_NO_NAMED ? MOE_PARTS : modules->of[open].part;
		m->part_start_ns = open == MOE_NO_NAMED ? 0 : modules->of[open].part_start_ns;
		m->certain = open != MOE_NO_NAMED && modules->of[open].certain;
		/* The outermost that has a number: layers of one sort may be less than all layers. */
		m->layer = open == MOE_NO_NAMED ? MOE_NO_LAYER : modules->of[open].layer;
		if (m->layer == MOE_NO_LAYER)
			m->layer = layer_in_class(name);
		if (word.part != MOE_PARTS) {
			m->part = word.part;
			m->part_start_ns = m->start_ns;
			m->certain = word.certain;
		}
		open = (uint32_t)i;
	}
	return 0;
}

int moe_modules_init(struct moe_modules *modules, const struct run *run, struct moe_names *names)
{
	const struct table_frame *f = &run->frame;
	size_t capacity = 0;

	*modules = (struct moe_modules){ 0 };
	for (size_t i = 0; i < f->n; i++) {
		if (strncmp(run_string(run, f->name[i]), MODULE, strlen(MODULE)) != 0)
			continue;
		if (modules->n + 1 >= MOE_NO_NAMED)
			return -EFBIG;
		if (array_grow(&modules->of, &capacity, modules->n + 1, sizeof(*modules->of)) < 0)
			return -ENOMEM;
		modules->of[modules->n++] =
			(struct moe_module){ .start_ns = f->start_ns[i],
					     .end_ns = f->start_ns[i] + f->duration_ns[i],
					     .name = f->name[i],
					     .thread = f->thread[i],
					     .shard = f->shard[i] };
	}
	modules->hint = modules->n;
	if (modules->n)
		qsort(modules->of, modules->n, sizeof(*modules->of), modules_by_start);
	return place_modules(modules, names, run);
}

void moe_modules_release(struct moe_modules *modules)
{
	free(modules->of);
	*modules = (struct moe_modules){ 0 };
}

static inline bool module_begins_by(const struct moe_module *m, uint16_t shard, uint32_t thread,
				    int64_t time_ns)
{
	return m->shard != shard     ? m->shard < shard
	       : m->thread != thread ? m->thread < thread
				     : m->start_ns <= time_ns;
}

const struct moe_module *moe_modules_find(struct moe_modules *modules, uint16_t shard,
					  uint32_t thread, int64_t time_ns)
{
	const struct moe_module *m;
	size_t low;

	ORDER_FIND(low, modules->n, modules->hint,
		   module_begins_by(&modules->of[probe], shard, thread, time_ns));
	modules->hint = low;
	if (!low)
		return NULL;
	m = &modules->of[low - 1];
	if (m->shard != shard || m->thread != thread)
		return NULL;
	while (m->end_ns <= time_ns) {
		if (m->below == MOE_NO_NAMED)
			return NULL;
		m = &modules->of[m->below];
	}
	return m;
}

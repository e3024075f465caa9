/* SPDX-License-Identifier: Apache-2.0
 *
 * What was live at the peak and at a moment that was asked for, by the place that allocated it, and
 * what each layer and expert allocated. Pure, any thread.
 *
 * The replay up to the peak is done once more: only then is it known which moment it was.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/memory/memory_inside.h"
#include "subjects/memory/memory_live.h"

static int by_identity(const void *a, const void *b)
{
	const struct memory_site *x = a, *y = b;

	return CMP(x->site, y->site) ?: CMP(x->use, y->use) ?: CMP(x->layer, y->layer) ?:
	       CMP(x->expert, y->expert) ?: CMP(x->phase, y->phase);
}

static int by_bytes(const void *a, const void *b)
{
	const struct memory_site *x = a, *y = b;

	return CMP(y->bytes, x->bytes) ?: by_identity(a, b);
}

/* Rows of one identity, which are neighbours, become one. */
static size_t merge_sites(struct memory_site *sites, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct memory_site *to = kept ? &sites[kept - 1] : NULL;

		if (!to || by_identity(to, &sites[i]) != 0) {
			sites[kept++] = sites[i];
			continue;
		}
		to->bytes += sites[i].bytes;
		to->count += sites[i].count;
		if (sites[i].oldest_ns > to->oldest_ns)
			to->oldest_ns = sites[i].oldest_ns;
		if (sites[i].youngest_ns < to->youngest_ns)
			to->youngest_ns = sites[i].youngest_ns;
	}
	return kept;
}

static struct memory_site site_of(const struct run *run, const struct memory_place *places,
				  const struct live_block *block, int64_t now_ns)
{
	int64_t age_ns = now_ns - run->memory.time_ns[block->row];

	return (struct memory_site){ .site = block->site,
				     .use = block->use,
				     .layer = places[block->row].layer,
				     .expert = places[block->row].expert,
				     .phase = places[block->row].phase,
				     .bytes = block->bytes,
				     .count = 1,
				     .oldest_ns = age_ns,
				     .youngest_ns = age_ns };
}

static double share_pct(uint64_t bytes, uint64_t all_bytes)
{
	return all_bytes ? 100.0 * (double)bytes / (double)all_bytes : 0;
}

/* all_bytes: live at the moment now_ns. */
static int list_live(const struct run *run, const struct memory_place *places,
		     const struct live_map *live, int64_t now_ns, uint64_t all_bytes,
		     struct memory_site **ret_sites, size_t *ret_n)
{
	struct memory_site *sites;
	size_t n = 0;

	if (!live->n)
		return 0;
	sites = calloc(live->n, sizeof(*sites));
	if (!sites)
		return -ENOMEM;
	for (size_t i = 0; i < live->n_slots; i++)
		if (live->slots[i].used)
			sites[n++] = site_of(run, places, &live->slots[i], now_ns);
	qsort(sites, n, sizeof(*sites), by_identity);
	n = merge_sites(sites, n);
	qsort(sites, n, sizeof(*sites), by_bytes);
	for (size_t i = 0; i < n; i++)
		sites[i].share_pct = share_pct(sites[i].bytes, all_bytes);
	*ret_sites = sites;
	*ret_n = n;
	return 0;
}

static int replay_to(const struct run *run, const struct memory_event *events, size_t n,
		     struct live_map *live)
{
	const struct table_memory *t = &run->memory;
	struct live_block old;

	for (size_t i = 0; i < n; i++) {
		size_t row = events[i].row;

		live_map_take(live, t->address[row], &old);
		if (t->event[row] == 0 &&
		    live_map_put(live, &(struct live_block){
					       .address = t->address[row],
					       .bytes = t->bytes[row],
					       .row = row,
					       .site = t->site[row],
					       .use = t->use[row] < MEMORY_USES ? t->use[row] : 0,
				       }) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int by_part(const void *a, const void *b)
{
	const struct memory_part *x = a, *y = b;

	return CMP(x->layer, y->layer) ?: CMP(x->expert, y->expert);
}

static struct memory_part *find_part(struct memory_device *d, int32_t layer, int32_t expert)
{
	struct memory_part key = { .layer = layer, .expert = expert };

	return d->n_parts ? bsearch(&key, d->parts, d->n_parts, sizeof(key), by_part) : NULL;
}

static void merge_parts(struct memory_device *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->n_parts; i++) {
		struct memory_part *to = kept ? &d->parts[kept - 1] : NULL;

		if (!to || by_part(to, &d->parts[i]) != 0) {
			d->parts[kept++] = d->parts[i];
			continue;
		}
		to->allocations += d->parts[i].allocations;
		to->allocated_bytes += d->parts[i].allocated_bytes;
	}
	d->n_parts = kept;
}

static int list_parts(const struct run *run, const struct memory_place *places,
		      const struct memory_event *events, size_t n, struct memory_device *d)
{
	const struct table_memory *t = &run->memory;
	size_t capacity = 0, merged = 2048;

	for (size_t i = 0; i < n; i++) {
		const struct memory_place *place = &places[events[i].row];

		if (t->event[events[i].row] != 0 || (place->layer < 0 && place->expert < 0))
			continue;
		/* Parts are few, allocations many: merged whenever the list has doubled. */
		if (d->n_parts >= 2 * merged) {
			qsort(d->parts, d->n_parts, sizeof(*d->parts), by_part);
			merge_parts(d);
			merged = d->n_parts > 2048 ? d->n_parts : 2048;
		}
		if (array_grow(&d->parts, &capacity, d->n_parts + 1, sizeof(*d->parts)) < 0)
			return -ENOMEM;
		d->parts[d->n_parts++] =
			(struct memory_part){ .layer = place->layer,
					      .expert = place->expert,
					      .allocations = 1,
					      .allocated_bytes = t->bytes[events[i].row] };
	}
	if (!d->n_parts)
		return 0;
	qsort(d->parts, d->n_parts, sizeof(*d->parts), by_part);
	merge_parts(d);
	for (size_t i = 0; i < d->n_sites; i++) {
		struct memory_part *part = find_part(d, d->sites[i].layer, d->sites[i].expert);

		if (part)
			part->peak_use[d->sites[i].use] += d->sites[i].bytes;
		if (part)
			part->at_peak_bytes += d->sites[i].bytes;
	}
	return 0;
}

int memory_sites_fill(const struct run *run, const struct memory_place *places,
		      const struct memory_event *events, size_t n, size_t peak,
		      struct memory_device *device)
{
	struct live_map live = { 0 };
	int r = 0;

	if (device->peak_bytes) {
		r = replay_to(run, events, peak + 1, &live);
		if (r >= 0)
			r = list_live(run, places, &live, device->peak_ns, device->peak_bytes,
				      &device->sites, &device->n_sites);
		live_map_release(&live);
	}
	return r < 0 ? r : list_parts(run, places, events, n, device);
}

static int blocks_by_bytes(const void *a, const void *b)
{
	const struct memory_block *x = a, *y = b;

	return CMP(y->of.bytes, x->of.bytes) ?: CMP(x->address, y->address);
}

static int list_blocks(const struct run *run, const struct memory_place *places,
		       const struct live_map *live, struct memory_then *then)
{
	if (!live->n)
		return 0;
	then->blocks = calloc(live->n, sizeof(*then->blocks));
	if (!then->blocks)
		return -ENOMEM;
	for (size_t i = 0; i < live->n_slots; i++) {
		const struct live_block *b = &live->slots[i];
		struct memory_block *block = &then->blocks[then->n_blocks];

		if (!b->used)
			continue;
		*block = (struct memory_block){ site_of(run, places, b, then->time_ns),
						b->address };
		block->of.share_pct = share_pct(b->bytes, then->live_bytes);
		then->use[b->use] += b->bytes;
		then->n_blocks++;
	}
	qsort(then->blocks, then->n_blocks, sizeof(*then->blocks), blocks_by_bytes);
	return 0;
}

int memory_then_fill(const struct run *run, const struct memory_place *places,
		     const struct memory_event *events, size_t n, struct memory_device *device)
{
	struct memory_then *then = &device->then;
	struct live_map live = { 0 };
	int r = replay_to(run, events, n, &live);

	if (r >= 0)
		r = list_live(run, places, &live, then->time_ns, then->live_bytes, &then->sites,
			      &then->n_sites);
	if (r >= 0)
		r = list_blocks(run, places, &live, then);
	for (unsigned int u = 0; u < MEMORY_USES; u++)
		then->use_pct[u] = share_pct(then->use[u], then->live_bytes);
	live_map_release(&live);
	return r;
}

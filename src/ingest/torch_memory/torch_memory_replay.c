/* SPDX-License-Identifier: Apache-2.0
 *
 * From the end and the history of PyTorch's allocator to its beginning. One thread.
 *
 * PyTorch keeps the last events only, so the history begins with blocks and segments that it does not
 * show coming. They are told as coming at its first moment. A block was there when its first event is
 * a free, or when it has no event and is there at the end. Segments are followed backwards from the
 * end, for the events of those that can grow do not name whole segments.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"
#include "ingest/torch_memory/torch_memory_inside.h"

/* What is known of a block's address: an event of the history, or that it lives at the end. */
struct sighting {
	uint64_t address;
	size_t order; /* of the event; SIZE_MAX: at the end */
	const struct torch_event *event;
	const struct torch_held *held;
};

struct replay {
	const struct torch_device *device;
	struct intake_part *part;
	int64_t now_ns;
	uint32_t thread;
};

static int add_memory_row(const struct replay *p, uint8_t event, uint64_t address, uint64_t bytes,
			  uint32_t site)
{
	struct row_memory row = { .time_ns = p->now_ns,
				  .event = event,
				  .address = address,
				  .bytes = event == TORCH_FREE ? 0 : bytes,
				  .device = p->device->device,
				  .site = site,
				  .thread = p->thread };

	return part_add(p->part, RECORD_MEMORY, &row);
}

static void note_action(void *context, enum torch_action action, uint64_t address, uint64_t bytes)
{
	add_memory_row(context, (uint8_t)action, address, bytes, 0);
}

static int by_address(const void *a, const void *b)
{
	const struct sighting *x = a, *y = b;

	return CMP(x->address, y->address) ?: CMP(x->order, y->order);
}

static int find_sightings(const struct torch_device *d, struct sighting **ret_sightings,
			  size_t *ret_n)
{
	struct sighting *all = calloc(d->n_events + d->n_blocks + 1, sizeof(*all));
	size_t n = 0;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < d->n_events; i++)
		if (d->events[i].action <= TORCH_FREE)
			all[n++] = (struct sighting){ .address = d->events[i].address,
						      .order = i,
						      .event = &d->events[i] };
	for (size_t i = 0; i < d->n_blocks; i++)
		all[n++] = (struct sighting){ .address = d->blocks[i].address,
					      .order = SIZE_MAX,
					      .held = &d->blocks[i] };
	if (n)
		qsort(all, n, sizeof(*all), by_address);
	*ret_sightings = all;
	*ret_n = n;
	return 0;
}

/* Whether a block is live at the end, by its last sighting but for that at the end. */
static bool differs(const struct sighting *first, size_t n)
{
	const struct sighting *last = &first[n - 1];
	bool held = last->held;

	while (n && first[n - 1].held)
		n--;
	return n && (first[n - 1].event->action == TORCH_ALLOC) != held;
}

static int begin_blocks(struct replay *p, bool whole, uint64_t *ret_differing)
{
	struct sighting *all;
	size_t n, next;
	int r = find_sightings(p->device, &all, &n);

	if (r < 0)
		return r;
	*ret_differing = 0;
	for (size_t i = 0; i < n; i = next) {
		const struct torch_event *event = all[i].event;
		const struct torch_held *held = all[i].held;

		for (next = i + 1; next < n && all[next].address == all[i].address;)
			next++;
		if (event && event->action == TORCH_FREE)
			/* The place of the free is not that of the allocation. */
			add_memory_row(p, TORCH_ALLOC, event->address, event->bytes, 0);
		else if (held && whole)
			add_memory_row(p, TORCH_ALLOC, held->address, held->bytes, held->site);
		*ret_differing += whole && differs(&all[i], next - i);
	}
	free(all);
	return 0;
}

static int apply_event(struct torch_pieces *pieces, const struct torch_event *event, bool comes)
{
	return comes ? torch_pieces_add(pieces, event->address, event->bytes, event->mapped)
		     : torch_pieces_remove(pieces, event->address, event->bytes);
}

static bool is_of_segment(const struct torch_event *event)
{
	return event->action == TORCH_RESERVE || event->action == TORCH_RELEASE;
}

/* Leaves the pieces as they were when the history began. */
static int begin_segments(const struct torch_device *d, bool whole, struct torch_pieces *pieces)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && whole && i < d->n_segments; i++)
		r = torch_pieces_add(pieces, d->segments[i].address, d->segments[i].bytes,
				     d->segments[i].mapped);
	for (size_t i = d->n_events; r >= 0 && i-- > 0;)
		if (is_of_segment(&d->events[i]))
			r = apply_event(pieces, &d->events[i],
					d->events[i].action == TORCH_RELEASE);
	return r;
}

static int add_mark(const struct replay *p, const struct torch_event *event)
{
	struct row_mark row = { .time_ns = p->now_ns, .text = event->site, .thread = p->thread };

	return part_add(p->part, RECORD_MARK, &row);
}

static int play_events(struct replay *p, struct torch_pieces *pieces)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < p->device->n_events; i++) {
		const struct torch_event *event = &p->device->events[i];

		p->now_ns = event->time_ns;
		if (is_of_segment(event))
			r = apply_event(pieces, event, event->action == TORCH_RESERVE);
		else if (event->action <= TORCH_FREE)
			r = add_memory_row(p, event->action, event->address, event->bytes,
					   event->site);
		else
			r = add_mark(p, event);
	}
	return r;
}

int torch_device_replay(const struct torch_device *device, int64_t from_ns, bool whole,
			struct intake_part *part, uint64_t *ret_differing)
{
	struct replay p = {
		.device = device, .part = part, .now_ns = from_ns, .thread = TORCH_THREAD_BEFORE
	};
	struct torch_pieces pieces = { 0 };
	int r = begin_segments(device, whole, &pieces);

	pieces.tell = note_action;
	pieces.context = &p;
	for (size_t i = 0; r >= 0 && i < pieces.n; i++)
		note_action(&p, TORCH_RESERVE, pieces.all[i].address, pieces.all[i].bytes);
	if (r >= 0)
		r = begin_blocks(&p, whole, ret_differing);
	p.thread = TORCH_THREAD;
	if (r >= 0)
		r = play_events(&p, &pieces);
	torch_pieces_release(&pieces);
	return r < 0 ? r : part_failed(part);
}

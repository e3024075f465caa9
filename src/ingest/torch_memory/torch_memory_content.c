/* SPDX-License-Identifier: Apache-2.0
 *
 * The segments and events of a memory snapshot of PyTorch, out of its pickle. One thread.
 *
 * Pickles share: what is a thing of its own in a snapshot (a segment, a block, an event) is read at its
 * first place only, so that the work is bounded by the file. Frames are shared by many; their tag keeps
 * the place that came out of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "ingest/torch_memory/torch_memory_inside.h"

#define MAX_DEVICES 1024
/* No processor has more, and sums of bytes do not overflow. */
#define ADDRESS_MOST (UINT64_C(1) << 62)
#define UNTIMED_NS 1000 /* between events whose times are not told */
#define SITE_TEXT 512	/* of a file's name and of a function's; longer ones are cut */

static void *grown_array(struct torch_reading *r, void *array, size_t *n, size_t *capacity,
			 size_t size)
{
	char *items;

	if (array_grow(array, capacity, *n + 1, size) < 0) {
		r->no_memory = true;
		return NULL;
	}
	memcpy(&items, array, sizeof(items));
	return items + size * (*n)++;
}

/* Items of a list that has not been walked before. */
static size_t items_of(struct torch_reading *r, struct pickle_value list)
{
	if (!pickle_is_sequence(list))
		return 0;
	if (list.box->tag) {
		r->n_repeated += list.box->n > 0;
		return 0;
	}
	list.box->tag = 1;
	return list.box->n;
}

/* A dictionary that has not been read before. */
static bool is_new(struct torch_reading *r, struct pickle_value dict, const char *what)
{
	if (dict.type != PICKLE_DICT) {
		part_damaged(r->part, pickle_is_box(dict) ? dict.box->offset : 0, what);
		return false;
	}
	if (dict.box->tag) {
		r->n_repeated++;
		return false;
	}
	dict.box->tag = 1;
	return true;
}

static struct torch_device *device_at(struct torch_reading *r, uint64_t index)
{
	struct torch_device *fresh;

	for (size_t i = 0; i < r->n_devices; i++)
		if ((uint64_t)r->devices[i].device == index)
			return &r->devices[i];
	if (index >= MAX_DEVICES)
		return NULL;
	fresh = grown_array(r, &r->devices, &r->n_devices, &r->devices_capacity,
			    sizeof(*r->devices));
	if (fresh)
		*fresh = (struct torch_device){ .device = (int32_t)index };
	return fresh;
}

static bool text_ends_with(struct pickle_value text, const char *end)
{
	size_t length = strlen(end);

	return text.type == PICKLE_TEXT && text.length >= length &&
	       !memcmp(text.text + text.length - length, end, length);
}

static int shown_length(struct pickle_value text)
{
	return text.length > SITE_TEXT ? SITE_TEXT : (int)text.length;
}

/* "file.py:12 function", as the tool's own recording names places; 0: no Python frame. The tag keeps
 * what came out: frames are shared by all events of a place. */
static uint32_t site_of_frame(struct torch_reading *r, struct pickle_value frame)
{
	struct pickle_value file = pickle_get(frame, "filename"), name = pickle_get(frame, "name");
	char text[2 * SITE_TEXT + 32];
	uint64_t line = 0;
	int n;

	if (!text_ends_with(file, ".py"))
		return 0;
	pickle_natural(pickle_get(frame, "line"), &line);
	/* The end of a long path says more than its beginning. */
	n = snprintf(text, sizeof(text), "%.*s:%" PRIu64 "%s%.*s", shown_length(file),
		     file.text + file.length - shown_length(file), line,
		     name.type == PICKLE_TEXT ? " " : "",
		     name.type == PICKLE_TEXT ? shown_length(name) : 0,
		     name.type == PICKLE_TEXT ? name.text : "");
	return part_string(r->part, text, (size_t)n);
}

static uint32_t site_of_frames(struct torch_reading *r, struct pickle_value frames)
{
	uint32_t site = 0;

	if (frames.type != PICKLE_LIST)
		return 0;
	if (frames.box->tag)
		return frames.box->tag - 1;
	for (size_t i = 0; !site && i < frames.box->n; i++) {
		struct pickle_value frame = frames.box->items[i];

		if (frame.type != PICKLE_DICT)
			continue;
		if (!frame.box->tag)
			frame.box->tag = site_of_frame(r, frame) + 1;
		site = frame.box->tag - 1;
	}
	frames.box->tag = site + 1;
	return site;
}

/* An address and bytes that lie in the address space. */
static bool range_of(struct pickle_value address, struct pickle_value bytes, uint64_t *ret_address,
		     uint64_t *ret_bytes)
{
	uint64_t a, n;

	if (!pickle_natural(address, &a) || !pickle_natural(bytes, &n) || n > ADDRESS_MOST ||
	    a > ADDRESS_MOST - n)
		return false;
	*ret_address = a;
	*ret_bytes = n;
	return true;
}

/* Before 2.1 a block had a list of what lay in it, the newest first, with its place and size. */
static struct pickle_value newest_of(struct pickle_value block)
{
	struct pickle_value history = pickle_get(block, "history");
	struct pickle_value newest = { 0 };

	if (history.type == PICKLE_LIST && history.box->n)
		newest = history.box->items[0];
	/* Not marked as read, so it must be small: many blocks may name one. */
	return newest.type == PICKLE_DICT && newest.box->n <= 64 ? newest
								 : (struct pickle_value){ 0 };
}

static void read_block(struct torch_reading *r, struct torch_device *d, struct pickle_value block,
		       uint64_t *address)
{
	struct pickle_value at = pickle_get(block, "address");
	struct pickle_value asked = pickle_get(block, "requested_size");
	struct pickle_value frames = pickle_get(block, "frames"), newest = newest_of(block);
	struct pickle_value state = pickle_get(block, "state");
	struct torch_held *held;
	uint64_t from = *address, bytes, asked_bytes;

	if (at.type == PICKLE_ABSENT)
		at = (struct pickle_value){ .type = PICKLE_UINT, .natural = from };
	if (!range_of(at, pickle_get(block, "size"), &from, &bytes)) {
		part_damaged(r->part, block.box->offset, "a block without its size");
		return;
	}
	*address = from + bytes;
	if (asked.type == PICKLE_ABSENT)
		asked = pickle_get(newest, "real_size");
	if (frames.type == PICKLE_ABSENT)
		frames = pickle_get(newest, "frames");
	asked_bytes = bytes;
	pickle_natural(asked, &asked_bytes);
	if (!pickle_is_text(state, "active_allocated"))
		return;
	d->allocated_bytes += bytes;
	held = grown_array(r, &d->blocks, &d->n_blocks, &d->blocks_capacity, sizeof(*held));
	if (held)
		*held = (struct torch_held){ .address = from,
					     .bytes = asked_bytes < bytes ? asked_bytes : bytes,
					     .site = site_of_frames(r, frames) };
}

static void read_segment(struct torch_reading *r, struct pickle_value segment)
{
	struct pickle_value blocks = pickle_get(segment, "blocks");
	struct pickle_value expandable = pickle_get(segment, "is_expandable");
	struct torch_device *d;
	struct torch_held *held;
	uint64_t index = 0, address, bytes;

	pickle_natural(pickle_get(segment, "device"), &index);
	if (!range_of(pickle_get(segment, "address"), pickle_get(segment, "total_size"), &address,
		      &bytes)) {
		part_damaged(r->part, segment.box->offset, "a segment without its size");
		return;
	}
	d = device_at(r, index);
	if (!d) {
		part_damaged(r->part, segment.box->offset, "a device beyond 1024");
		return;
	}
	held = grown_array(r, &d->segments, &d->n_segments, &d->segments_capacity, sizeof(*held));
	if (!held)
		return;
	*held = (struct torch_held){ .address = address,
				     .bytes = bytes,
				     .mapped = expandable.type == PICKLE_BOOL &&
					       expandable.integer };
	d->reserved_bytes += bytes;
	for (size_t i = 0, n = items_of(r, blocks); i < n && !r->no_memory; i++)
		if (is_new(r, blocks.box->items[i], "no block in the list of blocks"))
			read_block(r, d, blocks.box->items[i], &address);
}

static const struct {
	const char *name;
	uint8_t action;
	bool mapped, ignored;
} actions[] = {
	{ "alloc", TORCH_ALLOC },
	{ "free_requested", TORCH_FREE },
	{ "free_completed", TORCH_FREE, .ignored = true },
	{ "segment_alloc", TORCH_RESERVE },
	{ "segment_map", TORCH_RESERVE, .mapped = true },
	{ "segment_free", TORCH_RELEASE },
	{ "segment_unmap", TORCH_RELEASE, .mapped = true },
	{ "oom", TORCH_OOM },
	{ "snapshot", TORCH_SNAPSHOT },
};

#define N_ACTIONS (sizeof(actions) / sizeof(actions[0]))

/* Times in microseconds, and not in all versions: then events are told apart by their order alone. */
static int64_t time_of_entry(struct torch_reading *r, const struct torch_device *d,
			     struct pickle_value entry)
{
	int64_t before = d->n_events ? d->events[d->n_events - 1].time_ns : 0, ns;

	if (torch_time(pickle_get(entry, "time_us"), &ns)) {
		/* The order is that of the allocator; the clock may have been set meanwhile. */
		r->n_backwards += d->n_events && ns < before;
		if (!r->n_timed++ || ns < r->first_ns)
			r->first_ns = ns;
	} else {
		ns = r->n_timed ? before : before + UNTIMED_NS;
	}
	ns = d->n_events && ns < before ? before : ns;
	r->last_ns = ns > r->last_ns ? ns : r->last_ns;
	return ns;
}

static uint32_t mark_text(struct torch_reading *r, uint8_t action, struct pickle_value entry)
{
	char text[160];
	uint64_t asked = 0, left;

	if (action == TORCH_SNAPSHOT)
		return part_text(r->part, "memory snapshot");
	pickle_natural(pickle_get(entry, "size"), &asked);
	if (pickle_natural(pickle_get(entry, "device_free"), &left))
		snprintf(text, sizeof(text),
			 "out of memory: %" PRIu64 " bytes asked for, %" PRIu64
			 " free on the device",
			 asked, left);
	else
		snprintf(text, sizeof(text), "out of memory: %" PRIu64 " bytes asked for", asked);
	return part_text(r->part, text);
}

static void add_event(struct torch_reading *r, struct torch_device *d, size_t which,
		      struct pickle_value entry)
{
	struct torch_event event = { .action = actions[which].action,
				     .mapped = actions[which].mapped };
	struct torch_event *added;

	if (event.action <= TORCH_RELEASE &&
	    !range_of(pickle_get(entry, "addr"), pickle_get(entry, "size"), &event.address,
		      &event.bytes)) {
		part_damaged(r->part, entry.box->offset, "an event without its address and size");
		return;
	}
	event.time_ns = time_of_entry(r, d, entry);
	event.site = event.action <= TORCH_RELEASE ? site_of_frames(r, pickle_get(entry, "frames"))
						   : mark_text(r, event.action, entry);
	r->n_events++;
	added = grown_array(r, &d->events, &d->n_events, &d->events_capacity, sizeof(*added));
	if (added)
		*added = event;
}

static void read_entry(struct torch_reading *r, struct torch_device *d, struct pickle_value entry)
{
	struct pickle_value action = pickle_get(entry, "action");

	if (action.type != PICKLE_TEXT) {
		part_damaged(r->part, entry.box->offset, "an event that does not say what it is");
		return;
	}
	for (size_t i = 0; i < N_ACTIONS; i++) {
		if (!pickle_is_text(action, actions[i].name))
			continue;
		if (!actions[i].ignored)
			add_event(r, d, i, entry);
		return;
	}
	part_unknown(r->part, action.text, action.length, 1);
}

static void read_trace(struct torch_reading *r, uint64_t index, struct pickle_value trace)
{
	struct torch_device *d;
	size_t n = items_of(r, trace);

	r->cut = r->cut || (pickle_is_box(trace) && trace.box->open);
	if (!n)
		return;
	d = device_at(r, index);
	if (!d) {
		part_damaged(r->part, trace.box->offset, "a device beyond 1024");
		return;
	}
	for (size_t i = 0; i < n && !r->no_memory; i++)
		if (is_new(r, trace.box->items[i], "no event in the list of events"))
			read_entry(r, d, trace.box->items[i]);
}

void torch_content_read(struct torch_reading *r, struct pickle_value segments,
			struct pickle_value traces)
{
	for (size_t i = 0, n = items_of(r, segments); i < n && !r->no_memory; i++)
		if (is_new(r, segments.box->items[i], "no segment in the list of segments"))
			read_segment(r, segments.box->items[i]);
	for (size_t i = 0, n = items_of(r, traces); i < n && !r->no_memory; i++)
		read_trace(r, i, traces.box->items[i]);
	r->cut = r->cut || (pickle_is_box(traces) && traces.box->open);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot): what the caching allocator holds,
 * and the last of what it did. One thread.
 *
 * Bytes of blocks are those that the program asked for, and a block is free from the moment that the
 * program lets go of it (free_requested), as in what moescope records of PyTorch itself; the rounded
 * sizes are in the allocator's account, as readings of the device at the end. A block that waits for
 * other streams before it can be used again is not live then.
 *
 * A snapshot is a pickle, and pickles share: what is a thing of its own in a snapshot (a segment, a
 * block, an event) is read at its first place only, so that the work is bounded by the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "ingest/importers.h"
#include "ingest/torch_memory_inside.h"

#define MAX_DEVICES 1024
#define UNTIMED_NS 1000 /* between events whose times are not told */
#define SITE_TEXT 512	/* of a file's name and of a function's; longer ones are cut */

struct reading {
	struct intake *intake;
	struct intake_part *part;
	struct torch_device *devices;
	size_t n_devices, devices_capacity;
	uint64_t n_events, n_timed, n_backwards;
	uint64_t n_repeated;	   /* things that stand at more than one place */
	int64_t first_ns, last_ns; /* first_ns: of events with times */
	bool cut;		   /* the history does not go on until the end */
	bool no_memory;
};

static void *grown(struct reading *r, void *array, size_t *n, size_t *capacity, size_t size)
{
	char **at = array;

	if (array_grow(array, capacity, *n + 1, size) < 0) {
		r->no_memory = true;
		return NULL;
	}
	return *at + size * (*n)++;
}

/* Items of a list that has not been walked before. */
static size_t items_of(struct reading *r, struct pickle_value list)
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
static bool is_new(struct reading *r, struct pickle_value dict, const char *what)
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

static struct torch_device *device_at(struct reading *r, uint64_t index)
{
	struct torch_device *fresh;

	for (size_t i = 0; i < r->n_devices; i++)
		if ((uint64_t)r->devices[i].device == index)
			return &r->devices[i];
	if (index >= MAX_DEVICES)
		return NULL;
	fresh = grown(r, &r->devices, &r->n_devices, &r->devices_capacity, sizeof(*r->devices));
	if (fresh)
		*fresh = (struct torch_device){ .device = (int32_t)index };
	return fresh;
}

static bool ends_with(struct pickle_value text, const char *end)
{
	size_t length = strlen(end);

	return text.type == PICKLE_TEXT && text.length >= length &&
	       !memcmp(text.text + text.length - length, end, length);
}

static int shown(struct pickle_value text)
{
	return text.length > SITE_TEXT ? SITE_TEXT : (int)text.length;
}

/* "file.py:12 function", as the tool's own recording names places; 0: no Python frame. The tag keeps
 * what came out: frames are shared by all events of a place. */
static uint32_t site_of_frame(struct reading *r, struct pickle_value frame)
{
	struct pickle_value file = pickle_get(frame, "filename"), name = pickle_get(frame, "name");
	char text[2 * SITE_TEXT + 32];
	uint64_t line = 0;
	int n;

	if (!ends_with(file, ".py"))
		return 0;
	pickle_natural(pickle_get(frame, "line"), &line);
	/* The end of a long path says more than its beginning. */
	n = snprintf(text, sizeof(text), "%.*s:%" PRIu64 "%s%.*s", shown(file),
		     file.text + file.length - shown(file), line,
		     name.type == PICKLE_TEXT ? " " : "",
		     name.type == PICKLE_TEXT ? shown(name) : 0,
		     name.type == PICKLE_TEXT ? name.text : "");
	return part_string(r->part, text, (size_t)n);
}

static uint32_t site_of(struct reading *r, struct pickle_value frames)
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

	if (!pickle_natural(address, &a) || !pickle_natural(bytes, &n) || n > INT64_MAX ||
	    a > UINT64_MAX - n)
		return false;
	*ret_address = a;
	*ret_bytes = n;
	return true;
}

static void read_block(struct reading *r, struct torch_device *d, struct pickle_value block,
		       uint64_t *address)
{
	struct pickle_value at = pickle_get(block, "address");
	struct pickle_value asked = pickle_get(block, "requested_size");
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
	asked_bytes = bytes;
	pickle_natural(asked, &asked_bytes);
	if (pickle_is_text(state, "inactive"))
		return;
	d->active_bytes += bytes;
	if (!pickle_is_text(state, "active_allocated"))
		return;
	d->allocated_bytes += bytes;
	held = grown(r, &d->blocks, &d->n_blocks, &d->blocks_capacity, sizeof(*held));
	if (held)
		*held = (struct torch_held){ .address = from,
					     .bytes = asked_bytes < bytes ? asked_bytes : bytes,
					     .site = site_of(r, pickle_get(block, "frames")) };
}

static void read_segment(struct reading *r, struct pickle_value segment)
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
	held = grown(r, &d->segments, &d->n_segments, &d->segments_capacity, sizeof(*held));
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
static int64_t time_of(struct reading *r, const struct torch_device *d, struct pickle_value entry)
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

static uint32_t mark_text(struct reading *r, uint8_t action, struct pickle_value entry)
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

static void add_event(struct reading *r, struct torch_device *d, size_t which,
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
	event.time_ns = time_of(r, d, entry);
	event.site = event.action <= TORCH_RELEASE ? site_of(r, pickle_get(entry, "frames"))
						   : mark_text(r, event.action, entry);
	r->n_events++;
	added = grown(r, &d->events, &d->n_events, &d->events_capacity, sizeof(*added));
	if (added)
		*added = event;
}

static void read_entry(struct reading *r, struct torch_device *d, struct pickle_value entry)
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

static void read_trace(struct reading *r, uint64_t index, struct pickle_value trace)
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

static void read_content(struct reading *r, struct pickle_value segments,
			 struct pickle_value traces)
{
	for (size_t i = 0, n = items_of(r, segments); i < n && !r->no_memory; i++)
		if (is_new(r, segments.box->items[i], "no segment in the list of segments"))
			read_segment(r, segments.box->items[i]);
	for (size_t i = 0, n = items_of(r, traces); i < n && !r->no_memory; i++)
		read_trace(r, i, traces.box->items[i]);
	r->cut = r->cut || (pickle_is_box(traces) && traces.box->open);
}

static int add_sample(struct reading *r, const struct torch_device *d, const char *metric,
		      uint64_t bytes)
{
	struct row_sample row = { .time_ns = r->last_ns,
				  .device = (uint32_t)d->device,
				  .metric = part_text(r->part, metric),
				  .value = (double)bytes };

	return part_add(r->part, RECORD_SAMPLE, &row);
}

static void add_fact(struct reading *r, const char *key, const char *value, size_t length)
{
	struct row_fact row = { .key = part_text(r->part, key),
				.value = part_string(r->part, value, length) };

	part_add(r->part, RECORD_FACT, &row);
}

static void add_facts(struct reading *r, struct pickle_value root)
{
	struct pickle_value settings = pickle_get(root, "allocator_settings");
	struct pickle_value conf = pickle_get(settings, "PYTORCH_CUDA_ALLOC_CONF");
	struct pickle_value expandable = pickle_get(settings, "expandable_segments");

	if (conf.type == PICKLE_TEXT && conf.length)
		add_fact(r, "PYTORCH_CUDA_ALLOC_CONF", conf.text, conf.length);
	if (expandable.type == PICKLE_BOOL)
		add_fact(r, "expandable segments", expandable.integer ? "on" : "off",
			 expandable.integer ? 2 : 3);
}

static int by_index(const void *a, const void *b)
{
	const struct torch_device *x = a, *y = b;

	return x->device < y->device ? -1 : x->device > y->device;
}

static int add_devices(struct reading *r, bool segments_whole)
{
	uint64_t differing = 0, all_differing = 0;
	int err = 0;

	if (r->n_devices)
		qsort(r->devices, r->n_devices, sizeof(*r->devices), by_index);
	for (size_t i = 0; err >= 0 && i < r->n_devices; i++) {
		const struct torch_device *d = &r->devices[i];
		int64_t from_ns = d->n_events ? d->events[0].time_ns : r->first_ns;

		err = torch_device_replay(d, from_ns, !r->cut, r->part, &differing);
		all_differing += differing;
		if (err >= 0 && segments_whole && d->n_segments) {
			add_sample(r, d, "allocated_bytes", d->allocated_bytes);
			err = add_sample(r, d, "reserved_bytes", d->reserved_bytes);
		}
	}
	if (all_differing && segments_whole)
		intake_note(r->intake,
			    "%" PRIu64 " blocks are live in the list of segments and not in the "
			    "history, or the other way round: the history was followed",
			    all_differing);
	return err;
}

static void add_notes(struct reading *r, const struct pickle *pickle)
{
	if (pickle->damage)
		intake_note(r->intake, "%s, at byte %" PRIu64 ": what stands before it was read",
			    pickle->damage, pickle->damage_offset);
	if (r->cut)
		intake_note(r->intake, "the history of the allocator is cut: what it held when the "
				       "history began is known only where it was freed later");
	if (r->n_events && !r->n_timed)
		intake_note(r->intake, "the events have no times: they stand in their order, one "
				       "microsecond apart");
	if (!r->n_events && !r->cut)
		intake_note(r->intake, "the snapshot has no history: it shows one moment");
	if (r->n_backwards)
		intake_note(r->intake,
			    "%" PRIu64 " events have a time before that of the event "
			    "before them: they were put at that one's",
			    r->n_backwards);
	if (r->n_repeated)
		intake_note(r->intake,
			    "%" PRIu64 " things that should stand at one place of the "
			    "snapshot stand at several: the first was read",
			    r->n_repeated);
}

static void reading_release(struct reading *r)
{
	for (size_t i = 0; i < r->n_devices; i++) {
		free(r->devices[i].segments);
		free(r->devices[i].blocks);
		free(r->devices[i].events);
	}
	free(r->devices);
}

static int read_pickle(const struct ingest_file *file, const struct pickle *pickle,
		       struct intake *intake, struct err *err)
{
	struct pickle_value root = pickle->root, segments = pickle_get(root, "segments");
	struct pickle_value traces = pickle_get(root, "device_traces");
	struct pickle_value annotations = pickle_get(root, "external_annotations");
	struct intake_process *process;
	struct reading r = { .intake = intake };
	int status;

	/* torch.cuda.memory_snapshot() is the list of segments alone. */
	if (root.type == PICKLE_LIST && root.box->n &&
	    pickle_get(root.box->items[0], "blocks").type == PICKLE_LIST)
		segments = root;
	if (!pickle_is_sequence(segments) && !pickle_is_sequence(traces))
		return pickle->damage
			       ? err_set(err, -EBADMSG, "%s: %s, at byte %" PRIu64, file->path,
					 pickle->damage, pickle->damage_offset)
			       : err_set(err, -EBADMSG,
					 "%s: a pickle, but no memory snapshot of PyTorch: it has "
					 "neither segments nor device_traces",
					 file->path);
	process = intake_process(intake, file->rank_hint, 0);
	r.part = process ? intake_part(process) : NULL;
	if (!r.part)
		return err_set(err, -ENOMEM, "%s: no memory", file->path);
	read_content(&r, segments, traces);
	if (!r.n_timed && !r.n_events)
		torch_annotations_last(annotations, &r.last_ns);
	if (!r.n_timed && !r.n_events)
		r.first_ns = r.last_ns;
	process->wall_clock = r.n_timed || (!r.n_events && r.last_ns > 0);
	status = r.no_memory ? -ENOMEM
			     : add_devices(&r, pickle_is_sequence(segments) && !segments.box->open);
	if (status >= 0 && process->wall_clock)
		status = torch_annotations_read(annotations, r.last_ns, r.part);
	add_facts(&r, root);
	add_notes(&r, pickle);
	if (status >= 0)
		status = part_failed(r.part);
	reading_release(&r);
	return status < 0 ? err_set(err, status, "%s: no memory", file->path) : 0;
}

static int read_file(const struct ingest_file *file, struct intake *intake, struct err *err)
{
	int fd = open(file->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	struct pickle pickle;
	void *bytes;
	int r;

	if (fd < 0)
		return err_sys(err, -errno, "%s", file->path);
	if (fstat(fd, &st) < 0 || st.st_size <= 0) {
		close(fd);
		return err_set(err, -EBADMSG, "%s: empty", file->path);
	}
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	r = -errno;
	close(fd);
	if (bytes == MAP_FAILED)
		return err_sys(err, r, "%s", file->path);
	r = pickle_read(file->path, bytes, (size_t)st.st_size, &pickle, err);
	if (r >= 0) {
		r = read_pickle(file, &pickle, intake, err);
		pickle_release(&pickle);
	}
	munmap(bytes, (size_t)st.st_size);
	return r;
}

static bool recognise(const struct ingest_file *file)
{
	return !file->gzip && pickle_looks_like(file->head, file->head_bytes);
}

const struct importer torch_memory_importer = {
	.name = "torch-memory",
	.words = "PyTorch memory snapshot",
	.recognise = recognise,
	.read = read_file,
};

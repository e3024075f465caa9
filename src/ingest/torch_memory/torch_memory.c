/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch's memory snapshots (torch.cuda.memory._dump_snapshot): what the caching allocator holds,
 * and the last of what it did. One thread.
 *
 * Bytes of blocks are those that the program asked for, and a block is free from the moment that the
 * program lets go of it (free_requested), as in what moescope records of PyTorch itself; the rounded
 * sizes are in the allocator's account, as readings of the device at the end. A block that waits for
 * other streams before it can be used again is not live then.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/files/input_file.h"
#include "ingest/importers.h"
#include "ingest/torch_memory/torch_memory_inside.h"

static int add_memory_sample(struct torch_reading *r, const struct torch_device *d,
			     const char *metric, uint64_t bytes)
{
	struct row_sample row = { .time_ns = r->last_ns,
				  .device = (uint32_t)d->device,
				  .metric = part_text(r->part, metric),
				  .value = (double)bytes };

	return part_add(r->part, RECORD_SAMPLE, &row);
}

static void add_memory_fact(struct torch_reading *r, const char *key, const char *value,
			    size_t length)
{
	struct row_fact row = { .key = part_text(r->part, key),
				.value = part_string(r->part, value, length) };

	part_add(r->part, RECORD_FACT, &row);
}

static void add_facts(struct torch_reading *r, struct pickle_value root)
{
	struct pickle_value settings = pickle_get(root, "allocator_settings");
	struct pickle_value conf = pickle_get(settings, "PYTORCH_CUDA_ALLOC_CONF");
	struct pickle_value expandable = pickle_get(settings, "expandable_segments");

	if (conf.type == PICKLE_TEXT && conf.length)
		add_memory_fact(r, "PYTORCH_CUDA_ALLOC_CONF", conf.text, conf.length);
	if (expandable.type == PICKLE_BOOL)
		add_memory_fact(r, "expandable segments", expandable.integer ? "on" : "off",
				expandable.integer ? 2 : 3);
}

static int by_index(const void *a, const void *b)
{
	const struct torch_device *x = a, *y = b;

	return CMP(x->device, y->device);
}

static int add_torch_devices(struct torch_reading *r, bool segments_whole)
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
			add_memory_sample(r, d, "allocated_bytes", d->allocated_bytes);
			err = add_memory_sample(r, d, "reserved_bytes", d->reserved_bytes);
		}
	}
	if (all_differing && segments_whole)
		intake_note(r->intake,
			    "%" PRIu64 " blocks are live in the list of segments and not in the "
			    "history, or the other way round: the history was followed",
			    all_differing);
	return err;
}

static void add_notes(struct torch_reading *r, const struct pickle *pickle)
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

static void reading_release(struct torch_reading *r)
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
	struct torch_reading r = { .intake = intake };
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
	torch_content_read(&r, segments, traces);
	if (!r.n_timed && !r.n_events)
		torch_annotations_last(annotations, &r.last_ns);
	if (!r.n_timed && !r.n_events)
		r.first_ns = r.last_ns;
	process->wall_clock = r.n_timed || (!r.n_events && r.last_ns > 0);
	status = r.no_memory ? -ENOMEM
			     : add_torch_devices(&r, pickle_is_sequence(segments) &&
							     !segments.box->open);
	if (status >= 0 && process->wall_clock)
		status = torch_annotations_read(annotations, r.last_ns, r.part);
	add_facts(&r, root);
	add_notes(&r, pickle);
	if (status >= 0)
		status = part_failed(r.part);
	reading_release(&r);
	return status < 0 ? err_set(err, status, "%s: no memory", file->path) : 0;
}

static int read_torch_memory_file(const struct ingest_file *file, struct intake *intake,
				  struct err *err)
{
	struct pickle pickle;
	size_t size = 0;
	char *bytes = NULL;
	/* Not mapped: a file that is cut meanwhile would end the program. */
	int r = input_text(file->path, SIZE_MAX / 2, &bytes, &size, err);

	if (r < 0)
		return r;
	r = pickle_read(file->path, bytes, size, &pickle, err);
	if (r >= 0) {
		r = read_pickle(file, &pickle, intake, err);
		pickle_release(&pickle);
	}
	free(bytes);
	return r;
}

static bool recognise_torch_memory(const struct ingest_file *file)
{
	return !file->gzip && pickle_looks_like(file->head, file->head_bytes);
}

const struct importer torch_memory_importer = {
	.name = "torch-memory",
	.title = "PyTorch memory snapshot",
	.recognise = recognise_torch_memory,
	.read = read_torch_memory_file,
};

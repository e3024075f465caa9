/* SPDX-License-Identifier: Apache-2.0
 *
 * Taking rows from importers; see intake.h.
 */
#include "ingest/shared/intake.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/shared/intake_inside.h"
#include "ingest/shared/phase_name.h"

const enum record_kind held_kinds[HELD_KINDS] = {
	[HELD_RANGE] = RECORD_RANGE,	       [HELD_OP] = RECORD_OP,
	[HELD_FRAME] = RECORD_FRAME,	       [HELD_STEP] = RECORD_STEP,
	[HELD_COLLECTIVE] = RECORD_COLLECTIVE,
};

/* Index among the held kinds, or HELD_KINDS. */
static unsigned int held_index(enum record_kind kind)
{
	unsigned int h = 0;

	while (h < HELD_KINDS && held_kinds[h] != kind)
		h++;
	return h;
}

int intake_new(uint64_t kinds, struct intake **ret_intake)
{
	struct intake *intake = calloc(1, sizeof(*intake));
	int r = intake ? -pthread_mutex_init(&intake->lock, NULL) : -ENOMEM;

	if (r < 0) {
		free(intake);
		return r;
	}
	intake->kinds = kinds;
	*ret_intake = intake;
	return 0;
}

static void segment_release(struct segment *segment)
{
	buf_release(&segment->chunks);
	for (int h = 0; h < HELD_KINDS; h++)
		buf_release(&segment->held[h]);
}

static void part_free(struct intake_part *part)
{
	encoder_release(&part->encoder);
	for (int k = 0; k <= RECORD_LAUNCH; k++)
		lexicon_cache_release(&part->caches[k]);
	for (size_t s = 0; s < part->n_segments; s++)
		segment_release(&part->segments[s]);
	free(part->segments);
	free(part->settled.v);
	free(part->fresh.v);
	free(part);
}

static void process_free(struct intake_process *process)
{
	for (size_t p = 0; p < process->inside->n_parts; p++)
		part_free(process->inside->parts[p]);
	free(process->inside->parts);
	lexicon_release(&process->inside->lexicon);
	free(process->inside->path);
	free(process->inside);
	free(process);
}

void intake_free(struct intake *intake)
{
	if (!intake)
		return;
	for (size_t i = 0; i < intake->n_processes; i++)
		process_free(intake->processes[i]);
	free(intake->processes);
	free(intake->path);
	buf_release(&intake->notes);
	rundir_info_release(&intake->about);
	pthread_mutex_destroy(&intake->lock);
	free(intake);
}

bool intake_wants(const struct intake *intake, enum record_kind kind)
{
	return intake->kinds >> kind & 1;
}

int intake_next_file(struct intake *intake, const char *path)
{
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	free(intake->path);
	intake->path = copy;
	intake->file++;
	return 0;
}

void intake_drop_file(struct intake *intake)
{
	while (intake->n_processes &&
	       intake->processes[intake->n_processes - 1]->inside->file == intake->file)
		process_free(intake->processes[--intake->n_processes]);
}

static struct intake_process *process_new(struct intake *intake, uint32_t rank, uint32_t pid)
{
	struct intake_process *process = calloc(1, sizeof(*process));
	struct intake_inside *inside = calloc(1, sizeof(*inside));
	char *path = intake->path ? strdup(intake->path) : NULL;

	if (!process || !inside || (intake->path && !path) || lexicon_init(&inside->lexicon) < 0) {
		free(process);
		free(inside);
		free(path);
		return NULL;
	}
	inside->path = path;
	inside->intake = intake;
	inside->file = intake->file;
	*process = (struct intake_process){ .rank = rank, .pid = pid, .inside = inside };
	return process;
}

struct intake_process *intake_process(struct intake *intake, uint32_t rank, uint32_t pid)
{
	struct intake_process *process = NULL;

	pthread_mutex_lock(&intake->lock);
	for (size_t i = 0; i < intake->n_processes && !process; i++) {
		struct intake_process *known = intake->processes[i];

		if (known->rank == rank && known->pid == pid && known->inside->file == intake->file)
			process = known;
	}
	if (!process && array_grow(&intake->processes, &intake->capacity, intake->n_processes + 1,
				   sizeof(process)) == 0) {
		process = process_new(intake, rank, pid);
		if (process)
			intake->processes[intake->n_processes++] = process;
	}
	pthread_mutex_unlock(&intake->lock);
	return process;
}

static int add_segment(struct intake_part *part, uint64_t order)
{
	int r = array_grow(&part->segments, &part->segments_capacity, part->n_segments + 1,
			   sizeof(*part->segments));

	if (r == 0)
		part->segments[part->n_segments++] = (struct segment){ .order = order,
								       .time_min_ns = INT64_MAX,
								       .time_max_ns = INT64_MIN };
	return r;
}

struct intake_part *intake_part(struct intake_process *process)
{
	struct intake_inside *inside = process->inside;
	struct intake_part *part = calloc(1, sizeof(*part));
	bool kept;

	if (!part)
		return NULL;
	part->process = process;
	encoder_init(&part->encoder, 1, 1, 0);
	pthread_mutex_lock(&inside->intake->lock);
	kept = add_segment(part, 0) == 0 && array_grow(&inside->parts, &inside->parts_capacity,
						       inside->n_parts + 1, sizeof(part)) == 0;
	if (kept)
		inside->parts[inside->n_parts++] = part;
	pthread_mutex_unlock(&inside->intake->lock);
	if (kept)
		return part;
	part_free(part);
	return NULL;
}

static struct segment *current_segment(struct intake_part *part)
{
	return &part->segments[part->n_segments - 1];
}

/* Gives back what growing a buffer has left over. */
static void trim_buf(struct buf *buf)
{
	char *smaller = buf->size ? realloc(buf->data, buf->size) : NULL;

	if (smaller) {
		buf->data = smaller;
		buf->capacity = buf->size;
	}
}

/* What was encoded goes into the segment. */
int part_close(struct intake_part *part)
{
	struct segment *segment = current_segment(part);
	int r = encoder_finish(&part->encoder);

	if (r < 0)
		return part->failed = r;
	if (part->encoder.time_min_ns < segment->time_min_ns)
		segment->time_min_ns = part->encoder.time_min_ns;
	if (part->encoder.time_max_ns > segment->time_max_ns)
		segment->time_max_ns = part->encoder.time_max_ns;
	buf_append(&segment->chunks, part->encoder.out.data, part->encoder.out.size);
	encoder_commit(&part->encoder);
	for (int h = 0; h < HELD_KINDS; h++)
		trim_buf(&segment->held[h]);
	for (size_t i = 0; i < part->fresh.n; i++)
		categories_add(&part->settled, part->fresh.v[i].name, strlen(part->fresh.v[i].name),
			       part->fresh.v[i].n);
	part->fresh.n = 0;
	return segment->chunks.failed ? part->failed = -ENOMEM : 0;
}

int part_turn(struct intake_part *part, uint64_t order)
{
	int r = part_close(part);

	if (r == 0)
		r = add_segment(part, order);
	return r < 0 ? part->failed = r : 0;
}

void part_discard(struct intake_part *part)
{
	struct segment *segment = current_segment(part);
	uint64_t order = segment->order;

	encoder_rollback(&part->encoder);
	part->fresh.n = 0;
	segment_release(segment);
	*segment = (struct segment){ .order = order,
				     .time_min_ns = INT64_MAX,
				     .time_max_ns = INT64_MIN };
}

static uint32_t sticky(struct intake_part *part, uint32_t id)
{
	if (!id)
		part->failed = -ENOMEM;
	return id;
}

uint32_t part_string(struct intake_part *part, const char *bytes, size_t length)
{
	if (!length)
		return 0;
	return sticky(part, lexicon_string(&part->process->inside->lexicon,
					   &part->caches[RECORD_STRING], bytes, length));
}

uint32_t part_text(struct intake_part *part, const char *text)
{
	return part_string(part, text, strlen(text));
}

uint32_t part_place(struct intake_part *part, const struct row_site *site)
{
	struct row_site row;

	memset(&row, 0, sizeof(row)); /* padding is part of the key */
	row.name = site->name;
	row.layer = site->layer;
	row.expert = site->expert;
	row.phase = site->phase;
	return sticky(part, lexicon_id(&part->process->inside->lexicon, &part->caches[RECORD_SITE],
				       RECORD_SITE, (char *)&row + sizeof(row.id),
				       sizeof(row) - sizeof(row.id)));
}

uint32_t part_site(struct intake_part *part, uint32_t name)
{
	const char *text = lexicon_text(&part->process->inside->lexicon, name);

	return part_place(part, &(struct row_site){ .name = name,
						    .layer = -1,
						    .expert = -1,
						    .phase = phase_of_name(text) });
}

uint32_t part_launch(struct intake_part *part, const struct row_launch *launch)
{
	return sticky(part,
		      lexicon_id(&part->process->inside->lexicon, &part->caches[RECORD_LAUNCH],
				 RECORD_LAUNCH, (const char *)launch + sizeof(launch->id),
				 sizeof(*launch) - sizeof(launch->id)));
}

/* One such row would make its whole chunk damaged. */
static bool times_are_sane(const struct kind_desc *desc, const char *row)
{
	int64_t start_ns = 0, duration_ns = 0;

	if (desc->time_column >= 0)
		memcpy(&start_ns, row + desc->columns[desc->time_column].row_offset,
		       sizeof(start_ns));
	if (desc->duration_column >= 0)
		memcpy(&duration_ns, row + desc->columns[desc->duration_column].row_offset,
		       sizeof(duration_ns));
	return time_is_sane(start_ns) && time_is_sane(duration_ns) && duration_ns >= 0;
}

int part_add(struct intake_part *part, enum record_kind kind, const void *row)
{
	struct segment *segment = current_segment(part);
	unsigned int h = held_index(kind);
	int r = 0;

	if (part->failed || !intake_wants(part->process->inside->intake, kind))
		return part->failed;
	if (!times_are_sane(kind_desc(kind), row)) {
		part_damaged(part, 0, "a time that no clock can have given");
		return 0;
	}
	if (h == HELD_KINDS) {
		r = encoder_append(&part->encoder, kind, row);
	} else {
		buf_append(&segment->held[h], row, kind_desc(kind)->row_size);
		r = segment->held[h].failed ? -ENOMEM : 0;
	}
	if (r == 0)
		segment->rows++;
	return part->failed = r;
}

int part_failed(const struct intake_part *part)
{
	return part->failed;
}

void part_damaged(struct intake_part *part, uint64_t offset, const char *what)
{
	struct segment *segment = current_segment(part);

	if (segment->damaged < NOTED_DAMAGE) {
		struct damage *damage = &segment->damage[segment->damaged];

		damage->offset = offset;
		snprintf(damage->what, sizeof(damage->what), "%s", what);
	}
	segment->damaged++;
}

void categories_add(struct categories *categories, const char *name, size_t length, uint64_t n)
{
	struct category category = { .name = "" };
	size_t i = 0;

	/* It comes from the file and goes to terminals. */
	for (; i < length && i < sizeof(category.name) - 1; i++)
		category.name[i] =
			(char)((unsigned char)name[i] < ' ' || name[i] == 0x7f ? ' ' : name[i]);
	for (i = 0; i < categories->n && strcmp(categories->v[i].name, category.name) != 0;)
		i++;
	if (i == categories->n) {
		if (i == CATEGORIES_MOST || array_grow(&categories->v, &categories->capacity, i + 1,
						       sizeof(*categories->v)) < 0)
			return;
		categories->v[i] = category;
		categories->n++;
	}
	categories->v[i].n += n;
}

void part_unknown(struct intake_part *part, const char *category, size_t length, uint64_t n)
{
	current_segment(part)->unknown += n;
	categories_add(&part->fresh, category, length, n);
}

/* They go into run.json, which is limited. */
#define NOTES_BYTES ((size_t)64 << 10)
#define TEXT_BYTES ((size_t)16 << 10)

void intake_note(struct intake *intake, const char *format, ...)
{
	va_list args;
	char *line;
	int n;

	va_start(args, format);
	n = vasprintf(&line, format, args);
	va_end(args);
	if (n < 0)
		return;
	pthread_mutex_lock(&intake->lock);
	if (intake->notes.size + (size_t)n > NOTES_BYTES)
		intake->notes_left_out++;
	else
		buf_printf(&intake->notes, "%s%s", intake->notes.size ? "\n" : "", line);
	pthread_mutex_unlock(&intake->lock);
	free(line);
}

static int take_text(char **field, const char *text)
{
	char *copy = text ? strndup(text, TEXT_BYTES) : NULL;

	if (text && !copy)
		return -ENOMEM;
	if (copy) {
		free(*field);
		*field = copy;
	}
	return 0;
}

int intake_about(struct intake *intake, const struct intake_about *about)
{
	struct rundir_info *info = &intake->about;

	if (take_text(&info->command, about->command) < 0 ||
	    take_text(&info->host, about->host) < 0 || take_text(&info->cpu, about->cpu) < 0 ||
	    take_text(&info->level, about->level) < 0 ||
	    take_text(&info->status, about->status) < 0)
		return -ENOMEM;
	if (about->notes && *about->notes)
		intake_note(intake, "%s", about->notes);
	if (about->cpus)
		info->cpus = about->cpus;
	if (about->status) {
		info->exit_status = about->exit_status;
		info->signal = about->signal;
	}
	if (about->started_realtime_ns)
		info->started_realtime_ns = about->started_realtime_ns;
	if (about->budget_known) {
		info->budget_pct = about->budget_pct;
		info->budget_known = true;
	}
	if (about->duration_ns) {
		info->duration_ns = about->duration_ns;
		info->duration_known = true;
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See fake_intake.h.
 */
#include "fake_intake.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "trace/codec.h"

struct turn {
	uint64_t order;
	struct buf rows, damage, unknown;
};

struct intake_part {
	struct intake *intake;
	struct turn *turns;
	size_t n, capacity;
	struct intake_part *next;
};

struct intake {
	pthread_mutex_t lock;
	uint64_t kinds;
	char **ids; /* strings, sites and launches: the line that each stands for */
	size_t n_ids, ids_capacity;
	struct intake_process process;
	struct intake_part *parts;
	struct buf notes;
};

struct intake *fake_intake_new(uint64_t kinds)
{
	struct intake *intake = calloc(1, sizeof(*intake));

	if (!intake)
		abort();
	pthread_mutex_init(&intake->lock, NULL);
	intake->kinds = kinds;
	return intake;
}

static void turn_release(struct turn *turn)
{
	buf_release(&turn->rows);
	buf_release(&turn->damage);
	buf_release(&turn->unknown);
}

void fake_intake_free(struct intake *intake)
{
	struct intake_part *next;

	for (struct intake_part *part = intake->parts; part; part = next) {
		next = part->next;
		for (size_t i = 0; i < part->n; i++)
			turn_release(&part->turns[i]);
		free(part->turns);
		free(part);
	}
	for (size_t i = 0; i < intake->n_ids; i++)
		free(intake->ids[i]);
	free(intake->ids);
	buf_release(&intake->notes);
	pthread_mutex_destroy(&intake->lock);
	free(intake);
}

bool intake_wants(const struct intake *intake, enum record_kind kind)
{
	return intake->kinds >> kind & 1;
}

struct intake_process *intake_process(struct intake *intake, uint32_t rank, uint32_t pid)
{
	intake->process = (struct intake_process){ .rank = rank,
						   .pid = pid,
						   .inside = (struct intake_inside *)intake };
	return &intake->process;
}

int part_turn(struct intake_part *part, uint64_t order)
{
	if (array_grow(&part->turns, &part->capacity, part->n + 1, sizeof(*part->turns)) < 0)
		abort();
	part->turns[part->n++] = (struct turn){ .order = order };
	return 0;
}

struct intake_part *intake_part(struct intake_process *process)
{
	struct intake *intake = (struct intake *)process->inside;
	struct intake_part *part = calloc(1, sizeof(*part));

	if (!part)
		abort();
	part->intake = intake;
	part_turn(part, 0);
	pthread_mutex_lock(&intake->lock);
	part->next = intake->parts;
	intake->parts = part;
	pthread_mutex_unlock(&intake->lock);
	return part;
}

static struct turn *current(struct intake_part *part)
{
	return &part->turns[part->n - 1];
}

void part_discard(struct intake_part *part)
{
	uint64_t order = current(part)->order;

	turn_release(current(part));
	*current(part) = (struct turn){ .order = order };
}

static uint32_t intern(struct intake_part *part, const char *bytes, size_t length)
{
	struct intake *intake = part->intake;
	size_t i;

	pthread_mutex_lock(&intake->lock);
	for (i = 0; i < intake->n_ids; i++)
		if (strlen(intake->ids[i]) == length && !memcmp(intake->ids[i], bytes, length))
			break;
	if (i == intake->n_ids) {
		if (array_grow(&intake->ids, &intake->ids_capacity, i + 1, sizeof(*intake->ids)) <
		    0)
			abort();
		intake->ids[intake->n_ids++] = strndup(bytes, length);
	}
	pthread_mutex_unlock(&intake->lock);
	return (uint32_t)i + 1;
}

static const char *text_of(struct intake_part *part, uint64_t id)
{
	const char *text;

	if (!id)
		return "";
	pthread_mutex_lock(&part->intake->lock);
	if (id > part->intake->n_ids)
		abort();
	text = part->intake->ids[id - 1];
	pthread_mutex_unlock(&part->intake->lock);
	return text;
}

uint32_t part_string(struct intake_part *part, const char *bytes, size_t length)
{
	return length ? intern(part, bytes, length) : 0;
}

uint32_t part_text(struct intake_part *part, const char *text)
{
	return part_string(part, text, strlen(text));
}

uint32_t part_place(struct intake_part *part, const struct row_site *site)
{
	(void)part;
	return site->name;
}

uint32_t part_site(struct intake_part *part, uint32_t name)
{
	return part_place(part, &(struct row_site){ .name = name });
}

uint32_t part_launch(struct intake_part *part, const struct row_launch *launch)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%s <%u,%u,%u> <%u,%u,%u> %u registers %u+%u bytes",
			 text_of(part, launch->name), launch->grid_x, launch->grid_y,
			 launch->grid_z, launch->block_x, launch->block_y, launch->block_z,
			 launch->registers, launch->static_shared_bytes,
			 launch->dynamic_shared_bytes);

	return intern(part, text, (size_t)n);
}

static void put_column(struct intake_part *part, struct buf *to, const struct column_desc *column,
		       const char *at)
{
	int64_t value = 0;
	double real = 0;

	switch ((enum column_type)column->type) {
	case COLUMN_U8:
		value = *(const uint8_t *)at;
		break;
	case COLUMN_U16:
		value = *(const uint16_t *)(const void *)at;
		break;
	case COLUMN_U32:
		value = *(const uint32_t *)(const void *)at;
		break;
	case COLUMN_I32:
		value = *(const int32_t *)(const void *)at;
		break;
	case COLUMN_F64:
		real = *(const double *)(const void *)at;
		break;
	default:
		value = *(const int64_t *)(const void *)at;
		break;
	}
	if (column->refers && value)
		buf_printf(to, " %s='%s'", column->name, text_of(part, (uint64_t)value));
	else if (column->type == COLUMN_F64)
		buf_printf(to, " %s=%g", column->name, real);
	else if (column->type == COLUMN_U64 && value)
		buf_printf(to, " %s=%" PRIu64, column->name, (uint64_t)value);
	else if (value)
		buf_printf(to, " %s=%" PRId64, column->name, value);
}

/* The values of a list, in brackets. */
static void put_list(struct buf *to, const struct kind_desc *desc, const struct column_desc *column,
		     const char *row)
{
	const struct column_desc *count = &desc->columns[column->count_column];
	size_t size = column_type_size(column->type);
	uint64_t n, value;
	const char *from;

	column_gather(count->type, row + count->row_offset, 0, 1, &n);
	memcpy(&from, row + column->row_offset, sizeof(from));
	buf_printf(to, " %s=[", column->name);
	for (uint64_t i = 0; i < n; i++) {
		column_gather(column->type, from + i * size, 0, 1, &value);
		buf_printf(to, "%s%" PRId64, i ? "," : "", (int64_t)value);
	}
	buf_append(to, "]", 1);
}

int part_add(struct intake_part *part, enum record_kind kind, const void *row)
{
	const struct kind_desc *desc = kind_desc(kind);
	struct buf *to = &current(part)->rows;

	if (!intake_wants(part->intake, kind))
		return 0;
	buf_printf(to, "%s", desc->name);
	for (unsigned int i = 0; i < desc->n_columns; i++) {
		if (desc->columns[i].count_column >= 0)
			put_list(to, desc, &desc->columns[i], row);
		else
			put_column(part, to, &desc->columns[i],
				   (const char *)row + desc->columns[i].row_offset);
	}
	buf_append(to, "\n", 1);
	return 0;
}

int part_failed(const struct intake_part *part)
{
	(void)part;
	return 0;
}

void part_damaged(struct intake_part *part, uint64_t offset, const char *what)
{
	buf_printf(&current(part)->damage, "damaged at %" PRIu64 ": %s\n", offset, what);
}

void part_unknown(struct intake_part *part, const char *category, size_t length, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		buf_printf(&current(part)->unknown, "unknown: %.*s\n", (int)length, category);
}

void intake_note(struct intake *intake, const char *format, ...)
{
	char *line;
	va_list args;

	va_start(args, format);
	if (vasprintf(&line, format, args) < 0)
		abort();
	va_end(args);
	pthread_mutex_lock(&intake->lock);
	buf_printf(&intake->notes, "note: %s\n", line);
	pthread_mutex_unlock(&intake->lock);
	free(line);
}

int intake_about(struct intake *intake, const struct intake_about *about)
{
	(void)intake;
	(void)about;
	return 0;
}

/* Turns of one number are of one part: 0 is the one that a part begins with, and the first. */
static void put_turns(struct intake *intake, size_t offset, struct buf *to)
{
	uint64_t last = 0;

	for (struct intake_part *part = intake->parts; part; part = part->next)
		for (size_t i = 0; i < part->n; i++)
			last = part->turns[i].order > last ? part->turns[i].order : last;
	for (uint64_t order = 0; order <= last; order++)
		for (struct intake_part *part = intake->parts; part; part = part->next)
			for (size_t i = 0; i < part->n; i++) {
				const struct buf *from =
					(const void *)((const char *)&part->turns[i] + offset);

				if (part->turns[i].order == order)
					buf_append(to, from->data, from->size);
			}
}

char *fake_intake_text(struct intake *intake)
{
	struct buf to = { 0 };

	put_turns(intake, offsetof(struct turn, rows), &to);
	put_turns(intake, offsetof(struct turn, damage), &to);
	put_turns(intake, offsetof(struct turn, unknown), &to);
	buf_append(&to, intake->notes.data, intake->notes.size);
	buf_printf(&to, "process rank=%u%s pid=%u shift=%" PRId64 "%s\n", intake->process.rank,
		   intake->process.rank_known ? "" : "?", intake->process.pid,
		   intake->process.shift_ns, intake->process.wall_clock ? " since 1970" : "");
	buf_append(&to, "", 1);
	if (to.failed)
		abort();
	return to.data;
}

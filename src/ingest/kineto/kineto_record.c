/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of moescope out of its own Chrome traces, by the list of their columns; see
 * kineto_record.h and src/exports/chrome/chrome_records.c, which writes them.
 */
#include "ingest/kineto/kineto_record.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"

#define ROW_MOST 256
#define LISTS_MOST 2

#define KIND(id, NAME, name)                                                                       \
	_Static_assert(sizeof(struct row_##name) <= ROW_MOST, "rows fit into the buffer");
RECORD_KINDS(KIND)
#undef KIND

/* Microseconds with up to three decimals; more are cut. */
static int read_time(const struct json_node *node, int64_t *ret_ns)
{
	const char *p = node && node->type == JSON_NUMBER ? node->text : "";
	bool negative = *p == '-';
	unsigned int decimals = 0;
	int64_t ns = 0;

	p += negative;
	if (*p < '0' || *p > '9')
		return -EBADMSG;
	for (bool point = false; *p && decimals < 3; p++) {
		if (*p == '.' && !point) {
			point = true;
			continue;
		}
		if (*p < '0' || *p > '9' || __builtin_mul_overflow(ns, 10, &ns) ||
		    __builtin_add_overflow(ns, *p - '0', &ns))
			return -EBADMSG;
		decimals += point;
	}
	if (strpbrk(p, "eE."))
		return -EBADMSG;
	for (; decimals < 3; decimals++)
		if (__builtin_mul_overflow(ns, 10, &ns))
			return -EBADMSG;
	*ret_ns = negative ? -ns : ns;
	return 0;
}

static int read_real(const struct json_node *node, double *ret_value)
{
	static const struct {
		const char *text;
		double value;
	} others[] = { { "NaN", NAN }, { "Infinity", INFINITY }, { "-Infinity", -INFINITY } };

	if (node->type == JSON_STRING) {
		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
			if (!strcmp(node->text, others[i].text)) {
				*ret_value = others[i].value;
				return 0;
			}
		}
	}
	if (node->type != JSON_NUMBER)
		return -EBADMSG;
	*ret_value = strtod(node->text, NULL); /* the tool stays in the C locale */
	return isfinite(*ret_value) ? 0 : -EBADMSG;
}

/* A whole number that fits. */
static int read_whole(const struct json_node *node, enum column_type type, void *to)
{
	static const uint64_t most[] = {
		[COLUMN_U8] = UINT8_MAX,   [COLUMN_U16] = UINT16_MAX, [COLUMN_U32] = UINT32_MAX,
		[COLUMN_U64] = UINT64_MAX, [COLUMN_I32] = INT32_MAX,  [COLUMN_I64] = INT64_MAX,
	};
	bool is_signed = type == COLUMN_I32 || type == COLUMN_I64, negative;
	uint64_t magnitude, value;
	char *end;

	if (node->type != JSON_NUMBER)
		return -EBADMSG;
	negative = node->text[0] == '-';
	errno = 0;
	magnitude = strtoull(node->text + negative, &end, 10);
	if (errno || *end || (negative && !is_signed && magnitude) ||
	    magnitude > most[type] + (negative && is_signed))
		return -EBADMSG;
	value = negative ? -magnitude : magnitude;
	switch (type) {
	case COLUMN_U8:
		*(uint8_t *)to = (uint8_t)value;
		break;
	case COLUMN_U16:
		*(uint16_t *)to = (uint16_t)value;
		break;
	case COLUMN_U32:
	case COLUMN_I32:
		*(uint32_t *)to = (uint32_t)value;
		break;
	default:
		*(uint64_t *)to = value;
		break;
	}
	return 0;
}

static int read_number(const struct json_node *node, enum column_type type, void *to)
{
	return type == COLUMN_F64 ? read_real(node, to) : read_whole(node, type, to);
}

static int read_string(struct intake_part *part, const struct json_node *node, uint32_t *ret_id)
{
	if (node->type != JSON_STRING)
		return -EBADMSG;
	*ret_id = part_text(part, node->text);
	return part_failed(part);
}

/* Columns of a dictionary's row, but for its id. */
static int read_object(struct intake_part *part, const struct json_node *object,
		       enum record_kind kind, void *row)
{
	const struct kind_desc *desc = kind_desc(kind);

	if (object->type != JSON_OBJECT)
		return -EBADMSG;
	for (unsigned int c = 1; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		const struct json_node *node = json_get(object, column->name);
		char *to = (char *)row + column->row_offset;
		int r = 0;

		if (node)
			r = column->refers ? read_string(part, node, (uint32_t *)to)
					   : read_number(node, column->type, to);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_reference(struct intake_part *part, const struct json_node *node,
			  unsigned int refers, uint32_t *ret_id)
{
	struct row_site site = { .layer = -1, .expert = -1 };
	struct row_launch launch = { 0 };
	int r;

	if (refers == RECORD_STRING)
		return read_string(part, node, ret_id);
	r = refers == RECORD_SITE ? read_object(part, node, RECORD_SITE, &site)
				  : read_object(part, node, RECORD_LAUNCH, &launch);
	if (r < 0)
		return r;
	*ret_id = refers == RECORD_SITE ? part_place(part, &site) : part_launch(part, &launch);
	return part_failed(part);
}

struct record {
	const struct kind_desc *desc;
	_Alignas(8) char row[ROW_MOST];
	void *lists[LISTS_MOST];
	unsigned int n_lists;
};

static int read_column_list(struct record *record, const struct column_desc *column,
			    const struct json_node *list)
{
	const struct column_desc *counter = &record->desc->columns[column->count_column];
	size_t size = column_type_size(column->type), n = 0, i = 0;
	char *values;

	if (list->type != JSON_ARRAY || record->n_lists == LISTS_MOST)
		return -EBADMSG;
	for (const struct json_node *node = list->child; node; node = node->next)
		n++;
	if (n > UINT32_MAX || counter->type != COLUMN_U32)
		return -EBADMSG;
	values = calloc(n + 1, size);
	if (!values)
		return -ENOMEM;
	record->lists[record->n_lists++] = values;
	for (const struct json_node *node = list->child; node; node = node->next) {
		int r = read_number(node, column->type, values + i++ * size);

		if (r < 0)
			return r;
	}
	memcpy(record->row + column->row_offset, &values, sizeof(values));
	*(uint32_t *)(record->row + counter->row_offset) = (uint32_t)n;
	return 0;
}

/* Only a list says how long it is: a number without values behind it would be read as many. */
static bool counts_a_list(const struct kind_desc *desc, unsigned int column)
{
	for (unsigned int c = 0; c < desc->n_columns; c++)
		if (desc->columns[c].count_column == (int)column)
			return true;
	return false;
}

static int read_columns(struct intake_part *part, const struct json_node *args,
			struct record *record)
{
	for (unsigned int c = 0; c < record->desc->n_columns; c++) {
		const struct column_desc *column = &record->desc->columns[c];
		const struct json_node *node = json_get(args, column->name);
		char *to = record->row + column->row_offset;
		int r = 0;

		if (!node || counts_a_list(record->desc, c))
			continue;
		if (column->refers)
			r = read_reference(part, node, column->refers, (uint32_t *)to);
		else if (column->coding == CODING_LIST)
			r = read_column_list(record, column, node);
		else if (column->coding != CODING_BYTES)
			r = read_number(node, column->type, to);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Time and duration are those of the event, unless a column says the duration. */
static int read_times(const struct json_node *event, struct record *record)
{
	const struct kind_desc *desc = record->desc;
	const struct json_node *duration = json_get(event, "dur");
	int64_t *to;
	int r = 0;

	if (desc->time_column >= 0) {
		to = (int64_t *)(record->row + desc->columns[desc->time_column].row_offset);
		r = read_time(json_get(event, "ts"), to);
	}
	if (r == 0 && desc->duration_column >= 0) {
		to = (int64_t *)(record->row + desc->columns[desc->duration_column].row_offset);
		if (duration)
			r = read_time(duration, to);
		if (r == 0 && *to < 0)
			r = -EBADMSG;
	}
	return r;
}

/* 0: none. */
static enum record_kind kind_of(const char *name)
{
	for (unsigned int kind = RECORD_LAUNCH + 1; kind < RECORD_KIND_LIMIT; kind++)
		if (!strcmp(kind_desc(kind)->name, name))
			return kind;
	return 0;
}

/* A counter's arguments are what is drawn: its name and device stand beside them. */
static int read_counter(struct intake_part *part, const struct json_node *event, const char *kind)
{
	const struct json_node *value = json_get(json_get(event, "args"), "value");
	const struct json_node *device = json_get(event, "id");
	uint32_t name = part_text(part, json_get_string(event, "name", ""));
	struct row_counter counter = { .name = name };
	struct row_sample sample = { .metric = name };
	int r = value ? read_real(value, &counter.value) : -EBADMSG;

	if (r == 0)
		r = read_time(json_get(event, "ts"), &counter.time_ns);
	if (r < 0)
		return r;
	if (!strcmp(kind, "counter"))
		return part_add(part, RECORD_COUNTER, &counter);
	sample.time_ns = counter.time_ns;
	sample.value = counter.value;
	r = device ? read_whole(device, COLUMN_U32, &sample.device) : -EBADMSG;
	return r < 0 ? r : part_add(part, RECORD_SAMPLE, &sample);
}

static int read_event(struct intake_part *part, const struct json_node *event)
{
	const struct json_node *args = json_get(event, "args");
	const char *value = json_get_string(event, "record", NULL);
	const char *name = json_get_string(args, "record", NULL);
	enum record_kind kind = kind_of(name ? name : "");
	struct record record = { .desc = kind_desc(kind) };
	int r;

	if (value && (!strcmp(value, "counter") || !strcmp(value, "sample")))
		return read_counter(part, event, value);
	if (!name)
		return 0;
	if (!kind) { /* of a later version */
		part_unknown(part, name, strlen(name), 1);
		return 0;
	}
	r = read_columns(part, args, &record);
	if (r == 0)
		r = read_times(event, &record);
	if (r == 0)
		r = part_add(part, kind, record.row);
	for (unsigned int i = 0; i < record.n_lists; i++)
		free(record.lists[i]);
	return r;
}

int kineto_record(struct intake_part *part, const char *event, size_t length)
{
	struct json_node *root;
	int r = json_parse("event", event, length, &root, NULL);

	if (r < 0)
		return r;
	r = read_event(part, root);
	json_node_free(root);
	return r;
}

int kineto_extra_node(struct intake_part *part, enum record_kind kind, void *row,
		      const struct json_node *object)
{
	const struct kind_desc *desc = kind_desc(kind);
	int r = 0;

	for (unsigned int c = 0; r == 0 && c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		const struct json_node *node = json_get(object, column->name);
		char *to = (char *)row + column->row_offset;

		if (!node || column->count_column >= 0 || column->refers > RECORD_STRING ||
		    (int)c == desc->time_column || (int)c == desc->duration_column)
			continue;
		r = column->refers ? read_string(part, node, (uint32_t *)to)
				   : read_number(node, column->type, to);
	}
	return r;
}

int kineto_extra(struct intake_part *part, enum record_kind kind, void *row, const char *object,
		 size_t length)
{
	struct json_node *root;
	int r = json_parse("argument", object, length, &root, NULL);

	if (r < 0)
		return r;
	r = kineto_extra_node(part, kind, row, root);
	json_node_free(root);
	return r;
}

uint32_t kineto_site(struct intake_part *part, uint32_t name, const char *object, size_t length)
{
	struct row_site site = { .name = name, .layer = -1, .expert = -1 };

	return kineto_extra(part, RECORD_SITE, &site, object, length) < 0 ? 0
									  : part_place(part, &site);
}

/* As the exporter names what was lost. */
static const struct {
	const char *name;
	int reason;
} losses[] = {
	{ "dropped_ring_full", DROP_RING_FULL },    { "dropped_no_memory", DROP_NO_MEMORY },
	{ "dropped_too_deep", DROP_TOO_DEEP },	    { "dropped_unbalanced", DROP_UNBALANCED },
	{ "dropped_too_large", DROP_TOO_LARGE },    { "dropped_names", DROP_NAMES },
	{ "dropped_unwritten", DROP_UNWRITTEN },    { "dropped_device", DROP_DEVICE },
	{ "unknown_device", DROP_DEVICE_UNKNOWN },  { "damaged_events", DROP_FOREIGN_DAMAGED },
	{ "unknown_events", DROP_FOREIGN_UNKNOWN },
};

static uint64_t count_of(const struct json_node *object, const char *name)
{
	int64_t n = json_get_int(object, name, 0);

	return n > 0 ? (uint64_t)n : 0;
}

static void read_process(struct intake_process *process, const struct json_node *object)
{
	const struct json_node *loss = json_get(object, "loss");
	int64_t rank = json_get_int(object, "rank", -1), pid = json_get_int(object, "pid", -1);

	if (rank >= 0 && rank <= UINT32_MAX) {
		process->rank = (uint32_t)rank;
		process->rank_known = true;
	}
	if (pid >= 0 && pid <= UINT32_MAX)
		process->pid = (uint32_t)pid;
	process->from_ns = json_get_int(object, "start_ns", INT64_MAX);
	process->to_ns = json_get_int(object, "end_ns", INT64_MIN);
	process->lived = process->from_ns <= process->to_ns;
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++)
		process->lost[losses[i].reason] = count_of(loss, losses[i].name);
	process->unfinished = count_of(loss, "unfinished");
}

static int read_about(struct intake *intake, const struct json_node *root)
{
	const struct json_node *budget = json_get(root, "budget_pct");
	struct intake_about about = {
		.command = json_get_string(root, "command", NULL),
		.host = json_get_string(root, "host", NULL),
		.cpu = json_get_string(root, "cpu", NULL),
		.level = json_get_string(root, "level", NULL),
		.status = json_get_string(root, "status", NULL),
		.notes = json_get_string(root, "notes", NULL),
		.cpus = (int)json_get_int(root, "cpus", 0),
		.exit_status = (int)json_get_int(root, "exit_status", 0),
		.signal = (int)json_get_int(root, "signal", 0),
		.started_realtime_ns = json_get_int(root, "started_realtime_ns", 0),
		.duration_ns = json_get_int(root, "duration_ns", 0),
	};

	about.budget_known = budget && read_real(budget, &about.budget_pct) == 0;
	return intake_about(intake, &about);
}

int kineto_about(struct intake *intake, struct intake_process **processes, size_t n,
		 const char *object, size_t length)
{
	const struct json_node *list, *node;
	struct json_node *root;
	size_t told = 0;
	int r = json_parse("moescope", object, length, &root, NULL);

	if (r < 0)
		return r;
	r = read_about(intake, root);
	list = json_get(root, "processes");
	list = list && list->type == JSON_ARRAY ? list->child : NULL;
	for (node = list; node; node = node->next)
		told++;
	for (node = told == n ? list : NULL; node; node = node->next)
		read_process(*processes++, node);
	json_node_free(root);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What rows an event of a Kineto trace becomes, but for those of devices. Counters have a name and several
 * values each. The two ends of an arrow are events of their own, anywhere in the file, and a collective of
 * the host may be told again by a better record: both become rows when all events are known.
 */
#include "ingest/kineto/kineto_rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "ingest/shared/step_rows.h"

static uint32_t kineto_site_of(struct reader *r, const struct event *e, const struct args *args)
{
	struct cached *entry = text_entry(r, e->name);
	uint32_t site = 0;

	if (has_arg(args, ARG_EXTRA))
		site = kineto_site(r->part, entry ? entry->id : 0, args->extra.at,
				   (size_t)(args->extra.end - args->extra.at));
	if (site)
		return site;

	if (!entry)
		return part_site(r->part, 0);
	if (!entry->site)
		entry->site = part_site(r->part, entry->id);
	return entry->site;
}

static void add_api(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_api row = {
		.name = text_id(r, e->name),
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.thread = thread_of(e),
		.correlation = number(args, ARG_CORRELATION, 0),
		.driver = e->class == CLASS_DRIVER,
		.status = r->own ? 0 : API_NOT_TOLD, /* our own say it when it is not 0 */
	};

	fill_extra(r, e, args, RECORD_API, &row);
	part_add(r->part, RECORD_API, &row);
}

/* Whether the event is a step by its name. Files of our own have theirs as such, beside the ranges that
 * they were told by. */
static bool add_step(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_step row = { .start_ns = e->time_ns,
				.duration_ns = e->duration_ns,
				.recorded = 1 };

	if (!step_of_name(e->name.at, e->name.length, &row) ||
	    (r->own && (row.source == STEP_BY_NAME || e->class == CLASS_GPU_ANNOTATION)))
		return false;
	if (e->class == CLASS_GPU_ANNOTATION)
		row.source = STEP_ON_DEVICE;
	fill_extra(r, e, args, RECORD_STEP, &row);
	part_add(r->part, RECORD_STEP, &row);
	/* An engine's iteration is a range, too: its name is what people look for. */
	return row.source == STEP_TOLD;
}

/* [[1024, 8192], [], [4]] as what Python's side records: [1024,8192]x[4] */
static uint32_t shape_of(struct reader *r, struct extent dims)
{
	struct buf *to = &r->scratch;
	unsigned int depth = 0;

	to->size = 0;
	if (*dims.at == '"') {
		struct text text;

		return value_text(r, dims.at, &text) ? text_id(r, text) : 0;
	}
	if (!buf_reserve(to, (size_t)(dims.end - dims.at) + 1)) {
		r->failed = -ENOMEM;
		return 0;
	}
	for (const char *p = dims.at; p < dims.end; p++) {
		if (*p == '[' && ++depth == 2) {
			const char *q = skip_blanks(p + 1);

			if (*q == ']') {
				depth--;
				p = q;
				continue;
			}
			if (to->size)
				to->data[to->size++] = 'x';
		}
		if (depth >= 2 && (unsigned char)*p > ' ')
			to->data[to->size++] = *p;
		if (*p == ']' && depth)
			depth--;
	}
	return to->size ? part_string(r->part, to->data, to->size) : 0;
}

/* "c;b;a", the innermost call first, is "a;b;c" here. */
static uint32_t stack_of(struct reader *r, struct text stack)
{
	struct cached *entry = text_entry(r, stack);
	const char *plain;
	size_t length, end;
	struct buf turned = { 0 };

	if (!entry || entry->turned)
		return entry ? entry->turned : 0;
	plain = text_plain(r, stack, &length);
	if (!plain)
		return 0;
	end = length;
	for (size_t at = length + 1; at-- > 0;) {
		if (at && plain[at - 1] != ';')
			continue;
		buf_append(&turned, plain + at, end - at);
		if (at)
			buf_append(&turned, ";", 1);
		end = at ? at - 1 : 0;
	}
	if (turned.failed)
		r->failed = -ENOMEM;
	else
		entry->turned = part_string(r->part, turned.data, turned.size);
	buf_release(&turned);
	return entry->turned;
}

static void add_flops(struct reader *r, const struct event *e, const struct args *args,
		      struct row_op *row)
{
	const struct cached *name = text_entry(r, e->name);
	struct args told = *args;

	if (!has_arg(args, ARG_CONCRETE))
		told.concrete = (struct extent){ NULL, NULL };
	if (name && flops_of(r, name->arithmetic, &told, &row->flops))
		row->unknown = (row->unknown & (uint8_t)~OP_FLOPS_UNKNOWN) | INTAKE_FLOPS_DERIVED;
}

static void add_op(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_op row = {
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.thread = thread_of(e),
		.flops = number(args, ARG_FLOPS, 0),
		.unknown = OP_BYTES_UNKNOWN | (has_arg(args, ARG_FLOPS) ? 0 : OP_FLOPS_UNKNOWN),
	};

	row.site = kineto_site_of(r, e, args);
	if (has_arg(args, ARG_DIMS) && !has_arg(args, ARG_FLOPS) && !r->own)
		add_flops(r, e, args, &row);
	if (has_arg(args, ARG_DIMS) && args->dims.end)
		row.shape = shape_of(r, args->dims);
	if (has_arg(args, ARG_STACK))
		row.stack = stack_of(r, args->stack);
	fill_extra(r, e, args, RECORD_OP, &row);
	part_add(r->part, RECORD_OP, &row);
}

/* name, group, type: in the order of struct told. */
static bool append_text(struct reader *r, struct buf *texts, bool has, struct text text)
{
	size_t length = 0;
	const char *plain = has ? text_plain(r, text, &length) : "";

	if (plain)
		buf_append(texts, plain, length);
	buf_append(texts, "", 1);
	return plain;
}

static void note_told(struct reader *r, const struct event *e, const struct args *args)
{
	struct told told = {
		.row = { .start_ns = e->time_ns,
			 .duration_ns = e->duration_ns,
			 .device = COLLECTIVE_ON_HOST,
			 .stream = thread_of(e),
			 .sequence_known = has_arg(args, ARG_SEQUENCE),
			 .sequence = number(args, ARG_SEQUENCE, 0),
			 .group_size = number32(args, ARG_GROUP_SIZE, 0),
			 .in_elements = number(args, ARG_IN_ELEMENTS, 0),
			 .out_elements = number(args, ARG_OUT_ELEMENTS, 0) },
		.lane = (uint32_t)(r->lane - r->lanes),
	};
	struct buf texts = { 0 };

	/* Without a name it may as well be the wait for one. */
	if (!has_arg(args, ARG_COLLECTIVE) || is_text(args->collective, "wait") ||
	    begins_with(args->collective, "init"))
		return;
	if (!append_text(r, &texts, true, args->collective) ||
	    !append_text(r, &texts, has_arg(args, ARG_GROUP), args->group) ||
	    !append_text(r, &texts, has_arg(args, ARG_TYPE), args->type) || texts.failed ||
	    array_grow(&r->told, &r->told_capacity, r->n_told + 1, sizeof(*r->told)) < 0) {
		r->failed = -ENOMEM;
		buf_release(&texts);
		return;
	}
	told.texts = texts.data;
	r->told[r->n_told++] = told;
}

/* A collective that a thread does itself: its time is that of the event, on no device. */
static void add_host_collective(struct reader *r, const struct event *e, const struct args *args)
{
	const struct cached *name = text_entry(r, e->name);
	struct row_collective row = { .start_ns = e->time_ns,
				      .duration_ns = e->duration_ns,
				      .device = COLLECTIVE_ON_HOST,
				      .stream = thread_of(e) };
	struct text type;

	if (!name || r->own)
		return;
	r->known.has_backend_ranges |= name->host_collective || name->has_nccl;
	if (name->tells_collective)
		note_told(r, e, args);
	if (!name->host_collective)
		return;
	row.name = name->id;
	if (has_arg(args, ARG_DIMS))
		flops_elements(r, args->dims, &row.in_elements);
	if (has_arg(args, ARG_INPUT_TYPE) && *args->input_type.at == '[' &&
	    *skip_blanks(args->input_type.at + 1) == '"' &&
	    value_text(r, skip_blanks(args->input_type.at + 1), &type))
		row.type = text_id(r, type);
	part_add(r->part, RECORD_COLLECTIVE, &row);
}

void rows_add_told(struct reader *r, const struct told *told, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct row_collective row = told[i].row;
		const char *name = told[i].texts, *group = name + strlen(name) + 1;
		const char *type = group + strlen(group) + 1;

		lane_choose(r, told[i].lane);
		row.name = part_text(r->part, name);
		row.group = *group ? part_text(r->part, group) : 0;
		row.type = *type ? part_text(r->part, type) : 0;
		part_add(r->part, RECORD_COLLECTIVE, &row);
	}
}

void told_cut(struct reader *r, size_t n)
{
	while (r->n_told > n)
		free(r->told[--r->n_told].texts);
}

static void add_kineto_range(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_range row = { .start_ns = e->time_ns,
				 .duration_ns = e->duration_ns,
				 .thread = thread_of(e) };

	row.site = kineto_site_of(r, e, args);
	fill_extra(r, e, args, RECORD_RANGE, &row);
	part_add(r->part, RECORD_RANGE, &row);
}

static void add_kineto_span(struct reader *r, const struct event *e, const struct args *args,
			    uint32_t *domain, const char *domain_name)
{
	struct row_span row = { .start_ns = e->time_ns, .duration_ns = e->duration_ns };

	if (!*domain)
		*domain = part_text(r->part, domain_name);
	row.name = text_id(r, e->name);
	row.thread = row.end_thread = e->class == CLASS_GPU_ANNOTATION ? stream_of(e, args)
								       : thread_of(e);
	row.domain = *domain;
	fill_extra(r, e, args, RECORD_SPAN, &row);
	part_add(r->part, RECORD_SPAN, &row);
}

static void add_frame(struct reader *r, const struct event *e)
{
	struct row_frame row = { .name = text_id(r, e->name),
				 .start_ns = e->time_ns,
				 .duration_ns = e->duration_ns,
				 .thread = thread_of(e) };

	part_add(r->part, RECORD_FRAME, &row);
}

static void add_sync(struct reader *r, const struct event *e, const struct args *args)
{
	static const char *const types[] = { "", "Event Sync", "Stream Wait Event", "Stream Sync",
					     "Context Sync" };
	struct row_sync row = {
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.context = number32(args, ARG_CONTEXT, 0),
		.stream = stream_of(e, args),
		.correlation = number(args, ARG_CORRELATION, 0),
	};

	for (unsigned int i = 1; i < sizeof(types) / sizeof(types[0]); i++)
		if (begins_with(e->name, types[i]))
			row.type = (uint8_t)i;
	fill_extra(r, e, args, RECORD_SYNC, &row);
	part_add(r->part, RECORD_SYNC, &row);
}

static void add_instant(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_mark row = { .time_ns = e->time_ns, .thread = thread_of(e) };

	if (!(e->has & EVENT_TIME)) {
		event_damaged(r, e, "an event without its time");
	} else if (is_text(e->name, "[memory]")) {
		rows_add_memory(r, e, args);
	} else {
		row.text = text_id(r, e->name);
		part_add(r->part, RECORD_MARK, &row);
	}
}

/* Names of threads; those of streams are no threads. */
static void add_metadata(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_thread row = { .thread = thread_of(e) };

	if (is_text(e->name, "process_labels") && has_arg(args, ARG_LABELS) &&
	    is_text(args->labels, "CPU") && e->has & EVENT_PROCESS && !r->known.label_known) {
		r->known.label_known = true;
		r->known.label = (uint32_t)e->process;
	}
	if (!is_text(e->name, "thread_name") || !has_arg(args, ARG_NAME) ||
	    !(e->has & EVENT_THREAD) || begins_with(args->name, "stream "))
		return;
	row.name = text_id(r, args->name);
	part_add(r->part, RECORD_THREAD, &row);
}

static void add_arrow(struct reader *r, const struct event *e)
{
	if (e->phase == 't') /* a place on the way */
		return;
	if (!(e->has & EVENT_ID) || !(e->has & EVENT_TIME)) {
		event_damaged(r, e, "an arrow without its number or time");
		return;
	}
	if (array_grow(&r->arrows, &r->arrows_capacity, r->n_arrows + 1, sizeof(*r->arrows)) < 0) {
		r->failed = -ENOMEM;
		return;
	}
	r->arrows[r->n_arrows++] = (struct arrow){
		.id = e->id,
		.time_ns = e->time_ns,
		.thread = thread_of(e),
		.lane = (uint32_t)(r->lane - r->lanes),
		.end = e->phase == 'f',
	};
}

static int by_place_and_time(const void *a, const void *b)
{
	const struct arrow *x = a, *y = b;

	return CMP(x->lane, y->lane) ?: CMP(x->id, y->id) ?: CMP(x->time_ns, y->time_ns) ?:
	       x->end - y->end;
}

void rows_add_arrows(struct reader *r, struct arrow *arrows, size_t n)
{
	size_t alone = 0;

	if (n)
		qsort(arrows, n, sizeof(*arrows), by_place_and_time);
	for (size_t i = 0; i < n; i++) {
		struct row_flow row = { .start_ns = arrows[i].time_ns,
					.thread = arrows[i].thread,
					.id = arrows[i].id };

		if (arrows[i].end || i + 1 == n || arrows[i + 1].id != arrows[i].id ||
		    arrows[i + 1].lane != arrows[i].lane || !arrows[i + 1].end) {
			alone++;
			continue;
		}
		i++;
		row.duration_ns = arrows[i].time_ns - row.start_ns;
		row.end_thread = arrows[i].thread;
		lane_choose(r, arrows[i].lane);
		row.name = part_text(r->part, "fwdbwd");
		part_add(r->part, RECORD_FLOW, &row);
	}
	if (alone)
		intake_note(r->intake,
			    "%zu ends of arrows from forward to backward operations have no other "
			    "end and are left out",
			    alone);
}

/* p: at a number; false: it is none, or one that is not finite. */
static bool read_double(const char *p, const char *end, double *ret_value)
{
	char text[64];
	size_t length = (size_t)(end - p);
	char *stop;

	if (length >= sizeof(text))
		return false;
	memcpy(text, p, length);
	text[length] = 0;
	*ret_value = strtod(text, &stop);
	return length && *stop == 0 && isfinite(*ret_value);
}

/* The counter "memory" with the argument "used" is "memory used". */
static uint32_t counter_name(struct reader *r, struct text name, struct text key)
{
	size_t length, key_length;
	const char *plain = text_plain(r, name, &length);
	struct buf joined = { 0 };
	uint32_t id;

	if (key.length == 5 && !memcmp(key.at, "value", 5))
		return text_id(r, name);
	if (!plain)
		return 0;
	buf_append(&joined, plain, length);
	plain = text_plain(r, key, &key_length);
	if (plain && key_length) {
		buf_append(&joined, " ", 1);
		buf_append(&joined, plain, key_length);
	}
	id = joined.failed ? 0 : part_string(r->part, joined.data, joined.size);
	buf_release(&joined);
	return id;
}

void rows_add_counters(struct reader *r, const struct event *e)
{
	struct row_counter row = { .time_ns = e->time_ns };
	const char *p = e->args.at;
	bool bad = !(e->has & EVENT_TIME) || !p || *p != '{';

	if (!bad)
		p = skip_blanks(p + 1);
	while (!bad && *p == '"') {
		struct text key;
		const char *value;

		p = value_text(r, p, &key);
		value = p ? skip_blanks(skip_blanks(p) + 1)
			  : NULL; /* it was skipped: it is whole */
		p = value ? value_skip(r, value) : NULL;
		if (!p || !read_double(value, p, &row.value)) {
			bad = true;
			break;
		}
		row.name = counter_name(r, e->name, key);
		part_add(r->part, RECORD_COUNTER, &row);
		p = skip_blanks(p);
		if (*p == ',')
			p = skip_blanks(p + 1);
	}
	if (bad)
		part_damaged(r->part, r->offset + (uint64_t)(e->begin - r->begin),
			     "a counter without its time or numbers");
}

static bool on_cpu(enum event_class class)
{
	return class == CLASS_RUNTIME || class == CLASS_DRIVER || class == CLASS_OP ||
	       class == CLASS_OLD_OP || class == CLASS_ANNOTATION || class == CLASS_FRAME;
}

static void add_timed(struct reader *r, const struct event *e, const struct args *args)
{
	if (!(e->has & EVENT_TIME) || !(e->has & EVENT_DURATION)) {
		event_damaged(r, e, "an event without its time or duration");
		return;
	}
	if (e->duration_ns < 0) {
		event_damaged(r, e, "a duration below zero");
		return;
	}
	if (on_cpu(e->class) && e->has & EVENT_PROCESS && !r->known.process_known) {
		r->known.process_known = true;
		r->known.process = (uint32_t)e->process;
	}
	switch ((enum event_class)e->class) {
	case CLASS_KERNEL:
		add_kernel(r, e, args);
		break;
	case CLASS_COPY:
		add_copy(r, e, args);
		break;
	case CLASS_SET:
		add_set(r, e, args);
		break;
	case CLASS_RUNTIME:
	case CLASS_DRIVER:
		add_api(r, e, args);
		break;
	case CLASS_OLD_OP:
	case CLASS_OP:
		if (!add_step(r, e, args))
			add_op(r, e, args);
		add_host_collective(r, e, args);
		break;
	case CLASS_ANNOTATION:
		if (!add_step(r, e, args))
			add_kineto_range(r, e, args);
		add_host_collective(r, e, args);
		break;
	case CLASS_GPU_ANNOTATION:
		add_step(r, e, args);
		add_kineto_span(r, e, args, &r->lane->gpu_domain, "gpu");
		break;
	case CLASS_OVERHEAD:
		add_kineto_span(r, e, args, &r->lane->overhead_domain, "overhead");
		break;
	case CLASS_FRAME:
		add_frame(r, e);
		break;
	case CLASS_SYNC:
		add_sync(r, e, args);
		break;
	case CLASS_WHOLE:
		if (!r->known.began_known || e->time_ns < r->known.began_ns) {
			r->known.began_known = true;
			r->known.began_ns = e->time_ns;
		}
		break;
	default:
		if (!add_step(r, e, args))
			rows_add_unknown(r, e);
		break;
	}
}

void rows_add_unknown(struct reader *r, const struct event *e)
{
	size_t length;
	const char *category = text_plain(r, e->category, &length);

	if (category)
		part_unknown(r->part, category, length, 1);
}

/* Begins and ends apart, asynchronous ones: known categories are not told so. */
static void add_other_phase(struct reader *r, const struct event *e)
{
	char name[64];

	if (!e->phase) {
		event_damaged(r, e, "an event without its phase");
	} else if (e->class == CLASS_UNKNOWN) {
		rows_add_unknown(r, e);
	} else {
		snprintf(name, sizeof(name), "%.*s%sphase %c", (int)e->category.length,
			 e->category.at ? e->category.at : "", e->category.at ? " of " : "",
			 e->phase);
		part_unknown(r->part, name, strlen(name), 1);
	}
}

void rows_add(struct reader *r, const struct event *e, const struct args *args)
{
	/* Names of threads are at no time, whatever stands there. */
	if (e->has & EVENT_TIME && e->phase != 'M' && !r->known.any_time) {
		r->known.any_time = true;
		r->known.first_ns = e->time_ns;
	}
	switch (e->phase) {
	case 'X':
		if (e->class != CLASS_NONE)
			add_timed(r, e, args);
		else if (!(e->has & EVENT_TIME) || !(e->has & EVENT_DURATION) ||
			 e->duration_ns < 0 || !add_step(r, e, args))
			part_unknown(r->part, "none", 4, 1);
		break;
	case 'i':
	case 'I':
		add_instant(r, e, args);
		break;
	case 'M':
		add_metadata(r, e, args);
		break;
	case 's':
	case 't':
	case 'f':
		add_arrow(r, e);
		break;
	default:
		add_other_phase(r, e);
		break;
	}
}

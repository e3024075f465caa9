/* SPDX-License-Identifier: Apache-2.0
 *
 * What rows an event of a Kineto trace becomes.
 */
#include "ingest/kineto_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool has_arg(const struct args *args, enum arg arg)
{
	return args->has >> arg & 1;
}

static uint64_t number(const struct args *args, enum arg arg, uint64_t otherwise)
{
	return has_arg(args, arg) ? args->number[arg] : otherwise;
}

static uint32_t number32(const struct args *args, enum arg arg, uint32_t otherwise)
{
	uint64_t value = number(args, arg, otherwise);

	return value <= UINT32_MAX ? (uint32_t)value : otherwise;
}

static uint32_t thread_of(const struct event *e)
{
	return e->has & EVENT_THREAD ? (uint32_t)e->thread : 0;
}

/* Events of devices have the device for a process and the stream for a thread, where they say no
 * more. */
static uint32_t device_of(const struct event *e, const struct args *args)
{
	return number32(args, ARG_DEVICE, e->has & EVENT_PROCESS ? (uint32_t)e->process : 0);
}

static uint32_t stream_of(const struct event *e, const struct args *args)
{
	return number32(args, ARG_STREAM, thread_of(e));
}

static void damaged(struct reader *r, const struct event *e, const char *what)
{
	part_damaged(r->part, r->offset + (uint64_t)(e->begin - r->begin), what);
}

static bool is_text(struct text text, const char *is)
{
	return text.length == strlen(is) && !memcmp(text.at, is, text.length);
}

static bool begins_with(struct text text, const char *with)
{
	size_t length = strlen(with);

	return text.length >= length && !memcmp(text.at, with, length);
}

static uint32_t site_of(struct reader *r, struct text name)
{
	struct cached *entry = text_entry(r, name);

	if (!entry)
		return part_site(r->part, 0);
	if (!entry->site)
		entry->site = part_site(r->part, entry->id);
	return entry->site;
}

static uint32_t launch_id(struct reader *r, const struct row_launch *launch)
{
	uint64_t hash = 0;
	struct cached_launch *entry;
	const uint32_t words[] = {
		launch->name,	 launch->grid_x,    launch->grid_y,
		launch->grid_z,	 launch->block_x,   launch->block_y,
		launch->block_z, launch->registers, launch->dynamic_shared_bytes
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
	entry = &r->launches[hash >> 32 & (CACHED_LAUNCHES - 1)];
	if (!entry->id || memcmp(&entry->launch, launch, sizeof(*launch)) != 0) {
		entry->launch = *launch;
		entry->id = part_launch(r->part, launch);
	}
	return entry->id;
}

/* ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...) is "allreduce". */
static uint32_t collective_of_kernel(struct reader *r, struct text kernel)
{
	static const char *const before[] = { "ncclDevKernel_", "ncclKernel_" };
	char name[32];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		const char *p = memmem(kernel.at, kernel.length, before[i], strlen(before[i]));
		const char *end = kernel.at + kernel.length;

		if (!p)
			continue;
		for (p += strlen(before[i]); p < end && n < sizeof(name); p++) {
			char lower = *p | 0x20;

			if (lower < 'a' || lower > 'z')
				break;
			name[n++] = lower;
		}
		break;
	}
	return n && n < sizeof(name) ? part_string(r->part, name, n) : part_text(r->part, "nccl");
}

static void add_collective(struct reader *r, const struct event *e, const struct args *args,
			   const struct row_kernel *kernel)
{
	struct row_collective row = {
		.start_ns = kernel->start_ns,
		.duration_ns = kernel->duration_ns,
		.device = kernel->device,
		.stream = kernel->stream,
		.correlation = kernel->correlation,
		.sequence_known = has_arg(args, ARG_SEQUENCE),
		.group_size = number32(args, ARG_GROUP_SIZE, 0),
		.in_elements = number(args, ARG_IN_ELEMENTS, 0),
		.out_elements = number(args, ARG_OUT_ELEMENTS, 0),
	};

	row.sequence = row.sequence_known ? args->number[ARG_SEQUENCE] : 0;
	row.name = has_arg(args, ARG_COLLECTIVE) ? text_id(r, args->collective)
						 : collective_of_kernel(r, e->name);
	row.group = has_arg(args, ARG_GROUP) ? text_id(r, args->group) : 0;
	row.type = has_arg(args, ARG_TYPE) ? text_id(r, args->type) : 0;
	part_add(r->part, RECORD_COLLECTIVE, &row);
}

static void add_kernel(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_kernel row = {
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.stream = stream_of(e, args),
		.device = device_of(e, args),
		.correlation = number(args, ARG_CORRELATION, 0),
		.context = number32(args, ARG_CONTEXT, 0),
		.graph = number32(args, ARG_GRAPH, 0),
		.graph_node = number(args, ARG_GRAPH_NODE, 0),
	};
	/* Static and dynamic shared memory are told as one sum. */
	struct row_launch launch = {
		.registers = number32(args, ARG_REGISTERS, 0),
		.dynamic_shared_bytes = number32(args, ARG_SHARED, 0),
	};
	const struct cached *name = text_entry(r, e->name);
	bool has_nccl = name && name->has_nccl;

	launch.name = name ? name->id : 0;
	if (has_arg(args, ARG_GRID)) {
		launch.grid_x = args->grid[0];
		launch.grid_y = args->grid[1];
		launch.grid_z = args->grid[2];
	}
	if (has_arg(args, ARG_BLOCK)) {
		launch.block_x = args->block[0];
		launch.block_y = args->block[1];
		launch.block_z = args->block[2];
	}
	row.launch = launch_id(r, &launch);
	part_add(r->part, RECORD_KERNEL, &row);
	if (has_nccl || has_arg(args, ARG_COLLECTIVE))
		add_collective(r, e, args, &row);
}

/* As CUPTI numbers them. */
static const char *const copy_kinds[] = { "",	  "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
					  "AtoD", "DtoA", "DtoD", "HtoH", "PtoP" };
static const char *const memories[] = { "", "Pageable", "Pinned", "Device", "Array", "Managed" };

static uint8_t memory_of(const char *p, const char *end)
{
	for (uint8_t i = 1; i < sizeof(memories) / sizeof(memories[0]); i++) {
		size_t length = strlen(memories[i]);

		if ((size_t)(end - p) >= length && !memcmp(p, memories[i], length))
			return i;
	}
	return 0;
}

/* "Memcpy HtoD (Pinned -> Device)" */
static void add_copy(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_copy row = {
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.bytes = number(args, ARG_BYTES, 0),
		.device = device_of(e, args),
		.stream = stream_of(e, args),
		.correlation = number(args, ARG_CORRELATION, 0),
		.context = number32(args, ARG_CONTEXT, 0),
		.graph = number32(args, ARG_GRAPH, 0),
		.graph_node = number(args, ARG_GRAPH_NODE, 0),
	};
	const char *end = e->name.at + e->name.length, *p;

	row.source_device = number32(args, ARG_FROM_DEVICE, row.device);
	row.target_device = number32(args, ARG_TO_DEVICE, row.device);
	for (uint8_t i = 1; e->name.at && i < sizeof(copy_kinds) / sizeof(copy_kinds[0]); i++)
		if (memmem(e->name.at, e->name.length, copy_kinds[i], strlen(copy_kinds[i])))
			row.kind = i;
	p = e->name.at ? memchr(e->name.at, '(', e->name.length) : NULL;
	if (p)
		row.source_memory = memory_of(p + 1, end);
	p = p ? memmem(p, (size_t)(end - p), "-> ", 3) : NULL;
	if (p)
		row.target_memory = memory_of(p + 3, end);
	part_add(r->part, RECORD_COPY, &row);
}

static void add_set(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_set row = {
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.bytes = number(args, ARG_BYTES, 0),
		.device = device_of(e, args),
		.stream = stream_of(e, args),
		.correlation = number(args, ARG_CORRELATION, 0),
		.context = number32(args, ARG_CONTEXT, 0),
		.graph = number32(args, ARG_GRAPH, 0),
		.graph_node = number(args, ARG_GRAPH_NODE, 0),
	};
	const char *p = e->name.at ? memchr(e->name.at, '(', e->name.length) : NULL;

	if (p)
		row.memory = memory_of(p + 1, e->name.at + e->name.length);
	part_add(r->part, RECORD_SET, &row);
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
	};

	part_add(r->part, RECORD_API, &row);
}

/* "ProfilerStep#12" is the step 12. */
static bool add_step(struct reader *r, const struct event *e)
{
	static const char before[] = "ProfilerStep#";
	struct row_step row = { .start_ns = e->time_ns,
				.duration_ns = e->duration_ns,
				.recorded = 1 };
	uint32_t i = sizeof(before) - 1;

	if (!begins_with(e->name, before) || i == e->name.length || e->name.length - i > 18)
		return false;
	for (; i < e->name.length; i++) {
		if (e->name.at[i] < '0' || e->name.at[i] > '9')
			return false;
		row.step = row.step * 10 + (e->name.at[i] - '0');
	}
	part_add(r->part, RECORD_STEP, &row);
	return true;
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

static void add_op(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_op row = {
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.thread = thread_of(e),
		.flops = number(args, ARG_FLOPS, 0),
		.unknown = OP_BYTES_UNKNOWN | (has_arg(args, ARG_FLOPS) ? 0 : OP_FLOPS_UNKNOWN),
	};

	row.site = site_of(r, e->name);
	if (has_arg(args, ARG_DIMS) && args->dims.end)
		row.shape = shape_of(r, args->dims);
	if (has_arg(args, ARG_STACK))
		row.stack = text_id(r, args->stack);
	part_add(r->part, RECORD_OP, &row);
}

static void add_range(struct reader *r, const struct event *e)
{
	struct row_range row = { .start_ns = e->time_ns,
				 .duration_ns = e->duration_ns,
				 .thread = thread_of(e) };

	row.site = site_of(r, e->name);
	part_add(r->part, RECORD_RANGE, &row);
}

static void add_span(struct reader *r, const struct event *e, const struct args *args,
		     uint32_t *domain, const char *domain_name)
{
	struct row_span row = { .start_ns = e->time_ns, .duration_ns = e->duration_ns };

	if (!*domain)
		*domain = part_text(r->part, domain_name);
	row.name = text_id(r, e->name);
	row.thread = row.end_thread = e->class == CLASS_GPU_ANNOTATION ? stream_of(e, args)
								       : thread_of(e);
	row.domain = *domain;
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

	for (uint8_t i = 1; i < sizeof(types) / sizeof(types[0]); i++)
		if (begins_with(e->name, types[i]))
			row.type = i;
	part_add(r->part, RECORD_SYNC, &row);
}

static void add_account(struct reader *r, const struct event *e, uint32_t device, uint64_t bytes,
			uint32_t *metric, const char *metric_name)
{
	struct row_sample row = { .time_ns = e->time_ns, .device = device, .value = (double)bytes };

	if (!*metric)
		*metric = part_text(r->part, metric_name);
	row.metric = *metric;
	part_add(r->part, RECORD_SAMPLE, &row);
}

/* An allocation (bytes above 0) or a free (below) in PyTorch's allocator, which says how much it has
 * after it. Before 2022 no addresses were told; frees then have no allocation that they end. */
static void add_memory(struct reader *r, const struct event *e, const struct args *args)
{
	bool on_host = number(args, ARG_DEVICE_TYPE, 0) == 0;
	int64_t bytes = (int64_t)number(args, ARG_BYTES, 0);
	uint32_t device = number32(args, ARG_DEVICE, 0);

	if (!has_arg(args, ARG_BYTES)) {
		damaged(r, e, "a memory event without its bytes");
		return;
	}
	if (has_arg(args, ARG_ADDRESS)) {
		struct row_memory row = {
			.time_ns = e->time_ns,
			.event = bytes < 0,
			.address = args->number[ARG_ADDRESS],
			.bytes = bytes < 0 ? 0 : (uint64_t)bytes,
			.device = on_host ? -1 : (int32_t)device,
			.thread = thread_of(e),
		};

		part_add(r->part, RECORD_MEMORY, &row);
	} else {
		r->known.without_address++;
	}
	if (on_host)
		return;
	if (has_arg(args, ARG_ALLOCATED))
		add_account(r, e, device, args->number[ARG_ALLOCATED], &r->allocated_metric,
			    "allocated_bytes");
	if (has_arg(args, ARG_RESERVED))
		add_account(r, e, device, args->number[ARG_RESERVED], &r->reserved_metric,
			    "reserved_bytes");
}

static void add_instant(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_mark row = { .time_ns = e->time_ns, .thread = thread_of(e) };

	if (!(e->has & EVENT_TIME)) {
		damaged(r, e, "an event without its time");
	} else if (is_text(e->name, "[memory]")) {
		add_memory(r, e, args);
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
		damaged(r, e, "an arrow without its number or time");
		return;
	}
	if (array_grow(&r->arrows, &r->arrows_capacity, r->n_arrows + 1, sizeof(*r->arrows)) < 0) {
		r->failed = -ENOMEM;
		return;
	}
	r->arrows[r->n_arrows++] = (struct arrow){
		.id = e->id, .time_ns = e->time_ns, .thread = thread_of(e), .end = e->phase == 'f'
	};
}

static bool on_cpu(enum event_class class)
{
	return class == CLASS_RUNTIME || class == CLASS_DRIVER || class == CLASS_OP ||
	       class == CLASS_OLD_OP || class == CLASS_ANNOTATION || class == CLASS_FRAME;
}

static void add_timed(struct reader *r, const struct event *e, const struct args *args)
{
	if (!(e->has & EVENT_TIME) || !(e->has & EVENT_DURATION)) {
		damaged(r, e, "an event without its time or duration");
		return;
	}
	if (e->duration_ns < 0) {
		damaged(r, e, "a duration below zero");
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
		if (add_step(r, e))
			break;
		/* fall through */
	case CLASS_OP:
		add_op(r, e, args);
		break;
	case CLASS_ANNOTATION:
		if (!add_step(r, e))
			add_range(r, e);
		break;
	case CLASS_GPU_ANNOTATION:
		add_span(r, e, args, &r->gpu_domain, "gpu");
		break;
	case CLASS_OVERHEAD:
		add_span(r, e, args, &r->overhead_domain, "overhead");
		break;
	case CLASS_FRAME:
		add_frame(r, e);
		break;
	case CLASS_SYNC:
		add_sync(r, e, args);
		break;
	case CLASS_WHOLE:
		break;
	default:
		part_unknown(r->part, e->category.at, e->category.length, 1);
		break;
	}
}

void rows_add(struct reader *r, const struct event *e, const struct args *args)
{
	if (e->has & EVENT_TIME && !r->known.any_time) {
		r->known.any_time = true;
		r->known.first_ns = e->time_ns;
	}
	switch (e->phase) {
	case 'X':
		if (e->class == CLASS_NONE)
			part_unknown(r->part, "none", 4, 1);
		else
			add_timed(r, e, args);
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
		if (e->category.at)
			part_unknown(r->part, e->category.at, e->category.length, 1);
		else if (e->phase)
			part_unknown(r->part, &e->phase, 1, 1);
		else
			damaged(r, e, "an event without its phase");
		break;
	}
}

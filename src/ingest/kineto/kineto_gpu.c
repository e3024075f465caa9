/* SPDX-License-Identifier: Apache-2.0
 *
 * What rows the work of a device becomes: kernels, the collectives among them, copies and sets.
 */
#include "ingest/kineto/kineto_rows.h"

#include <string.h>

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
	entry = &r->lane->launches[hash >> 32 & (CACHED_LAUNCHES - 1)];
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
	fill_extra(r, e, args, RECORD_COLLECTIVE, &row);
	part_add(r->part, RECORD_COLLECTIVE, &row);
}

void add_kernel(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_kernel row = {
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.stream = stream_of(e, args),
		.device = device_of(r, e, args),
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

	r->known.has_kernels = true;
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
	if (has_arg(args, ARG_EXTRA)) {
		fill_extra(r, e, args, RECORD_LAUNCH, &launch);
		launch.dynamic_shared_bytes -= launch.static_shared_bytes <
							       launch.dynamic_shared_bytes
						       ? launch.static_shared_bytes
						       : launch.dynamic_shared_bytes;
		fill_extra(r, e, args, RECORD_KERNEL, &row);
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
	for (unsigned int i = 1; i < sizeof(memories) / sizeof(memories[0]); i++) {
		size_t length = strlen(memories[i]);

		if ((size_t)(end - p) >= length && !memcmp(p, memories[i], length))
			return (uint8_t)i;
	}
	return 0;
}

/* "Memcpy HtoD (Pinned -> Device)" */
void add_copy(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_copy row = {
		.asynchronous = COPY_NOT_TOLD,
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.bytes = number(args, ARG_BYTES, BYTES_NOT_TOLD),
		.device = device_of(r, e, args),
		.stream = stream_of(e, args),
		.correlation = number(args, ARG_CORRELATION, 0),
		.context = number32(args, ARG_CONTEXT, 0),
		.graph = number32(args, ARG_GRAPH, 0),
		.graph_node = number(args, ARG_GRAPH_NODE, 0),
	};
	const char *p, *end = NULL;

	row.source_device = row.target_device = row.device;
	if (has_arg(args, ARG_FROM_DEVICE))
		row.source_device = device_number(r->devices, number32(args, ARG_FROM_DEVICE, 0));
	if (has_arg(args, ARG_TO_DEVICE))
		row.target_device = device_number(r->devices, number32(args, ARG_TO_DEVICE, 0));
	for (unsigned int i = 1; e->name.at && i < sizeof(copy_kinds) / sizeof(copy_kinds[0]); i++)
		if (memmem(e->name.at, e->name.length, copy_kinds[i], strlen(copy_kinds[i])))
			row.kind = (uint8_t)i;
	p = e->name.at ? memchr(e->name.at, '(', e->name.length) : NULL;
	if (p) {
		end = e->name.at + e->name.length;
		row.source_memory = memory_of(p + 1, end);
	}
	p = p ? memmem(p, (size_t)(end - p), "-> ", 3) : NULL;
	if (p)
		row.target_memory = memory_of(p + 3, end);
	fill_extra(r, e, args, RECORD_COPY, &row);
	part_add(r->part, RECORD_COPY, &row);
}

void add_set(struct reader *r, const struct event *e, const struct args *args)
{
	struct row_set row = {
		.start_ns = e->time_ns,
		.duration_ns = e->duration_ns,
		.bytes = number(args, ARG_BYTES, BYTES_NOT_TOLD),
		.device = device_of(r, e, args),
		.stream = stream_of(e, args),
		.correlation = number(args, ARG_CORRELATION, 0),
		.context = number32(args, ARG_CONTEXT, 0),
		.graph = number32(args, ARG_GRAPH, 0),
		.graph_node = number(args, ARG_GRAPH_NODE, 0),
	};
	const char *p = e->name.at ? memchr(e->name.at, '(', e->name.length) : NULL;

	if (p)
		row.memory = memory_of(p + 1, e->name.at + e->name.length);
	fill_extra(r, e, args, RECORD_SET, &row);
	part_add(r->part, RECORD_SET, &row);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The interned names of a Perfetto trace: strings of the run that are names or values of something in
 * the file, each once; kernels demangled. And the parts that all events of one launch share.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/demangle.h"
#include "exports/perfetto/perfetto.h"
#include "tables/room.h"

#define PACKET_FULL ((size_t)1 << 16) /* bytes of names in a packet */
#define NAME_MOST ((size_t)1 << 16)   /* longer ones are cut */

static int use_string(struct perfetto *p, uint32_t id, uint8_t how)
{
	size_t old = p->used_capacity;

	if (id >= p->used_capacity) {
		if (array_grow(&p->used, &p->used_capacity, (size_t)id + 1, 1) < 0)
			return -ENOMEM;
		memset(p->used + old, 0, p->used_capacity - old);
	}
	if (id >= p->n_used)
		p->n_used = (size_t)id + 1;
	p->used[id] |= how;
	return 0;
}

/* Strings that name events; others are values. Names of tracks are written as they are. */
static bool column_names_events(unsigned int kind, const char *column)
{
	if (perfetto_is_rows(kind))
		return false;
	return !strcmp(column, "name") || (kind == RECORD_MARK && !strcmp(column, "text"));
}

/* Every string and site that any row refers to. */
static int use_columns(struct perfetto *p, unsigned int kind)
{
	const struct kind_desc *desc = kind_desc(kind);
	struct run *run = (struct run *)p->run;
	size_t rows = *room_rows(run, kind);
	unsigned int slot = 2;
	int r = 0;

	for (unsigned int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		const uint32_t *ids = *(uint32_t **)room_slot(run, kind, slot);
		uint8_t how = column_names_events(kind, column->name) ? USED_AS_NAME
								      : USED_AS_VALUE;

		slot += column_is_list(column) ? 2 : 1;
		if (!ids || (column->refers != RECORD_STRING && column->refers != RECORD_SITE))
			continue;
		for (size_t i = 0; r == 0 && i < rows; i++) {
			if (i && ids[i] == ids[i - 1])
				continue;
			if (column->refers == RECORD_SITE)
				r = use_string(p, run_site(run, ids[i]).name, USED_AS_NAME);
			else if (ids[i] >= p->n_used || !(p->used[ids[i]] & how))
				r = use_string(p, ids[i], how);
		}
	}
	return r;
}

/* A packet of names that is being filled. */
struct packet {
	uint8_t *start, *packet, *interned, *at;
};

static int open_packet(struct perfetto *p, struct packet *packet)
{
	packet->start = perfetto_room(p, PACKET_FULL + 3 * NAME_MOST + 64);
	if (!packet->start)
		return -ENOMEM;
	packet->at = perfetto_packet(packet->start, &packet->packet, FLAG_NEEDS_STATE);
	packet->at = packet->interned = proto_open(packet->at, PACKET_INTERNED);
	return 0;
}

static void close_packet(struct perfetto *p, struct packet *packet)
{
	perfetto_commit(p, proto_close(packet->packet, proto_close(packet->interned, packet->at)));
}

static int put_name(struct perfetto *p, struct packet *packet, uint32_t table, uint64_t iid,
		    const char *text)
{
	uint8_t *content;

	if ((size_t)(packet->at - packet->start) > PACKET_FULL) {
		close_packet(p, packet);
		if (open_packet(p, packet) < 0)
			return -ENOMEM;
	}
	content = proto_open(packet->at, table);
	packet->at = proto_uint(content, 1, iid);
	packet->at = proto_close(content, perfetto_text(packet->at, 2, text, NAME_MOST));
	return 0;
}

static int put_fixed_names(struct perfetto *p, struct packet *packet)
{
	static const char *const categories[CATEGORIES] = {
#define KIND(NAME, table, family, moment) #table,
		STACK_KINDS_LIST(KIND)
#undef KIND
			"record",
		"note"
	};
	static const char *const args[PERFETTO_ARG_COUNT] = {
#define ARG(name) #name,
		PERFETTO_ARGS(ARG)
#undef ARG
	};
	int r = put_name(p, packet, INTERNED_EVENT_NAMES, NO_NAME_IID, "(no name)");

	for (uint64_t c = 0; r == 0 && c < CATEGORIES; c++)
		r = put_name(p, packet, INTERNED_CATEGORIES, c + 1, categories[c]);
	for (uint64_t a = 0; r == 0 && a < PERFETTO_ARG_COUNT; a++)
		r = put_name(p, packet, INTERNED_ANNOTATION_NAMES, a + 1, args[a]);
	for (unsigned int kind = 1; r == 0 && kind < RECORD_KIND_LIMIT; kind++) {
		const struct kind_desc *desc = kind_desc(kind);

		for (unsigned int c = 0; r == 0 && desc && c < desc->n_columns; c++)
			r = put_name(p, packet, INTERNED_ANNOTATION_NAMES,
				     PERFETTO_COLUMN_IID(kind, c), desc->columns[c].name);
	}
	return r;
}

static int put_strings(struct perfetto *p, struct packet *packet)
{
	int r = 0;

	for (size_t id = 1; r == 0 && id < p->n_used; id++) {
		const char *text = p->used[id] ? run_string(p->run, (uint32_t)id) : "";

		if (p->used[id] & USED_AS_NAME)
			r = put_name(p, packet, INTERNED_EVENT_NAMES,
				     perfetto_name_iid((uint32_t)id), *text ? text : "(no name)");
		if (r == 0 && p->used[id] & USED_AS_VALUE)
			r = put_name(p, packet, INTERNED_STRINGS, id, text);
	}
	return r;
}

/* Iids of a launch: behind the strings. */
static uint64_t launch_iid(const struct perfetto *p, size_t launch)
{
	return p->n_used + 2 + 2 * launch;
}

static uint8_t *annotate_text(uint8_t *at, enum perfetto_arg arg, uint64_t iid)
{
	return perfetto_annotate(at, arg + UINT64_C(1), ANNOTATION_STRING_IID, iid);
}

static int put_launch(struct perfetto *p, struct packet *packet, size_t l)
{
	struct row_launch launch = run_launch(p->run, (uint32_t)l);
	uint64_t iid = launch_iid(p, l);
	char grid[48], block[48], *name = NULL;
	uint8_t *at;
	int r = demangled(run_string(p->run, launch.name), &name);

	if (r < 0)
		return r;
	snprintf(grid, sizeof(grid), "[%u, %u, %u]", launch.grid_x, launch.grid_y, launch.grid_z);
	snprintf(block, sizeof(block), "[%u, %u, %u]", launch.block_x, launch.block_y,
		 launch.block_z);
	r = put_name(p, packet, INTERNED_EVENT_NAMES, iid, *name ? name : "(no name)");
	free(name);
	if (r == 0)
		r = put_name(p, packet, INTERNED_STRINGS, iid, grid);
	if (r == 0)
		r = put_name(p, packet, INTERNED_STRINGS, iid + 1, block);
	at = r == 0 ? buf_reserve(&p->launch_bytes, PERFETTO_EVENT_MOST) : NULL;
	if (!at)
		return -ENOMEM;
	at = proto_uint(at, EVENT_NAME_IID, iid);
	/* 0: the file that the run was made from does not tell. */
	if (launch.grid_x)
		at = annotate_text(at, ARG_grid, iid);
	if (launch.block_x)
		at = annotate_text(at, ARG_block, iid + 1);
	if (launch.registers)
		at = perfetto_arg(at, ARG_registers, launch.registers);
	if (launch.static_shared_bytes)
		at = perfetto_arg(at, ARG_static_shared_bytes, launch.static_shared_bytes);
	if (launch.dynamic_shared_bytes)
		at = perfetto_arg(at, ARG_dynamic_shared_bytes, launch.dynamic_shared_bytes);
	p->launch_bytes.size = (size_t)(at - (uint8_t *)p->launch_bytes.data);
	return 0;
}

static int put_launches(struct perfetto *p, struct packet *packet)
{
	const struct table_kernel *kernel = &p->run->kernel;
	int r = 0;

	for (size_t i = 0; i < kernel->n; i++)
		if (kernel->launch[i] >= p->n_launches)
			p->n_launches = (size_t)kernel->launch[i] + 1;
	p->launch_at = calloc(p->n_launches + 1, sizeof(*p->launch_at));
	if (!p->launch_at)
		return -ENOMEM;
	for (size_t l = 0; r == 0 && l < p->n_launches; l++) {
		r = put_launch(p, packet, l);
		p->launch_at[l + 1] = (uint32_t)p->launch_bytes.size;
	}
	return r;
}

int perfetto_names(struct perfetto *p)
{
	struct packet packet;
	int r = 0;

	for (unsigned int kind = RECORD_LAUNCH + 1; r == 0 && kind < RECORD_KIND_LIMIT; kind++)
		if (kind_desc(kind))
			r = use_columns(p, kind);
	if (r == 0)
		r = open_packet(p, &packet);
	if (r == 0)
		r = put_fixed_names(p, &packet);
	if (r == 0)
		r = put_strings(p, &packet);
	if (r == 0)
		r = put_launches(p, &packet);
	if (r == 0)
		close_packet(p, &packet);
	return r;
}

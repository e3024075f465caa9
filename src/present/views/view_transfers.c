/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of copies and sets.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/transfers/transfers.h"

static const struct grid_column columns[] = {
	{ .key = "kind", .title = "kind", .unit = GRID_TEXT },
	{ .key = "memory", .title = "memory", .unit = GRID_TEXT },
	{ .key = "src", .title = "from", .unit = GRID_TEXT },
	{ .key = "dst", .title = "to", .unit = GRID_TEXT },
	{ .key = "count", .title = "count", .unit = GRID_INT },
	{ .key = "bytes", .title = "bytes", .unit = GRID_BYTES },
	{ .key = "time_ns", .title = "time", .unit = GRID_NS },
	{ .key = "bandwidth_bytes_per_s", .title = "per s", .unit = GRID_BYTES },
	{ .key = "overlap_pct", .title = "overlap", .unit = GRID_PCT },
	{ .key = "small", .unit = GRID_INT },
	{ .key = "asynchronous", .unit = GRID_INT },
	{ .key = "untimed", .unit = GRID_INT },
	{ .key = "limit_bytes_per_s", .unit = GRID_BYTES },
	{ .key = "limit_pct", .unit = GRID_PCT },
	{ .key = "bytes_not_told", .unit = GRID_INT },
};

/* Where some tell their bytes and others do not, the sum of the former. */
static struct cell bytes_cell(uint64_t bytes, uint64_t not_told, uint64_t count)
{
	return not_told && not_told == count ? cell_absent(NOT_IN_FILE) : cell_uint(bytes);
}

static int fill(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < answer_transfers(scene->answers)->n; i++) {
		const struct transfer_row *row = &answer_transfers(scene->answers)->rows[i];
		struct cell *cell = grid_add(grid, row);
		bool timed = row->count > row->untimed;

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(row->kind);
		*cell++ = cell_text(row->memory);
		*cell++ = row->is_set ? cell_absent("a set has no source")
				      : cell_text(row->src_name);
		*cell++ = cell_text(row->dst_name);
		*cell++ = cell_uint(row->count);
		*cell++ = bytes_cell(row->bytes, row->bytes_not_told, row->count);
		*cell++ = timed ? cell_int(row->time_ns) : cell_absent("none was timed");
		*cell++ = cell_value(row->bandwidth_bytes_per_s);
		*cell++ = cell_value(row->overlap_pct);
		*cell++ = cell_uint(row->small);
		*cell++ = row->is_set	  ? cell_absent("sets do not say")
			  : row->not_told ? cell_absent(NOT_IN_FILE)
					  : cell_uint(row->asynchronous);
		*cell++ = cell_uint(row->untimed);
		*cell++ = cell_value(row->limit_bytes_per_s);
		*cell++ = cell_value(row->limit_pct);
		*cell++ = cell_uint(row->bytes_not_told);
	}
	return 0;
}

static void staged_json(struct json *json, const struct transfers *t)
{
	json_key(json, "staged");
	json_object(json);
	json_key(json, "count");
	json_uint(json, t->staged_count);
	json_key(json, "bytes");
	json_uint(json, t->staged_bytes);
	json_key(json, "pairs");
	json_array(json);
	for (size_t i = 0; i < t->n_staged; i++) {
		const struct staged_row *row = &t->staged[i];

		json_object_line(json);
		json_key(json, "src");
		json_uint(json, row->src);
		json_key(json, "dst");
		json_uint(json, row->dst);
		json_key(json, "count");
		json_uint(json, row->count);
		json_key(json, "bytes");
		json_uint(json, row->bytes);
		json_key(json, "time_ns");
		json_int(json, row->time_ns);
		json_object_end(json);
	}
	json_array_end(json);
	json_object_end(json);
}

static void put_bytes(struct json *json, const char *key, uint64_t bytes, uint64_t not_told,
		      uint64_t count)
{
	struct cell cell = bytes_cell(bytes, not_told, count);

	grid_json_cell(json, key, &cell);
}

static void total(const struct scene *scene, struct json *json)
{
	const struct transfers *t = answer_transfers(scene->answers);

	json_key(json, "count");
	json_uint(json, t->count);
	put_bytes(json, "bytes", t->bytes, t->bytes_not_told, t->count);
	json_key(json, "bytes_not_told");
	json_uint(json, t->bytes_not_told);
	json_key(json, "time_ns");
	json_int(json, t->time_ns);
	json_key(json, "small");
	json_uint(json, t->small);
	json_key(json, "small_limit_bytes");
	json_uint(json, TRANSFER_SMALL_BYTES);
	json_key(json, "untimed");
	json_uint(json, t->untimed);
	json_key(json, "sets");
	json_uint(json, t->sets);
	put_bytes(json, "set_bytes", t->set_bytes, t->set_bytes_not_told, t->sets);
	json_key(json, "set_bytes_not_told");
	json_uint(json, t->set_bytes_not_told);
	json_key(json, "set_time_ns");
	json_int(json, t->set_time_ns);
	json_key(json, "sets_untimed");
	json_uint(json, t->sets_untimed);
	json_key(json, "without_call");
	json_uint(json, t->without_call);
	staged_json(json, t);
}

static const char *bytes_text(struct format *text, uint64_t bytes, uint64_t not_told,
			      uint64_t count)
{
	*text = format_bytes((double)bytes);
	return not_told && not_told == count ? "n/a bytes" : text->text;
}

static void sums(const struct transfers *t, FILE *out)
{
	struct format bytes;

	fprintf(out, "  copies: %s, %s in %s, %s of them below %d bytes\n",
		format_count((double)t->count).text,
		bytes_text(&bytes, t->bytes, t->bytes_not_told, t->count),
		format_ns((double)t->time_ns).text, format_count((double)t->small).text,
		TRANSFER_SMALL_BYTES);
	if (t->sets)
		fprintf(out, "  sets: %s, %s in %s\n", format_count((double)t->sets).text,
			bytes_text(&bytes, t->set_bytes, t->set_bytes_not_told, t->sets),
			format_ns((double)t->set_time_ns).text);
	if (t->bytes_not_told || t->set_bytes_not_told)
		fprintf(out, "  without bytes: copies %" PRIu64 ", sets %" PRIu64 "; %s\n",
			t->bytes_not_told, t->set_bytes_not_told, NOT_IN_FILE);
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].limit_pct.known)
			fprintf(out, "  against the limit: %s %s, %s of %s/s\n", t->rows[i].kind,
				t->rows[i].memory, format_pct(t->rows[i].limit_pct.v).text,
				format_bytes(t->rows[i].limit_bytes_per_s.v).text);
	for (size_t i = 0; i < t->n_staged; i++)
		fprintf(out, "  staged through the host: gpu %u to gpu %u, %s moves, %s in %s\n",
			t->staged[i].src, t->staged[i].dst,
			format_count((double)t->staged[i].count).text,
			format_bytes((double)t->staged[i].bytes).text,
			format_ns((double)t->staged[i].time_ns).text);
	if (t->untimed || t->sets_untimed)
		fprintf(out, "  without times: %" PRIu64 "; they count, their time does not\n",
			t->untimed + t->sets_untimed);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct transfers *t = answer_transfers(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r = 0;

	if (!scene_has_device(scene->run)) {
		scene_no_device(scene, out);
		return 0;
	}
	scene_sampled(scene, "", out);
	if (grid->n) {
		r = grid_print(grid, limit, &layout, out);
		scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
		sums(t, out);
	} else {
		fputs("  no copies or sets in this run or window\n", out);
	}
	if (t->without_call)
		fprintf(out, "  left out: %" PRIu64 " whose call was not recorded\n",
			t->without_call);
	return r;
}

const struct section section_transfers = {
	.name = "transfers",
	.sql = "transfer_summary",
	.reads = READS(&subject_transfers, &subject_coverage),
	.device = true,
	.grid = fill,
	.total = total,
	.text = text,
};

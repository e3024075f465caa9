/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope dump: the chunks of a shard, for those who work on the format.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/text/json_write.h"
#include "base/text/text_table.h"
#include "cmd/options/common_options.h"
#include "cmd/terminal/output.h"
#include "trace/shard.h"

struct values {
	bool json;
};

static const struct option_desc own[] = {
	JSON_OPTION(struct values, json),
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope dump a.mscope/0-4711.mst", "Every chunk: offset, kind, records, columns." },
	{ NULL, NULL },
};

static const char *kind_name(unsigned int kind)
{
	const struct kind_desc *desc = kind_desc(kind);

	if (desc)
		return desc->name;
	return kind == CHUNK_CHECKPOINT ? "checkpoint" : kind == CHUNK_INDEX ? "index" : "unknown";
}

static const char *column_name(unsigned int kind, unsigned int id)
{
	const struct kind_desc *desc = kind_desc(kind);

	for (unsigned int i = 0; desc && i < desc->n_columns; i++)
		if (desc->columns[i].id == id)
			return desc->columns[i].name;
	return "unknown";
}

static const char *state_name(const struct shard_reader *reader)
{
	switch (atomic_load(&reader->header.live.closed)) {
	case SHARD_CLEAN:
		return "closed";
	case SHARD_SEALED:
		return "sealed after a crash";
	default:
		return reader->alive ? "being written" : "crashed";
	}
}

static bool has_columns(const struct chunk *chunk)
{
	return chunk->header.kind != CHUNK_CHECKPOINT && chunk->header.kind != CHUNK_INDEX;
}

static void dump_text(const struct shard_reader *reader, struct shard_scratch *scratch, FILE *out)
{
	const struct shard_header *h = &reader->header;

	text_put(out, reader->path, true);
	fprintf(out, ": format %u.%u, rank %" PRIu32 ", pid %" PRIu32 ", %" PRIu64 " bytes, %s\n",
		h->major, h->minor, h->rank, h->pid, reader->file_bytes, state_name(reader));
	fprintf(out, "%zu chunks, %" PRIu64 " damaged, %" PRIu64 " bytes cut off\n",
		reader->n_chunks, reader->corrupt_chunks, reader->cut_bytes);
	for (size_t i = 0; i < reader->n_chunks; i++) {
		const struct chunk *c = &reader->chunks[i];
		struct column_view views[CHUNK_MAX_COLUMNS];
		unsigned int n = 0;
		int r = 0;

		fprintf(out, "\n%s%-10" PRIu64 " %-10s %6" PRIu32 " records %8" PRIu32 " bytes",
			c->salvaged ? "salvaged+" : "", c->offset, kind_name(c->header.kind),
			c->header.n_records, c->header.payload_bytes);
		if (c->header.time_min_ns || c->header.time_max_ns)
			fprintf(out, "  %" PRId64 "..%" PRId64 " ns", c->header.time_min_ns,
				c->header.time_max_ns);
		fputc('\n', out);
		if (has_columns(c))
			r = shard_chunk_columns(reader, scratch, c, views, &n);
		if (r < 0)
			fprintf(out, "  damaged: %s\n", strerror(-r));
		for (unsigned int k = 0; r == 0 && k < n; k++)
			fprintf(out, "  %-16s %8" PRIu32 " values %8zu bytes\n",
				column_name(c->header.kind, views[k].entry.id),
				views[k].entry.n_values, views[k].stored_bytes);
	}
}

static void dump_chunk_json(struct json *json, const struct shard_reader *reader,
			    struct shard_scratch *scratch, const struct chunk *c)
{
	struct column_view views[CHUNK_MAX_COLUMNS];
	unsigned int n = 0;
	int r = 0;

	json_object(json);
	json_key(json, "offset");
	json_uint(json, c->offset);
	json_key(json, "salvaged");
	json_bool(json, c->salvaged);
	json_key(json, "kind");
	json_string(json, kind_name(c->header.kind));
	json_key(json, "kind_id");
	json_uint(json, c->header.kind);
	json_key(json, "records");
	json_uint(json, c->header.n_records);
	json_key(json, "payload_bytes");
	json_uint(json, c->header.payload_bytes);
	json_key(json, "time_min_ns");
	json_int(json, c->header.time_min_ns);
	json_key(json, "time_max_ns");
	json_int(json, c->header.time_max_ns);
	if (has_columns(c))
		r = shard_chunk_columns(reader, scratch, c, views, &n);
	json_key(json, "damaged");
	json_bool(json, r < 0);
	json_key(json, "columns");
	json_array(json);
	for (unsigned int k = 0; r == 0 && k < n; k++) {
		json_object_line(json);
		json_key(json, "name");
		json_string(json, column_name(c->header.kind, views[k].entry.id));
		json_key(json, "values");
		json_uint(json, views[k].entry.n_values);
		json_key(json, "bytes");
		json_uint(json, views[k].stored_bytes);
		json_object_end(json);
	}
	json_array_end(json);
	json_object_end(json);
}

static int dump_json(const struct shard_reader *reader, struct shard_scratch *scratch, FILE *out)
{
	struct json json;

	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, "moescope/dump/1");
	json_key(&json, "path");
	json_string(&json, reader->path);
	json_key(&json, "state");
	json_string(&json, state_name(reader));
	json_key(&json, "file_bytes");
	json_uint(&json, reader->file_bytes);
	json_key(&json, "corrupt_chunks");
	json_uint(&json, reader->corrupt_chunks);
	json_key(&json, "cut_bytes");
	json_uint(&json, reader->cut_bytes);
	json_key(&json, "rows");
	json_array(&json);
	for (size_t i = 0; i < reader->n_chunks; i++)
		dump_chunk_json(&json, reader, scratch, &reader->chunks[i]);
	json_array_end(&json);
	json_object_end(&json);
	return json_finish(&json, NULL) < 0 ? fail("no memory for the output.") : EXIT_OK;
}

static int run_dump(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct shard_scratch scratch = { 0 };
	struct shard_reader *reader;
	struct err err = { "" };
	int r = shard_open(inv->args[0], &reader, &err);

	if (r < 0)
		return fail("%s", err.message[0] ? err.message : strerror(-r));
	if (values->json) {
		r = dump_json(reader, &scratch, inv->out->file);
	} else {
		dump_text(reader, &scratch, inv->out->file);
		r = EXIT_OK;
	}
	if (reader->trouble.message[0])
		say("%s", reader->trouble.message);
	shard_scratch_release(&scratch);
	shard_reader_free(reader);
	return r;
}

const struct command cmd_dump = {
	.name = "dump",
	.purpose = PURPOSE_HELP,
	.summary = "the chunks of a shard, for developers",
	.words = "SHARD",
	.description = "Lists the chunks of a shard file (*.mst in a run directory): offset, kind, "
		       "records, time span and the bytes of each column.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.min_args = 1,
	.completion = COMPLETE_FILE,
	.run = run_dump,
};

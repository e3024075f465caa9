/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows to chunks; see encoder.h. Runs on the owner's thread, never on a recording one.
 */
#include "trace/encoder.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"

void encoder_init(struct encoder *encoder, uint32_t first_site, uint32_t first_launch,
		  uint64_t next_sequence)
{
	memset(encoder, 0, sizeof(*encoder));
	encoder->sites.first = first_site;
	encoder->launches.first = first_launch;
	encoder->next_sequence = encoder->committed_sequence = next_sequence;
	encoder->time_min_ns = INT64_MAX;
	encoder->time_max_ns = INT64_MIN;
}

static void dictionary_release(struct dictionary *dictionary)
{
	buf_release(&dictionary->rows);
	hash_map_release(&dictionary->map);
}

void encoder_release(struct encoder *encoder)
{
	codec_release(&encoder->codec);
	for (int k = 0; k < RECORD_KIND_LIMIT; k++) {
		free(encoder->pending[k].block);
		free(encoder->pending[k].columns);
		for (size_t l = 0; l < sizeof(encoder->pending[k].lists) / sizeof(struct buf); l++)
			buf_release(&encoder->pending[k].lists[l]);
	}
	dictionary_release(&encoder->sites);
	dictionary_release(&encoder->launches);
	buf_release(&encoder->out);
	buf_release(&encoder->entries);
	buf_release(&encoder->data);
}

static bool is_list(const struct column_desc *column)
{
	return column->count_column >= 0;
}

static uint64_t row_value(const struct column_desc *column, const char *row)
{
	uint64_t value;

	column_gather(column->type, row + column->row_offset, 0, 1, &value);
	return value;
}

/* Appends the lists of one row to those already pending. */
static int append_lists(struct pending *pending, const struct kind_desc *desc, const char *row)
{
	int list = 0;

	for (int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		const char *from;
		uint64_t n;
		uint64_t *to;

		if (!is_list(column))
			continue;
		memcpy(&from, row + column->row_offset, sizeof(from));
		n = row_value(&desc->columns[column->count_column], row);
		to = buf_reserve(&pending->lists[list], (n + 1) * sizeof(*to));
		if (!to) {
			pending->lists[list].failed = false;
			return -ENOMEM;
		}
		column_gather(column->type, from, column_type_size(column->type), n, to);
		pending->lists[list++].size += n * sizeof(*to);
	}
	return 0;
}

/* Makes room for `need` rows in the columns of a kind. */
static int grow_columns(struct pending *pending, const struct kind_desc *desc, size_t need)
{
	size_t capacity = pending->capacity ? pending->capacity : ENCODER_BLOCK_ROWS;
	uint64_t *columns;

	if (need <= pending->capacity)
		return 0;
	while (capacity < need)
		capacity *= 2;
	columns = malloc(desc->n_columns * capacity * sizeof(*columns));
	if (!columns)
		return -ENOMEM;
	for (unsigned int c = 0; c < desc->n_columns && pending->n; c++)
		memcpy(columns + c * capacity, pending->columns + c * pending->capacity,
		       pending->n * sizeof(*columns));
	free(pending->columns);
	pending->columns = columns;
	pending->capacity = capacity;
	return 0;
}

static int block_to_columns(struct pending *pending, const struct kind_desc *desc)
{
	int r = grow_columns(pending, desc, pending->n + pending->in_block);

	if (r < 0)
		return r;
	for (int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];

		if (!is_list(column))
			column_gather(column->type, pending->block + column->row_offset,
				      desc->row_size, pending->in_block,
				      pending->columns + (size_t)c * pending->capacity +
					      pending->n);
	}
	pending->n += pending->in_block;
	pending->in_block = 0;
	return 0;
}

/* The time span of the pending rows; before the columns are encoded, which destroys them. */
static void time_span(const struct pending *pending, const struct kind_desc *desc,
		      struct chunk_header *header)
{
	int64_t min = INT64_MAX, max = INT64_MIN;
	const uint64_t *start, *duration = NULL;

	if (desc->time_column < 0)
		return;
	start = pending->columns + (size_t)desc->time_column * pending->capacity;
	if (desc->duration_column >= 0)
		duration = pending->columns + (size_t)desc->duration_column * pending->capacity;
	for (uint32_t i = 0; i < pending->n; i++) {
		int64_t from = (int64_t)start[i];
		int64_t to = duration ? (int64_t)(start[i] + duration[i]) : from;

		min = from < min ? from : min;
		max = to > max ? to : max;
	}
	header->time_min_ns = min;
	header->time_max_ns = max;
}

static int encode_columns(struct encoder *encoder, struct pending *pending,
			  const struct kind_desc *desc)
{
	const uint64_t *durations = NULL;
	int list = 0;

	/* Encoding a column destroys it; a start column comes before its durations in every kind,
	 * so these are still there when it needs them. */
	if (desc->duration_column >= 0)
		durations = pending->columns + (size_t)desc->duration_column * pending->capacity;
	for (int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		uint64_t *values = pending->columns + (size_t)c * pending->capacity;
		size_t n = pending->n;
		int r;

		if (is_list(column)) {
			values = (uint64_t *)pending->lists[list].data;
			n = pending->lists[list++].size / sizeof(*values);
		}
		r = codec_encode(&encoder->codec, column, values, durations, n, &encoder->entries,
				 &encoder->data);
		if (r < 0)
			return r;
	}
	return 0;
}

static void pending_reset(struct pending *pending)
{
	pending->n = pending->in_block = 0;
	for (size_t l = 0; l < sizeof(pending->lists) / sizeof(pending->lists[0]); l++)
		pending->lists[l].size = 0;
}

static int emit_chunk(struct encoder *encoder, struct chunk_header *header, const struct buf *a,
		      const struct buf *b)
{
	size_t before = encoder->out.size, bytes = a->size + b->size;
	uint32_t crc;

	if (bytes > CHUNK_MAX_PAYLOAD)
		return -EFBIG;
	header->magic = CHUNK_MAGIC;
	header->payload_bytes = (uint32_t)bytes;
	header->sequence = encoder->next_sequence;
	crc = crc32c(0, a->data, a->size);
	header->payload_crc = crc32c(crc, b->data, b->size);
	header->header_crc = crc32c(0, header, offsetof(struct chunk_header, header_crc));
	buf_append(&encoder->out, header, sizeof(*header));
	buf_append(&encoder->out, a->data, a->size);
	buf_append(&encoder->out, b->data, b->size);
	if (encoder->out.failed) {
		encoder->out.failed = false;
		encoder->out.size = before;
		return -ENOMEM;
	}
	encoder->next_sequence++;
	return 0;
}

static int encode_chunk(struct encoder *encoder, enum record_kind kind)
{
	struct pending *pending = &encoder->pending[kind];
	const struct kind_desc *desc = kind_desc(kind);
	struct chunk_header header = { .kind = (uint16_t)kind, .n_columns = desc->n_columns };
	int r = block_to_columns(pending, desc);

	if (r < 0)
		return r;
	header.n_records = pending->n;
	encoder->entries.size = encoder->data.size = 0;
	encoder->entries.failed = encoder->data.failed = false;
	time_span(pending, desc, &header);
	r = encode_columns(encoder, pending, desc);
	if (r < 0)
		return r;
	if (desc->time_column >= 0) {
		if (header.time_min_ns < encoder->time_min_ns)
			encoder->time_min_ns = header.time_min_ns;
		if (header.time_max_ns > encoder->time_max_ns)
			encoder->time_max_ns = header.time_max_ns;
	}
	r = emit_chunk(encoder, &header, &encoder->entries, &encoder->data);
	if (r < 0)
		return r;
	pending_reset(pending);
	return 0;
}

static int append_with_lists(struct pending *pending, const struct kind_desc *desc, const void *row)
{
	size_t sizes[2] = { pending->lists[0].size, pending->lists[1].size };
	int r = append_lists(pending, desc, row);

	if (r < 0) {
		pending->lists[0].size = sizes[0];
		pending->lists[1].size = sizes[1];
	}
	return r;
}

/* Makes room in the block: moves it into the columns, and those into a chunk when full. */
static int make_block_room(struct encoder *encoder, enum record_kind kind)
{
	struct pending *pending = &encoder->pending[kind];
	const struct kind_desc *desc = kind_desc(kind);
	size_t list_bytes = pending->lists[0].size + pending->lists[1].size;

	if (!pending->block) {
		pending->block = malloc((size_t)ENCODER_BLOCK_ROWS * desc->row_size);
		if (!pending->block)
			return -ENOMEM;
		pending->desc = desc;
		pending->block_rows = ENCODER_BLOCK_ROWS;
		return 0;
	}
	if (pending->n + pending->in_block >= ENCODER_CHUNK_ROWS ||
	    list_bytes >= (CHUNK_MAX_VALUES / 4) * sizeof(uint64_t))
		return encode_chunk(encoder, kind);
	return block_to_columns(pending, desc);
}

int encoder_append(struct encoder *encoder, enum record_kind kind, const void *row)
{
	struct pending *pending = &encoder->pending[kind];
	const struct kind_desc *desc;
	int r;

	if (pending->in_block == pending->block_rows) {
		r = make_block_room(encoder, kind);
		if (r < 0)
			return r;
	}
	desc = pending->desc;
	if (desc->n_lists) {
		r = append_with_lists(pending, desc, row);
		if (r < 0)
			return r;
	}
	memcpy(pending->block + (size_t)pending->in_block * desc->row_size, row, desc->row_size);
	pending->in_block++;
	encoder->rows++;
	return 0;
}

/* Rows start with their id; everything behind it is the key. */
static uint32_t dictionary_id(struct dictionary *dictionary, void *row, size_t row_size)
{
	const char *key = (char *)row + sizeof(uint32_t);
	size_t key_size = row_size - sizeof(uint32_t);
	uint32_t hash = hash_bytes(key, key_size), number, id;
	struct hash_walk walk = hash_map_walk(&dictionary->map, hash);

	while ((number = hash_map_next(&dictionary->map, &walk)))
		if (!memcmp(dictionary->rows.data + number * row_size - key_size, key, key_size))
			return dictionary->first + number - 1;
	if (hash_map_reserve(&dictionary->map, dictionary->map.n + 1) < 0)
		return 0;
	id = dictionary->first + dictionary->n;
	memcpy(row, &id, sizeof(id));
	buf_append(&dictionary->rows, row, row_size);
	if (dictionary->rows.failed) {
		dictionary->rows.failed = false;
		return 0;
	}
	hash_map_add(&dictionary->map, hash, ++dictionary->n);
	return id;
}

uint32_t encoder_site(struct encoder *encoder, const struct row_site *site)
{
	struct row_site row;

	memset(&row, 0, sizeof(row)); /* padding is part of the key */
	row.name = site->name;
	row.layer = site->layer;
	row.expert = site->expert;
	row.phase = site->phase;
	return dictionary_id(&encoder->sites, &row, sizeof(row));
}

uint32_t encoder_launch(struct encoder *encoder, const struct row_launch *launch)
{
	struct row_launch row = *launch; /* all 32-bit fields: no padding */

	return dictionary_id(&encoder->launches, &row, sizeof(row));
}

static int append_new(struct encoder *encoder, enum record_kind kind,
		      const struct dictionary *dictionary)
{
	size_t row_size = kind_desc(kind)->row_size;

	for (uint32_t i = dictionary->committed; i < dictionary->n; i++) {
		int r = encoder_append(encoder, kind, dictionary->rows.data + i * row_size);

		if (r < 0)
			return r;
	}
	return 0;
}

int encoder_finish(struct encoder *encoder)
{
	int r = append_new(encoder, RECORD_SITE, &encoder->sites);

	if (r == 0)
		r = append_new(encoder, RECORD_LAUNCH, &encoder->launches);
	for (int kind = 1; r == 0 && kind < RECORD_KIND_LIMIT; kind++)
		if (encoder->pending[kind].n + encoder->pending[kind].in_block)
			r = encode_chunk(encoder, (enum record_kind)kind);
	return r;
}

int encoder_raw_chunk(struct encoder *encoder, uint16_t kind, const void *payload, size_t bytes,
		      uint32_t n_records)
{
	struct chunk_header header = { .kind = kind, .n_records = n_records };
	struct buf body = { .data = (char *)payload, .size = bytes }, none = { 0 };

	return emit_chunk(encoder, &header, &body, &none);
}

void encoder_adopt(struct encoder *encoder, struct buf *chunks)
{
	size_t at = 0;

	while (at + sizeof(struct chunk_header) <= chunks->size) {
		struct chunk_header header;

		memcpy(&header, chunks->data + at, sizeof(header));
		header.sequence = encoder->next_sequence++;
		header.header_crc = crc32c(0, &header, offsetof(struct chunk_header, header_crc));
		memcpy(chunks->data + at, &header, sizeof(header));
		at += sizeof(header) + header.payload_bytes;
	}
}

void encoder_commit(struct encoder *encoder)
{
	encoder->sites.committed = encoder->sites.n;
	encoder->launches.committed = encoder->launches.n;
	encoder->committed_sequence = encoder->next_sequence;
	encoder->out.size = 0;
	encoder->rows = 0;
	encoder->time_min_ns = INT64_MAX;
	encoder->time_max_ns = INT64_MIN;
}

void encoder_rollback(struct encoder *encoder)
{
	for (int k = 0; k < RECORD_KIND_LIMIT; k++)
		pending_reset(&encoder->pending[k]);
	encoder->next_sequence = encoder->committed_sequence;
	encoder->out.size = 0;
	encoder->rows = 0;
	encoder->time_min_ns = INT64_MAX;
	encoder->time_max_ns = INT64_MIN;
}

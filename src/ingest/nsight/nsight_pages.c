/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables from the pages of an SQLite file (https://www.sqlite.org/fileformat2.html); see
 * nsight_scan.h. Every size and offset is checked against the page and the file: they are as
 * trustworthy as whoever sent the file.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/read_at.h"
#include "ingest/nsight/nsight_scan.h"

#define LEAF 13
#define INTERIOR 5
#define DEPTH_MAX 20
#define FILE_HEADER_BYTES 100
#define RUN_BYTES ((size_t)256 << 10) /* read at once; fits a second-level cache, and any page */

static uint32_t be16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t be32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return be32toh(v);
}

/* A varint of at most nine bytes; NULL: it goes past the end. */
static inline const uint8_t *varint(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	if (p < end && *p < 0x80) {
		*ret = *p;
		return p + 1;
	}
	for (int i = 0; i < 8; i++) {
		if (p >= end)
			return NULL;
		v = v << 7 | (*p & 0x7f);
		if (*p++ < 0x80) {
			*ret = v;
			return p;
		}
	}
	if (p >= end)
		return NULL;
	*ret = v << 8 | *p;
	return p + 1;
}

/* False: there are not that many bytes. */
static bool read_bytes(const struct scan_file *file, uint64_t offset, size_t size, uint8_t *to)
{
	if (offset > file->size || size > file->size - offset)
		return false;
	if (file->fd < 0) {
		memcpy(to, file->bytes + offset, size);
		return true;
	}
	return read_at(file->fd, to, size, offset) == (ssize_t)size;
}

bool scan_pages_prepare(struct scan_file *file)
{
	uint8_t h[FILE_HEADER_BYTES];
	uint32_t page;

	if ((file->fd < 0 && !file->bytes) || !read_bytes(file, 0, sizeof(h), h) ||
	    memcmp(h, "SQLite format 3", 16) != 0)
		return false;
	page = be16(h + 16);
	if (page == 1)
		page = 65536;
	if (page < 512 || (page & (page - 1)) || h[20] > page - 480 || be32(h + 56) != 1)
		return false;
	file->page_bytes = page;
	file->usable_bytes = page - h[20];
	file->n_pages = file->size / page > UINT32_MAX ? UINT32_MAX : (uint32_t)(file->size / page);
	return true;
}

/* The beginning of a page, or all of it; false: there is no such page. */
static bool read_page(const struct scan_file *file, uint32_t number, size_t size, uint8_t *to)
{
	return number && number <= file->n_pages &&
	       read_bytes(file, (uint64_t)(number - 1) * file->page_bytes, size, to);
}

struct walk {
	struct scan_table *table;
	size_t capacity;
	uint64_t left; /* pages that may still be visited: a loop visits more than there are */
	uint8_t *pages[DEPTH_MAX + 1]; /* the one being visited of each depth */
};

static int add_leaf(struct walk *w, uint32_t number)
{
	struct scan_table *t = w->table;

	if (array_grow(&t->leaves, &w->capacity, t->n_leaves + 1, sizeof(*t->leaves)) < 0)
		return -ENOMEM;
	t->leaves[t->n_leaves++] = number;
	return 0;
}

/* known_leaf: a neighbour is one, and all leaves are equally deep. They are not looked at then: there
 * are so many, and each will be read once anyway. */
static int walk_pages(struct walk *w, uint32_t number, int depth, bool known_leaf)
{
	struct scan_table *t = w->table;
	uint8_t *page, child;
	uint32_t cells;
	int r = 0;

	/* The first page has the header of the file and the schema: no other table has it. */
	if (number <= 1 || number > t->file->n_pages || !w->left || depth > DEPTH_MAX) {
		t->damaged_pages++;
		return 0;
	}
	w->left--;
	if (known_leaf)
		return add_leaf(w, number);
	if (!w->pages[depth] && !(w->pages[depth] = malloc(t->file->page_bytes)))
		return -ENOMEM;
	page = w->pages[depth];
	if (!read_page(t->file, number, t->file->page_bytes, page)) {
		t->damaged_pages++;
		return 0;
	}
	if (*page == LEAF)
		return add_leaf(w, number);
	cells = be16(page + 3);
	if (*page != INTERIOR || 12 + 2 * cells > t->file->usable_bytes) {
		t->damaged_pages++;
		return 0;
	}
	known_leaf = read_page(t->file, be32(page + 8), 1, &child) && child == LEAF;
	for (uint32_t i = 0; r >= 0 && i < cells; i++) {
		uint32_t at = be16(page + 12 + 2 * i);

		if (at + 4 > t->file->usable_bytes)
			t->damaged_pages++;
		else
			r = walk_pages(w, be32(page + at), depth + 1, known_leaf);
	}
	return r < 0 ? r : walk_pages(w, be32(page + 8), depth + 1, known_leaf);
}

int scan_pages_leaves(struct scan_table *table, uint32_t root)
{
	struct walk w = { .table = table, .left = table->file->n_pages };
	uint8_t type;
	int r;

	/* Something else, such as a table without rowids: SQLite's. */
	if (root == 1 || !read_page(table->file, root, 1, &type) ||
	    (type != LEAF && type != INTERIOR))
		return 0;
	r = walk_pages(&w, root, 0, false);
	for (int depth = 0; depth <= DEPTH_MAX; depth++)
		free(w.pages[depth]);
	if (r >= 0 && !table->leaves) {
		table->leaves = malloc(1);
		r = table->leaves ? 0 : -ENOMEM;
	}
	return r;
}

/* Most rows of a table have one of a few lists of types, and so their values at one of a few lists of
 * places: each is worked out once. Only for lists of which every type is a byte, and without texts. */
#define LAYOUTS 64 /* a power of two */
#define LAYOUT_TYPES 64
struct layout {
	uint8_t types[LAYOUT_TYPES]; /* of the first columns, as many as the table has slots */
	enum { LAYOUT_EMPTY, LAYOUT_GOOD, LAYOUT_NONE } state;
	uint32_t bytes, loaded; /* of these columns; up to where loads of eight bytes go */
	unsigned int n_loads, n_fixed;
	struct {
		uint16_t offset;
		uint8_t slot, shift;
		enum scan_type type;
	} loads[SCAN_COLUMNS_MAX];
	struct {
		uint8_t slot, value;
		enum scan_type type;
	} fixed[SCAN_COLUMNS_MAX];
};

struct reader {
	const struct scan_table *table;
	uint8_t *more;	    /* a page with the rest of a payload */
	struct buf spilled; /* payloads that go on in other pages */
	struct scan_value values[SCAN_COLUMNS_MAX];
	struct layout *layouts;	     /* LAYOUTS, by the hash of their types */
	const struct layout *latest; /* of the row before; its fixed values are there */
};

static int64_t big_endian(const uint8_t *p, unsigned int bytes)
{
	uint64_t v = 0;

	switch (bytes) {
	case 1:
		return (int8_t)*p;
	case 2:
		return (int16_t)be16(p);
	case 4:
		return (int32_t)be32(p);
	case 8:
		memcpy(&v, p, 8);
		return (int64_t)be64toh(v);
	default:
		for (unsigned int i = 0; i < bytes; i++)
			v = v << 8 | p[i];
		return (int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes);
	}
}

static const uint8_t int_bytes[] = { 0, 1, 2, 3, 4, 6, 8, 8, 0, 0 };

static void decode_value(struct scan_value *value, uint64_t type, const uint8_t *body)
{
	/* Nothing here is a blob: as good as not there. */
	if (type == 0 || (type >= 12 && !(type & 1))) {
		value->type = SCAN_NULL;
	} else if (type < 7) {
		value->type = SCAN_INT;
		value->i = big_endian(body, int_bytes[type]);
	} else if (type == 7) {
		int64_t bits = big_endian(body, 8);

		value->type = SCAN_REAL;
		memcpy(&value->d, &bits, sizeof(bits));
	} else if (type < 10) {
		value->type = SCAN_INT;
		value->i = type == 9;
	} else {
		value->type = SCAN_TEXT;
		value->text = (const char *)body;
		value->length = (uint32_t)((type - 13) / 2);
	}
}

/* Bits to shift eight bytes that begin with an integer of this type, so that it alone remains. */
static const uint8_t int_shift[] = { 0, 56, 48, 40, 32, 16, 0 };

static void find_layout(const struct scan_table *t, const uint8_t *types, struct layout *to)
{
	uint32_t at = 0;

	*to = (struct layout){ .state = LAYOUT_GOOD };
	memcpy(to->types, types, t->n_slots);
	for (size_t c = 0; c < t->n_slots; c++) {
		uint8_t type = types[c], slot = (uint8_t)t->slot[c];
		bool wanted = t->slot[c] >= 0;

		if (type == 10 || type == 11 || (wanted && type > 9)) {
			to->state = LAYOUT_NONE;
			return;
		}
		if (wanted && type && type < 8) {
			to->loads[to->n_loads].offset = (uint16_t)at;
			to->loads[to->n_loads].slot = slot;
			to->loads[to->n_loads].shift = type == 7 ? 0 : int_shift[type];
			to->loads[to->n_loads++].type = type == 7 ? SCAN_REAL : SCAN_INT;
			to->loaded = at + 8;
		} else if (wanted) {
			to->fixed[to->n_fixed].slot = slot;
			to->fixed[to->n_fixed].value = type == 9;
			to->fixed[to->n_fixed++].type = type ? SCAN_INT : SCAN_NULL;
		}
		at += type < 10 ? int_bytes[type] : (type - 12u) / 2;
	}
	to->bytes = at;
}

/* The layout of rows with these types; NULL: they have none. */
static const struct layout *layout_of(struct reader *r, const uint8_t *types)
{
	size_t n = r->table->n_slots;
	struct layout *layout;

	if (r->latest && !memcmp(r->latest->types, types, n))
		return r->latest;
	for (size_t i = 0; i < n; i++)
		if (types[i] >= 0x80)
			return NULL;
	layout = &r->layouts[crc32c(0, types, n) & (LAYOUTS - 1)];
	if (layout->state == LAYOUT_EMPTY || memcmp(layout->types, types, n) != 0) {
		find_layout(r->table, types, layout);
		r->latest = NULL; /* it may have been this one */
	}
	return layout->state == LAYOUT_GOOD ? layout : NULL;
}

static void take_layout(struct reader *r, const struct layout *layout, const uint8_t *body)
{
	for (unsigned int i = 0; i < layout->n_loads; i++) {
		struct scan_value *value = &r->values[layout->loads[i].slot];
		uint64_t word;

		memcpy(&word, body + layout->loads[i].offset, sizeof(word));
		value->type = layout->loads[i].type;
		value->i = (int64_t)be64toh(word) >> layout->loads[i].shift;
	}
	for (unsigned int i = 0; r->latest != layout && i < layout->n_fixed; i++) {
		r->values[layout->fixed[i].slot].type = layout->fixed[i].type;
		r->values[layout->fixed[i].slot].i = layout->fixed[i].value;
	}
	r->latest = layout;
}

/* Value by value, whatever they are. p: the types, up to where the values begin. */
static bool take_values(struct reader *r, const uint8_t *p, const uint8_t *body, const uint8_t *end)
{
	const struct scan_table *t = r->table;
	const int16_t *slot = t->slot, *slots_end = slot + t->n_slots;
	const uint8_t *head_end = body;

	r->latest = NULL;
	for (; slot < slots_end && p < head_end; slot++) {
		uint64_t type, bytes;

		p = varint(p, head_end, &type);
		if (!p || type == 10 || type == 11)
			return false;
		bytes = type < 10 ? int_bytes[type] : (type - 12) / 2;
		if (bytes > (size_t)(end - body))
			return false;
		if (*slot >= 0)
			decode_value(&r->values[*slot], type, body);
		body += bytes;
	}
	/* Columns that were added later, and this row is older. */
	for (; slot < slots_end; slot++)
		if (*slot >= 0)
			r->values[*slot].type = SCAN_NULL;
	return true;
}

/* The wanted values of one payload; false: it is broken. Up to `limit` there are bytes to read, so
 * that integers of any size are taken with one load. */
static bool decode_row(struct reader *r, const uint8_t *p, size_t size, const uint8_t *limit,
		       int64_t rowid)
{
	const struct scan_table *t = r->table;
	const uint8_t *types, *body;
	const struct layout *layout = NULL;
	uint64_t head_bytes;

	types = varint(p, p + size, &head_bytes);
	if (!types || head_bytes < (size_t)(types - p) || head_bytes > size)
		return false;
	body = p + head_bytes;
	if (t->n_slots <= LAYOUT_TYPES && t->n_slots <= (size_t)(body - types))
		layout = layout_of(r, types);
	if (layout && layout->bytes <= size - head_bytes &&
	    layout->loaded <= (size_t)(limit - body))
		take_layout(r, layout, body);
	else if (!take_values(r, types, body, p + size))
		return false;
	if (t->rowid >= 0 && r->values[t->rowid].type == SCAN_NULL) {
		r->values[t->rowid].type = SCAN_INT;
		r->values[t->rowid].i = rowid;
		r->latest = NULL; /* that was no fixed value */
	}
	return true;
}

/* A payload of which `local` bytes are in the page and the rest in a chain. 1, 0: broken, -ENOMEM. */
static int gather_payload(struct reader *r, const uint8_t *p, size_t local, uint64_t size)
{
	const struct scan_file *file = r->table->file;
	uint32_t next = be32(p + local);
	size_t step = file->usable_bytes - 4;

	if (size > file->size)
		return 0;
	r->spilled.size = 0;
	buf_append(&r->spilled, p, local);
	while (r->spilled.size < size && !r->spilled.failed) {
		size_t left = size - r->spilled.size;

		if (!read_page(file, next, file->page_bytes, r->more))
			return 0;
		buf_append(&r->spilled, r->more + 4, left < step ? left : step);
		next = be32(r->more);
	}
	return r->spilled.failed ? -ENOMEM : 1;
}

/* 1: values are filled, 0: broken, -ENOMEM. */
static int read_cell(struct reader *r, const uint8_t *page, uint32_t at, int64_t *ret_rowid)
{
	const struct scan_file *file = r->table->file;
	const uint8_t *end = page + file->usable_bytes, *p = page + at;
	uint32_t usable = file->usable_bytes;
	uint64_t size, rowid, local, least;
	int gathered;

	p = varint(p, end, &size);
	p = p ? varint(p, end, &rowid) : NULL;
	if (!p)
		return 0;
	*ret_rowid = (int64_t)rowid;
	if (size <= usable - 35)
		return size <= (size_t)(end - p) && decode_row(r, p, size, end, *ret_rowid);
	least = (usable - 12) * 32 / 255 - 23;
	local = least + (size - least) % (usable - 4);
	if (local > usable - 35)
		local = least;
	if (local + 4 > (size_t)(end - p))
		return 0;
	gathered = gather_payload(r, p, local, size);
	if (gathered <= 0)
		return gathered;
	p = (const uint8_t *)r->spilled.data;
	return decode_row(r, p, size, p + size, *ret_rowid);
}

static int read_leaf(struct reader *r, const uint8_t *page, scan_row row, void *context,
		     uint64_t *damaged)
{
	const struct scan_file *file = r->table->file;
	uint32_t cells = be16(page + 3);

	if (*page != LEAF || 8 + 2 * cells > file->usable_bytes) {
		(*damaged)++;
		return 0;
	}
	for (uint32_t i = 0; i < cells; i++) {
		uint32_t at = be16(page + 8 + 2 * i);
		int64_t rowid;
		int result = at < file->usable_bytes ? read_cell(r, page, at, &rowid) : 0;

		if (result < 0)
			return result;
		if (!result) {
			(*damaged)++;
			continue;
		}
		result = row(context, rowid, r->values);
		if (result < 0)
			return result;
	}
	return 0;
}

/* Leaves that lie one after the other in the file, from index `first` on. */
static size_t run_length(const struct scan_table *table, size_t first, size_t last)
{
	size_t most = RUN_BYTES / table->file->page_bytes, n = 1;

	while (n < most && first + n < last && table->leaves[first + n] == table->leaves[first] + n)
		n++;
	return n;
}

/* run: room for leaves that lie one after the other. */
static int read_leaves(struct reader *r, uint8_t *run, size_t first, size_t last, scan_row row,
		       void *context, uint64_t *damaged)
{
	const struct scan_file *file = r->table->file;
	int result = 0;

	for (size_t i = first, n; i < last && result >= 0; i += n) {
		n = run_length(r->table, i, last);
		if (!read_page(file, r->table->leaves[i], n * file->page_bytes, run)) {
			*damaged += n;
			continue;
		}
		for (size_t k = 0; k < n && result >= 0; k++)
			result = read_leaf(r, run + k * file->page_bytes, row, context, damaged);
	}
	return result;
}

int scan_pages_chunk(const struct scan_table *table, size_t chunk, scan_row row, void *context,
		     uint64_t *damaged)
{
	size_t pages = SCAN_CHUNK_BYTES / table->file->page_bytes;
	size_t first = chunk * pages;
	size_t last = first + pages < table->n_leaves ? first + pages : table->n_leaves;
	uint8_t *run = malloc(RUN_BYTES), *more = malloc(table->file->page_bytes);
	struct layout *layouts = calloc(LAYOUTS, sizeof(*layouts));
	struct reader r = { .table = table, .more = more, .layouts = layouts };
	int result = -ENOMEM;

	if (run && more && layouts)
		result = read_leaves(&r, run, first, last, row, context, damaged);
	free(run);
	free(more);
	free(layouts);
	buf_release(&r.spilled);
	return result;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * From the tracks in the scratch file to the index; see lod_build.h and lod_format.h. Sections are written through
 * mappings, one after the other as their sizes become known, and the tables and the header at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "timeline/lod_build.h"

/* Beyond the limit of the user the kernel would send a SIGXFSZ. */
static int check_size(uint64_t offset, uint64_t bytes)
{
	struct rlimit limit;

	if (offset > INT64_MAX || bytes > INT64_MAX - offset)
		return -EFBIG;
	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && offset + bytes > limit.rlim_cur ? -EFBIG : 0;
}

int area_open(struct area *area, int fd, uint64_t offset, uint64_t bytes)
{
	void *data;
	int r;

	if (!bytes)
		return 0;
	r = check_size(offset, bytes);
	if (r < 0)
		return r;
	r = -posix_fallocate(fd, (off_t)offset, (off_t)bytes);
	if (r < 0)
		return r;
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (data == MAP_FAILED)
		return -errno;
	*area = (struct area){ data, bytes };
	return 0;
}

void area_close(struct area *area)
{
	if (area->data)
		munmap(area->data, area->bytes);
	*area = (struct area){ 0 };
}

void area_rest(const struct area *area)
{
	if (area->data)
		madvise(area->data, area->bytes, MADV_DONTNEED);
}

/* Room for a section of n elements at the end of the file, in memory. */
static int open_section(struct builder *b, enum lod_section s, uint64_t n)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int r;

	b->bytes = (b->bytes + page - 1) / page * page;
	b->header.sections[s].offset = b->bytes;
	b->header.sections[s].n = n;
	r = area_open(&b->areas[s], b->fd, b->bytes, n * lod_sizes[s]);
	if (r == 0)
		b->bytes += n * lod_sizes[s];
	return r;
}

static int put_text(struct builder *b, const char *text, struct lod_file_text *ret_text)
{
	size_t length = strlen(text);

	*ret_text = (struct lod_file_text){ .offset = b->texts.size, .length = (uint32_t)length };
	buf_append(&b->texts, text, length);
	return b->texts.failed ? -ENOMEM : 0;
}

static int add_lanes(struct builder *b, const struct track *track, const uint64_t *counts,
		     size_t n_rows)
{
	struct lod_file_lane lane = { .rank = track->rank, .kind = track_kind(track) };
	const struct track *before = b->last;
	char group[512], title[512];
	int r;

	track_words(b, track, group, title, sizeof(group));
	r = put_text(b, group, &lane.group);
	if (r == 0)
		r = put_text(b, title, &lane.title);
	/* Depths of one thread are rows of one track. */
	if (before && before->shard == track->shard && before->place == track->place &&
	    before->device == track->device && before->id == track->id &&
	    before->part == track->part)
		lane.depth = b->lanes[b->n_lanes - 1].depth + 1;
	for (size_t row = 0; r == 0 && row < n_rows; row++, lane.depth++) {
		lane.first = b->header.n_events;
		lane.n = counts[row];
		r = array_grow(&b->lanes, &b->lanes_capacity, b->n_lanes + 1, sizeof(*b->lanes));
		if (r < 0)
			break;
		b->lanes[b->n_lanes++] = lane;
		b->last = track;
		b->header.n_events += lane.n;
	}
	return r;
}

static int put_long(struct builder *b, uint64_t event, uint64_t duration)
{
	int r = array_grow(&b->longs, &b->longs_capacity, b->n_longs + 1, sizeof(*b->longs));

	if (r == 0)
		b->longs[b->n_longs++] = (struct lod_file_long){ event, duration };
	return r;
}

/* next: where the next event of each row goes. */
static int copy_events(struct builder *b, const struct track *track, uint64_t *next)
{
	const struct raw_event *events = (const struct raw_event *)b->scratch.data + track->first;
	uint64_t *starts = (uint64_t *)b->areas[LOD_STARTS].data;
	uint32_t *durations = (uint32_t *)b->areas[LOD_DURATIONS].data;
	uint32_t *names = (uint32_t *)b->areas[LOD_NAME_IDS].data;
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < track->taken; i++) {
		uint64_t at, duration = (uint64_t)events[i].duration, end;

		if (events[i].row == LOD_ROWS_MOST) {
			b->left_out++;
			continue;
		}
		at = next[events[i].row]++;
		starts[at] = (uint64_t)events[i].start - (uint64_t)b->origin_ns;
		durations[at] = duration < LOD_LONG ? (uint32_t)duration : LOD_LONG;
		names[at] = events[i].name - 1;
		end = starts[at] + duration;
		if (end > b->header.end_ns)
			b->header.end_ns = end;
		if (duration >= LOD_LONG)
			r = put_long(b, at, duration);
		if (r == 0)
			r = builder_rests(b, 2 * sizeof(*events));
	}
	return r;
}

static int write_track(struct builder *b, const struct track *track)
{
	size_t before = b->n_lanes, n_rows;
	uint64_t *counts;
	int r = rows_assign(b, track, &counts, &n_rows);

	if (r < 0)
		return r;
	r = add_lanes(b, track, counts, n_rows);
	for (size_t row = 0; r == 0 && row < n_rows; row++)
		counts[row] = b->lanes[before + row].first;
	if (r == 0)
		r = copy_events(b, track, counts);
	free(counts);
	return r;
}

/* Rows of a track are filled side by side. */
static int by_event(const void *a, const void *b)
{
	const struct lod_file_long *x = a, *y = b;

	return x->event < y->event ? -1 : x->event > y->event;
}

static void add_to_node(struct lod_file_node *node, uint64_t start, uint64_t end, uint64_t busy,
			uint32_t longest, uint32_t name, bool first)
{
	if (first)
		*node = (struct lod_file_node){ .start = start, .longest = longest, .name = name };
	node->end = end;
	node->busy += busy;
	if (longest > node->longest) {
		node->longest = longest;
		node->name = name;
	}
}

/* What the queries read while the file is made. */
static struct lod written_part(const struct builder *b)
{
	return (struct lod){ .header = b->header,
			     .starts = (const uint64_t *)b->areas[LOD_STARTS].data,
			     .durations = (const uint32_t *)b->areas[LOD_DURATIONS].data,
			     .name_ids = (const uint32_t *)b->areas[LOD_NAME_IDS].data,
			     .longs = (const struct lod_file_long *)b->areas[LOD_LONGS].data };
}

static int write_lane_nodes(struct builder *b, const struct lod *t,
			    const struct lod_file_lane *lane)
{
	struct lod_file_node *level = (struct lod_file_node *)b->areas[LOD_NODES].data +
				      lane->nodes;
	uint64_t n = lod_above(lane->n);
	int r = 0;

	if (lane->n <= LOD_FANOUT)
		return 0;
	for (uint64_t i = 0; r == 0 && i < lane->n; i++) {
		uint64_t event = lane->first + i, duration = index_duration(t, event);

		add_to_node(&level[i / LOD_FANOUT], t->starts[event], t->starts[event] + duration,
			    duration, t->durations[event], t->name_ids[event], i % LOD_FANOUT == 0);
		if (i % LOD_FANOUT == 0)
			r = builder_rests(b, LOD_FANOUT * 16 + sizeof(*level));
	}
	while (r == 0 && n > LOD_FANOUT) {
		struct lod_file_node *above = level + n;

		for (uint64_t i = 0; i < n; i++)
			add_to_node(&above[i / LOD_FANOUT], level[i].start, level[i].end,
				    level[i].busy, level[i].longest, level[i].name,
				    i % LOD_FANOUT == 0);
		level = above;
		n = lod_above(n);
	}
	return r;
}

static int write_nodes(struct builder *b)
{
	uint64_t n = 0;
	struct lod t;
	int r;

	for (size_t i = 0; i < b->n_lanes; i++) {
		b->lanes[i].nodes = n;
		n += lod_nodes(b->lanes[i].n);
	}
	r = open_section(b, LOD_NODES, n);
	t = written_part(b);
	for (size_t i = 0; r == 0 && i < b->n_lanes; i++)
		r = write_lane_nodes(b, &t, &b->lanes[i]);
	return r;
}

/* Calls with every name that a block has, once. */
static int each_post(struct builder *b, const struct lod *t, uint32_t *seen,
		     void (*call)(struct builder *b, uint32_t name, uint32_t block))
{
	uint64_t n = b->header.n_events;
	int r = 0;

	memset(seen, 0xff, b->labels.texts.n * sizeof(*seen));
	for (uint64_t i = 0; r == 0 && i < n; i++) {
		uint32_t name = t->name_ids[i], block = (uint32_t)(i / LOD_BLOCK);

		if (seen[name] != block) {
			seen[name] = block;
			call(b, name, block);
		}
		if (i % LOD_BLOCK == 0)
			r = builder_rests(b, LOD_BLOCK * sizeof(uint32_t));
	}
	return r;
}

static void count_post(struct builder *b, uint32_t name, uint32_t block)
{
	(void)block;
	b->names[name].n_posts++;
}

static void write_post(struct builder *b, uint32_t name, uint32_t block)
{
	struct lod_file_name *n = &b->names[name];

	((uint32_t *)b->areas[LOD_POSTS].data)[n->posts + n->n_posts++] = block;
}

static int write_posts(struct builder *b)
{
	size_t n_names = b->labels.texts.n;
	uint32_t *seen = malloc((n_names + 1) * sizeof(*seen));
	struct lod t = written_part(b);
	uint64_t sum = 0;
	int r = seen ? each_post(b, &t, seen, count_post) : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n_names; i++) {
		b->names[i].posts = sum;
		sum += b->names[i].n_posts;
		b->names[i].n_posts = 0;
	}
	if (r == 0)
		r = open_section(b, LOD_POSTS, sum);
	if (r == 0)
		r = each_post(b, &t, seen, write_post);
	free(seen);
	return r;
}

static int add_up_names(struct builder *b)
{
	struct lod t = written_part(b);
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < b->header.n_events; i++) {
		struct lod_file_name *name = &b->names[t.name_ids[i]];

		if (!name->events++ || t.starts[i] < t.starts[name->first])
			name->first = i;
		name->busy += index_duration(&t, i);
		if (i % LOD_BLOCK == 0)
			r = builder_rests(b, LOD_BLOCK * 16);
	}
	return r;
}

static int write_names(struct builder *b)
{
	size_t n = b->header.n_events ? b->labels.texts.n : 0;
	int r = 0;

	b->names = calloc(n + 1, sizeof(*b->names));
	if (!b->names)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = put_text(b, interned_key(&b->labels.texts, (uint32_t)i + 1), &b->names[i].text);
	b->header.sections[LOD_NAMES].n = n;
	if (r == 0 && n)
		r = add_up_names(b);
	return r == 0 && n ? write_posts(b) : r;
}

static int write_all(int fd, const void *data, size_t bytes, uint64_t offset)
{
	const char *from = data;
	int r = check_size(offset, bytes);

	if (r < 0)
		return r;
	while (bytes) {
		ssize_t n = pwrite(fd, from, bytes, (off_t)offset);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			from += n;
			offset += (uint64_t)n;
			bytes -= (size_t)n;
		}
	}
	return 0;
}

/* A section that is in memory as it will be in the file. */
static int write_section(struct builder *b, enum lod_section s, const void *data, uint64_t n)
{
	b->bytes = (b->bytes + 7) / 8 * 8;
	b->header.sections[s].offset = b->bytes;
	b->header.sections[s].n = n;
	b->bytes += n * lod_sizes[s];
	if (s >= LOD_LANES)
		b->header.tables_crc = crc32c(b->header.tables_crc, data, n * lod_sizes[s]);
	return write_all(b->fd, data, n * lod_sizes[s], b->header.sections[s].offset);
}

static int write_tables(struct builder *b)
{
	uint64_t n_names = b->header.sections[LOD_NAMES].n;
	int r = write_section(b, LOD_LANES, b->lanes, b->n_lanes);

	if (r == 0)
		r = write_section(b, LOD_NAMES, b->names, n_names);
	if (r == 0)
		r = write_section(b, LOD_TEXTS, b->texts.data, b->texts.size);
	b->header.file_bytes = b->bytes;
	b->header.left_out = b->left_out;
	b->header.start_ns = b->has_origin ? b->run->start_ns : 0;
	b->header.origin_ns = b->origin_ns;
	b->header.steps = b->steps;
	b->header.crc = 0;
	b->header.crc = crc32c(0, &b->header, sizeof(b->header));
	if (r == 0)
		r = write_all(b->fd, &b->header, sizeof(b->header), 0);
	/* Without tables the last section may end before its page. */
	if (r == 0 && ftruncate(b->fd, (off_t)b->bytes) < 0)
		r = -errno;
	return r;
}

/* Longs are read through a section while the tree is made. */
static int write_longs(struct builder *b)
{
	int r = open_section(b, LOD_LONGS, b->n_longs);

	if (b->n_longs)
		qsort(b->longs, b->n_longs, sizeof(*b->longs), by_event);
	if (r == 0 && b->n_longs)
		memcpy(b->areas[LOD_LONGS].data, b->longs, b->n_longs * sizeof(*b->longs));
	return r;
}

int index_write(struct builder *b, uint64_t fingerprint)
{
	int r;

	b->header = (struct lod_file_header){ .magic = LOD_MAGIC,
					      .version = LOD_VERSION,
					      .fingerprint = fingerprint };
	b->bytes = sizeof(b->header);
	r = open_section(b, LOD_STARTS, b->n);
	if (r == 0)
		r = open_section(b, LOD_DURATIONS, b->n);
	if (r == 0)
		r = open_section(b, LOD_NAME_IDS, b->n);
	for (size_t t = 0; r == 0 && t < b->n_tracks; t++)
		r = write_track(b, &b->tracks[t]);
	area_close(&b->scratch);
	for (int s = LOD_STARTS; s <= LOD_NAME_IDS; s++)
		b->header.sections[s].n = b->header.n_events;
	if (r == 0)
		r = write_longs(b);
	if (r == 0)
		r = write_nodes(b);
	if (r == 0)
		r = write_names(b);
	return r == 0 ? write_tables(b) : r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening an index: its tables are checked here, once; its arrays are not, so the queries must hold
 * for any numbers in them.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/read_at.h"
#include "timeline/lod_index.h"
#include "trace/bus_guard.h"
#include "trace/run_lock.h"
#include "trace/rundir.h"

const size_t lod_sizes[LOD_SECTIONS] = {
	[LOD_STARTS] = sizeof(uint64_t),
	[LOD_DURATIONS] = sizeof(uint32_t),
	[LOD_NAME_IDS] = sizeof(uint32_t),
	[LOD_NODES] = sizeof(struct lod_file_node),
	[LOD_LONGS] = sizeof(struct lod_file_long),
	[LOD_POSTS] = sizeof(uint32_t),
	[LOD_LANES] = sizeof(struct lod_file_lane),
	[LOD_NAMES] = sizeof(struct lod_file_name),
	[LOD_TEXTS] = 1,
};

/* A file that is cut while it is mapped must not end the server. */
static pthread_mutex_t guard_lock = PTHREAD_MUTEX_INITIALIZER;

static void guard(const struct lod *t, bool on)
{
	static bool installed;

	pthread_mutex_lock(&guard_lock);
	if (!installed)
		bus_guard_install();
	installed = true;
	if (on)
		bus_guard_add((void *)t->map, t->bytes);
	else
		bus_guard_remove(t->map);
	pthread_mutex_unlock(&guard_lock);
}

static bool header_is_sound(const struct lod_file_header *header, uint64_t bytes)
{
	struct lod_file_header copy = *header;

	copy.crc = 0;
	if (header->magic != LOD_MAGIC || header->version != LOD_VERSION ||
	    header->crc != crc32c(0, &copy, sizeof(copy)) || header->file_bytes != bytes ||
	    header->end_ns > (uint64_t)LOD_TIME_MAX)
		return false;
	for (int s = 0; s < LOD_SECTIONS; s++)
		if (header->sections[s].offset % sizeof(uint64_t) ||
		    header->sections[s].offset > bytes ||
		    header->sections[s].n > (bytes - header->sections[s].offset) / lod_sizes[s])
			return false;
	return header->sections[LOD_STARTS].n == header->n_events &&
	       header->sections[LOD_DURATIONS].n == header->n_events &&
	       header->sections[LOD_NAME_IDS].n == header->n_events &&
	       header->sections[LOD_NAMES].n <= UINT32_MAX &&
	       header->sections[LOD_LANES].n <= UINT32_MAX;
}

static const void *section(const struct lod *t, enum lod_section s)
{
	return t->map + t->header.sections[s].offset;
}

static bool text_is_sound(const struct lod *t, const struct lod_file_text *text)
{
	uint64_t n = t->header.sections[LOD_TEXTS].n;

	return text->offset <= n && text->length <= n - text->offset;
}

static bool tables_are_sound(const struct lod *t)
{
	const struct lod_file_header *header = &t->header;
	uint32_t crc = 0;

	for (int s = LOD_LANES; s <= LOD_TEXTS; s++)
		crc = crc32c(crc, section(t, s), header->sections[s].n * lod_sizes[s]);
	if (crc != header->tables_crc)
		return false;
	for (size_t i = 0; i < t->n_lanes; i++) {
		const struct lod_file_lane *lane = &t->lanes[i];
		uint64_t n_nodes = header->sections[LOD_NODES].n;

		if (lane->first > header->n_events || lane->n > header->n_events - lane->first ||
		    lane->nodes > n_nodes || lod_nodes(lane->n) > n_nodes - lane->nodes ||
		    lane->kind >= LOD_KINDS || !text_is_sound(t, &lane->group) ||
		    !text_is_sound(t, &lane->title))
			return false;
	}
	for (size_t i = 0; i < t->n_names; i++) {
		const struct lod_file_name *name = &t->names[i];
		uint64_t n_posts = header->sections[LOD_POSTS].n;

		if (!text_is_sound(t, &name->text) || name->first >= header->n_events ||
		    name->posts > n_posts || name->n_posts > n_posts - name->posts)
			return false;
	}
	return true;
}

static int damaged(const char *path, struct err *err)
{
	return err_set(err, -EBADMSG, "%s: damaged; delete it, and it is made anew.", path);
}

/* Takes over the mapping. */
static int index_new(const char *map, size_t bytes, const struct lod_file_header *header,
		     struct lod **ret_lod)
{
	struct lod *t = calloc(1, sizeof(*t));

	if (!t) {
		munmap((void *)map, bytes);
		return -ENOMEM;
	}
	*t = (struct lod){ .map = map, .bytes = bytes, .header = *header };
	t->starts = section(t, LOD_STARTS);
	t->durations = section(t, LOD_DURATIONS);
	t->name_ids = section(t, LOD_NAME_IDS);
	t->nodes = section(t, LOD_NODES);
	t->longs = section(t, LOD_LONGS);
	t->posts = section(t, LOD_POSTS);
	t->lanes = section(t, LOD_LANES);
	t->names = section(t, LOD_NAMES);
	t->texts = section(t, LOD_TEXTS);
	t->n_lanes = header->sections[LOD_LANES].n;
	t->n_names = header->sections[LOD_NAMES].n;
	guard(t, true);
	*ret_lod = t;
	return 0;
}

static int map_checked(int fd, const char *path, const uint64_t *fingerprint, struct lod **ret_lod,
		       struct err *err)
{
	struct lod_file_header header;
	struct lod *t;
	struct stat st;
	void *map;
	int r;

	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "%s: cannot stat", path);
	if (!S_ISREG(st.st_mode) || read_at(fd, &header, sizeof(header), 0) != sizeof(header) ||
	    !header_is_sound(&header, (uint64_t)st.st_size))
		return damaged(path, err);
	if (fingerprint && header.fingerprint != *fingerprint)
		return err_set(err, -ESTALE, "%s: the run has changed since it was made.", path);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return err_sys(err, -errno, "%s: cannot map", path);
	r = index_new(map, (size_t)st.st_size, &header, &t);
	if (r < 0)
		return err_sys(err, r, "%s: cannot open", path);
	if (!tables_are_sound(t)) {
		lod_close(t);
		return damaged(path, err);
	}
	*ret_lod = t;
	return 0;
}

int index_map(int fd, const char *path, const uint64_t *fingerprint, struct lod **ret_lod,
	      struct err *err)
{
	int r = map_checked(fd, path, fingerprint, ret_lod, err);

	close(fd);
	return r;
}

void lod_close(struct lod *t)
{
	if (!t)
		return;
	guard(t, false);
	munmap((void *)t->map, t->bytes);
	free(t);
}

int lod_open(const char *run_path, struct lod **ret_lod, struct err *err)
{
	uint64_t fingerprint;
	char *path;
	int fd, r = index_fingerprint(run_path, &fingerprint, err);

	if (r < 0)
		return r;
	if (asprintf(&path, "%s/" LOD_FILE, run_path) < 0)
		return err_set(err, -ENOMEM, "no memory to open '%s'.", run_path);
	/* Not through a link: nothing outside the run is read. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	r = fd < 0 ? err_sys(err, -errno, "%s: cannot open", path)
		   : index_map(fd, path, &fingerprint, ret_lod, err);
	free(path);
	return r;
}

/* What changes when events come to a shard: its size, its counters, its last bytes. Not its times, which
 * a copy would change, nor its signs of life. One that cannot be read counts, too: it may be readable
 * later. */
static int shard_print(const char *path, uint64_t *sum)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') : path;
	struct {
		struct shard_header header;
		uint64_t bytes, has_rings;
		char tail[64];
	} facts;
	char *ring = shard_ring_path(path);
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint32_t crc;

	memset(&facts, 0, sizeof(facts));
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		const uint64_t tail = sizeof(facts.tail);

		facts.bytes = (uint64_t)st.st_size;
		read_at(fd, &facts.header, sizeof(facts.header), 0);
		read_at(fd, facts.tail, tail, facts.bytes < tail ? 0 : facts.bytes - tail);
		facts.header.live.alive_ns = 0;
		facts.header.live.drain_cpu_ns = 0;
	}
	facts.has_rings = ring && access(ring, F_OK) == 0;
	crc = crc32c(0, &facts, sizeof(facts));
	*sum = (*sum << 7 | *sum >> 57) + ((uint64_t)crc << 32) + crc32c(crc, name, strlen(name));
	if (fd >= 0)
		close(fd);
	free(ring);
	return ring ? 0 : -ENOMEM;
}

int index_fingerprint(const char *run_path, uint64_t *ret_fingerprint, struct err *err)
{
	char **paths;
	size_t n;
	/* What a killed process left in its buffers counts from its death on. */
	uint64_t sum = run_writer(run_path) == RUN_WRITER_HELD;
	int r = rundir_shards(run_path, &paths, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = shard_print(paths[i], &sum);
		free(paths[i]);
	}
	free(paths);
	if (r < 0)
		return err_sys(err, r, "%s: cannot read", run_path);
	*ret_fingerprint = sum;
	return 0;
}

bool lod_is_fresh(const struct lod *t, const char *run_path)
{
	uint64_t fingerprint;

	return index_fingerprint(run_path, &fingerprint, NULL) == 0 &&
	       fingerprint == t->header.fingerprint;
}

void lod_rest(const struct lod *t)
{
	madvise((void *)t->map, t->bytes, MADV_DONTNEED);
}

uint64_t index_long_duration(const struct lod *t, uint64_t event)
{
	uint64_t from = 0, to = t->header.sections[LOD_LONGS].n;

	while (from < to) {
		uint64_t middle = from + (to - from) / 2;

		if (t->longs[middle].event < event)
			from = middle + 1;
		else
			to = middle;
	}
	return from < t->header.sections[LOD_LONGS].n && t->longs[from].event == event
		       ? t->longs[from].duration
		       : LOD_LONG;
}

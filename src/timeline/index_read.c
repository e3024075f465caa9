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

static void guard(const struct lod *lod, bool on)
{
	static bool installed;

	pthread_mutex_lock(&guard_lock);
	if (!installed)
		bus_guard_install();
	installed = true;
	if (on)
		bus_guard_add((void *)lod->map, lod->bytes);
	else
		bus_guard_remove(lod->map);
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

static const void *section(const struct lod *lod, enum lod_section s)
{
	return lod->map + lod->header.sections[s].offset;
}

static bool text_is_sound(const struct lod *lod, const struct lod_file_text *text)
{
	uint64_t n = lod->header.sections[LOD_TEXTS].n;

	return text->offset <= n && text->length <= n - text->offset;
}

static bool tables_are_sound(const struct lod *lod)
{
	const struct lod_file_header *header = &lod->header;
	uint32_t crc = 0;

	for (int s = LOD_LANES; s <= LOD_TEXTS; s++)
		crc = crc32c(crc, section(lod, s), header->sections[s].n * lod_sizes[s]);
	if (crc != header->tables_crc)
		return false;
	for (size_t i = 0; i < lod->n_lanes; i++) {
		const struct lod_file_lane *lane = &lod->lanes[i];
		uint64_t n_nodes = header->sections[LOD_NODES].n;

		if (lane->first > header->n_events || lane->n > header->n_events - lane->first ||
		    lane->nodes > n_nodes || lod_nodes(lane->n) > n_nodes - lane->nodes ||
		    lane->kind >= LOD_KINDS || !text_is_sound(lod, &lane->group) ||
		    !text_is_sound(lod, &lane->title))
			return false;
	}
	for (size_t i = 0; i < lod->n_names; i++) {
		const struct lod_file_name *name = &lod->names[i];
		uint64_t n_posts = header->sections[LOD_POSTS].n;

		if (!text_is_sound(lod, &name->text) || name->first >= header->n_events ||
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
	struct lod *lod = calloc(1, sizeof(*lod));

	if (!lod) {
		munmap((void *)map, bytes);
		return -ENOMEM;
	}
	*lod = (struct lod){ .map = map, .bytes = bytes, .header = *header };
	lod->starts = section(lod, LOD_STARTS);
	lod->durations = section(lod, LOD_DURATIONS);
	lod->name_ids = section(lod, LOD_NAME_IDS);
	lod->nodes = section(lod, LOD_NODES);
	lod->longs = section(lod, LOD_LONGS);
	lod->posts = section(lod, LOD_POSTS);
	lod->lanes = section(lod, LOD_LANES);
	lod->names = section(lod, LOD_NAMES);
	lod->texts = section(lod, LOD_TEXTS);
	lod->n_lanes = header->sections[LOD_LANES].n;
	lod->n_names = header->sections[LOD_NAMES].n;
	guard(lod, true);
	*ret_lod = lod;
	return 0;
}

static int map_checked(int fd, const char *path, const uint64_t *fingerprint, struct lod **ret_lod,
		       struct err *err)
{
	struct lod_file_header header;
	struct lod *lod;
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
	r = index_new(map, (size_t)st.st_size, &header, &lod);
	if (r < 0)
		return err_sys(err, r, "%s: cannot open", path);
	if (!tables_are_sound(lod)) {
		lod_close(lod);
		return damaged(path, err);
	}
	*ret_lod = lod;
	return 0;
}

int index_map(int fd, const char *path, const uint64_t *fingerprint, struct lod **ret_lod,
	      struct err *err)
{
	int r = map_checked(fd, path, fingerprint, ret_lod, err);

	close(fd);
	return r;
}

void lod_close(struct lod *lod)
{
	if (!lod)
		return;
	guard(lod, false);
	munmap((void *)lod->map, lod->bytes);
	free(lod);
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

bool lod_is_fresh(const struct lod *lod, const char *run_path)
{
	uint64_t fingerprint;

	return index_fingerprint(run_path, &fingerprint, NULL) == 0 &&
	       fingerprint == lod->header.fingerprint;
}

void lod_rest(const struct lod *lod)
{
	madvise((void *)lod->map, lod->bytes, MADV_DONTNEED);
}

uint64_t index_long_duration(const struct lod *lod, uint64_t event)
{
	uint64_t from = 0, to = lod->header.sections[LOD_LONGS].n;

	while (from < to) {
		uint64_t middle = from + (to - from) / 2;

		if (lod->longs[middle].event < event)
			from = middle + 1;
		else
			to = middle;
	}
	return from < lod->header.sections[LOD_LONGS].n && lod->longs[from].event == event
		       ? lod->longs[from].duration
		       : LOD_LONG;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared mapping between recording threads and the drain; see ring.h for who may touch what.
 * Disk space is allocated before it is mapped: a write to a mapped hole on a full disk would be
 * a SIGBUS in the program under the profiler.
 */
#include "trace/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/input_file.h"

static int allocate(int fd, uint64_t offset, uint64_t bytes)
{
	static const char zeros[16384];

	if (fallocate(fd, 0, (off_t)offset, (off_t)bytes) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	for (uint64_t done = 0; done < bytes;) {
		uint64_t part = bytes - done < sizeof(zeros) ? bytes - done : sizeof(zeros);
		ssize_t n = pwrite(fd, zeros, part, (off_t)(offset + done));

		if (n < 0)
			return -errno;
		done += (uint64_t)n;
	}
	return 0;
}

/* Populated: page faults belong here, not in the program's first records. */
static void *map(int fd, uint64_t offset, uint64_t bytes)
{
	int flags = (fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED) | MAP_POPULATE;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, (off_t)offset);

	return at == MAP_FAILED ? NULL : at;
}

static int open_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644), r;

	if (fd < 0)
		return -errno;
	r = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : allocate(fd, 0, RING_HEADER_BYTES);
	if (r < 0) {
		close(fd);
		unlink(path);
		return r;
	}
	return fd;
}

static uint32_t ring_size(uint32_t wanted)
{
	uint32_t bytes = RING_MIN_BYTES;

	while (bytes < wanted && bytes < RING_MAX_BYTES)
		bytes *= 2;
	return bytes;
}

int rings_create(const char *path, uint32_t ring_bytes, int wake_fd, struct rings **ret_rings,
		 int *ret_why)
{
	struct rings *rings = calloc(1, sizeof(*rings));

	*ret_why = 0;
	if (!rings)
		return -ENOMEM;
	pthread_mutex_init(&rings->lock, NULL);
	rings->wake_fd = wake_fd;
	rings->ring_bytes = ring_size(ring_bytes);
	rings->fd = path ? open_file(path) : -EINVAL;
	if (rings->fd >= 0)
		rings->path = strdup(path);
	if (rings->fd < 0 || !rings->path) {
		*ret_why = rings->fd < 0 ? -rings->fd : ENOMEM;
		if (rings->fd >= 0) {
			close(rings->fd);
			unlink(path);
		}
		rings->fd = -1;
	}
	rings->header = map(rings->fd, 0, RING_HEADER_BYTES);
	if (!rings->header) {
		rings_free(rings, true);
		return -ENOMEM;
	}
	rings->file_bytes = RING_HEADER_BYTES;
	memcpy(rings->header->magic, RING_MAGIC, sizeof(rings->header->magic));
	rings->header->version = RING_VERSION;
	rings->header->pid = (uint32_t)getpid();
	rings->header->ticks_are_counter = clock_has_counter;
	*ret_rings = rings;
	return 0;
}

void rings_free(struct rings *rings, bool remove_file)
{
	if (!rings)
		return;
	for (int i = 0; i < RING_REGIONS; i++)
		if (rings->mapped[i])
			munmap(rings->mapped[i], rings->mapped_bytes[i]);
	if (rings->header)
		munmap(rings->header, RING_HEADER_BYTES);
	if (remove_file && rings->path)
		unlink(rings->path);
	if (rings->fd >= 0)
		close(rings->fd);
	free(rings->path);
	free(rings);
}

/* Empty memory of this process at the same addresses. What cannot be replaced stays as it is. */
static void empty(void *at, uint64_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;

	if (at && mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
		return;
}

void rings_retire(struct rings *rings, bool remove_file)
{
	for (int i = 0; i < RING_REGIONS; i++)
		empty(rings->mapped[i], rings->mapped_bytes[i]);
	memset(rings->mapped, 0, sizeof(rings->mapped));
	rings_free(rings, remove_file);
}

void rings_forget(struct rings *rings)
{
	for (int i = 0; i < RING_REGIONS; i++)
		empty(rings->mapped[i], rings->mapped_bytes[i]);
	empty(rings->header, RING_HEADER_BYTES);
	if (rings->fd >= 0)
		close(rings->fd);
	rings->fd = -1;
}

/* A new region, its index, or -errno; the lock is held. Visible to the drain once counted. */
static int add_region(struct rings *rings, enum region_type type, uint32_t bytes)
{
	uint64_t total = RING_CONTROL_BYTES + (uint64_t)bytes;
	uint32_t i = atomic_load_explicit(&rings->header->n_regions, memory_order_relaxed);
	struct ring_region *region = &rings->header->regions[i];
	int fd = rings->fd;

	if (i == RING_REGIONS)
		return -ENOSPC;
	/* On a full disk this ring lives in memory alone; the others stay salvageable. */
	if (fd >= 0 && allocate(fd, rings->file_bytes, total) < 0)
		fd = -1;
	rings->mapped[i] = map(fd, rings->file_bytes, total);
	if (!rings->mapped[i])
		return -ENOMEM;
	rings->mapped_bytes[i] = total;
	region->bytes = bytes;
	region->offset = fd < 0 ? 0 : rings->file_bytes;
	if (fd >= 0)
		rings->file_bytes += total;
	atomic_store_explicit(&region->type, type, memory_order_release);
	atomic_store_explicit(&rings->header->n_regions, i + 1, memory_order_release);
	return (int)i;
}

static int find_free(struct rings *rings, uint32_t bytes)
{
	uint32_t n = atomic_load_explicit(&rings->header->n_regions, memory_order_relaxed);

	for (uint32_t i = 0; i < n; i++)
		if (rings->header->regions[i].type == REGION_RING &&
		    rings->header->regions[i].bytes == bytes &&
		    atomic_load_explicit(&rings_control(rings, i)->state, memory_order_acquire) ==
			    RING_FREE)
			return (int)i;
	return -ENOENT;
}

struct ring *rings_attach_sized(struct rings *rings, uint32_t thread, uint32_t bytes)
{
	struct ring *ring = calloc(1, sizeof(*ring));
	int i;

	if (!ring)
		return NULL;
	bytes = ring_size(bytes);
	pthread_mutex_lock(&rings->lock);
	i = find_free(rings, bytes);
	if (i < 0)
		i = add_region(rings, REGION_RING, bytes);
	if (i >= 0)
		atomic_store(&rings_control(rings, (uint32_t)i)->state, RING_USED);
	pthread_mutex_unlock(&rings->lock);
	if (i < 0) {
		free(ring);
		return NULL;
	}
	ring->control = rings_control(rings, (uint32_t)i);
	ring->data = (uint8_t *)rings->mapped[i] + RING_CONTROL_BYTES;
	ring->size = rings->header->regions[i].bytes;
	ring->head = ring->limit = atomic_load(&ring->control->head);
	ring->wake_fd = rings->wake_fd;
	atomic_store(&ring->control->thread, thread);
	atomic_store(&ring->control->depth, 0);
	return ring;
}

struct ring *rings_attach(struct rings *rings, uint32_t thread)
{
	return rings_attach_sized(rings, thread, rings->ring_bytes);
}

void ring_detach(struct ring *ring)
{
	/* Ranges that the thread left open: nobody will end them. */
	atomic_fetch_add_explicit(&ring->control->dropped[DROP_UNBALANCED], ring->depth,
				  memory_order_relaxed);
	atomic_store_explicit(&ring->control->depth, 0, memory_order_relaxed);
	atomic_store_explicit(&ring->control->state, RING_RELEASED, memory_order_release);
	free(ring);
}

static void wake(const struct ring *ring)
{
	uint64_t one = 1;
	int saved = errno;
	ssize_t n = ring->wake_fd < 0 ? 0 : write(ring->wake_fd, &one, sizeof(one));

	(void)n; /* fails only when the counter is full: the drain is awake already */
	errno = saved;
}

void *ring_reserve_slow(struct ring *ring, uint32_t bytes)
{
	uint64_t at = ring->head & (ring->size - 1);
	uint64_t skip = at + bytes > ring->size ? ring->size - at : 0;
	uint64_t tail, used;

	if (bytes > ring->size / 4) {
		ring_drop(ring, DROP_TOO_LARGE);
		return NULL;
	}
	tail = atomic_load_explicit(&ring->control->tail, memory_order_acquire);
	used = ring->head - tail + skip + bytes;
	if (used > ring->size / 2)
		wake(ring);
	if (used > ring->size) {
		ring_drop(ring, DROP_RING_FULL);
		return NULL;
	}
	/* The next look at the tail: half full, then after every eighth. */
	ring->limit = used <= ring->size / 2 ? tail + ring->size / 2 : tail + used + ring->size / 8;
	if (ring->limit > tail + ring->size)
		ring->limit = tail + ring->size;
	if (skip) {
		struct ring_record *pad = (struct ring_record *)(ring->data + at);

		*pad = (struct ring_record){ .words = (uint16_t)(skip / 8) };
		ring_commit(ring, (uint32_t)skip);
		at = 0;
	}
	return ring->data + at;
}

bool ring_has_room(struct ring *ring, uint32_t bytes)
{
	uint64_t at = ring->head & (ring->size - 1);
	uint64_t skip = at + bytes > ring->size ? ring->size - at : 0;
	uint64_t tail = atomic_load_explicit(&ring->control->tail, memory_order_acquire);

	if (ring->head - tail + skip + bytes <= ring->size)
		return true;
	wake(ring);
	return false;
}

int rings_log_string(struct rings *rings, uint32_t id, const char *text, uint32_t length)
{
	uint32_t bytes = sizeof(struct ring_string) + ((length + 7) & ~7u);
	uint32_t n = atomic_load_explicit(&rings->header->n_regions, memory_order_relaxed);
	struct ring_string entry = { id, length };
	struct strings_control *control = NULL;
	uint64_t used = 0;
	uint8_t *to;

	/* Only the newest log region can have room. */
	while (n-- > 0) {
		if (rings->header->regions[n].type != REGION_STRINGS)
			continue;
		control = rings->mapped[n];
		used = atomic_load_explicit(&control->used, memory_order_relaxed);
		if (used + bytes > rings->header->regions[n].bytes)
			control = NULL;
		break;
	}
	if (!control) {
		int i;

		pthread_mutex_lock(&rings->lock);
		i = add_region(rings, REGION_STRINGS, STRINGS_BYTES);
		pthread_mutex_unlock(&rings->lock);
		if (i < 0)
			return i;
		control = rings->mapped[i];
		used = 0;
	}
	to = (uint8_t *)control + RING_CONTROL_BYTES + used;
	memcpy(to, &entry, sizeof(entry));
	memcpy(to + sizeof(entry), text, length);
	atomic_store_explicit(&control->used, used + bytes, memory_order_release);
	return 0;
}

static int map_regions(struct rings *rings, uint64_t file_bytes, struct err *err)
{
	uint32_t n = rings->header->n_regions;

	if (n > RING_REGIONS)
		return err_set(err, -EBADMSG, "%s: damaged buffer file (%u regions)", rings->path,
			       n);
	for (uint32_t i = 0; i < n; i++) {
		const struct ring_region *region = &rings->header->regions[i];
		uint64_t total = RING_CONTROL_BYTES + (uint64_t)region->bytes;
		uint32_t type = region->type;

		if (!region->offset || (type != REGION_RING && type != REGION_STRINGS))
			continue; /* lived in memory alone */
		if (region->offset % 4096 || region->offset > file_bytes ||
		    total > file_bytes - region->offset || region->bytes < 8 ||
		    (type == REGION_RING && (region->bytes & (region->bytes - 1))))
			return err_set(err, -EBADMSG, "%s: damaged buffer file (region %u)",
				       rings->path, i);
		rings->mapped[i] = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE, rings->fd,
					(off_t)region->offset);
		if (rings->mapped[i] == MAP_FAILED) {
			rings->mapped[i] = NULL;
			return err_sys(err, -errno, "%s: cannot map", rings->path);
		}
		rings->mapped_bytes[i] = total;
	}
	return 0;
}

static int open_dead(struct rings *rings, struct err *err)
{
	struct stat st;

	rings->fd = input_open(rings->path, err);
	if (rings->fd < 0)
		return rings->fd;
	if (flock(rings->fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fstat(rings->fd, &st) < 0)
		return err_sys(err, -errno, "%s: cannot stat", rings->path);
	if (st.st_size < RING_HEADER_BYTES)
		return err_set(err, -EBADMSG, "%s: damaged buffer file (%lld bytes)", rings->path,
			       (long long)st.st_size);
	/* Private and writable: a copy that the reader may mark as it goes. */
	rings->header = mmap(NULL, RING_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			     rings->fd, 0);
	if (rings->header == MAP_FAILED) {
		rings->header = NULL;
		return err_sys(err, -errno, "%s: cannot map", rings->path);
	}
	if (memcmp(rings->header->magic, RING_MAGIC, sizeof(rings->header->magic)) != 0 ||
	    rings->header->version != RING_VERSION)
		return err_set(err, -EPROTONOSUPPORT,
			       "%s: buffer file of another moescope version; its records cannot be "
			       "salvaged by this one",
			       rings->path);
	if (!tick_map_valid(&rings->header->maps[rings->header->map_current & 1]))
		return err_set(err, -EBADMSG, "%s: damaged buffer file (clock)", rings->path);
	return map_regions(rings, (uint64_t)st.st_size, err);
}

int rings_open(const char *path, struct rings **ret_rings, struct err *err)
{
	struct rings *rings = calloc(1, sizeof(*rings));
	int r;

	if (!rings || !(rings->path = strdup(path))) {
		free(rings);
		return -ENOMEM;
	}
	rings->fd = rings->wake_fd = -1;
	r = open_dead(rings, err);
	if (r < 0) {
		rings_free(rings, false);
		return r;
	}
	*ret_rings = rings;
	return 0;
}

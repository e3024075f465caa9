/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared mapping between recording threads and the drain; see ring.h for who may touch what.
 * Disk space is allocated before it is mapped: a write to a mapped hole on a full disk would raise
 * SIGBUS in the profiled program. For truncated files see bus_guard.h.
 */
#include "trace/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files/input_file.h"
#include "trace/bus_guard.h"

#define POPULATED 2	  /* of the spares: unused pages are work for the disk */
#define POPULATE_WRITE 23 /* MADV_POPULATE_WRITE, which older headers lack */
#define LOCK_TRIES 100	  /* milliseconds */

static void *map_memory(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* The lock has its own descriptor if only this thread has it: a mapping keeps the file open, and a
 * child forked at the wrong moment may have one for as long as it lives. In a shared table it is
 * the other way round: the mappings keep the lock when the program closes our number. */
static int lock_file(struct rings *rings, const char *path)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	int r = rings->file.owner ? held_open(&rings->lock_file, path, O_RDWR, 0) : 0;
	int fd = rings->file.owner ? rings->lock_file.fd : rings->file.fd;

	/* A reader that follows the run may be checking whether anyone holds it. */
	for (int i = 0; r == 0 && flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		r = errno == EWOULDBLOCK && i < LOCK_TRIES ? 0 : -errno;
		nanosleep(&moment, NULL);
	}
	/* Nobody has a reason to write it, and truncating a mapped file raises SIGBUS here. */
	if (r == 0 && fchmod(fd, 0444) < 0)
		r = 0;
	return r;
}

static int open_file(struct rings *rings, const char *path)
{
	int r = held_open(&rings->file, path, O_RDWR | O_CREAT | O_EXCL, 0644);

	if (r < 0)
		return r;
	r = lock_file(rings, path);
	if (r == 0)
		r = held_allocate(&rings->file, 0, RING_HEADER_BYTES);
	if (r == 0) {
		rings->path = strdup(path);
		rings->header = held_map(&rings->file, 0, RING_HEADER_BYTES);
		r = rings->path && rings->header ? 0 : -ENOMEM;
	}
	if (r < 0) {
		held_close(&rings->file);
		held_close(&rings->lock_file);
		unlink(path);
	}
	return r;
}

static uint32_t ring_size(uint32_t wanted)
{
	uint32_t bytes = RING_MIN_BYTES;

	while (bytes < wanted && bytes < RING_MAX_BYTES)
		bytes *= 2;
	return bytes;
}

int rings_create(const char *path, uint32_t ring_bytes, struct wake *wake, struct rings **ret_rings,
		 int *ret_why)
{
	struct rings *rings = calloc(1, sizeof(*rings));
	int r;

	if (!rings)
		return -ENOMEM;
	pthread_mutex_init(&rings->lock, NULL);
	rings->wake = wake;
	rings->ring_bytes = ring_size(ring_bytes);
	rings->file.fd = rings->lock_file.fd = -1;
	r = path ? open_file(rings, path) : -EINVAL;
	*ret_why = -r;
	if (!rings->header)
		rings->header = map_memory(RING_HEADER_BYTES);
	if (!rings->header) {
		rings_free(rings, true);
		return -ENOMEM;
	}
	bus_guard_add(rings->header, RING_HEADER_BYTES);
	rings->file_bytes = RING_HEADER_BYTES;
	memcpy(rings->header->magic, RING_MAGIC, sizeof(rings->header->magic));
	rings->header->version = RING_VERSION;
	rings->header->pid = (uint32_t)getpid();
	rings->header->ticks_are_counter = clock_has_counter;
	rings_refill(rings);
	*ret_rings = rings;
	return 0;
}

static void unmap(void *at, uint64_t bytes)
{
	bus_guard_remove(at);
	munmap(at, bytes);
}

void rings_free(struct rings *rings, bool remove_file)
{
	if (!rings)
		return;
	for (int i = 0; i < RING_REGIONS; i++)
		if (rings->mapped[i])
			unmap(rings->mapped[i], rings->mapped_bytes[i]);
	for (uint32_t i = 0; i < rings->n_spares; i++)
		unmap(rings->spares[i].mapped, RING_CONTROL_BYTES + rings->spares[i].bytes);
	if (rings->header)
		unmap(rings->header, RING_HEADER_BYTES);
	if (remove_file && rings->path)
		unlink(rings->path);
	held_close(&rings->file);
	held_close(&rings->lock_file);
	free(rings->path);
	free(rings);
}

/* A part that cannot be replaced stays as it is, mapped and guarded. */
static bool replace_mapping(void *at, uint64_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;

	return mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
}

static void retire(void *at, uint64_t bytes)
{
	if (replace_mapping(at, bytes))
		bus_guard_remove(at);
}

void rings_retire(struct rings *rings, bool remove_file)
{
	for (int i = 0; i < RING_REGIONS; i++)
		if (rings->mapped[i])
			retire(rings->mapped[i], rings->mapped_bytes[i]);
	memset(rings->mapped, 0, sizeof(rings->mapped));
	rings_free(rings, remove_file);
}

void rings_forget(struct rings *rings)
{
	for (int i = 0; i < RING_REGIONS; i++)
		if (rings->mapped[i])
			retire(rings->mapped[i], rings->mapped_bytes[i]);
	for (uint32_t i = 0; i < rings->n_spares; i++)
		unmap(rings->spares[i].mapped, RING_CONTROL_BYTES + rings->spares[i].bytes);
	retire(rings->header, RING_HEADER_BYTES);
	held_close(&rings->file);
	held_close(&rings->lock_file);
}

int rings_check(const struct rings *rings)
{
	return rings->file.fd < 0 ? 0 : held_check(&rings->file);
}

void rings_let_go(struct rings *rings)
{
	/* The guard stays: a thread that has hit the end of the file may be on its way to it. */
	uint32_t n;

	pthread_mutex_lock(&rings->lock);
	n = atomic_load_explicit(&rings->n_regions, memory_order_relaxed);
	for (uint32_t i = 0; i < n; i++)
		if (rings->regions[i].offset)
			replace_mapping(rings->mapped[i], rings->mapped_bytes[i]);
	for (uint32_t i = 0; i < rings->n_spares; i++)
		replace_mapping(rings->spares[i].mapped,
				RING_CONTROL_BYTES + rings->spares[i].bytes);
	replace_mapping(rings->header, RING_HEADER_BYTES);
	pthread_mutex_unlock(&rings->lock);
}

/* Space in the file for a region; only for the drain. False: none available. */
static bool make_spare(struct rings *rings, uint32_t bytes, struct ring_spare *ret_spare)
{
	uint64_t total = RING_CONTROL_BYTES + (uint64_t)bytes, offset = rings->file_bytes;
	void *at;

	if (rings->file.fd < 0 || held_allocate(&rings->file, offset, total) < 0)
		return false;
	rings->file_bytes += total;
	at = held_map(&rings->file, offset, total);
	if (!at)
		return false;
	bus_guard_add(at, total);
	*ret_spare = (struct ring_spare){ .mapped = at, .offset = offset, .bytes = bytes };
	return true;
}

/* One of this size, taken out of the spares; mapped NULL: there is none. The lock is held. */
static struct ring_spare take_spare(struct rings *rings, uint32_t bytes)
{
	struct ring_spare spare = { .bytes = bytes };

	for (uint32_t i = 0; i < rings->n_spares; i++) {
		if (rings->spares[i].bytes != bytes)
			continue;
		spare = rings->spares[i];
		rings->spares[i] = rings->spares[--rings->n_spares];
		break;
	}
	return spare;
}

/* Adds a region; its index, or -errno; the lock is held. Visible to the drain once counted. */
static int add_region(struct rings *rings, enum region_type type, struct ring_spare spare)
{
	uint32_t i = atomic_load_explicit(&rings->n_regions, memory_order_relaxed);
	struct ring_region *region = &rings->regions[i], *shared = &rings->header->regions[i];
	uint64_t total = RING_CONTROL_BYTES + (uint64_t)spare.bytes;

	if (i == RING_REGIONS)
		return -ENOSPC;
	if (!spare.mapped)
		spare.mapped = map_memory(total);
	if (!spare.mapped)
		return -ENOMEM;
	rings->mapped[i] = spare.mapped;
	rings->mapped_bytes[i] = total;
	region->bytes = shared->bytes = spare.bytes;
	region->offset = shared->offset = spare.offset;
	atomic_store_explicit(&region->type, type, memory_order_relaxed);
	atomic_store_explicit(&shared->type, type, memory_order_release);
	atomic_store_explicit(&rings->header->n_regions, i + 1, memory_order_release);
	atomic_store_explicit(&rings->n_regions, i + 1, memory_order_release);
	return (int)i;
}

static uint32_t count_spares(struct rings *rings, uint32_t bytes)
{
	uint32_t n = 0;

	pthread_mutex_lock(&rings->lock);
	for (uint32_t i = 0; i < rings->n_spares; i++)
		n += rings->spares[i].bytes == bytes;
	pthread_mutex_unlock(&rings->lock);
	return n;
}

static void refill_free_rings(struct rings *rings, uint32_t bytes, uint32_t wanted)
{
	struct ring_spare spare;

	for (uint32_t n = count_spares(rings, bytes); n < wanted; n++) {
		if (!make_spare(rings, bytes, &spare))
			return;
		pthread_mutex_lock(&rings->lock);
		rings->spares[rings->n_spares++] = spare;
		pthread_mutex_unlock(&rings->lock);
	}
}

/* Finds a place in the file for a ring in memory. If there is none, the ring's own address tells
 * the thread to stay. */
static void offer_place(struct rings *rings, uint32_t region)
{
	struct ring_control *control = rings_control(rings, region), *next = control, *none = NULL;
	struct ring_spare spare;
	int i;

	if (make_spare(rings, rings->regions[region].bytes, &spare)) {
		pthread_mutex_lock(&rings->lock);
		i = add_region(rings, REGION_RING, spare);
		if (i >= 0) {
			next = rings_control(rings, (uint32_t)i);
			atomic_store(&next->state, RING_USED);
		}
		pthread_mutex_unlock(&rings->lock);
		if (i < 0)
			unmap(spare.mapped, RING_CONTROL_BYTES + spare.bytes);
	}
	/* The thread may have ended meanwhile. */
	if (!atomic_compare_exchange_strong(&control->next, &none, next) && next != control)
		atomic_store(&next->state, RING_FREE);
}

void rings_refill(struct rings *rings)
{
	uint32_t n = atomic_load_explicit(&rings->n_regions, memory_order_acquire);
	uint32_t wanted = (8u << 20) / rings->ring_bytes;

	if (rings->file.fd < 0)
		return;
	for (uint32_t i = 0; i < n; i++) {
		struct ring_control *control = rings_control(rings, i);

		if (rings->regions[i].type == REGION_RING && !rings->regions[i].offset &&
		    atomic_load_explicit(&control->state, memory_order_acquire) == RING_USED &&
		    !atomic_load_explicit(&control->next, memory_order_relaxed))
			offer_place(rings, i);
	}
	refill_free_rings(rings, rings->ring_bytes,
			  wanted > RING_SPARES ? RING_SPARES
			  : wanted	       ? wanted
					       : 1);
	refill_free_rings(rings, STRINGS_BYTES, STRINGS_SPARES);
}

void rings_populate(struct rings *rings)
{
	void *at[POPULATED] = { NULL };
	uint32_t n = 0;

	pthread_mutex_lock(&rings->lock);
	for (uint32_t i = 0; i < rings->n_spares && n < POPULATED; i++) {
		if (rings->spares[i].bytes != rings->ring_bytes)
			continue;
		if (!rings->spares[i].populated)
			at[n] = rings->spares[i].mapped;
		rings->spares[i].populated = true;
		n++;
	}
	pthread_mutex_unlock(&rings->lock);
	/* A thread that takes one meanwhile loses nothing: this leaves the contents unchanged.
	 * Older kernels refuse, and the thread takes the page faults itself. */
	for (uint32_t i = 0; i < n; i++)
		if (at[i])
			madvise(at[i], RING_CONTROL_BYTES + (size_t)rings->ring_bytes,
				POPULATE_WRITE);
}

static void wake_drain(struct wake *wake)
{
	if (wake)
		wake_up(wake);
}

/* A drained ring of an ended thread, preferably one in the file. */
static int find_free(struct rings *rings, uint32_t bytes)
{
	uint32_t n = atomic_load_explicit(&rings->n_regions, memory_order_relaxed);
	int found = -ENOENT;

	for (uint32_t i = 0; i < n; i++) {
		if (rings->regions[i].type != REGION_RING || rings->regions[i].bytes != bytes ||
		    atomic_load_explicit(&rings_control(rings, i)->state, memory_order_acquire) !=
			    RING_FREE)
			continue;
		found = (int)i;
		if (rings->regions[i].offset)
			break;
	}
	return found;
}

/* The index of a ring that is now the caller's, or -errno; the lock is held. */
static int take_ring(struct rings *rings, uint32_t bytes)
{
	int i = find_free(rings, bytes);

	if (i < 0 || !rings->regions[i].offset) {
		struct ring_spare spare = take_spare(rings, bytes);

		if (i < 0 || spare.mapped)
			i = add_region(rings, REGION_RING, spare);
		if (rings->file.fd >= 0)
			wake_drain(rings->wake);
	}
	if (i >= 0) {
		atomic_store(&rings_control(rings, (uint32_t)i)->next, NULL);
		atomic_store(&rings_control(rings, (uint32_t)i)->state, RING_USED);
	}
	return i;
}

static void use_control(struct ring *ring, struct ring_control *control)
{
	ring->control = control;
	ring->data = (uint8_t *)control + RING_CONTROL_BYTES;
	ring->head = ring->limit = atomic_load(&control->head);
}

struct ring *rings_attach_sized(struct rings *rings, uint32_t thread, uint32_t bytes)
{
	struct ring *ring = calloc(1, sizeof(*ring));
	int i;

	if (!ring)
		return NULL;
	bytes = ring_size(bytes);
	pthread_mutex_lock(&rings->lock);
	i = take_ring(rings, bytes);
	pthread_mutex_unlock(&rings->lock);
	if (i < 0) {
		free(ring);
		return NULL;
	}
	use_control(ring, rings_control(rings, (uint32_t)i));
	ring->size = bytes;
	ring->may_move = rings->file.fd >= 0 && !rings->regions[i].offset;
	ring->wake = rings->wake;
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
	struct ring_control *next = NULL;

	/* Ranges that the thread left open: nobody will end them. */
	atomic_fetch_add_explicit(&ring->control->dropped[DROP_UNBALANCED], ring->depth,
				  memory_order_relaxed);
	atomic_store_explicit(&ring->control->depth, 0, memory_order_relaxed);
	if (ring->may_move)
		next = atomic_exchange(&ring->control->next, ring->control);
	if (next && next != ring->control)
		atomic_store_explicit(&next->state, RING_RELEASED, memory_order_release);
	atomic_store_explicit(&ring->control->state, RING_RELEASED, memory_order_release);
	free(ring);
}

static void copy_frame(struct ring_frame *to, const struct ring_frame *from)
{
	atomic_store_explicit(&to->start_ticks, atomic_load(&from->start_ticks),
			      memory_order_relaxed);
	atomic_store_explicit(&to->name_layer, atomic_load(&from->name_layer),
			      memory_order_relaxed);
	atomic_store_explicit(&to->expert_shape, atomic_load(&from->expert_shape),
			      memory_order_relaxed);
	atomic_store_explicit(&to->bits, atomic_load(&from->bits), memory_order_relaxed);
}

/* From memory to the place that the drain has found in the file. What is in the old ring is taken
 * from there, before what comes now: the new one is behind it. */
static void move_to_file(struct ring *ring)
{
	struct ring_control *old = ring->control;
	struct ring_control *next = atomic_load_explicit(&old->next, memory_order_acquire);

	if (!next)
		return;
	ring->may_move = false;
	if (next == old)
		return;
	for (uint32_t i = 0; i < ring->depth; i++)
		copy_frame(&next->frames[i], &old->frames[i]);
	atomic_store_explicit(&next->thread, atomic_load(&old->thread), memory_order_relaxed);
	atomic_store_explicit(&next->depth, ring->depth, memory_order_release);
	use_control(ring, next);
	atomic_store_explicit(&old->depth, 0, memory_order_relaxed);
	atomic_store_explicit(&old->state, RING_RELEASED, memory_order_release);
	wake_drain(ring->wake);
}

void *ring_reserve_slow(struct ring *ring, uint32_t bytes)
{
	uint64_t at, skip, tail, used;

	if (ring->may_move)
		move_to_file(ring);
	if (bytes > ring->size / 4) {
		ring_drop(ring, DROP_TOO_LARGE);
		return NULL;
	}
	at = ring->head & (ring->size - 1);
	skip = at + bytes > ring->size ? ring->size - at : 0;
	tail = atomic_load_explicit(&ring->control->tail, memory_order_acquire);
	used = ring->head - tail + skip + bytes;
	if (used > ring->size / 2)
		wake_drain(ring->wake);
	if (used > ring->size) {
		ring_drop(ring, DROP_RING_FULL);
		return NULL;
	}
	/* When to check the tail next: at half full, then after every eighth. */
	ring->limit = used <= ring->size / 2 ? tail + ring->size / 2 : tail + used + ring->size / 8;
	if (ring->limit > tail + ring->size)
		ring->limit = tail + ring->size;
	if (ring->may_move)
		ring->limit = ring->head; /* the next record checks again */
	if (skip) {
		struct ring_record *pad = (struct ring_record *)(ring->data + at);

		*pad = (struct ring_record){ .words = (uint16_t)(skip / 8) };
		ring_commit(ring, (uint32_t)skip);
		at = 0;
	}
	return ring->data + at;
}

bool ring_has_place(const struct ring *ring)
{
	return !ring->may_move || atomic_load_explicit(&ring->control->next, memory_order_acquire);
}

bool ring_has_room(struct ring *ring, uint32_t bytes)
{
	uint64_t at = ring->head & (ring->size - 1);
	uint64_t skip = at + bytes > ring->size ? ring->size - at : 0;
	uint64_t tail = atomic_load_explicit(&ring->control->tail, memory_order_acquire);

	if (ring->head - tail + skip + bytes <= ring->size)
		return true;
	wake_drain(ring->wake);
	return false;
}

int rings_log_string(struct rings *rings, uint32_t id, const char *text, uint32_t length)
{
	uint32_t bytes = sizeof(struct ring_string) + ((length + 7) & ~7u);
	uint32_t n = atomic_load_explicit(&rings->n_regions, memory_order_relaxed);
	struct ring_string entry = { id, length };
	struct strings_control *control = NULL;
	uint64_t used = 0;
	uint8_t *to;

	/* Only the newest log region can have room. */
	while (n-- > 0) {
		if (rings->regions[n].type != REGION_STRINGS)
			continue;
		control = rings->mapped[n];
		used = atomic_load_explicit(&control->used, memory_order_relaxed);
		if (used > rings->regions[n].bytes || bytes > rings->regions[n].bytes - used)
			control = NULL;
		break;
	}
	if (!control) {
		int i;

		pthread_mutex_lock(&rings->lock);
		i = add_region(rings, REGION_STRINGS, take_spare(rings, STRINGS_BYTES));
		pthread_mutex_unlock(&rings->lock);
		if (i < 0)
			return i;
		wake_drain(rings->wake);
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
	atomic_store(&rings->n_regions, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct ring_region *region = &rings->regions[i];
		uint64_t total;
		uint32_t type;

		rings->regions[i] = rings->header->regions[i];
		total = RING_CONTROL_BYTES + (uint64_t)region->bytes;
		type = region->type;

		if (!region->offset || (type != REGION_RING && type != REGION_STRINGS))
			continue; /* it was only in memory */
		if (region->offset % 4096 || region->offset > file_bytes ||
		    total > file_bytes - region->offset || region->bytes < 8 ||
		    (type == REGION_RING && (region->bytes & (region->bytes - 1))))
			return err_set(err, -EBADMSG, "%s: damaged buffer file (region %u)",
				       rings->path, i);
		rings->mapped[i] = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE,
					rings->file.fd, (off_t)region->offset);
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
	int fd = input_open(rings->path, err), r;
	struct stat st;

	if (fd < 0)
		return fd;
	r = held_take(&rings->file, fd);
	if (r < 0)
		return err_sys(err, r, "%s: cannot open", rings->path);
	if (flock(rings->file.fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fstat(rings->file.fd, &st) < 0)
		return err_sys(err, -errno, "%s: cannot stat", rings->path);
	if (st.st_size < RING_HEADER_BYTES)
		return err_set(err, -EBADMSG, "%s: damaged buffer file (%lld bytes)", rings->path,
			       (long long)st.st_size);
	/* Private and writable: a copy that the reader may mark as it goes. */
	rings->header = mmap(NULL, RING_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			     rings->file.fd, 0);
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
	rings->file.fd = rings->lock_file.fd = -1;
	r = open_dead(rings, err);
	if (r < 0) {
		rings_free(rings, false);
		return r;
	}
	*ret_rings = rings;
	return 0;
}

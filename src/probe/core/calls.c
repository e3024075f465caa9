/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the program into libraries; see calls.h. Long calls are rows in the thread's ring. The others are counted
 * in tables that groups of threads share, whose sums the drain writes.
 */
#include "probe/core/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "probe/core/probe.h"

#define RELAXED memory_order_relaxed
/* Tables, so that threads seldom share a line. */
#define TABLES 32
#define TELL_NS INT64_C(1000000000)
#define LONGER_NS 10000 /* unless MOESCOPE_CALLS_NS says otherwise */

struct tally {
	_Atomic uint64_t calls, ticks, bytes;
};

struct sums {
	uint64_t calls, ticks, bytes;
};

static struct {
	uint32_t name, library;
} functions[CALLS_FUNCTIONS];
static _Atomic uint32_t n_functions;

static struct tally tallies[TABLES][CALLS_FUNCTIONS];
static _Atomic uint32_t next_table;
static _Atomic uint64_t longer_ticks = UINT64_MAX;

/* The drain's alone. */
static struct sums told[CALLS_FUNCTIONS], appended[CALLS_FUNCTIONS];
static int64_t told_ns;

#define EARLY __attribute__((tls_model("initial-exec")))
/* Whether the thread may read the clock: asked once of threads that have no ring. */
enum thread_clock { CLOCK_NOT_ASKED, CLOCK_ON, CLOCK_OFF };
static __thread uint8_t thread_clock EARLY;
static __thread uint8_t thread_table EARLY; /* plus 1; 0: none yet */

PROBE_LOCK(functions_lock);

uint32_t moescope_calls_function(const char *library, const char *name)
{
	uint32_t i = CALLS_NO_FUNCTION;
	uint32_t of_name = moescope_intern(name),
		 of_library = library ? moescope_intern(library) : 0;

	if (!of_name || !probe_lock(&functions_lock))
		return i;
	if (atomic_load(&n_functions) < CALLS_FUNCTIONS) {
		i = atomic_load(&n_functions);
		functions[i].name = of_name;
		functions[i].library = of_library;
		atomic_store(&n_functions, i + 1);
	}
	probe_unlock(&functions_lock);
	return i;
}

static bool has_ring(void)
{
	return thread_ring && thread_session == atomic_load_explicit(&probe_session, RELAXED);
}

/* A forked child finds no session: its calls are not even counted. */
bool moescope_calls_on(void)
{
	return atomic_load_explicit(&probe_session, RELAXED) && !thread_apart && !thread_busy &&
	       !probe_in_control();
}

void moescope_calls_thread(void)
{
	if (moescope_calls_on())
		probe_ring();
}

void moescope_calls_renamed(void)
{
	int saved = errno;

	if (moescope_calls_on() && has_ring())
		probe_announce_thread(ring_thread(thread_ring));
	errno = saved;
}

void moescope_calls_leave(void)
{
	thread_apart = true;
}

static bool clock_is_on(void)
{
	if (thread_clock == CLOCK_NOT_ASKED) {
		int saved = errno;

		thread_clock = !clock_has_counter || clock_counter_is_on() ? CLOCK_ON : CLOCK_OFF;
		errno = saved;
	}
	return thread_clock == CLOCK_ON;
}

uint64_t moescope_calls_begin(void)
{
	if (!GATE_NOW(gate_load()) || !moescope_calls_on() || (!has_ring() && !clock_is_on()))
		return 0;
	return clock_ticks();
}

static struct tally *tally_of(uint32_t function)
{
	if (!thread_table)
		thread_table = (uint8_t)(atomic_fetch_add(&next_table, 1) % TABLES + 1);
	return &tallies[thread_table - 1][function];
}

static void count(uint32_t function, uint64_t ticks, int64_t bytes)
{
	struct tally *tally = tally_of(function);

	atomic_fetch_add_explicit(&tally->calls, 1, RELAXED);
	if (ticks)
		atomic_fetch_add_explicit(&tally->ticks, ticks, RELAXED);
	if (bytes > 0)
		atomic_fetch_add_explicit(&tally->bytes, (uint64_t)bytes, RELAXED);
}

void moescope_calls_count(uint32_t function)
{
	if (function < CALLS_FUNCTIONS && GATE_NOW(gate_load()) && moescope_calls_on())
		count(function, 0, 0);
}

static uint8_t file_of(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return CALL_ON_NONE;
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return CALL_ON_FILE;
	case S_IFDIR:
		return CALL_ON_DIRECTORY;
	case S_IFCHR:
	case S_IFBLK:
		return CALL_ON_DEVICE;
	case S_IFIFO:
		return CALL_ON_PIPE;
	case S_IFSOCK:
		return CALL_ON_SOCKET;
	default:
		return CALL_ON_OTHER;
	}
}

/* Whether a call that has begun still belongs to a session: it may have been paused or forked meanwhile. */
static bool still_recorded(uint32_t function)
{
	return function < CALLS_FUNCTIONS && GATE_NOW(gate_load()) && !thread_busy &&
	       atomic_load_explicit(&probe_session, RELAXED);
}

void moescope_calls_end_os(uint32_t function, uint64_t start, int64_t bytes, int fd)
{
	uint64_t ticks = clock_ticks() - start;
	struct row_os_call row;
	int saved;

	if (!still_recorded(function))
		return;
	if (ticks < atomic_load_explicit(&longer_ticks, RELAXED) || !has_ring()) {
		count(function, ticks, bytes);
		return;
	}
	saved = errno;
	row = (struct row_os_call){ .name = functions[function].name,
				    .start_ns = (int64_t)start,
				    .duration_ns = (int64_t)ticks,
				    .thread = ring_thread(thread_ring),
				    .bytes = bytes > 0 ? (uint64_t)bytes : 0,
				    .bytes_known = bytes >= 0,
				    .file = file_of(fd) };
	_Static_assert(sizeof(row) % 8 == 0, "rows keep the ring aligned");
	probe_push(RECORD_OS_CALL, &row, sizeof(row), NULL, 0);
	errno = saved;
}

void moescope_calls_end(uint32_t function, uint64_t start, const struct call_sizes *sizes)
{
	uint64_t ticks = clock_ticks() - start;
	struct row_library_call row;
	int saved;

	if (!still_recorded(function))
		return;
	if (!has_ring()) {
		count(function, ticks, 0);
		return;
	}
	saved = errno;
	row = (struct row_library_call){ .name = functions[function].name,
					 .start_ns = (int64_t)start,
					 .duration_ns = (int64_t)ticks,
					 .thread = ring_thread(thread_ring),
					 .library = functions[function].library,
					 .type = sizes->type,
					 .gemm_m = sizes->m,
					 .gemm_n = sizes->n,
					 .gemm_k = sizes->k,
					 .batch = sizes->batch,
					 .elements = sizes->elements,
					 .peer = sizes->peer,
					 .communicator = sizes->communicator,
					 .status = sizes->status };
	_Static_assert(sizeof(row) % 8 == 0, "rows keep the ring aligned");
	probe_push(RECORD_LIBRARY_CALL, &row, sizeof(row), NULL, 0);
	errno = saved;
}

/* ---- the drain */

static double rate_of(const struct tick_map *map)
{
	return map->segments[map->n_segments - 1].ns_per_tick;
}

static struct sums sum_of(uint32_t function)
{
	struct sums sums = { 0 };

	for (int i = 0; i < TABLES; i++) {
		const struct tally *tally = &tallies[i][function];

		sums.calls += atomic_load_explicit(&tally->calls, RELAXED);
		sums.ticks += atomic_load_explicit(&tally->ticks, RELAXED);
		sums.bytes += atomic_load_explicit(&tally->bytes, RELAXED);
	}
	return sums;
}

void calls_open(const struct tick_map *map)
{
	const char *given = getenv("MOESCOPE_CALLS_NS");
	double ns = given ? (double)strtoull(given, NULL, 10) : LONGER_NS;
	uint32_t n = atomic_load(&n_functions);

	for (uint32_t i = 0; i < n; i++)
		told[i] = sum_of(i);
	told_ns = clock_monotonic_ns();
	atomic_store(&longer_ticks, (uint64_t)(ns / rate_of(map)));
}

int calls_append(const struct tick_map *map, struct encoder *encoder, bool last)
{
	uint32_t n = atomic_load(&n_functions);
	int64_t now = clock_monotonic_ns();

	for (uint32_t i = 0; i < n; i++)
		appended[i] = told[i];
	if (!last && now - told_ns < TELL_NS)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		struct row_call_count row = { .time_ns = now,
					      .name = functions[i].name,
					      .library = functions[i].library };
		int r;

		appended[i] = sum_of(i);
		row.calls = appended[i].calls - told[i].calls;
		row.total_ns =
			(uint64_t)((double)(appended[i].ticks - told[i].ticks) * rate_of(map));
		row.bytes = appended[i].bytes - told[i].bytes;
		r = row.calls ? encoder_append(encoder, RECORD_CALL_COUNT, &row) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

void calls_told(void)
{
	uint32_t n = atomic_load(&n_functions);
	bool changed = false;

	for (uint32_t i = 0; i < n; i++) {
		changed |= told[i].calls != appended[i].calls;
		told[i] = appended[i];
	}
	if (changed)
		told_ns = clock_monotonic_ns();
}

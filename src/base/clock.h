/* SPDX-License-Identifier: Apache-2.0
 *
 * Time. Recording threads read ticks, the cheapest steady counter of the machine; whoever drains
 * them turns ticks into CLOCK_MONOTONIC nanoseconds with a tick_map.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* True when ticks are the processor's counter; false: CLOCK_MONOTONIC nanoseconds. Set by
 * clock_init before the first clock_ticks, and again when nobody reads ticks: a program may have
 * switched the counter off for the calling thread (PR_SET_TSC, strict seccomp). Times then come by
 * system calls, since the vDSO reads the counter, too. */
extern bool clock_has_counter;
void clock_init(void);
/* Whether this thread may read the counter; a system call. */
bool clock_counter_is_on(void);
/* Switches it for this thread; what it was before. */
bool clock_counter_switch(bool on);
const char *clock_source_name(void);

int64_t clock_monotonic_ns(void);
int64_t clock_realtime_ns(void);
int64_t clock_thread_cpu_ns(void);
int64_t clock_process_cpu_ns(void);
/* So long from now, on CLOCK_MONOTONIC: who waits by the wall clock waits for hours when that is set back. */
struct timespec clock_deadline(int64_t ns);

static inline uint64_t clock_ticks(void)
{
	if (__builtin_expect(clock_has_counter, 1)) {
#if defined(__x86_64__)
		return __rdtsc();
#elif defined(__aarch64__)
		uint64_t ticks;

		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
		return ticks;
#endif
	}
	return (uint64_t)clock_monotonic_ns();
}

/* Piecewise linear and continuous: a tick keeps its nanosecond for the next 62 bends, and later
 * ticks never come earlier. Each update measures how far the map is off and bends the rest of it
 * so that the difference is gone a second later. One owner. */
struct tick_segment {
	uint64_t ticks;
	int64_t ns;
	double ns_per_tick;
};

#define TICK_SEGMENTS 64
struct tick_map {
	struct tick_segment segments[TICK_SEGMENTS]; /* oldest first */
	uint32_t n_segments;
	uint64_t first_ticks; /* the first measured pair: the long baseline of the rate */
	int64_t first_ns;
};

void tick_map_init(struct tick_map *map);
void tick_map_update(struct tick_map *map);
/* For maps read from a file. */
bool tick_map_valid(const struct tick_map *map);
int64_t tick_map_ns(const struct tick_map *map, uint64_t ticks);

#endif

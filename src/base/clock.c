/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks and the conversion of ticks. clock_init decides once whether the processor's counter can
 * be trusted: on x86-64 only when it is invariant and the kernel itself keeps time by it.
 */
#include "base/clock.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/small_file.h"

bool clock_has_counter;
static bool by_system_calls;

static int64_t clock_ns(clockid_t id)
{
	struct timespec t;

	if (__builtin_expect(by_system_calls, 0))
		syscall(SYS_clock_gettime, id, &t);
	else
		clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t clock_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

int64_t clock_thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t clock_process_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

struct timespec clock_deadline(int64_t ns)
{
	int64_t until = clock_monotonic_ns() + ns;

	return (struct timespec){ .tv_sec = until / 1000000000, .tv_nsec = until % 1000000000 };
}

#if defined(__x86_64__)
static bool counter_is_trusted(void)
{
	unsigned int a, b, c, d;
	char source[32];

	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1u << 8))
		return false;
	small_file_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
			sizeof(source));
	return !strncmp(source, "tsc", 3);
}
#endif

bool clock_counter_is_on(void)
{
	int is = PR_TSC_ENABLE;

#if defined(__x86_64__)
	prctl(PR_GET_TSC, &is, 0, 0, 0);
#endif
	return is == PR_TSC_ENABLE;
}

bool clock_counter_switch(bool on)
{
	bool was = clock_counter_is_on();

	if (on != was)
		prctl(PR_SET_TSC, on ? PR_TSC_ENABLE : PR_TSC_SIGSEGV, 0, 0, 0);
	return was;
}

void clock_init(void)
{
	bool on = clock_counter_is_on(), has_counter = false;

#if defined(__x86_64__)
	static int trusted = -1;

	if (trusted < 0)
		trusted = counter_is_trusted();
	has_counter = trusted && on;
#elif defined(__aarch64__)
	has_counter = on;
#endif
	/* Threads of a session that has ended may still be reading these. */
	if (clock_has_counter != has_counter)
		clock_has_counter = has_counter;
	if (by_system_calls == on)
		by_system_calls = !on;
}

const char *clock_source_name(void)
{
	if (!clock_has_counter)
		return "clock_gettime";
#if defined(__x86_64__)
	return "tsc";
#else
	return "cntvct";
#endif
}

/* The pair with the narrowest window of a few tries. */
static void measure_ticks(uint64_t *ret_ticks, int64_t *ret_ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_ticks();
		int64_t ns = clock_monotonic_ns();
		uint64_t after = clock_ticks();

		if (after - before < best) {
			best = after - before;
			*ret_ticks = before + best / 2;
			*ret_ns = ns;
		}
	}
}

void tick_map_init(struct tick_map *map)
{
	const int64_t settle_ns = 2000000; /* rate known to about 1e-5; updates do the rest */
	uint64_t ticks = 0;
	int64_t ns = 0;
	double rate = 1;

	memset(map, 0, sizeof(*map));
	measure_ticks(&map->first_ticks, &map->first_ns);
	if (clock_has_counter) {
		do {
			measure_ticks(&ticks, &ns);
		} while (ns - map->first_ns < settle_ns);
		rate = (double)(ns - map->first_ns) / (double)(ticks - map->first_ticks);
	}
	map->segments[0] = (struct tick_segment){ map->first_ticks, map->first_ns, rate };
	map->n_segments = 1;
}

static int64_t segment_ns(const struct tick_segment *segment, uint64_t ticks)
{
	const double limit = 0x1p60; /* only a damaged file gets there; keeps sums in range */
	double off = (double)(int64_t)(ticks - segment->ticks) * segment->ns_per_tick;

	if (__builtin_expect(!(off > -limit && off < limit), 0))
		off = off < 0 ? -limit : limit;
	return segment->ns + (int64_t)off;
}

int64_t tick_map_ns(const struct tick_map *map, uint64_t ticks)
{
	uint32_t i = map->n_segments;

	while (i > 1 && ticks < map->segments[i - 1].ticks)
		i--;
	return segment_ns(&map->segments[i - 1], ticks);
}

bool tick_map_valid(const struct tick_map *map)
{
	if (map->n_segments < 1 || map->n_segments > TICK_SEGMENTS)
		return false;
	for (uint32_t i = 0; i < map->n_segments; i++) {
		const struct tick_segment *segment = &map->segments[i];

		if (!(segment->ns_per_tick > 1e-6 && segment->ns_per_tick < 1e6) ||
		    segment->ns < 0 || segment->ns > INT64_C(1) << 60)
			return false;
	}
	return true;
}

void tick_map_update(struct tick_map *map)
{
	const double amortise_ns = 1e9, tolerance_ns = 60, jump_ns = 1e8;
	struct tick_segment next;
	double rate, off;
	uint64_t ticks = 0;
	int64_t ns = 0;

	if (!clock_has_counter)
		return;
	measure_ticks(&ticks, &ns);
	next.ticks = ticks;
	next.ns = tick_map_ns(map, ticks);
	off = (double)(ns - next.ns);
	if (off < tolerance_ns && off > -tolerance_ns)
		return;
	rate = (double)(ns - map->first_ns) / (double)(ticks - map->first_ticks);
	if (off > jump_ns) {
		next.ns = ns; /* the machine slept: nothing was recorded in between */
		off = 0;
	}
	next.ns_per_tick = rate * (1 + off / amortise_ns);
	if (next.ns_per_tick <= rate / 2)
		next.ns_per_tick = rate / 2;
	if (map->n_segments == TICK_SEGMENTS) {
		memmove(map->segments + 1, map->segments + 2,
			(TICK_SEGMENTS - 2) * sizeof(map->segments[0]));
		map->n_segments--;
	}
	map->segments[map->n_segments++] = next;
}

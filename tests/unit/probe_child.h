/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the C API: child.h, and every call with what it leaves. Include after cmocka.h, once per
 * program.
 */
#ifndef TESTS_PROBE_CHILD_H
#define TESTS_PROBE_CHILD_H

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "moescope.h"
#include "child.h"

static inline void start_at(enum moescope_level level)
{
	struct moescope_options options = { .struct_size = sizeof(options), .level = level };

	CHECK(moescope_start_with("run.mscope", &options) == 0);
}

static inline size_t count_entries(const char *path)
{
	char *command, line[16] = "";
	FILE *f;

	assert_true(asprintf(&command, "ls -A '%s' | wc -l", path) > 0);
	f = popen(command, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	pclose(f);
	free(command);
	return (size_t)atoi(line);
}

static inline void route_once(void)
{
	static const int32_t indices[] = { 0, 1, 2, 3 };
	struct moescope_routing routing = { .struct_size = sizeof(routing),
					    .experts = 4,
					    .k = 2,
					    .tokens = 2,
					    .indices = indices };

	moescope_route(&routing);
}

/* Every call that records, once; after each, errno must be as it was. */
#define KEEPS(call)                                                                                \
	do {                                                                                       \
		errno = 4321;                                                                      \
		call;                                                                              \
		CHECK(errno == 4321);                                                              \
	} while (0)

#define EVERY_CALL_RECORDS 18 /* of them that record at MOESCOPE_TRACE, each end included */

static inline void every_call(void)
{
	struct moescope_moe_layer layer = { .struct_size = sizeof(layer), .experts = 4, .k = 2 };
	struct moescope_stats stats = { .struct_size = sizeof(stats) };
	moescope_name name = 0;

	KEEPS(name = moescope_intern("a name"));
	KEEPS(moescope_step_begin(1));
	KEEPS(moescope_range_begin(name, 1, 2, MOESCOPE_FORWARD));
	KEEPS(moescope_range_end());
	KEEPS(moescope_range_push("pushed"));
	KEEPS(moescope_range_pop());
	KEEPS(moescope_op_begin(name, 1, -1, name));
	KEEPS(moescope_op_end(10, 20));
	KEEPS(moescope_mark("a mark"));
	KEEPS(moescope_counter("a counter", 1.5));
	KEEPS(moescope_alloc(&name, 100, -1, MOESCOPE_MEMORY_CACHE, name));
	KEEPS(moescope_free(&name, -1));
	KEEPS(moescope_request_begin(1, 5));
	KEEPS(moescope_token(1));
	KEEPS(moescope_request_end(1));
	KEEPS(route_once());
	KEEPS(moescope_moe_layer(&layer));
	KEEPS(moescope_info("key", "value"));
	KEEPS(moescope_get_stats(&stats));
	KEEPS(moescope_step_end(10));
	KEEPS(moescope_recording());
	KEEPS(moescope_run_dir());
	KEEPS(moescope_version());
	KEEPS(moescope_pause());
	KEEPS(moescope_resume());
}

/* The number of rows that every_call leaves, by level. */
static inline void assert_level_rows(const struct run *run, enum moescope_level level, size_t times)
{
	bool steps = level >= MOESCOPE_STEPS, trace = level >= MOESCOPE_TRACE;

	assert_int_equal(run->step.n, times);
	assert_int_equal(run->mark.n, times);
	assert_int_equal(run->counter.n, times);
	assert_int_equal(run->routing.n, times);
	assert_int_equal(run->moe_layer.n, times);
	assert_int_equal(run->fact.n, times);
	assert_int_equal(run->memory.n, steps ? 2 * times : 0);
	assert_int_equal(run->token.n, steps ? 3 * times : 0);
	assert_int_equal(run->range.n, trace ? 2 * times : steps ? times : 0);
	assert_int_equal(run->op.n, trace ? times : 0);
	assert_int_equal(run->routed.n, level >= MOESCOPE_FULL ? times : 0);
	assert_int_equal(loss_total(&run->loss), 0);
}

static inline void assert_site(const struct run *run, uint32_t id, const char *name, int32_t layer,
			       int32_t expert, uint8_t phase)
{
	struct site site = run_site(run, id);

	assert_string_equal(run_string(run, site.name), name);
	assert_int_equal(site.layer, layer);
	assert_int_equal(site.expert, expert);
	assert_int_equal(site.phase, phase);
}

static inline void assert_near(double a, double b)
{
	if (!(fabs(a - b) <= 1e-4 * (1 + fabs(b))))
		fail_msg("%.9g is not %.9g", a, b);
}

#endif

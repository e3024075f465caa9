/* SPDX-License-Identifier: Apache-2.0
 *
 * How the core notifies the floors above it; see floors.h.
 */
#include "probe/core/floors.h"

#include <stddef.h>

/* The linker defines these from the section, if it exists. */
#define EDGE __attribute__((weak, visibility("hidden")))
extern const struct probe_floor *const __start_probe_floors[] EDGE;
extern const struct probe_floor *const __stop_probe_floors[] EDGE;

#define TELL(function, ...)                                                                        \
	for (int level = FLOOR_ROUTING; level >= FLOOR_GPU; level--)                               \
		for (const struct probe_floor *const *floor = __start_probe_floors;                \
		     floor < __stop_probe_floors; floor++)                                         \
			if ((*floor)->level == level && (*floor)->function)                        \
	(*floor)->function(__VA_ARGS__)

void floors_join(void)
{
	TELL(joins);
}

void floors_stop(void)
{
	TELL(stops);
}

void floors_after_fork(void)
{
	TELL(after_fork);
}

void floors_end(void)
{
	TELL(ends);
}

void floors_want(bool device)
{
	TELL(wants, device);
}

void floors_step(int64_t start_ns, int64_t end_ns)
{
	TELL(step, start_ns, end_ns);
}

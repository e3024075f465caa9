/* SPDX-License-Identifier: Apache-2.0
 *
 * A session in a program that was already running ('moescope attach --inside'). The lock that the
 * attaching moescope holds in the run directory says that somebody wants it; without it the session is to end,
 * so nothing stays behind if moescope is killed. The drain looks at the lock: its descriptors are not the
 * program's. A thread that the program's language gave us waits, and then takes out what it has put in.
 */
#include "base/wake.h"
#include "probe/core/probe.h"
#include "trace/run_lock.h"

#define LOOK_MS 1000 /* for a session that has ended otherwise */

static struct wake leave;
static _Atomic bool waited_for;

void joined_look(const char *run_dir)
{
	if (atomic_load(&waited_for) && join_lock_holder(run_dir) != RUN_WRITER_HELD)
		wake_up(&leave);
}

void joined_forget(void)
{
	atomic_store(&waited_for, false);
}

void moescope_leave(void)
{
	wake_up(&leave);
}

void moescope_wait_for_leave(void)
{
	uint32_t session = atomic_load(&probe_session);

	if (!session)
		return;
	/* It must not keep a program alive. */
	life_thread_begins("moescope-join");
	leave = (struct wake){ 0 };
	atomic_store(&waited_for, true);
	while (atomic_load(&probe_session) == session && !wake_wait(&leave, LOOK_MS))
		continue;
	joined_forget();
	life_thread_ends();
}

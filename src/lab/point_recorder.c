/* SPDX-License-Identifier: Apache-2.0
 *
 * A server's expert recorder. Its counts are an extra: whatever fails here is a note, and the
 * measurement stands. Main thread.
 */
#include <errno.h>

#include "base/clock.h"
#include "lab/load/http_target.h"
#include "lab/point.h"

#define ASK_S 60.0			/* a server may take a while to write its counts */
#define COLLECT_NS (120 * 1000000000LL) /* importing torch is most of it */

static int ask_recorder(const char *url, const char *const *paths, struct err *err)
{
	struct http_target target;
	int r = http_target_init(&target, url, err);

	if (r < 0)
		return r;
	for (; *paths && r == 0; paths++) {
		int status = http_target_get(&target, *paths, NULL, ASK_S, NULL, err);

		if (status < 0)
			r = status;
		else if (status != 200)
			r = err_set(err, -EPROTO, "%s answers with status %d", *paths, status);
	}
	http_target_release(&target);
	return r;
}

bool point_record_begin(struct point *point, const char *url)
{
	const struct engine_recorder *recorder = point->engine->recorder;
	struct err err = { "" };

	if (!recorder || !recorder->wanted(point->experiment))
		return false;
	if (ask_recorder(url, recorder->begin, &err) == 0)
		return true;
	point_note(point, "the server did not count its experts: %s.", err.message);
	return false;
}

void point_record_end(struct point *point, const char *url)
{
	struct err err = { "" };

	point->recorded = ask_recorder(url, point->engine->recorder->end, &err) == 0;
	if (!point->recorded)
		point_note(point, "the server did not hand out the counts of its experts: %s.",
			   err.message);
}

static int collect_recording(struct point *point, const struct argv *argv, struct err *err)
{
	static const int none[] = { 0 };
	struct texts nothing = { NULL, 0 };
	struct child child = { 0 };
	enum child_event event;
	char verdict[VERDICT_MAX];
	int r = child_start(&child, argv->v, &nothing, point->log_fd, err);

	if (r < 0)
		return r;
	event = child_wait(&child, clock_monotonic_ns() + COLLECT_NS, point->stop);
	child_end(&child, none, 0);
	if (event != CHILD_ENDED)
		return err_set(err, -ETIMEDOUT, "reading the counts took too long");
	child_verdict(&child, verdict, sizeof(verdict));
	if (verdict[0])
		return err_set(err, -EIO, "reading the counts %s; " POINT_LOG " says why", verdict);
	return 0;
}

void point_record_collect(struct point *point)
{
	struct argv argv = { NULL, 0, 0 };
	struct err err = { "" };
	int r;

	if (!point->recorded)
		return;
	r = point->engine->recorder->collect(point->tools, point->directory, &argv, &err);
	if (r == 0)
		r = collect_recording(point, &argv, &err);
	argv_release(&argv);
	if (r < 0)
		point_note(point, "there is no " EXPERTS_FILE ": %s.", err.message);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of an experiment: in its own process group, with its output in the log, ended by a time
 * limit or by whoever stops the experiment. Its group does not outlive moescope: a guard ends it,
 * even if moescope is killed.
 */
#ifndef LAB_CHILD_H
#define LAB_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "lab/shared/experiment.h"

enum child_event { CHILD_ENDED, CHILD_TIMEOUT, CHILD_STOPPED };

/* Processes that the kernel has killed for lack of memory, in the memory cgroup of this process and
 * its children (a container, a job) and on the machine; -1: unknown. */
struct oom_kills {
	int64_t group, machine;
};

#define VERDICT_MAX 256

struct child {
	pid_t pid;   /* also of its group; 0: none was started */
	pid_t guard; /* ends the group when we are gone; 0: none */
	int guard_fd;
	bool ended;
	int status;		 /* wait status, once ended */
	uint64_t peak_rss_bytes; /* of the largest of its processes that were waited for */
	struct oom_kills before, after;
};

/* From now on SIGINT, SIGTERM and SIGHUP set *stop and no longer end this process; children get
 * them as they were. NULL: restores them here too. */
void child_signals(volatile bool *stop);

/* From deadline_ns (monotonic; 0: cancel) on, *stop is set as by a signal, and child_alarmed is
 * true: a time limit for code that checks the flag. */
void child_alarm(int64_t deadline_ns);
bool child_alarmed(void);

/* environment: NAME, value pairs to add. 0, or -errno with a sentence: program and why. */
int child_start(struct child *child, char *const *argv, const struct texts *environment, int log_fd,
		struct err *err);
/* deadline_ns: monotonic clock; 0: none. */
enum child_event child_wait(struct child *child, int64_t deadline_ns, const volatile bool *stop);
/* Whether it runs; collects its end. */
bool child_alive(struct child *child);
/* Asks the group to end with each of these signals in turn (0 ends the list), with grace_s after
 * each, and then forces it. Fine on a program that has ended: then the rest of its group is
 * ended. */
void child_end(struct child *child, const int *signals, double grace_s);
/* "failed with status 3", "was ended by signal 11 (Segmentation fault)"; "" for success. At most
 * VERDICT_MAX. */
void child_verdict(const struct child *child, char *out, size_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a program can be joined, and where in it is what that takes; see hand_over.h.
 */
#include "host/join/hand_over.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/small_file.h"
#include "host/join/pending_call.h"
#include "host/machine/proc_text.h"
#include "host/peer/find_symbol.h"
#include "host/peer/peer.h"
#include "host/stacks/python_stack.h"

#define LAST_MINOR 13
#define CODE_BYTES (4 << 20) /* of a C library, at most */
#define THREADS_MOST 1024
#define LOOKS 50

/* A mapping, as /proc has it; path: "" without one. */
struct mapping {
	uint64_t start, end;
	char rights[5];
	const char *path;
};

/* False ends it. */
typedef bool mapping_visitor(const struct mapping *m, void *context);

static void each_mapping(pid_t pid, mapping_visitor *visit, void *context)
{
	char name[32], line[PATH_MAX + 128];
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		struct mapping m = { 0 };
		int path = 0;

		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %n", &m.start, &m.end,
			   m.rights, &path) < 3)
			continue;
		m.path = path ? line + path : "";
		if (!visit(&m, context))
			break;
	}
	if (maps)
		fclose(maps);
}

static const char *base_name(const char *path)
{
	return strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
}

struct looked {
	bool mapped, useful;
};

static bool is_recordable(const struct mapping *m, void *context)
{
	static const char *const names[] = { "libcuda.so", "libtorch", "libmoescope",
					     "libnvToolsExt" };

	struct looked *looked = context;

	looked->mapped = true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(base_name(m->path), names[i], strlen(names[i])) == 0)
			looked->useful = true;
	return !looked->useful;
}

bool hand_over_is_useful(pid_t pid)
{
	struct looked looked = { false, false };

	each_mapping(pid, is_recordable, &looked);
	return looked.useful || !looked.mapped;
}

/* ---- what forbids it */

static bool same_namespace(pid_t pid, const char *kind)
{
	char path[64], theirs[64] = "", ours[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	if (readlink(path, theirs, sizeof(theirs) - 1) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	return readlink(path, ours, sizeof(ours) - 1) > 0 && strcmp(theirs, ours) == 0;
}

static int check_status(pid_t pid, struct err *err)
{
	char path[32], text[8192];
	const char *state, *features;
	int64_t number;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (small_file_text(path, text, sizeof(text)) <= 0)
		return err_set(err, -ESRCH, "process %d has ended", (int)pid);
	if (proc_number(text, "TracerPid", &number) && number)
		return err_set(err, -EBUSY,
			       "process %d is being debugged by process %" PRId64
			       "; let that one go",
			       (int)pid, number);
	state = proc_after(text, "State");
	state = state ? state + strspn(state, " \t") : "";
	if (*state == 'T' || *state == 't')
		return err_set(err, -EAGAIN, "process %d is stopped; let it go on (kill -CONT %d)",
			       (int)pid, (int)pid);
	if (*state == 'Z' || *state == 'X')
		return err_set(err, -ESRCH, "process %d has ended", (int)pid);
	if (proc_number(text, "Seccomp", &number) && number == 1)
		return err_set(
			err, -EPERM,
			"process %d may hardly make a system call (seccomp), and joining needs "
			"some",
			(int)pid);
	features = proc_after(text, "x86_Thread_features");
	if (features && strncmp(features + strspn(features, " \t"), "shstk", 5) == 0)
		return err_set(
			err, -ENOTSUP,
			"process %d has a shadow stack, with which joining is not known to be "
			"safe",
			(int)pid);
	return 0;
}

/* The list of threads is read while it changes, and the main one is at its end: more than once, if need be. */
static bool main_runs_python(struct python *python, pid_t pid)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	struct python_thread threads[THREADS_MOST];

	for (int look = 0; look < LOOKS; look++) {
		int n = python_threads(python, threads, THREADS_MOST);

		for (int i = 0; i < n && i < THREADS_MOST; i++)
			if (threads[i].id == pid)
				return true;
		nanosleep(&moment, NULL);
	}
	return false;
}

static int check_python(pid_t pid, struct err *err)
{
	struct python *python = NULL;
	char why[256];
	int r = python_open(&python, pid, why, sizeof(why)), minor;
	bool main_runs;

	if (r < 0)
		return err_set(err, r, "process %d cannot be joined: %s", (int)pid,
			       why[0] ? why
				      : "it runs no Python, or one whose names have been removed");
	minor = python_minor(python);
	main_runs = main_runs_python(python, pid);
	python_close(python);
	if (minor > LAST_MINOR)
		return err_set(
			err, -ENOTSUP,
			"process %d cannot be joined: that is known for Python 3.9 to 3.%d, and "
			"it runs 3.%d",
			(int)pid, LAST_MINOR, minor);
	if (!main_runs)
		return err_set(err, -ENOTSUP,
			       "process %d cannot be joined: its main thread runs no Python, or is "
			       "ending",
			       (int)pid);
	return 0;
}

/* ---- where things are */

struct c_library {
	pid_t pid;
	uint64_t system_call, sigreturn, sigreturn_end;
};

static uint64_t find_code(const unsigned char *code, size_t n, const void *wanted, size_t bytes)
{
	const unsigned char *found = memmem(code, n, wanted, bytes);

	return found ? (uint64_t)(found - code) : UINT64_MAX;
}

/* Instructions that are there anyway: nothing is written where code is. */
static void look_in_code(struct c_library *c, const unsigned char *code, size_t n, uint64_t at)
{
	static const unsigned char call_and_return[] = { 0x0f, 0x05, 0xc3 },
				   restore[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	uint64_t call = find_code(code, n, call_and_return, sizeof(call_and_return)),
		 back = find_code(code, n, restore, sizeof(restore));

	if (call == UINT64_MAX || back == UINT64_MAX)
		return;
	c->system_call = at + call;
	c->sigreturn = at + back;
	c->sigreturn_end = c->sigreturn + sizeof(restore);
}

static bool look_in_mapping(const struct mapping *m, void *context)
{
	struct c_library *c = context;
	const char *name = base_name(m->path);
	uint64_t bytes = m->end - m->start;
	unsigned char *code;

	if (m->rights[2] != 'x' || bytes > CODE_BYTES ||
	    (strncmp(name, "libc.so", 7) != 0 && strncmp(name, "libc-2", 6) != 0))
		return true;
	code = malloc(bytes);
	if (code && peer_read(c->pid, m->start, code, bytes))
		look_in_code(c, code, bytes, m->start);
	free(code);
	return !c->system_call;
}

/* Functions in which the thread may hold the lock of the list of pending calls. */
static const char *const lock_holders[] = { "Py_AddPendingCall",   "_PyEval_AddPendingCall",
					    "Py_MakePendingCalls", "PyThread_release_lock",
					    "PyMutex_Unlock",	   "_PyMutex_UnlockSlow" };
#define N_HOLDERS (sizeof(lock_holders) / sizeof(lock_holders[0]))

/* Of the C library, under one of its names. */
static uint64_t find_clock(pid_t pid)
{
	static const char *const prefixes[] = { "c.so", "c-2" };
	struct found_symbol symbol = { .name = "clock_gettime" };
	char file[512];

	for (size_t i = 0; i < 2; i++)
		if (find_symbols(pid, prefixes[i], &symbol, 1, file, sizeof(file)) == 0)
			return symbol.at;
	return 0;
}

/* Functions that the landing calls, then those that may hold the lock. */
enum { RUN_STRING, DICT_NEW, DEC_REF, N_USED };

static int find_places(struct pending_call *call, struct code_range *ranges, struct err *err)
{
	struct found_symbol symbols[N_USED + N_HOLDERS] = { { .name = "PyRun_String" },
							    { .name = "PyDict_New" },
							    { .name = "Py_DecRef" } };
	struct found_symbol *holders = symbols + N_USED;
	struct c_library c = { .pid = call->pid };
	char file[512];

	for (size_t i = 0; i < N_HOLDERS; i++)
		holders[i].name = lock_holders[i];
	if (find_symbols(call->pid, "python", symbols, N_USED + N_HOLDERS, file, sizeof(file)) <
		    0 ||
	    !symbols[DICT_NEW].at || !symbols[DEC_REF].at || !holders[0].at)
		return err_set(
			err, -ENOENT,
			"process %d cannot be joined: its Python does not export its functions",
			(int)call->pid);
	call->uses = (struct landing_uses){ symbols[DICT_NEW].at, symbols[RUN_STRING].at,
					    symbols[DEC_REF].at, find_clock(call->pid) };
	call->add_pending_call = holders[0].at;
	for (size_t i = 0; i < N_HOLDERS; i++)
		if (holders[i].at)
			ranges[call->n_not_in++] = (struct code_range){
				holders[i].at, holders[i].at + holders[i].bytes
			};
	call->not_in = ranges;
	each_mapping(call->pid, look_in_mapping, &c);
	if (!c.system_call || !call->uses.clock_gettime)
		return err_set(
			err, -ENOTSUP,
			"process %d cannot be joined: that is known for programs with glibc as "
			"a library, on x86-64",
			(int)call->pid);
	call->system_call = c.system_call;
	call->sigreturn = c.sigreturn;
	call->sigreturn_end = c.sigreturn_end;
	return 0;
}

static int try_to_hand_over(pid_t pid, char *text, int64_t *ret_stopped_ns, struct err *err)
{
	struct code_range ranges[N_HOLDERS];
	struct pending_call call = { .pid = pid, .text = text };
	int r;

	if (!same_namespace(pid, "mnt") || !same_namespace(pid, "pid"))
		return err_set(
			err, -ENOTSUP,
			"process %d is in another container, where paths differ: run moescope "
			"inside it",
			(int)pid);
	r = check_status(pid, err);
	if (r == 0)
		r = check_python(pid, err);
	if (r == 0)
		r = find_places(&call, ranges, err);
	if (r < 0)
		return r;
	call.page_digits = strstr(text, HAND_OVER_PAGE);
	if (!call.page_digits)
		return err_set(err, -EINVAL, "a text has no place for its own address");
	call.page_digits += 2;
	r = pending_call_make(&call, err);
	*ret_stopped_ns = call.stopped_ns;
	return r;
}

int hand_over(pid_t pid, char *text, int64_t *ret_stopped_ns, struct err *err)
{
	int r = try_to_hand_over(pid, text, ret_stopped_ns, err);
	struct looked looked = { false, false };

	/* A process loses its parts one after the other, the memory first: whatever was missing, that is why. */
	if (r < 0)
		each_mapping(pid, is_recordable, &looked);
	return r < 0 && !looked.mapped ? err_set(err, -ESRCH, "process %d has ended", (int)pid) : r;
}

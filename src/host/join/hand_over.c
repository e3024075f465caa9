/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a program can be joined, and where in it is what that takes; see hand_over.h.
 */
#include "host/join/hand_over.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/small_file.h"
#include "host/join/pending_call.h"
#include "host/machine/proc_text.h"
#include "host/peer/find_symbol.h"
#include "host/peer/peer.h"
#include "host/stacks/python_stack.h"

#define SCRIPT_MINOR 14	     /* the first that takes scripts */
#define CODE_BYTES (4 << 20) /* of a C library, at most */
#define THREADS_MOST 1024
#define LOOKS 50
#define DESCRIPTORS_FREE 8 /* for the script, and for what joins */

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

static int read_status(pid_t pid, char *text, size_t size, struct err *err)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return small_file_text(path, text, size) > 0
		       ? 0
		       : err_set(err, -ESRCH, "process %d has ended", (int)pid);
}

static int check_status(pid_t pid, const char *status, struct err *err)
{
	const char *state = proc_after(status, "State");
	int64_t number;

	if (proc_number(status, "TracerPid", &number) && number)
		return err_set(err, -EBUSY,
			       "process %d is being debugged by process %" PRId64
			       "; let that one go",
			       (int)pid, number);
	state = state ? state + strspn(state, " \t") : "";
	if (*state == 'T' || *state == 't')
		return err_set(err, -EAGAIN, "process %d is stopped; let it go on (kill -CONT %d)",
			       (int)pid, (int)pid);
	if (*state == 'Z' || *state == 'X')
		return err_set(err, -ESRCH, "process %d has ended", (int)pid);
	if (proc_number(status, "Seccomp", &number) && number == 1)
		return err_set(
			err, -EPERM,
			"process %d may hardly make a system call (seccomp), and joining needs "
			"some",
			(int)pid);
	return 0;
}

/* The call of a function that it has not called itself leaves no trace on it. */
static int check_shadow_stack(pid_t pid, const char *status, struct err *err)
{
	const char *features = proc_after(status, "x86_Thread_features");

	if (features && strncmp(features + strspn(features, " \t"), "shstk", 5) == 0)
		return err_set(
			err, -ENOTSUP,
			"process %d has a shadow stack, with which joining is not known to be "
			"safe",
			(int)pid);
	return 0;
}

/* Beside those that Python, faulthandler and the C library have anyway. Ctrl-C is one of these. */
static bool has_own_handlers(const char *status)
{
	static const int others[] = { SIGINT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, 32, 33 };
	const char *text = proc_after(status, "SigCgt");
	uint64_t caught = text ? strtoull(text, NULL, 16) : UINT64_MAX;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		caught &= ~(UINT64_C(1) << (others[i] - 1));
	return caught;
}

/* ---- whether it can open a file of ours */

static bool same_root(pid_t pid)
{
	struct stat theirs, ours;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/root/.", (int)pid);
	return stat(path, &theirs) == 0 && stat("/", &ours) == 0 && theirs.st_dev == ours.st_dev &&
	       theirs.st_ino == ours.st_ino;
}

/* By the rights of others, or of the owner, from the root down: as a user that we are not. */
static bool others_may_read(const char *file, uid_t user)
{
	char path[PATH_MAX];
	struct stat s;

	snprintf(path, sizeof(path), "%s", file);
	for (bool folder = false; *path; folder = true) {
		mode_t needed = folder ? S_IXOTH : S_IROTH;
		char *slash;

		if (stat(path, &s) < 0)
			return false;
		if (!(s.st_mode & needed) &&
		    (s.st_uid != user || !(s.st_mode & (folder ? S_IXUSR : S_IRUSR))))
			return false;
		slash = strrchr(path, '/');
		if (!slash)
			break;
		*slash = '\0';
	}
	return true;
}

static bool has_descriptors(pid_t pid)
{
	struct rlimit limit;
	rlim_t n = 0;
	char path[32];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	folder = opendir(path);
	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return prlimit(pid, RLIMIT_NOFILE, NULL, &limit) < 0 ||
	       n + DESCRIPTORS_FREE <= limit.rlim_cur;
}

/* Python would print that the script cannot be opened. */
static int check_script(const struct hand_over *h, const char *status, struct err *err)
{
	const char *users = proc_after(status, "Uid");
	unsigned int user = geteuid();

	if (!same_namespace(h->pid, "net") || !same_root(h->pid))
		return err_set(err, -ENOTSUP,
			       "process %d has another root or network: run moescope inside of it",
			       (int)h->pid);
	if (users)
		sscanf(users, "%*u %*u %*u %u", &user);
	if (user && user != geteuid() && !others_may_read(h->script, user))
		return err_set(err, -EACCES,
			       "process %d cannot be joined: its user may not read %s", (int)h->pid,
			       h->script);
	if (!has_descriptors(h->pid))
		return err_set(err, -EMFILE,
			       "process %d cannot be joined: it has hardly a descriptor left "
			       "(ulimit -n)",
			       (int)h->pid);
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

static int check_python(struct hand_over *h, int *ret_minor, struct err *err)
{
	struct python *python = NULL;
	char why[256];
	int pid = (int)h->pid, r = python_open(&python, h->pid, why, sizeof(why)), place = 0;
	bool main_runs;

	if (r < 0)
		return err_set(err, r, "process %d cannot be joined: %s", pid,
			       why[0] ? why
				      : "it runs no Python, or one whose names have been removed");
	*ret_minor = python_minor(python);
	main_runs = main_runs_python(python, h->pid);
	if (main_runs && *ret_minor >= SCRIPT_MINOR)
		place = python_script_place(python, &h->request.at);
	python_close(python);
	if (!main_runs || place == -ESRCH)
		return err_set(err, -ENOTSUP,
			       "process %d cannot be joined: its main thread runs no Python, or is "
			       "ending",
			       pid);
	if (place < 0)
		return err_set(
			err, place,
			"process %d cannot be joined: its Python 3.%d takes scripts in a way "
			"that is not known here",
			pid, *ret_minor);
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
			"process %d cannot be joined: where its Python is older than 3.14, or "
			"it has handlers of signals, that is known with glibc as a library, on "
			"x86-64",
			(int)call->pid);
	call->system_call = c.system_call;
	call->sigreturn = c.sigreturn;
	call->sigreturn_end = c.sigreturn_end;
	return 0;
}

static int hand_over_text(struct hand_over *h, const char *status, struct err *err)
{
	struct code_range ranges[N_HOLDERS];
	struct pending_call call = { .pid = h->pid, .text = h->text };
	int r = check_shadow_stack(h->pid, status, err);

	if (r == 0)
		r = find_places(&call, ranges, err);
	if (r < 0)
		return r;
	call.page_digits = strstr(h->text, HAND_OVER_PAGE);
	if (!call.page_digits)
		return err_set(err, -EINVAL, "a text has no place for its own address");
	call.page_digits += 2;
	r = pending_call_make(&call, err);
	h->stopped_ns = call.stopped_ns;
	return r;
}

static int hand_over_script(struct hand_over *h, const char *status, struct err *err)
{
	int r = check_script(h, status, err);

	if (r < 0)
		return r;
	h->request.pid = h->pid;
	h->request.path = h->script;
	r = script_request_make(&h->request, err);
	h->by_script = r == 0;
	return r;
}

static int try_to_hand_over(struct hand_over *h, struct err *err)
{
	char status[8192];
	int r, minor = 0;

	if (!same_namespace(h->pid, "mnt") || !same_namespace(h->pid, "pid"))
		return err_set(
			err, -ENOTSUP,
			"process %d is in another container, where paths differ: run moescope "
			"inside it",
			(int)h->pid);
	r = read_status(h->pid, status, sizeof(status), err);
	if (r == 0)
		r = check_status(h->pid, status, err);
	if (r == 0)
		r = check_python(h, &minor, err);
	if (r < 0)
		return r;
	/* What a handler raises while a script runs would be lost; a text passes it on. */
	if (minor >= SCRIPT_MINOR && (h->request.at.off || !has_own_handlers(status)))
		return hand_over_script(h, status, err);
	return hand_over_text(h, status, err);
}

int hand_over(struct hand_over *h, struct err *err)
{
	int r = try_to_hand_over(h, err);
	struct looked looked = { false, false };

	/* A process loses its parts one after the other, the memory first: whatever was missing, that is why. */
	if (r < 0)
		each_mapping(h->pid, is_recordable, &looked);
	return r < 0 && !looked.mapped ? err_set(err, -ESRCH, "process %d has ended", (int)h->pid)
				       : r;
}

void hand_over_remind(const struct hand_over *h)
{
	if (h->by_script)
		script_request_remind(&h->request);
}

void hand_over_take_back(const struct hand_over *h)
{
	if (h->by_script)
		script_request_take_back(&h->request);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of `doctor` on the host, each a function that fills one struct check. Main thread.
 */
#include "cmd/doctor/doctor.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <zstd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/small_file.h"
#include "base/text/format.h"
#include "base/version.h"
#include "cmd/doctor/doctor_python.h"
#include "cmd/doctor/selftest.h"
#include "cmd/recording/installed.h"
#include "cmd/recording/launch.h"
#include "cmd/terminal/output.h"
#include "host/stacks/native.h"
#include "host/stacks/unwind.h"

#define LIBRARY "libmoescope.so"

struct check *checks_add(struct checks *checks, const char *name)
{
	struct check *check;

	assert(checks->n < DOCTOR_CHECKS_MAX);
	check = &checks->check[checks->n++];
	*check = (struct check){ .state = CHECK_OK };
	snprintf(check->name, sizeof(check->name), "%s", name);
	return check;
}

void check_found(struct check *check, enum check_state state, const char *format, ...)
{
	va_list args;

	check->state = state;
	va_start(args, format);
	vsnprintf(check->text, sizeof(check->text), format, args);
	va_end(args);
}

void check_fix(struct check *check, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(check->fix, sizeof(check->fix), format, args);
	va_end(args);
}

void check_number(struct check *check, const char *key, double value)
{
	check->has_number = true;
	check->number_key = key;
	check->number = value;
}

static void check_version(struct check *check)
{
#if defined(__clang__)
	const char *compiler = "clang " __clang_version__;
#else
	const char *compiler = "gcc " __VERSION__;
#endif
	check_found(check, CHECK_OK, "moescope %s, built with %s, zstd %s", VERSION_TEXT, compiler,
		    ZSTD_versionString());
}

static void check_system(struct check *check)
{
	struct utsname name;

	if (uname(&name) < 0)
		check_found(check, CHECK_NOTE, "unknown: %s", strerror(errno));
	else
		check_found(check, CHECK_OK, "%s %s, %s", name.sysname, name.release, name.machine);
}

const char *proc_root(void)
{
	const char *given = getenv("MOESCOPE_PROC");

	return given && *given ? given : "/proc";
}

void proc_value(const char *name, const char *key, char *out, size_t size)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", proc_root(), name);
	small_file_value(path, key, out, size);
}

static void check_cpu(struct check *check)
{
	char model[256];
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	proc_value("cpuinfo", "model name", model, sizeof(model));
	check_found(check, CHECK_OK, "%s, %ld cores online", model[0] ? model : "model unknown",
		    online);
	check_number(check, "cores", (double)online);
}

static void check_memory(struct check *check)
{
	char total[64], available[64];

	proc_value("meminfo", "MemTotal", total, sizeof(total));
	proc_value("meminfo", "MemAvailable", available, sizeof(available));
	if (!total[0] || !available[0]) {
		check_found(check, CHECK_NOTE, "unknown: cannot read /proc/meminfo");
		return;
	}
	check_found(check, CHECK_OK, "%s, %s available",
		    format_bytes(strtod(total, NULL) * 1024).text,
		    format_bytes(strtod(available, NULL) * 1024).text);
}

static void check_clock(struct check *check)
{
	clock_init();
	if (clock_has_counter) {
		check_found(check, CHECK_OK, "%s", clock_source_name());
		return;
	}
	check_found(check, CHECK_NOTE,
		    "%s: ranges cost about 20 ns more than with an invariant "
		    "counter",
		    clock_source_name());
	check_fix(check, "See /sys/devices/system/clocksource; many hypervisors can give a "
			 "virtual machine an invariant TSC.");
}

static void check_disk(struct check *check)
{
	struct statvfs fs;
	double bytes;

	if (statvfs(".", &fs) < 0) {
		check_found(check, CHECK_FAILED, "cannot inspect the current directory: %s",
			    strerror(errno));
		return;
	}
	bytes = (double)fs.f_bavail * (double)fs.f_frsize;
	check_found(check, bytes < 1e8 ? CHECK_NOTE : CHECK_OK, "%s free in the current directory",
		    format_bytes(bytes).text);
	check_number(check, "free_bytes", bytes);
	if (bytes < 1e8)
		check_fix(check,
			  "Free some space, or record elsewhere: moescope run -o DIR -- PROGRAM");
}

static void check_writable(struct check *check)
{
	char dir[] = "moescope-doctor-XXXXXX";

	if (mkdtemp(dir) && rmdir(dir) == 0) {
		check_found(check, CHECK_OK, "runs can be created in the current directory");
		return;
	}
	check_found(check, CHECK_FAILED, "runs cannot be created in the current directory: %s",
		    strerror(errno));
	check_fix(check,
		  "Change to another directory, or name one: moescope run -o DIR -- PROGRAM");
}

static void check_library(struct check *check)
{
	char *path = installed_library(LIBRARY);

	if (path) {
		check_found(check, CHECK_OK, "%s", path);
	} else {
		check_found(check, CHECK_NOTE,
			    LIBRARY " is not next to this program; the self-test tries the "
				    "loader's path");
		check_fix(check,
			  "Install it (make install), or add its directory to LD_LIBRARY_PATH.");
	}
	free(path);
}

static void check_tinymoe(struct check *check)
{
	char *path = installed_program("tinymoe");

	if (path) {
		check_found(check, CHECK_OK, "%s", path);
	} else if (program_find("tinymoe", NULL) == 0) {
		check_found(check, CHECK_OK, "in PATH");
	} else {
		check_found(check, CHECK_NOTE, "not found: 'moescope demo' will not work");
		check_fix(check, "Build it (make), or add its directory to PATH.");
	}
	free(path);
}

static void check_terminal(struct check *check)
{
	struct terminal t = terminal_look();

	if (!t.stdout_is_terminal)
		check_found(check, CHECK_OK,
			    "standard output is not a terminal: plain text, 80 columns%s",
			    t.utf8 ? ", UTF-8" : ", ASCII");
	else
		check_found(check, CHECK_OK, "%d columns, %d rows, %s, %s", t.columns, t.rows,
			    t.color ? "colour" : "no colour", t.utf8 ? "UTF-8" : "ASCII");
	if (!t.utf8)
		check_fix(check, "For finer bars use a UTF-8 locale: export LC_ALL=C.UTF-8");
}

static void limit_text(int resource, char *out, size_t size)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		snprintf(out, size, "unknown");
	else if (limit.rlim_cur == RLIM_INFINITY)
		snprintf(out, size, "unlimited");
	else
		snprintf(out, size, "%llu", (unsigned long long)limit.rlim_cur);
}

static void check_limits(struct check *check)
{
	char files[32], size[32], locked[32];
	struct rlimit limit;

	limit_text(RLIMIT_NOFILE, files, sizeof(files));
	limit_text(RLIMIT_FSIZE, size, sizeof(size));
	limit_text(RLIMIT_MEMLOCK, locked, sizeof(locked));
	check_found(check, CHECK_OK, "open files %s, file size %s, locked memory %s", files, size,
		    locked);
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
		check->state = CHECK_NOTE;
		check_fix(check, "Long runs may exceed the file size: ulimit -f unlimited");
	}
}

static void check_shared_memory(struct check *check)
{
	struct statvfs fs;

	if (statvfs("/dev/shm", &fs) < 0)
		check_found(check, CHECK_NOTE, "/dev/shm: %s; buffers go to the run directory",
			    strerror(errno));
	else
		check_found(check, CHECK_OK,
			    "/dev/shm has %s free; buffers go to the run directory",
			    format_bytes((double)fs.f_bavail * (double)fs.f_frsize).text);
}

/* What --stacks and attach need: a process of the same user's may be looked at, and perf events opened. */
static void check_stacks(struct check *check)
{
	struct native *native = NULL;
	char why[256], scope[16] = "";
	bool strict;

	small_file_line("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope));
	strict = geteuid() != 0 && scope[0] > '0';
	if (native_open(&native, getpid(), 1, why, sizeof(why)) < 0) {
		check_found(check, CHECK_NOTE, "only Python functions, no native ones (%s)", why);
		check_fix(check,
			  "sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON for moescope");
	} else if (!native_has_leaves(native)) {
		check_found(check, CHECK_NOTE,
			    "Python functions, and native ones only in threads without Python");
		check_fix(check,
			  "sysctl kernel.perf_event_paranoid=1, or CAP_PERFMON for moescope");
	} else {
		check_found(
			check, CHECK_OK,
			"functions of Python 3.9 to 3.14 (and 3.13t, 3.14t) and native functions%s",
			unwind_kernel_mask() ? ", also without frame pointers" : "");
	}
	native_close(native);
	if (strict && check->state == CHECK_OK)
		check_found(check, CHECK_NOTE,
			    "for 'run --stacks'; 'attach' is refused (kernel.yama.ptrace_scope %s)",
			    scope);
	if (strict)
		check_fix(check, "sysctl kernel.yama.ptrace_scope=0, or run moescope as root");
}

/* What 'moescope host' is made of. The rest of /proc is everywhere. */
static void check_machine(struct check *check)
{
	static const struct {
		const char *path, *name;
	} files[] = {
		{ "/proc/pressure/io", "pressure" },
		{ "/proc/self/schedstat", "waits for a processor" },
		{ "/proc/self/io", "disks by process" },
		{ "/proc/diskstats", "disks" },
		{ "/proc/net/dev", "networks" },
		{ "/sys/devices/system/node/node0", "nodes" },
	};
	struct buf missing = { 0 };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (access(files[i].path, R_OK) < 0)
			buf_printf(&missing, "%s%s", missing.size ? ", " : "", files[i].name);
	if (missing.size && !missing.failed) {
		check_found(check, CHECK_NOTE, "'moescope host' will lack %.*s", (int)missing.size,
			    missing.data);
		check_fix(check, "a kernel with CONFIG_PSI, CONFIG_SCHEDSTATS and "
				 "CONFIG_TASK_IO_ACCOUNTING, and /proc and /sys in the container");
	} else {
		check_found(check, CHECK_OK, "everything 'moescope host' shows is readable");
	}
	buf_release(&missing);
}

static void check_recording(struct check *check)
{
	char *path = installed_library(LIBRARY);
	struct selftest result;
	struct err err = { "" };
	int r = selftest_run(path ? path : LIBRARY, &result, &err);

	free(path);
	if (r < 0) {
		check_found(check, CHECK_FAILED, "recording does not work: %s", err.message);
		check_fix(check,
			  "Build and install again (make, make install); TMPDIR must be writable.");
		return;
	}
	check_found(check, CHECK_OK, "%u ranges recorded and read back equal, %.0f ns each",
		    result.ranges, result.ns_per_range);
	check_number(check, "range_ns", result.ns_per_range);
}

static const struct {
	const char *name;
	void (*look)(struct check *check);
} all_checks[] = {
	{ "version", check_version },
	{ "system", check_system },
	{ "processor", check_cpu },
	{ "memory", check_memory },
	{ "clock", check_clock },
	{ "disk", check_disk },
	{ "run directory", check_writable },
	{ "library", check_library },
	{ "tinymoe", check_tinymoe },
	{ "terminal", check_terminal },
	{ NULL, NULL }, /* the GPU's */
	{ "limits", check_limits },
	{ "shared memory", check_shared_memory },
	{ "stacks", check_stacks },
	{ "machine", check_machine },
	{ "PyTorch", check_pytorch },
	{ "self-test", check_recording },
};

void doctor_look(struct checks *ret_checks)
{
	ret_checks->n = 0;
	for (size_t i = 0; i < sizeof(all_checks) / sizeof(*all_checks); i++)
		if (all_checks[i].look)
			all_checks[i].look(checks_add(ret_checks, all_checks[i].name));
		else
			doctor_look_gpu(ret_checks);
}

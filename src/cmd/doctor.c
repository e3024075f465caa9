/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of `doctor`, each a function that fills one struct check. Main thread.
 */
#include "cmd/doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <zstd.h>

#include "base/clock.h"
#include "base/cupti_names.h"
#include "base/format.h"
#include "base/version.h"
#include "cmd/installed.h"
#include "cmd/launch.h"
#include "cmd/output.h"
#include "cmd/selftest.h"

#define LIBRARY "libmoescope.so"

static void found(struct check *check, enum check_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void found(struct check *check, enum check_state state, const char *format, ...)
{
	va_list args;

	check->state = state;
	va_start(args, format);
	vsnprintf(check->text, sizeof(check->text), format, args);
	va_end(args);
}

static void fix(struct check *check, const char *text)
{
	snprintf(check->fix, sizeof(check->fix), "%s", text);
}

static void number(struct check *check, const char *key, double value)
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
	found(check, CHECK_OK, "moescope %s, built with %s, zstd %s", VERSION_TEXT, compiler,
	      ZSTD_versionString());
}

static void check_system(struct check *check)
{
	struct utsname name;

	if (uname(&name) < 0)
		found(check, CHECK_NOTE, "unknown: %s", strerror(errno));
	else
		found(check, CHECK_OK, "%s %s, %s", name.sysname, name.release, name.machine);
}

/* The value behind "key : value" in a file of /proc, or "". */
static void proc_value(const char *path, const char *key, char *out, size_t size)
{
	FILE *file = fopen(path, "re");
	char line[512];

	out[0] = '\0';
	while (file && !out[0] && fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, key, strlen(key)) == 0 && colon) {
			colon += 1 + strspn(colon + 1, " \t");
			snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
		}
	}
	if (file)
		fclose(file);
}

static void check_cpu(struct check *check)
{
	char model[256];
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	proc_value("/proc/cpuinfo", "model name", model, sizeof(model));
	found(check, CHECK_OK, "%s, %ld cores online", model[0] ? model : "model not known",
	      online);
	number(check, "cores", (double)online);
}

static void check_memory(struct check *check)
{
	char total[64], available[64];

	proc_value("/proc/meminfo", "MemTotal", total, sizeof(total));
	proc_value("/proc/meminfo", "MemAvailable", available, sizeof(available));
	if (!total[0] || !available[0]) {
		found(check, CHECK_NOTE, "not known: /proc/meminfo cannot be read");
		return;
	}
	found(check, CHECK_OK, "%s, %s available", format_bytes(strtod(total, NULL) * 1024).text,
	      format_bytes(strtod(available, NULL) * 1024).text);
}

static void check_clock(struct check *check)
{
	clock_init();
	if (clock_has_counter) {
		found(check, CHECK_OK, "%s", clock_source_name());
		return;
	}
	found(check, CHECK_NOTE, "%s: ranges cost some 20 ns more than with a steady counter",
	      clock_source_name());
	fix(check, "See /sys/devices/system/clocksource; virtual machines can often be given "
		   "an invariant TSC.");
}

static void check_disk(struct check *check)
{
	struct statvfs fs;
	double bytes;

	if (statvfs(".", &fs) < 0) {
		found(check, CHECK_FAILED, "the current directory cannot be looked at: %s",
		      strerror(errno));
		return;
	}
	bytes = (double)fs.f_bavail * (double)fs.f_frsize;
	found(check, bytes < 1e8 ? CHECK_NOTE : CHECK_OK, "%s free in the current directory",
	      format_bytes(bytes).text);
	number(check, "free_bytes", bytes);
	if (bytes < 1e8)
		fix(check, "Free some space, or record elsewhere: moescope run -o DIR -- PROGRAM");
}

static void check_writable(struct check *check)
{
	char dir[] = "moescope-doctor-XXXXXX";

	if (mkdtemp(dir) && rmdir(dir) == 0) {
		found(check, CHECK_OK, "runs can be made in the current directory");
		return;
	}
	found(check, CHECK_FAILED, "runs cannot be made in the current directory: %s",
	      strerror(errno));
	fix(check, "Change to another directory, or name one: moescope run -o DIR -- PROGRAM");
}

static void check_library(struct check *check)
{
	char *path = installed_library(LIBRARY);

	if (path) {
		found(check, CHECK_OK, "%s", path);
	} else {
		found(check, CHECK_NOTE,
		      LIBRARY " is not beside this program; the self-test "
			      "tries the loader's path");
		fix(check, "Install it (make install), or add its directory to LD_LIBRARY_PATH.");
	}
	free(path);
}

static void check_tinymoe(struct check *check)
{
	char *path = installed_program("tinymoe");

	if (path) {
		found(check, CHECK_OK, "%s", path);
	} else if (program_find("tinymoe") == 0) {
		found(check, CHECK_OK, "in PATH");
	} else {
		found(check, CHECK_NOTE, "not found: 'moescope demo' will not work");
		fix(check, "Build it (make), or add its directory to PATH.");
	}
	free(path);
}

static void check_terminal(struct check *check)
{
	struct terminal t = terminal_look();

	if (!t.stdout_is_terminal)
		found(check, CHECK_OK, "standard output is no terminal: plain text, 80 columns%s",
		      t.utf8 ? ", UTF-8" : ", ASCII");
	else
		found(check, CHECK_OK, "%d columns, %d rows, %s, %s", t.columns, t.rows,
		      t.color ? "colour" : "no colour", t.utf8 ? "UTF-8" : "ASCII");
	if (!t.utf8)
		fix(check, "For finer bars use a UTF-8 locale: export LC_ALL=C.UTF-8");
}

static void check_gpu(struct check *check)
{
	char version[256];
	glob_t devices = { 0 };
	size_t n = glob("/dev/nvidia[0-9]*", 0, NULL, &devices) == 0 ? devices.gl_pathc : 0;

	globfree(&devices);
	proc_value("/proc/driver/nvidia/version", "NVRM version", version, sizeof(version));
	number(check, "devices", (double)n);
	if (n == 0 && !version[0])
		found(check, CHECK_NOTE,
		      "no NVIDIA device (/dev/nvidia*) or driver here; everything on the host "
		      "works");
	else
		found(check, CHECK_OK, "%zu NVIDIA devices, driver %s", n,
		      version[0] ? version : "not loaded");
}

/* Whether a program under `run` would have its GPU work recorded. */
static void check_gpu_collection(struct check *check)
{
	static const char *const names[] = { CUPTI_LIBRARY_NAMES };
	char *path = installed_library("libmoescope.so"), admin_only[32];
	const char *cupti = getenv("MOESCOPE_CUPTI");
	void *library, *loaded = NULL;
	bool built;

	/* Under `run` the library would begin to record us. */
	unsetenv("MOESCOPE_RUN");
	library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	built = library && dlsym(library, "InitializeInjection");
	free(path);
	if (!built) {
		found(check, CHECK_NOTE,
		      "off: this build has none; fetch the CUDA headers with "
		      "'tools/cuda_headers.sh --fetch' and build again");
		return;
	}
	if (cupti && *cupti)
		loaded = dlopen(cupti, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !loaded && i < sizeof(names) / sizeof(names[0]); i++)
		loaded = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	proc_value("/proc/driver/nvidia/params", "RmProfilingAdminOnly", admin_only,
		   sizeof(admin_only));
	if (!loaded)
		found(check, CHECK_NOTE,
		      "built in; no libcupti in the library path: a program that loads its own "
		      "(PyTorch does) is recorded, others need MOESCOPE_CUPTI=PATH or the CUDA "
		      "toolkit");
	else if (admin_only[0] == '1' && geteuid() != 0)
		found(check, CHECK_NOTE,
		      "built in, libcupti found; hardware counters are for root only here: set "
		      "NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module");
	else
		found(check, CHECK_OK, "built in, libcupti found");
}

static void limit_text(int resource, char *out, size_t size)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) < 0)
		snprintf(out, size, "not known");
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
	found(check, CHECK_OK, "open files %s, file size %s, locked memory %s", files, size,
	      locked);
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
		check->state = CHECK_NOTE;
		fix(check, "Long runs may exceed the file size: ulimit -f unlimited");
	}
}

static void check_shared_memory(struct check *check)
{
	struct statvfs fs;

	if (statvfs("/dev/shm", &fs) < 0)
		found(check, CHECK_NOTE, "/dev/shm: %s; buffers lie in the run directory",
		      strerror(errno));
	else
		found(check, CHECK_OK, "/dev/shm has %s free; buffers lie in the run directory",
		      format_bytes((double)fs.f_bavail * (double)fs.f_frsize).text);
}

static void check_recording(struct check *check)
{
	char *path = installed_library(LIBRARY);
	struct selftest result;
	struct err err = { "" };
	int r = selftest_run(path ? path : LIBRARY, &result, &err);

	free(path);
	if (r < 0) {
		found(check, CHECK_FAILED, "recording does not work: %s", err.message);
		fix(check,
		    "Build and install again (make, make install); TMPDIR must be writable.");
		return;
	}
	found(check, CHECK_OK, "%u ranges recorded and read back equal, %.0f ns each",
	      result.ranges, result.ns_per_range);
	number(check, "range_ns", result.ns_per_range);
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
	{ "GPU", check_gpu },
	{ "GPU records", check_gpu_collection },
	{ "limits", check_limits },
	{ "shared memory", check_shared_memory },
	{ "self-test", check_recording },
};
_Static_assert(sizeof(all_checks) / sizeof(*all_checks) <= DOCTOR_CHECKS_MAX, "checks fit");

size_t doctor_look(struct check *checks)
{
	size_t n = sizeof(all_checks) / sizeof(*all_checks);

	for (size_t i = 0; i < n; i++) {
		checks[i] = (struct check){ .name = all_checks[i].name };
		all_checks[i].look(&checks[i]);
	}
	return n;
}

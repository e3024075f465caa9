/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of `doctor` on GPUs: what there is, what would be used, what is allowed, and what each
 * level collects with it. Main thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dynlib.h"
#include "base/small_file.h"
#include "base/text/format.h"
#include "base/text/json_read.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/doctor_profilers.h"
#include "cmd/recording/counters.h"
#include "cmd/recording/installed.h"
#include "device/driver/cupti_names.h"
#include "device/driver/gpu_devices.h"

#define CAPABILITY_SYS_ADMIN 21

/* What the checks tell of, looked for once. */
struct gpu {
	bool built;    /* libmoescope has GPU collection */
	bool readings; /* NVML works, and there is a device */
	bool gpm;      /* of at least one */
	bool driver;
	bool cupti;
	struct gpu_devices devices;
	struct err why_not; /* NVML does not work */
};

static bool collection_built(void)
{
	char *path = installed_library("libmoescope.so");
	void *library;
	bool built;

	/* Under `run` the library would begin to record us. */
	unsetenv("MOESCOPE_RUN");
	library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	built = library && dlsym(library, "InitializeInjection");
	free(path);
	return built;
}

static void check_driver(struct checks *checks, struct gpu *gpu)
{
	struct check *check = checks_add(checks, "GPU");
	int r = gpu_devices_open(&gpu->devices, &gpu->why_not);
	const struct gpu_devices *d = &gpu->devices;
	char loaded[256], cuda[48] = "";

	proc_value("driver/nvidia/version", "NVRM version", loaded, sizeof(loaded));
	gpu->driver = loaded[0] || r == 0;
	gpu->readings = r == 0 && d->n > 0;
	check_number(check, "devices", r == 0 ? (double)d->n : 0);
	if (r == 0 && d->cuda_version)
		snprintf(cuda, sizeof(cuda), " (CUDA %d.%d)", d->cuda_version / 1000,
			 d->cuda_version % 1000 / 10);
	if (r == 0)
		check_found(check, d->n ? CHECK_OK : CHECK_NOTE, "driver %s%s, %zu device%s",
			    d->driver[0] ? d->driver : "of unknown version", cuda, d->n,
			    d->n == 1 ? "" : "s");
	else if (loaded[0])
		check_found(check, CHECK_NOTE,
			    "the driver is loaded (%s), but cannot list its devices: %s", loaded,
			    gpu->why_not.message);
	else
		check_found(check, CHECK_NOTE,
			    "no NVIDIA driver here; everything on the host works (%s)",
			    gpu->why_not.message);
	if (r == 0 && d->n == 0)
		check_fix(check, "Start containers with --gpus all; elsewhere see 'nvidia-smi "
				 "-L'.");
}

static void check_devices(struct checks *checks, struct gpu *gpu)
{
	static const char *const mig[] = { [GPU_MIG_NONE] = "no MIG",
					   [GPU_MIG_OFF] = "MIG off",
					   [GPU_MIG_ON] =
						   "MIG on (readings are of the whole device)" };

	for (size_t i = 0; gpu->readings && i < gpu->devices.n; i++) {
		const struct gpu_device *d = &gpu->devices.device[i];
		struct gpu_values values;
		struct check *check;
		char name[24];

		snprintf(name, sizeof(name), "GPU %u", d->index);
		check = checks_add(checks, name);
		if (!d->handle) {
			check_found(check, CHECK_NOTE, "the driver does not provide it");
			check_fix(check,
				  "See 'nvidia-smi' and the kernel's log (dmesg | grep NVRM).");
			continue;
		}
		gpu->gpm |= d->gpm;
		gpu_device_read(d, GPU_BIT(GPU_MEMORY_TOTAL), &values);
		check_found(check, CHECK_OK, "%s, %s, %s, %s, %s", d->name[0] ? d->name : "no name",
			    values.known ? format_bytes(values.value[GPU_MEMORY_TOTAL]).text
					 : "memory unknown",
			    mig[d->mig], d->gpm ? "GPM counters" : "no GPM counters", d->uuid);
		if (values.known)
			check_number(check, "memory_bytes", values.value[GPU_MEMORY_TOTAL]);
	}
}

/* "13.0.1" from a toolkit's version.json; false: no toolkit there. */
static bool toolkit_version(const char *dir, char *version, size_t size)
{
	const struct json_node *cuda;
	struct json_node *root = NULL;
	char path[4096], text[65536];
	struct err err;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/version.json", dir);
	n = small_file_text(path, text, sizeof(text));
	if (n < 0) { /* distributions leave it out */
		snprintf(path, sizeof(path), "%s/bin/nvcc", dir);
		snprintf(version, size, "of unknown version");
		return access(path, X_OK) == 0;
	}
	if (json_parse(path, text, (size_t)n, &root, &err) < 0)
		return false;
	cuda = json_get(root, "cuda");
	snprintf(version, size, "%s", json_get_string(cuda, "version", "of unknown version"));
	json_node_free(root);
	return true;
}

/* The toolkit that has nvcc in PATH, or "". */
static void toolkit_in_path(char *dir, size_t size)
{
	const char *path = getenv("PATH");

	dir[0] = '\0';
	while (path && *path && !dir[0]) {
		size_t length = strcspn(path, ":");
		char program[4096], *real;

		snprintf(program, sizeof(program), "%.*s/nvcc", (int)length, path);
		real = access(program, X_OK) == 0 ? realpath(program, NULL) : NULL;
		if (real && strlen(real) > 9 && strcmp(real + strlen(real) - 9, "/bin/nvcc") == 0)
			snprintf(dir, size, "%.*s", (int)strlen(real) - 9, real);
		free(real);
		path += length + (path[length] == ':');
	}
}

static void check_toolkit(struct checks *checks)
{
	struct check *check = checks_add(checks, "CUDA toolkit");
	char in_path[4096], version[64];
	const char *places[4] = { getenv("CUDA_HOME"), getenv("CUDA_PATH"), in_path,
				  "/usr/local/cuda" };

	toolkit_in_path(in_path, sizeof(in_path));
	for (size_t i = 0; i < 4; i++)
		if (places[i] && *places[i] &&
		    toolkit_version(places[i], version, sizeof(version))) {
			check_found(check, CHECK_OK, "%s in %.400s", version, places[i]);
			return;
		}
	check_found(check, CHECK_OK,
		    "none found (CUDA_HOME, CUDA_PATH, nvcc in PATH, "
		    "/usr/local/cuda); recording does not need it");
}

/* Since CUDA 13 CUPTI's version has CUDA's in it; the driver must be as new. */
static void check_cupti_fits(struct check *check, const struct gpu *gpu, uint32_t version)
{
	int cuda = gpu->devices.cuda_version;

	if (version < 130000 || !gpu->readings || !cuda || cuda / 1000 >= (int)(version / 10000))
		return;
	check->state = CHECK_NOTE;
	check_fix(check,
		  "It is for CUDA %u, but the driver supports CUDA %d.%d: install the CUPTI of "
		  "CUDA %d (pip install nvidia-cuda-cupti-cu%d) and set MOESCOPE_CUPTI to its "
		  "libcupti.so, or update the driver.",
		  version / 10000, cuda / 1000, cuda % 1000 / 10, cuda / 1000, cuda / 1000);
}

static void check_cupti(struct checks *checks, struct gpu *gpu)
{
	static const char *const names[] = { CUPTI_LIBRARY_NAMES, NULL };
	struct check *check = checks_add(checks, "CUPTI");
	const char *given = getenv("MOESCOPE_CUPTI"), *why;
	int (*get_version)(uint32_t *) = NULL;
	const struct dynlib_symbol symbol = { "cuptiGetVersion", &get_version };
	uint32_t version = 0;
	char path[400];
	void *library;

	given = given && *given ? given : NULL;
	dlerror();
	library = dynlib_open(names, "MOESCOPE_CUPTI");
	why = dlerror();
	if (library)
		dynlib_symbols(library, &symbol, 1);
	if (given && !get_version) {
		check_found(check, CHECK_NOTE,
			    "MOESCOPE_CUPTI names '%.200s', which is not a usable "
			    "libcupti (%.200s); no other is tried",
			    given, library || !why ? "it has no cuptiGetVersion" : why);
		check_fix(check, "Unset MOESCOPE_CUPTI, or set it to the path of a libcupti.so.");
		return;
	}
	if (!get_version) {
		check_found(check, gpu->driver ? CHECK_NOTE : CHECK_OK,
			    "none in the library path or in /usr/local/cuda; a program that loads "
			    "its own (PyTorch does) is recorded with that");
		if (gpu->driver)
			check_fix(check,
				  "For other programs install the CUDA toolkit, or the package "
				  "nvidia-cuda-cupti and set MOESCOPE_CUPTI to its "
				  "libcupti.so.");
		return;
	}
	gpu->cupti = true;
	get_version(&version);
	dynlib_path(library, path, sizeof(path));
	check_found(check, CHECK_OK,
		    "API version %u, %s (%s); a program that loads its own is "
		    "recorded with that%s",
		    version, path, given ? "named by MOESCOPE_CUPTI" : "first that opens",
		    given ? " only where MOESCOPE_CUPTI is not set" : "");
	check_number(check, "api_version", version);
	check_cupti_fits(check, gpu, version);
}

static void check_records(struct checks *checks, const struct gpu *gpu)
{
	struct check *check = checks_add(checks, "GPU records");

	if (gpu->built) {
		check_found(check, CHECK_OK,
			    "built in: kernels, copies, calls, NVTX ranges and "
			    "device readings of programs under 'moescope run'");
		return;
	}
	check_found(check, CHECK_NOTE, "off: this build has none");
	check_fix(check, "Fetch the CUDA headers with 'tools/cuda_headers.sh --fetch' and build "
			 "again.");
}

static bool may_administrate(void)
{
	char text[32];

	proc_value("self/status", "CapEff", text, sizeof(text));
	return strtoull(text, NULL, 16) >> CAPABILITY_SYS_ADMIN & 1;
}

static void check_permissions(struct checks *checks, const struct gpu *gpu)
{
	struct check *check = checks_add(checks, "counters");
	char admin_only[32];

	proc_value("driver/nvidia/params", "RmProfilingAdminOnly", admin_only, sizeof(admin_only));
	if (!gpu->driver && !admin_only[0]) {
		check_found(check, CHECK_OK, "no NVIDIA driver here");
	} else if (!admin_only[0]) {
		check_found(check, CHECK_NOTE,
			    "unknown who may read hardware counters: RmProfilingAdminOnly is not "
			    "in /proc/driver/nvidia/params");
	} else if (strcmp(admin_only, "0") == 0) {
		check_found(check, CHECK_OK,
			    "all users may read hardware counters (RmProfilingAdminOnly: 0)");
	} else if (may_administrate()) {
		check_found(check, CHECK_OK,
			    "only administrators may read hardware counters "
			    "(RmProfilingAdminOnly: 1); this process may");
	} else {
		check_found(check, CHECK_NOTE,
			    "only administrators may read hardware counters "
			    "(RmProfilingAdminOnly: 1); kernels, copies and calls are still "
			    "recorded");
		check_fix(check,
			  "Add the line 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' "
			  "to /etc/modprobe.d/nvidia-profiling.conf, run update-initramfs -u "
			  "(dracut -f on Fedora and similar), and reboot. In a container: "
			  "--cap-add=SYS_ADMIN");
	}
}

struct described {
	char text[300];
	size_t over_time, devices;
};

/* Of the first GPU: others of a machine are nearly always the same. */
static void take_line(void *context, const char *line)
{
	struct described *d = context;
	char name[32];
	unsigned int known, all, passes;
	size_t at = strlen(d->text);

	d->devices += strncmp(line, "device ", 7) == 0;
	if (d->devices > 1)
		return;
	d->over_time += strncmp(line, "over time ", 10) == 0;
	if (sscanf(line, "set %31s metrics %u of %u passes %u", name, &known, &all, &passes) == 4)
		snprintf(d->text + at, sizeof(d->text) - at, ", %s %u", name, passes);
}

static void check_counter_sets(struct checks *checks, const struct gpu *gpu)
{
	struct described described = { "" };
	struct err err = { "" };
	struct check *check;
	int r;

	if (!gpu->driver)
		return;
	check = checks_add(checks, "counter sets");
	r = counters_describe(take_line, &described, &err);
	if (r < 0 || !described.devices) {
		check_found(check, CHECK_NOTE, "'run --counters' does not work here: %s",
			    r < 0 ? err.message : "there is no GPU");
		return;
	}
	check_found(check, CHECK_OK,
		    "'run --counters' reads %zu over time; passes of the exact sets: %s",
		    described.over_time, described.text + 2);
}

/* What a level records, the host's part and the device's. */
static void check_level(struct checks *checks, const char *name, const char *host,
			const struct gpu *gpu, bool with_cupti, const char *device)
{
	struct check *check = checks_add(checks, name);
	const char *readings = !gpu->readings ? NULL
			       : gpu->gpm     ? "device readings with GPM counters"
					      : "device readings";

	if (!gpu->driver)
		check_found(check, CHECK_OK, "%s; nothing on GPUs: no driver", host);
	else if (!gpu->built)
		check_found(check, CHECK_NOTE, "%s; nothing on GPUs: this build cannot", host);
	else
		check_found(check, readings && (!with_cupti || gpu->cupti) ? CHECK_OK : CHECK_NOTE,
			    "%s; %s%s%s", host, readings ? readings : "no device readings",
			    !with_cupti	 ? ""
			    : gpu->cupti ? ", "
					 : ", and where the program loads libcupti itself ",
			    with_cupti ? device : "");
}

void doctor_look_gpu(struct checks *checks)
{
	static struct gpu gpu;

	gpu.built = collection_built();
	check_driver(checks, &gpu);
	check_devices(checks, &gpu);
	check_toolkit(checks);
	check_cupti(checks, &gpu);
	check_records(checks, &gpu);
	check_permissions(checks, &gpu);
	check_counter_sets(checks, &gpu);
	doctor_look_profilers(checks);
	check_level(checks, "level counts", "steps, routing counts, counters, marks", &gpu, false,
		    "");
	check_level(checks, "level steps", "plus ranges that name a phase, tokens, memory", &gpu,
		    false, "");
	check_level(checks, "level trace", "plus every range and operation", &gpu, true,
		    "kernels, copies, sets, calls, waits");
	check_level(checks, "level full", "plus the experts of every token", &gpu, true,
		    "kernels, copies, sets, calls, waits, allocations by the driver");
}

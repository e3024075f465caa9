/* SPDX-License-Identifier: Apache-2.0
 *
 * libcupti, libnvperf and libcuda; see api.h. One thread.
 */
#include "counters/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "device/driver/cupti_names.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct counter_api counter_api;

static const struct dynlib_symbol host_symbols[] = {
#define FUNCTION(name) { #name, &counter_api.name },
	COUNTER_HOST_FUNCTIONS(FUNCTION)
};
static const struct dynlib_symbol device_symbols[] = { COUNTER_DEVICE_FUNCTIONS(FUNCTION) };
static const struct dynlib_symbol exact_symbols[] = { COUNTER_EXACT_FUNCTIONS(FUNCTION) };
static const struct dynlib_symbol pc_symbols[] = { COUNTER_PC_FUNCTIONS(FUNCTION) };
static const struct dynlib_symbol driver_symbols[] = { COUNTER_DRIVER_FUNCTIONS(FUNCTION) };
static const struct dynlib_symbol inside_symbols[] = { COUNTER_INSIDE_FUNCTIONS(FUNCTION) };
static const struct dynlib_symbol parameter_symbols[] = { COUNTER_PARAMETER_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static void *cupti;

/* Of the packages of a Python that is first in the path: PyTorch's own libcupti is there. */
static void *open_of_python(void)
{
	const char *path = getenv("PATH");
	char *paths = strdup(path ? path : "/usr/bin"), *rest = NULL;
	void *library = NULL;

	for (char *folder = paths ? strtok_r(paths, ":", &rest) : NULL; folder && !library;
	     folder = strtok_r(NULL, ":", &rest)) {
		char *pattern = NULL;
		glob_t found = { 0 };

		if (asprintf(&pattern,
			     "%s/../lib/python3*/site-packages/nvidia/*/lib/libcupti.so.1[0-9]",
			     folder) < 0)
			break;
		if (glob(pattern, 0, NULL, &found) == 0)
			for (size_t i = found.gl_pathc; i-- && !library;)
				library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
		globfree(&found);
		free(pattern);
	}
	free(paths);
	return library;
}

/* libcupti opens these by their bare names, which the loader finds only once they are there. */
static void open_beside_cupti(void)
{
	static const char *const names[] = { "libnvperf_host.so", "libnvperf_target.so" };
	char path[4096];
	size_t folder;

	dynlib_path(cupti, path, sizeof(path));
	folder = strrchr(path, '/') ? (size_t)(strrchr(path, '/') + 1 - path) : 0;
	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(path + folder, sizeof(path) - folder, "%s", names[i]);
		dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	}
}

static int too_old(struct err *err)
{
	return err_set(err, -ENOSYS,
		       "this libcupti is too old for counters: they need that of CUDA 12.6 or "
		       "later; set MOESCOPE_CUPTI to such a libcupti.so");
}

int counter_api_open(struct err *err)
{
	static const char *const names[] = { CUPTI_LIBRARY_NAMES, NULL };

	if (cupti)
		return 0;
	cupti = dynlib_open(names, "MOESCOPE_CUPTI");
	if (!cupti && !getenv("MOESCOPE_CUPTI"))
		cupti = open_of_python();
	if (!cupti)
		return err_set(
			err, -ENOENT,
			"counters need libcupti, and none was found: install the CUDA toolkit "
			"or the package nvidia-cuda-cupti, and set MOESCOPE_CUPTI to its "
			"libcupti.so");
	open_beside_cupti();
	if (dynlib_symbols(cupti, host_symbols, COUNT(host_symbols)) == 0)
		return 0;
	cupti = NULL;
	return too_old(err);
}

int counter_api_open_devices(struct err *err)
{
	static const char *const names[] = { "libcuda.so.1", NULL };
	CUpti_Profiler_Initialize_Params initialize = CUPTI_PARAMS(Profiler_Initialize);
	int r = counter_api_open(err);
	void *cuda = r == 0 ? dynlib_open(names, "MOESCOPE_CUDA") : NULL;

	if (r < 0)
		return r;
	if (!cuda || dynlib_symbols(cuda, driver_symbols, COUNT(driver_symbols)) ||
	    counter_api.cuInit(0) != CUDA_SUCCESS)
		return err_set(err, -ENODEV, "counters need an NVIDIA GPU and its driver");
	if (dynlib_symbols(cupti, device_symbols, COUNT(device_symbols)))
		return too_old(err);
	return counter_error(err, counter_api.cuptiProfilerInitialize(&initialize),
			     "counters cannot be set up");
}

int counter_api_open_exact(struct err *err)
{
	int r = counter_api_open(err);

	if (r == 0 && (dynlib_symbols(cupti, device_symbols, COUNT(device_symbols)) ||
		       dynlib_symbols(cupti, exact_symbols, COUNT(exact_symbols)) ||
		       dynlib_symbols(cupti, pc_symbols, COUNT(pc_symbols))))
		r = too_old(err);
	return r;
}

int counter_api_open_inside(bool replay, struct err *err)
{
	static const char *const names[] = { "libcuda.so.1", NULL };
	void *cuda = dynlib_open(names, "MOESCOPE_CUDA");

	if (!cuda || dynlib_symbols(cuda, inside_symbols, COUNT(inside_symbols)))
		return err_set(err, -ENODEV, "counters need an NVIDIA GPU and its driver");
	if (replay && dynlib_symbols(cuda, parameter_symbols, COUNT(parameter_symbols)))
		return err_set(err, -ENOSYS,
			       "this driver is too old for --replay: it needs that of CUDA 12.4 or "
			       "later; leave --replay out");
	return 0;
}

int counter_api_begin_exact(struct err *err)
{
	CUpti_Profiler_Initialize_Params initialize = CUPTI_PARAMS(Profiler_Initialize);

	return counter_error(err, counter_api.cuptiProfilerInitialize(&initialize),
			     "counters cannot be set up");
}

int counter_error(struct err *err, CUptiResult result, const char *what)
{
	const char *words = NULL;

	if (result == CUPTI_SUCCESS)
		return 0;
	if (counter_api.cuptiGetResultString(result, &words) != CUPTI_SUCCESS || !words)
		words = "an unknown error";
	return err_set(
		err, result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? -EACCES : -EIO, "%s: %s%s",
		what, words,
		result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
			? ": only administrators may read counters here; 'moescope doctor' has the remedy"
		: result == CUPTI_ERROR_HARDWARE_BUSY || result == CUPTI_ERROR_INVALID_OPERATION
			? ": another profiler may hold the counters (Nsight Compute, Nsight Systems, DCGM)"
			: "");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * libcuda for the recorder, from the copy that the program uses; see recorder_inside.h. Any thread.
 */
#include <errno.h>

#include "base/dynlib.h"
#include "probe/routing/recorder_inside.h"

struct recorder_cuda recorder_cuda;

PROBE_LOCK(lock);
static bool opened;

static int open_locked(struct err *err)
{
	static const char *const names[] = { "libcuda.so.1", "libcuda.so", NULL };
	struct recorder_cuda found;
	const struct dynlib_symbol symbols[] = {
#define FUNCTION(name) { #name, &found.name },
		RECORDER_CUDA(FUNCTION)
#undef FUNCTION
	};
	const size_t n = sizeof(symbols) / sizeof(symbols[0]);
	void *library = dynlib_open(names, "MOESCOPE_CUDA");

	if (!library)
		return err_set(err, -ENOTSUP,
			       "cannot open libcuda.so.1: install the NVIDIA driver, or set "
			       "MOESCOPE_CUDA to its path");
	if (dynlib_symbols(library, symbols, n) != 0)
		return err_set(err, -ENOTSUP,
			       "this libcuda lacks functions that the recorder needs: install a "
			       "driver for CUDA 11 or newer");
	recorder_cuda = found;
	opened = true;
	return 0;
}

int recorder_cuda_open(struct err *err)
{
	int r;

	pthread_mutex_lock(&lock);
	r = opened ? 0 : open_locked(err);
	pthread_mutex_unlock(&lock);
	return r;
}

int recorder_cuda_check(CUresult result, const char *call, struct err *err)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return 0;
	if (recorder_cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
		name = "an unknown error";
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return err_set(err, -ENOMEM,
			       "%s: out of device memory: open the recorder with fewer slots or "
			       "tokens",
			       call);
	return err_set(err, -EIO, "%s failed: %s", call, name);
}

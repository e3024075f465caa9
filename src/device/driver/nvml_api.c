/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening NVML; see nvml_api.h.
 */
#include "device/driver/nvml_api.h"

#include <errno.h>
#include <stdlib.h>

#include "base/dynlib.h"

#define VARIABLE "MOESCOPE_NVML"

struct nvml_api nvml_api;

static int no_library(struct err *err)
{
	const char *given = getenv(VARIABLE);

	if (given && *given)
		return err_set(
			err, -ENOENT,
			"%s names '%s', which is not a usable libnvidia-ml; unset it or give the "
			"path of one",
			VARIABLE, given);
	return err_set(err, -ENOENT,
		       "no usable libnvidia-ml.so.1; it comes with the NVIDIA driver (in a "
		       "container: --gpus all and NVIDIA_DRIVER_CAPABILITIES=utility)");
}

int nvml_api_open(struct err *err)
{
	static const char *const names[] = { "libnvidia-ml.so.1", "libnvidia-ml.so", NULL };
#define FUNCTION(name) { #name, &nvml_api.name },
	const struct dynlib_symbol needed[] = { NVML_NEEDED(FUNCTION) };
	const struct dynlib_symbol optional[] = { NVML_OPTIONAL(FUNCTION) };
#undef FUNCTION
	void *library = dynlib_open(names, VARIABLE);
	nvmlReturn_t result;

	if (!library || dynlib_symbols(library, needed, sizeof(needed) / sizeof(needed[0])) != 0)
		return no_library(err);
	dynlib_symbols(library, optional, sizeof(optional) / sizeof(optional[0]));
	result = nvml_api.nvmlInit_v2();
	if (result != NVML_SUCCESS)
		return err_set(err, -ENODEV,
			       "NVML says %s; 'nvidia-smi' must work first (is the driver loaded, "
			       "and does it fit the library?)",
			       nvml_api.nvmlErrorString(result));
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Built in place of gpu_devices.c where the CUDA headers were not there.
 */
#include "device/driver/gpu_devices.h"

#include <errno.h>

int gpu_devices_open(struct gpu_devices *ret_devices, struct err *err)
{
	(void)ret_devices;
	return err_set(err, -ENOSYS,
		       "this build has no GPU support; fetch the CUDA headers with "
		       "'tools/cuda_headers.sh --fetch' and build again without gpu_headers=none");
}

void gpu_device_read(const struct gpu_device *device, uint64_t wanted,
		     struct gpu_values *ret_values)
{
	(void)device;
	(void)wanted;
	ret_values->known = 0;
}

const struct gpu_device *gpu_devices_find(const struct gpu_devices *devices, const char *uuid,
					  bool *ret_mig)
{
	(void)devices;
	(void)uuid;
	*ret_mig = false;
	return NULL;
}

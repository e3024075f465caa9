/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's devices as CUDA numbers them. CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER make that
 * order different from NVML's; both agree on UUIDs.
 */
#ifndef PROBE_GPU_NVML_CUDA_ORDER_H
#define PROBE_GPU_NVML_CUDA_ORDER_H

#include <stddef.h>

#include "base/err.h"

/* UUIDs as 8-4-4-4-12 hexadecimal digits. For a MIG instance, uuid is the instance's and parent the
 * GPU's; parent is "" if the driver does not say. */
struct cuda_device {
	char uuid[37], parent[37];
};

/* The number of devices that the program sees; at most max are filled in. -EAGAIN: the program has
 * not initialised CUDA (yet). Another -errno: why the order is unknown. Does not initialise CUDA
 * itself. Any thread. */
int cuda_order_read(struct cuda_device *ret_devices, size_t max, struct err *err);

#endif

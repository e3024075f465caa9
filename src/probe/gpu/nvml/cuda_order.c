/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's device order, from the driver library that the program uses; see cuda_order.h.
 */
#include "probe/gpu/nvml/cuda_order.h"

#include <cuda.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/dynlib.h"

/* cuda.h defines the plain name as the second version; both are needed here. */
#undef cuDeviceGetUuid

static struct {
	__typeof__(cuDeviceGetCount) *cuDeviceGetCount;
	__typeof__(cuDeviceGet) *cuDeviceGet;
	/* One of them is enough; for a MIG instance the first returns the GPU's. */
	CUresult (*cuDeviceGetUuid)(CUuuid *uuid, CUdevice device);
	CUresult (*cuDeviceGetUuid_v2)(CUuuid *uuid, CUdevice device);
} api;

static int load_libcuda(struct err *err)
{
	static const char *const names[] = { "libcuda.so.1", "libcuda.so", NULL };
	const struct dynlib_symbol needed[] = {
		{ "cuDeviceGetCount", &api.cuDeviceGetCount },
		{ "cuDeviceGet", &api.cuDeviceGet },
	};
	const struct dynlib_symbol uuids[] = {
		{ "cuDeviceGetUuid", &api.cuDeviceGetUuid },
		{ "cuDeviceGetUuid_v2", &api.cuDeviceGetUuid_v2 },
	};
	void *library = dynlib_open(names, "MOESCOPE_CUDA");

	if (!library)
		return err_set(err, -ENOENT, "cannot open libcuda.so.1");
	if (dynlib_symbols(library, needed, 2) != 0 || dynlib_symbols(library, uuids, 2) == 2)
		return err_set(err, -ENOSYS, "this libcuda cannot identify its devices");
	return 0;
}

static void format_uuid(const CUuuid *uuid, char *text)
{
	char *at = text;

	for (int i = 0; i < 16; i++)
		at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)uuid->bytes[i]);
}

static bool read_uuid(CUresult (*get)(CUuuid *, CUdevice), CUdevice device, char *text)
{
	CUuuid uuid;

	if (!get || get(&uuid, device) != CUDA_SUCCESS)
		return false;
	format_uuid(&uuid, text);
	return true;
}

int cuda_order_read(struct cuda_device *ret_devices, size_t max, struct err *err)
{
	CUresult result;
	int n = 0, r = load_libcuda(err);

	if (r < 0)
		return r;
	result = api.cuDeviceGetCount(&n);
	if (result == CUDA_ERROR_NOT_INITIALIZED)
		return -EAGAIN;
	if (result == CUDA_ERROR_NO_DEVICE)
		return 0;
	if (result != CUDA_SUCCESS)
		return err_set(err, -EIO, "CUDA cannot count its devices (error %d)", result);
	for (int i = 0; i < n && (size_t)i < max; i++) {
		struct cuda_device *d = &ret_devices[i];
		CUdevice device;

		memset(d, 0, sizeof(*d));
		if (api.cuDeviceGet(&device, i) != CUDA_SUCCESS)
			return err_set(err, -EIO, "CUDA does not give access to device %d", i);
		if (!read_uuid(api.cuDeviceGetUuid, device, d->parent))
			d->parent[0] = '\0';
		if (!read_uuid(api.cuDeviceGetUuid_v2, device, d->uuid))
			memcpy(d->uuid, d->parent, sizeof(d->uuid));
		if (!d->uuid[0])
			return err_set(err, -EIO, "CUDA does not identify device %d", i);
	}
	return n;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A libcuda without a driver: the calls that tell the order of the devices. Any thread.
 */
#include "fake_cuda.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#undef cuDeviceGetUuid

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static CUresult count_result;
static struct fake_cuda_device devices[FAKE_CUDA_MAX] = { { 0xa0, 0xa0 }, { 0xa1, 0xa1 } };
static size_t n_devices = 2;
static unsigned int counts;

static void set_result(CUresult result)
{
	pthread_mutex_lock(&lock);
	count_result = result;
	pthread_mutex_unlock(&lock);
}

static void set_devices(const struct fake_cuda_device *given, size_t n)
{
	pthread_mutex_lock(&lock);
	memcpy(devices, given, n * sizeof(*given));
	n_devices = n;
	pthread_mutex_unlock(&lock);
}

static bool wait_counts(unsigned int n)
{
	struct timespec until;
	bool reached;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 100;
	pthread_mutex_lock(&lock);
	while (counts < n && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&changed, &lock, &until);
	reached = counts >= n;
	pthread_mutex_unlock(&lock);
	return reached;
}

extern const struct fake_cuda fake_cuda;
const struct fake_cuda fake_cuda = { set_result, set_devices, wait_counts };

CUresult cuDeviceGetCount(int *count)
{
	CUresult result;

	pthread_mutex_lock(&lock);
	*count = (int)n_devices;
	result = count_result;
	counts++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return result;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return CUDA_SUCCESS;
}

static CUresult fill(CUuuid *uuid, CUdevice device, bool parent)
{
	pthread_mutex_lock(&lock);
	memset(uuid->bytes, parent ? devices[device].parent : devices[device].uuid,
	       sizeof(uuid->bytes));
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
	return fill(uuid, device, false);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
	return fill(uuid, device, true);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes use the devices, the program's own and others. Only on the GPU thread.
 *
 * A row is written when a process appears and when its memory has changed by more than 1 MiB; a
 * process that is gone is forgotten, because its number may come again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "device/driver/nvml_api.h"
#include "probe/core/device_rows.h"
#include "probe/gpu/nvml/nvml.h"

#define CHANGE_BYTES (UINT64_C(1) << 20)
#define ROOM 16 /* processes that may have come since NVML reported their number */

enum { COMPUTE, GRAPHICS };

struct seen {
	uint32_t device, pid;
	uint64_t bytes; /* of the last row */
	uint8_t kind;
	bool there;
};
static struct seen *seen;
static size_t n_seen, seen_capacity;
static nvmlProcessInfo_t *list;
static size_t list_capacity;

void nvml_processes_begin(void)
{
	n_seen = 0;
}

/* 0: the process is not readable, such as another user's or another container's. */
static moescope_name name_of_process(unsigned int pid)
{
	char path[32], name[64];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	n = fread(name, 1, sizeof(name) - 1, file);
	fclose(file);
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
	return name[0] ? moescope_intern(name) : 0;
}

static struct seen *find_seen(uint32_t device, uint32_t pid, uint8_t kind)
{
	for (size_t i = 0; i < n_seen; i++)
		if (seen[i].device == device && seen[i].pid == pid && seen[i].kind == kind)
			return &seen[i];
	return NULL;
}

static void note_process(uint32_t device, const nvmlProcessInfo_t *info, uint8_t kind)
{
	/* NVML's "not available" is all ones. */
	uint64_t bytes = info->usedGpuMemory == (unsigned long long)-1 ? 0 : info->usedGpuMemory;
	struct row_process row = { .time_ns = clock_monotonic_ns(),
				   .device = device,
				   .pid = info->pid,
				   .bytes = bytes,
				   .kind = kind };
	struct seen *known = find_seen(device, info->pid, kind);

	if (known) {
		uint64_t change = bytes > known->bytes ? bytes - known->bytes
						       : known->bytes - bytes;

		known->there = true;
		if (change <= CHANGE_BYTES)
			return;
	} else {
		/* Without memory for it the process would be written every second. */
		if (array_grow(&seen, &seen_capacity, n_seen + 1, sizeof(*seen)) < 0)
			return;
		known = &seen[n_seen++];
		*known = (struct seen){ device, info->pid, bytes, kind, true };
	}
	known->bytes = bytes;
	row.name = name_of_process(info->pid);
	probe_push_device(RECORD_PROCESS, &row, sizeof(row));
}

static void forget_gone(uint32_t device, uint8_t kind)
{
	size_t kept = 0;

	for (size_t i = 0; i < n_seen; i++)
		if (seen[i].there || seen[i].device != device || seen[i].kind != kind)
			seen[kept++] = seen[i];
	n_seen = kept;
}

static void list_processes(const struct nvml_source *source, uint8_t kind,
			   __typeof__(nvmlDeviceGetComputeRunningProcesses_v3) *get)
{
	unsigned int n = (unsigned int)list_capacity;
	nvmlReturn_t result = get ? get(source->device->handle, &n, list)
				  : NVML_ERROR_NOT_SUPPORTED;

	if (result == NVML_ERROR_INSUFFICIENT_SIZE) {
		if (array_grow(&list, &list_capacity, n + ROOM, sizeof(*list)) < 0)
			return;
		n = (unsigned int)list_capacity;
		result = get(source->device->handle, &n, list);
	}
	if (result != NVML_SUCCESS)
		return;
	for (size_t i = 0; i < n_seen; i++)
		if (seen[i].device == source->ordinal && seen[i].kind == kind)
			seen[i].there = false;
	for (unsigned int i = 0; i < n && i < list_capacity; i++)
		note_process(source->ordinal, &list[i], kind);
	forget_gone(source->ordinal, kind);
}

void nvml_processes_look(const struct nvml_source *source)
{
	list_processes(source, COMPUTE, nvml_api.nvmlDeviceGetComputeRunningProcesses_v3);
	list_processes(source, GRAPHICS, nvml_api.nvmlDeviceGetGraphicsRunningProcesses_v3);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * peaks_read on an arbitrary file: what is taken from it is what a machine can have.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/sheets/peaks.h"
#include "fuzz.h"

static void check(const struct peaks *p)
{
	const double figures[] = { p->memory_bytes_per_s,
				   p->copy_bytes_per_s,
				   p->htod_pinned_bytes_per_s,
				   p->dtoh_pinned_bytes_per_s,
				   p->htod_pageable_bytes_per_s,
				   p->dtoh_pageable_bytes_per_s,
				   p->clock_mhz,
				   p->memory_bytes,
				   p->cores };

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
		if (!isfinite(figures[i]) || figures[i] < 0)
			abort();
	for (int i = 0; i < PEAK_DTYPES; i++)
		if (!isfinite(p->flops_per_s[i]) || p->flops_per_s[i] < 0)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("peaks", MFD_CLOEXEC);
	struct peaks_file file;
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (peaks_read(path, &file) == 0) {
		for (size_t i = 0; i < file.n; i++) {
			check(&file.rows[i]);
			/* The name ends, and is found again. */
			if (!(file.rows[i].cpu > 0
				      ? peaks_find_cpu(&file, file.rows[i].name, file.rows[i].cores)
				      : peaks_find_gpu(&file, file.rows[i].name,
						       file.rows[i].memory_bytes)))
				abort();
		}
		peaks_release(&file);
	}
	close(fd);
	return 0;
}

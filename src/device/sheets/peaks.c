/* SPDX-License-Identifier: Apache-2.0
 *
 * See peaks.h.
 */
#include "device/sheets/peaks.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define HEAD "moescope-peaks 1 "

static const struct {
	const char *key;
	size_t offset;
} figures[] = {
	{ "cpu", offsetof(struct peaks, cpu) },
	{ "cores", offsetof(struct peaks, cores) },
	{ "memory_bytes", offsetof(struct peaks, memory_bytes) },
	{ "fp64_flops_per_s", offsetof(struct peaks, flops_per_s[PEAK_FP64]) },
	{ "fp32_flops_per_s", offsetof(struct peaks, flops_per_s[PEAK_FP32]) },
	{ "tf32_flops_per_s", offsetof(struct peaks, flops_per_s[PEAK_TF32]) },
	{ "bf16_flops_per_s", offsetof(struct peaks, flops_per_s[PEAK_BF16]) },
	{ "fp16_flops_per_s", offsetof(struct peaks, flops_per_s[PEAK_FP16]) },
	{ "fp8_flops_per_s", offsetof(struct peaks, flops_per_s[PEAK_FP8]) },
	{ "memory_bytes_per_s", offsetof(struct peaks, memory_bytes_per_s) },
	{ "copy_bytes_per_s", offsetof(struct peaks, copy_bytes_per_s) },
	{ "htod_pinned_bytes_per_s", offsetof(struct peaks, htod_pinned_bytes_per_s) },
	{ "dtoh_pinned_bytes_per_s", offsetof(struct peaks, dtoh_pinned_bytes_per_s) },
	{ "htod_pageable_bytes_per_s", offsetof(struct peaks, htod_pageable_bytes_per_s) },
	{ "dtoh_pageable_bytes_per_s", offsetof(struct peaks, dtoh_pageable_bytes_per_s) },
	{ "clock_mhz", offsetof(struct peaks, clock_mhz) },
};

#define FIGURES (sizeof(figures) / sizeof(figures[0]))

const char *peak_dtype_name(enum peak_dtype dtype)
{
	static const char *const names[] = { "fp64", "fp32", "tf32", "bf16", "fp16", "fp8" };

	return names[dtype];
}

static double *figure(struct peaks *peaks, size_t i)
{
	return (double *)((char *)peaks + figures[i].offset);
}

bool peaks_set(struct peaks *peaks, const char *key, double value)
{
	if (!isfinite(value) || value < 0 || value > 1e18)
		return false;
	for (size_t i = 0; i < FIGURES; i++) {
		if (strcmp(figures[i].key, key) != 0)
			continue;
		*figure(peaks, i) = value;
		return true;
	}
	return false;
}

/* False: not a line of ours, or one without a name. Figures that make no sense are left out. */
static bool parse_peaks(char *line, struct peaks *ret_peaks)
{
	struct peaks peaks = { 0 };
	char *name = strstr(line, " name="), *save = NULL;

	line[strcspn(line, "\r\n")] = '\0';
	if (strncmp(line, HEAD, strlen(HEAD)) != 0 || !name || !name[6])
		return false;
	*name = '\0';
	snprintf(peaks.name, sizeof(peaks.name), "%s", name + 6);
	for (char *word = strtok_r(line + strlen(HEAD), " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		char *equals = strchr(word, '='), *end;
		double value;

		if (!equals || !equals[1])
			continue;
		*equals = '\0';
		value = strtod(equals + 1, &end);
		if (!*end)
			peaks_set(&peaks, word, value);
	}
	*ret_peaks = peaks;
	return true;
}

static bool same_device(const struct peaks *a, const struct peaks *b)
{
	return !strcmp(a->name, b->name) && a->cpu == b->cpu && a->cores == b->cores &&
	       a->memory_bytes == b->memory_bytes;
}

/* Later figures replace earlier ones; what was not measured again stays. */
static void merge_peaks(struct peaks *into, const struct peaks *from)
{
	struct peaks copy = *from;

	for (size_t i = 0; i < FIGURES; i++)
		if (*figure(&copy, i) > 0)
			*figure(into, i) = *figure(&copy, i);
}

static int take_peaks_row(struct peaks_file *file, size_t *capacity, const struct peaks *peaks)
{
	for (size_t i = 0; i < file->n; i++) {
		if (!same_device(&file->rows[i], peaks))
			continue;
		merge_peaks(&file->rows[i], peaks);
		return 0;
	}
	if (array_grow(&file->rows, capacity, file->n + 1, sizeof(*file->rows)) < 0)
		return -ENOMEM;
	file->rows[file->n++] = *peaks;
	return 0;
}

int peaks_read(const char *path, struct peaks_file *ret_file)
{
	struct peaks_file file = { 0 };
	size_t capacity = 0;
	char line[2048];
	int r = 0;
	FILE *f = fopen(path, "re");

	if (!f && errno != ENOENT && errno != ENOTDIR)
		return -errno;
	while (f && r >= 0 && fgets(line, sizeof(line), f)) {
		struct peaks peaks;

		if (parse_peaks(line, &peaks))
			r = take_peaks_row(&file, &capacity, &peaks);
	}
	if (f && r >= 0 && ferror(f))
		r = -EIO;
	if (f)
		fclose(f);
	if (r < 0) {
		peaks_release(&file);
		return r;
	}
	*ret_file = file;
	return 0;
}

void peaks_release(struct peaks_file *file)
{
	free(file->rows);
	*file = (struct peaks_file){ 0 };
}

int peaks_append(const char *path, const struct peaks *peaks)
{
	struct peaks copy = *peaks;
	FILE *f = fopen(path, "ae");
	int r;

	if (!f)
		return -errno;
	fputs(HEAD, f);
	for (size_t i = 0; i < FIGURES; i++)
		if (*figure(&copy, i) > 0)
			fprintf(f, "%s=%.6g ", figures[i].key, *figure(&copy, i));
	fprintf(f, "name=%s\n", copy.name);
	r = ferror(f) ? -EIO : 0;
	if (fclose(f) != 0 && r == 0)
		r = -errno;
	return r;
}

const struct peaks *peaks_find_gpu(const struct peaks_file *file, const char *name,
				   double memory_bytes)
{
	for (size_t i = 0; file && i < file->n; i++) {
		const struct peaks *p = &file->rows[i];

		if (p->cpu > 0 || strcmp(p->name, name) != 0)
			continue;
		if (p->memory_bytes <= 0 || memory_bytes <= 0 ||
		    fabs(p->memory_bytes - memory_bytes) <= 0.05 * memory_bytes)
			return p;
	}
	return NULL;
}

const struct peaks *peaks_find_cpu(const struct peaks_file *file, const char *name, double cores)
{
	for (size_t i = 0; file && i < file->n; i++)
		if (file->rows[i].cpu > 0 && !strcmp(file->rows[i].name, name) &&
		    file->rows[i].cores == cores)
			return &file->rows[i];
	return NULL;
}

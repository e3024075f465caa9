/* SPDX-License-Identifier: Apache-2.0
 *
 * Where warps wait; see stalls.h. Pure, any thread.
 */
#include "subjects/counters/stalls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/demangle.h"
#include "device/sheets/kernel_name.h"

#define REASONS_MOST 128
#define PREFIX "smsp__pcsamp_warps_issue_stalled_"
#define SUFFIX "_not_issued"

/* A reason of the run's strings. */
struct reason {
	uint32_t string;
	int name; /* -1: no reason for which warps wait */
	bool not_issued;
};

struct reasons {
	struct reason all[2 * REASONS_MOST];
	size_t n, n_names;
	char (*names)[48];
};

/* A row of the run with what it is grouped by. */
struct entry {
	uint32_t kernel, file, line;
	int name;
	uint64_t module, offset;
	uint64_t samples, not_issued;
};

static int name_of(struct reasons *reasons, const char *text, size_t length)
{
	for (size_t i = 0; i < reasons->n_names; i++)
		if (strlen(reasons->names[i]) == length && !memcmp(reasons->names[i], text, length))
			return (int)i;
	if (reasons->n_names == REASONS_MOST)
		return -1;
	memcpy(reasons->names[reasons->n_names], text, length);
	return (int)reasons->n_names++;
}

static struct reason reason_of(struct reasons *reasons, const struct run *run, uint32_t string)
{
	const char *text = run_string(run, string);
	struct reason reason = { .string = string, .name = -1 };
	size_t length = strlen(text), prefix = strlen(PREFIX), suffix = strlen(SUFFIX);

	for (size_t i = 0; i < reasons->n; i++)
		if (reasons->all[i].string == string)
			return reasons->all[i];
	if (!strncmp(text, PREFIX, prefix)) {
		reason.not_issued = length > prefix + suffix &&
				    !strcmp(text + length - suffix, SUFFIX);
		length -= prefix + (reason.not_issued ? suffix : 0);
		if (length && length < sizeof(reasons->names[0]))
			reason.name = name_of(reasons, text + prefix, length);
	}
	if (reasons->n < sizeof(reasons->all) / sizeof(reasons->all[0]))
		reasons->all[reasons->n++] = reason;
	return reason;
}

static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return CMP(x->kernel, y->kernel) ?: CMP(x->file, y->file) ?: CMP(x->line, y->line) ?:
	       CMP(x->module, y->module) ?: CMP(x->offset, y->offset);
}

/* Without lines, each instruction has its own. */
static bool same_line(const struct entry *x, const struct entry *y)
{
	return x->kernel == y->kernel && x->file == y->file && x->line == y->line &&
	       (x->file || (x->module == y->module && x->offset == y->offset));
}

/* Of kernels, by place; free() them. */
static int list_entries(const struct run *run, struct reasons *reasons, struct stalls *stalls,
			struct entry **ret_entries, size_t *ret_n)
{
	const struct table_pc_sample *t = &run->pc_sample;
	struct entry *entries = NULL;
	size_t n = 0, capacity = 0;

	for (size_t i = 0; i < t->n; i++) {
		struct reason reason;

		if (!t->kernel[i]) {
			const char *why = run_string(run, t->reason[i]);

			*(!strcmp(why, "dropped")  ? &stalls->dropped
			  : !strcmp(why, "driver") ? &stalls->driver
						   : &stalls->unnamed) += t->samples[i];
			continue;
		}
		reason = reason_of(reasons, run, t->reason[i]);
		if (reason.name < 0)
			continue;
		if (array_grow(&entries, &capacity, n + 1, sizeof(*entries)) < 0) {
			free(entries);
			return -ENOMEM;
		}
		entries[n++] = (struct entry){ .kernel = t->kernel[i],
					       .file = t->file[i],
					       .line = t->line[i],
					       .name = reason.name,
					       .module = t->module[i],
					       .offset = t->offset[i],
					       .samples = reason.not_issued ? 0 : t->samples[i],
					       .not_issued = reason.not_issued ? t->samples[i]
									       : 0 };
	}
	if (n)
		qsort(entries, n, sizeof(*entries), by_place);
	*ret_entries = entries;
	*ret_n = n;
	return 0;
}

struct sums {
	uint64_t samples[REASONS_MOST], not_issued[REASONS_MOST];
	uint64_t all, all_not_issued;
};

static struct sums sum_up(const struct entry *entries, size_t n)
{
	struct sums sums = { .all = 0 };

	for (size_t i = 0; i < n; i++) {
		sums.samples[entries[i].name] += entries[i].samples;
		sums.not_issued[entries[i].name] += entries[i].not_issued;
		sums.all += entries[i].samples;
		sums.all_not_issued += entries[i].not_issued;
	}
	return sums;
}

static struct value pct(uint64_t part, uint64_t whole)
{
	return value_ratio(value_of((double)part), value_of((double)whole), 100, "no samples");
}

static int add_reasons(const struct sums *sums, const struct stalled_kernel *kernel,
		       size_t *capacity, struct stalls *stalls)
{
	for (size_t i = 0; i < REASONS_MOST; i++) {
		if (!sums->samples[i] && !sums->not_issued[i])
			continue;
		if (array_grow(&stalls->reasons, capacity, stalls->n_reasons + 1,
			       sizeof(*stalls->reasons)) < 0)
			return -ENOMEM;
		stalls->reasons[stalls->n_reasons++] =
			(struct stall_row){ .kernel = kernel,
					    .stall = stalls->names[i],
					    .samples = sums->samples[i],
					    .not_issued = sums->not_issued[i],
					    .kernel_pct = pct(sums->samples[i], sums->all) };
	}
	return 0;
}

/* Entries of an instruction are side by side. */
static uint64_t busiest_offset(const struct entry *entries, size_t n)
{
	uint64_t most = 0, at = entries->offset;

	for (size_t i = 0, end; i < n; i = end) {
		uint64_t samples = 0;

		for (end = i; end < n && entries[end].module == entries[i].module &&
			      entries[end].offset == entries[i].offset;
		     end++)
			samples += entries[end].samples;
		if (samples > most) {
			most = samples;
			at = entries[i].offset;
		}
	}
	return at;
}

static struct stalled_line make_line(const struct run *run, const struct entry *entries, size_t n,
				     const struct stalled_kernel *kernel,
				     const struct stalls *stalls)
{
	struct sums sums = sum_up(entries, n);
	struct stalled_line line = {
		.kernel = kernel,
		.file = entries->file ? run_string(run, entries->file) : NULL,
		.line = entries->line,
		.offset = busiest_offset(entries, n),
		.samples = sums.all,
		.not_issued = sums.all_not_issued,
		.kernel_pct = pct(sums.all, kernel->samples),
		.stall_pct = value_absent("no warp waited here"),
	};
	const char *slash = line.file ? strrchr(line.file, '/') : NULL;
	uint64_t most = 0;

	if (line.file)
		snprintf(line.source, sizeof(line.source), "%s:%u", slash ? slash + 1 : line.file,
			 line.line);
	else
		snprintf(line.source, sizeof(line.source), "+0x%" PRIx64, line.offset);
	for (size_t i = 0; i < REASONS_MOST; i++)
		if (sums.samples[i] > most && strcmp(stalls->names[i], "selected") != 0) {
			most = sums.samples[i];
			line.stall = stalls->names[i];
			line.stall_pct = pct(most, sums.all);
		}
	return line;
}

static int add_lines(const struct run *run, const struct entry *entries, size_t n,
		     const struct stalled_kernel *kernel, size_t *capacity, struct stalls *stalls)
{
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && same_line(&entries[end], &entries[i]);)
			end++;
		if (array_grow(&stalls->lines, capacity, stalls->n_lines + 1,
			       sizeof(*stalls->lines)) < 0)
			return -ENOMEM;
		stalls->lines[stalls->n_lines++] = make_line(run, &entries[i], end - i, kernel,
							     stalls);
	}
	return 0;
}

static int name_kernels(const struct run *run, const struct entry *entries, size_t n,
			struct stalls *stalls)
{
	struct kernel_alias *aliases = NULL;
	size_t kernels = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		kernels += !i || entries[i].kernel != entries[i - 1].kernel;
	stalls->kernels = array_new(kernels, sizeof(*stalls->kernels));
	aliases = array_new(kernels, sizeof(*aliases));
	if (!stalls->kernels || !aliases)
		r = -ENOMEM;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct stalled_kernel *kernel;

		if (!i || entries[i].kernel != entries[i - 1].kernel) {
			kernel = &stalls->kernels[stalls->n_kernels++];
			*kernel = (struct stalled_kernel){ .samples = 0 };
			r = demangled(run_string(run, entries[i].kernel), &kernel->name);
			if (r >= 0)
				r = kernel_short_name(kernel->name, &kernel->short_name);
			aliases[stalls->n_kernels - 1] =
				(struct kernel_alias){ kernel->name, &kernel->short_name };
		}
		stalls->kernels[stalls->n_kernels - 1].samples += entries[i].samples;
	}
	if (r >= 0)
		r = kernel_aliases_tell_apart(aliases, kernels);
	free(aliases);
	return r < 0 ? r : 0;
}

static int by_kernel_and_samples(const void *a, const void *b)
{
	const struct stall_row *x = a, *y = b;

	return CMP(y->kernel->samples, x->kernel->samples) ?: CMP(x->kernel, y->kernel) ?:
	       CMP(y->samples, x->samples) ?: strcmp(x->stall, y->stall);
}

static int by_samples(const void *a, const void *b)
{
	const struct stalled_line *x = a, *y = b;

	return CMP(y->samples, x->samples) ?: CMP(x->kernel, y->kernel) ?: CMP(x->line, y->line) ?:
	       CMP(x->offset, y->offset);
}

static int fill(const struct run *run, const struct entry *entries, size_t n, struct stalls *stalls)
{
	const struct stalled_kernel *kernel;
	size_t reasons = 0, lines = 0;
	int r = name_kernels(run, entries, n, stalls);

	kernel = stalls->kernels;
	for (size_t i = 0, end; r == 0 && i < n; i = end, kernel++) {
		struct sums sums;

		for (end = i; end < n && entries[end].kernel == entries[i].kernel;)
			end++;
		sums = sum_up(&entries[i], end - i);
		stalls->samples += sums.all;
		r = add_reasons(&sums, kernel, &reasons, stalls);
		if (r == 0)
			r = add_lines(run, &entries[i], end - i, kernel, &lines, stalls);
	}
	if (r < 0)
		return r;
	qsort(stalls->reasons, stalls->n_reasons, sizeof(*stalls->reasons), by_kernel_and_samples);
	qsort(stalls->lines, stalls->n_lines, sizeof(*stalls->lines), by_samples);
	for (size_t i = 0; i < stalls->n_lines; i++)
		stalls->lines[i].share_pct = pct(stalls->lines[i].samples, stalls->samples);
	return 0;
}

int stalls_analyze(const struct run *run, struct stalls *ret_stalls)
{
	struct stalls stalls = { .names = calloc(REASONS_MOST, sizeof(*stalls.names)) };
	struct reasons reasons = { .names = stalls.names };
	struct entry *entries = NULL;
	size_t n = 0;
	int r = stalls.names ? list_entries(run, &reasons, &stalls, &entries, &n) : -ENOMEM;

	if (r == 0 && n)
		r = fill(run, entries, n, &stalls);
	free(entries);
	if (r < 0)
		stalls_release(&stalls);
	else
		*ret_stalls = stalls;
	return r;
}

void stalls_release(struct stalls *stalls)
{
	for (size_t i = 0; i < stalls->n_kernels; i++) {
		free(stalls->kernels[i].name);
		free(stalls->kernels[i].short_name);
	}
	free(stalls->kernels);
	free(stalls->reasons);
	free(stalls->lines);
	free(stalls->names);
	*stalls = (struct stalls){ 0 };
}

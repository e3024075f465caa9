/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of the tensor cores: which metrics have all of a chip's. Their names follow one scheme (metric_names.h), but
 * each chip has other ones, and some need several passes: src_fp8 of GH100 is src_fp4_fp6_fp8_dst_fp32 of GB100, which
 * takes two, and its two parts by sparsity take one each. So a metric that needs several passes is replaced by those
 * that it covers, in one way to divide it: by kind of instruction, else by target, else by sparsity. One thread.
 */
#include <stdio.h>
#include <string.h>

#include "counters/sets.h"

#define NAMES_MOST 256
#define NAME_MOST 96
#define OPERATIONS_MOST 32

/* What operations read, the most usual first; of bits and half bytes, nobody asks. */
static const char *const sources[] = { "bf16", "fp16", "tf32", "fp8", "fp4", "int8", "fp64" };
#define SOURCES (sizeof(sources) / sizeof(sources[0]))

static struct known {
	char chip[32];
	char names[NAMES_MOST][NAME_MOST];
	size_t n;
	const char *chosen[OPERATIONS_MOST];
	size_t n_chosen;
} known;

static bool reads(const char *name, const char *source)
{
	const char *own = tensor_metric_source(name);

	return own && !strncmp(own, source, strlen(source)) && strchr("_.", own[strlen(source)]);
}

/* Not those for samples over time, which are other counters. A name may come once for each type of metric. */
static void keep(void *context, const char *base)
{
	char name[NAME_MOST];
	int length = snprintf(name, sizeof(name), "%s.sum", base);

	(void)context;
	if (length >= NAME_MOST || known.n == NAMES_MOST || strstr(base, "_realtime"))
		return;
	for (size_t i = 0; i < known.n; i++)
		if (!strcmp(known.names[i], name))
			return;
	for (size_t s = 0; s < SOURCES; s++)
		if (reads(name, sources[s])) {
			memcpy(known.names[known.n++], name, sizeof(name));
			return;
		}
}

enum division { BY_INSTRUCTION, BY_TARGET, BY_SPARSITY, DIVISIONS };

static enum division division_of(const char *whole, const char *part)
{
	if (!strstr(whole, "_op_") && strstr(part, "_op_"))
		return BY_INSTRUCTION;
	return strstr(part, "_sparsity_") ? BY_SPARSITY : BY_TARGET;
}

/* Whether no other metric comes between them; whole NULL: whether none covers it. */
static bool is_next(const char *whole, const char *part)
{
	if (whole && !tensor_metric_covers(whole, part))
		return false;
	for (size_t i = 0; i < known.n; i++)
		if ((!whole || tensor_metric_covers(whole, known.names[i])) &&
		    tensor_metric_covers(known.names[i], part))
			return false;
	return true;
}

static bool choose(const struct chip *chip, const char *name, enum division by)
{
	size_t before = known.n_chosen, parts = 0, found = 0;

	if (by == DIVISIONS)
		return false;
	if (by == 0 && known.n_chosen < OPERATIONS_MOST && counters_fit(chip, &name, 1)) {
		known.chosen[known.n_chosen++] = name;
		return true;
	}
	for (size_t i = 0; i < known.n; i++) {
		const char *part = known.names[i];

		if (!is_next(name, part) || division_of(name, part) != by)
			continue;
		parts++;
		found += choose(chip, part, 0);
	}
	if (parts && found == parts)
		return true;
	known.n_chosen = before;
	return choose(chip, name, by + 1);
}

size_t tensor_set(const struct chip *chip, const char **metrics)
{
	if (strcmp(known.chip, chip_name(chip)) != 0) {
		known.n = known.n_chosen = 0;
		snprintf(known.chip, sizeof(known.chip), "%s", chip_name(chip));
		chip_each_metric(chip, TENSOR_METRIC, keep, NULL);
		for (size_t s = 0; s < SOURCES; s++)
			for (size_t i = 0; i < known.n; i++)
				if (reads(known.names[i], sources[s]) &&
				    is_next(NULL, known.names[i]) &&
				    !choose(chip, known.names[i], 0) &&
				    known.n_chosen < OPERATIONS_MOST)
					known.chosen[known.n_chosen++] = known.names[i];
	}
	for (size_t i = 0; i < known.n_chosen; i++)
		metrics[i] = known.chosen[i];
	return known.n_chosen;
}

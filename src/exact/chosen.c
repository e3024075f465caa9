/* SPDX-License-Identifier: Apache-2.0
 *
 * What is chosen; see chosen.h.
 */
#include "exact/chosen.h"

#include <stdlib.h>
#include <string.h>

#include "device/sheets/kernel_class.h"
#include "probe/core/name_filter.h"
#include "probe/core/open_ranges.h"

#define KERNELS_MOST 4096
#define RANGES_DEEP 64 /* that are looked at around a launch */

static struct kernel kernels[KERNELS_MOST];
static size_t n_kernels;
static struct kernel_classes *classes;
static struct name_filter chosen_kernels = KERNEL_FILTER, chosen_ranges = RANGE_FILTER;
static int64_t chosen_layer = -1, chosen_expert = -1; /* -1: all */
static bool by_place;
static int64_t to_skip;

static int64_t number_of(const char *name, int64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? (int64_t)strtoull(text, NULL, 10) : otherwise;
}

int chosen_begin(uint64_t *ret_count, struct err *err)
{
	int r = kernel_classes_new(NULL, &classes, err);

	name_filter_start(&chosen_kernels);
	name_filter_start(&chosen_ranges);
	chosen_layer = number_of("MOESCOPE_LAUNCH_LAYER", -1);
	chosen_expert = number_of("MOESCOPE_LAUNCH_EXPERT", -1);
	to_skip = number_of("MOESCOPE_LAUNCH_SKIP", 0);
	*ret_count = (uint64_t)number_of("MOESCOPE_LAUNCH_COUNT", 0);
	by_place = chosen_ranges.filtering || chosen_layer >= 0 || chosen_expert >= 0;
	return r;
}

bool chosen_by_kernel(void)
{
	return chosen_kernels.filtering;
}

bool chosen_filters(void)
{
	return chosen_kernels.filtering || by_place;
}

struct kernel *chosen_kernel(const char *symbol)
{
	moescope_name name = moescope_intern(symbol);
	const char *class;

	for (size_t i = 0; i < n_kernels; i++)
		if (kernels[i].name == name)
			return &kernels[i];
	if (!name || n_kernels == KERNELS_MOST)
		return NULL;
	class = classes ? kernel_class_of(classes, symbol) : NULL;
	kernels[n_kernels] = (struct kernel){
		.name = name,
		.wanted = name_filter_keeps(&chosen_kernels, name, symbol),
		.talks = !class || kernel_class_communicates(class),
		.unknown = !class || !strcmp(class, "other"),
	};
	return &kernels[n_kernels++];
}

bool chosen_place(void)
{
	struct open_range open[RANGES_DEEP];
	size_t n;

	if (!by_place)
		return true;
	n = moescope_open_ranges(open, RANGES_DEEP);
	/* The innermost has the layer and the expert of those around it. */
	if (!n || (chosen_layer >= 0 && open[0].layer != chosen_layer) ||
	    (chosen_expert >= 0 && open[0].expert != chosen_expert))
		return false;
	for (size_t i = 0; i < n; i++)
		if (name_filter_keeps(&chosen_ranges, open[i].name,
				      moescope_name_text(open[i].name)))
			return true;
	return false;
}

bool chosen_skipped(void)
{
	if (!to_skip)
		return false;
	to_skip--;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See metric_names.h.
 */
#include "device/sheets/metric_names.h"

#include <string.h>

enum dram_way dram_metric_way(const char *name)
{
	static const char *const ends[] = {
		[DRAM_BOTH_WAYS] = ".sum",
		[DRAM_READ] = "_read.sum",
		[DRAM_WRITE] = "_write.sum",
	};
	const char *end = name + strlen(DRAM_METRIC);

	if (strncmp(name, DRAM_METRIC, strlen(DRAM_METRIC)) != 0)
		return DRAM_NO_BYTES;
	if (!strncmp(end, "_op_", strlen("_op_")))
		end += strlen("_op");
	for (enum dram_way way = DRAM_BOTH_WAYS; way <= DRAM_WRITE; way++)
		if (!strcmp(end, ends[way]))
			return way;
	return DRAM_NO_BYTES;
}

/* The type of operations in a metric's name: what lies between its beginning and .sum. */
static bool tensor_type(const char *name, const char **ret_type, size_t *ret_length)
{
	size_t length = strlen(name), before = strlen(TENSOR_METRIC), after = strlen(".sum");

	if (length <= before + after || strncmp(name, TENSOR_METRIC, before) != 0 ||
	    strcmp(name + length - after, ".sum") != 0)
		return false;
	*ret_type = name + before;
	*ret_length = length - before - after;
	return true;
}

bool is_tensor_metric(const char *name)
{
	const char *type;
	size_t length;

	return tensor_type(name, &type, &length);
}

static bool type_begins(const char *type, size_t length, const char *with, size_t n, bool whole)
{
	return (n < length || (whole && n == length)) && !strncmp(type, with, n) &&
	       (n == length || type[n] == '_');
}

bool tensor_metric_covers(const char *name, const char *part)
{
	const char *type, *other, *source;
	size_t length, n, before;

	if (!tensor_type(part, &type, &length) || !tensor_type(name, &other, &n))
		return false;
	source = strstr(type, "src_");
	before = !strncmp(type, "op_", 3) && source && source < type + length
			 ? (size_t)(source - type)
			 : 0;
	return type_begins(type, length, other, n, false) ||
	       (before && type_begins(type + before, length - before, other, n, true));
}

const char *tensor_metric_source(const char *name)
{
	const char *source = is_tensor_metric(name) ? strstr(name, "src_") : NULL;

	return source ? source + strlen("src_") : NULL;
}

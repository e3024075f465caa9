/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fields of Nsight Compute's CSV are; see ncu_inside.h.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/scaled_units.h"
#include "ingest/ncu/ncu_inside.h"

static const char *const names[NCU_COLUMNS] = {
	[NCU_ID] = "ID",
	[NCU_PROCESS_ID] = "Process ID",
	[NCU_PROCESS_NAME] = "Process Name",
	[NCU_HOST] = "Host Name",
	[NCU_KERNEL] = "Kernel Name",
	[NCU_CONTEXT] = "Context",
	[NCU_STREAM] = "Stream",
	[NCU_BLOCK] = "Block Size",
	[NCU_GRID] = "Grid Size",
	[NCU_DEVICE] = "Device",
	[NCU_CC] = "CC",
	[NCU_SECTION] = "Section Name",
	[NCU_METRIC] = "Metric Name",
	[NCU_UNIT] = "Metric Unit",
	[NCU_VALUE] = "Metric Value",
	[NCU_RULE] = "Rule Name",
	[NCU_RULE_TYPE] = "Rule Type",
	[NCU_RULE_TEXT] = "Rule Description",
	[NCU_SPEEDUP_TYPE] = "Estimated Speedup Type",
	[NCU_SPEEDUP] = "Estimated Speedup",
};

/* Figures of the raw page that say what the device and the launch are. */
static const struct {
	const char *name;
	size_t offset; /* of a uint32_t of row_device, or of row_launch */
	bool launch;
	const char *unit; /* that it is wanted in; NULL: it has one only */
} known_figures[] = {
	{ "device__attribute_multiprocessor_count", offsetof(struct row_device, multiprocessors) },
	{ "device__attribute_clock_rate", offsetof(struct row_device, clock_khz) },
	{ "device__attribute_l2_cache_size", offsetof(struct row_device, l2_bytes) },
	{ "device__attribute_max_threads_per_multiprocessor",
	  offsetof(struct row_device, threads_per_multiprocessor) },
	{ "device__attribute_max_registers_per_multiprocessor",
	  offsetof(struct row_device, registers_per_multiprocessor) },
	{ "device__attribute_max_shared_memory_per_multiprocessor",
	  offsetof(struct row_device, shared_bytes_per_multiprocessor) },
	{ "device__attribute_max_blocks_per_multiprocessor",
	  offsetof(struct row_device, blocks_per_multiprocessor) },
	{ "launch__registers_per_thread", offsetof(struct row_launch, registers), true },
	{ "launch__shared_mem_per_block_static", offsetof(struct row_launch, static_shared_bytes),
	  true, "byte/block" },
	{ "launch__shared_mem_per_block_dynamic", offsetof(struct row_launch, dynamic_shared_bytes),
	  true, "byte/block" },
};
#define N_KNOWN (sizeof(known_figures) / sizeof(known_figures[0]))

static bool has_column(const struct csv *csv, const char *wanted)
{
	for (size_t i = 0; i < csv->n; i++) {
		struct csv_field name = csv_trimmed(csv, i);

		if (csv_is(&name, wanted))
			return true;
	}
	return false;
}

bool ncu_is_header(const struct csv *csv)
{
	return has_column(csv, names[NCU_ID]) && has_column(csv, names[NCU_KERNEL]);
}

bool ncu_is_summary(const struct csv *csv)
{
	return has_column(csv, "Invocations") && has_column(csv, names[NCU_METRIC]);
}

/* The header of a raw page is longer than what is looked at: the names that matter come first. */
static bool begins_header(const char *line, size_t length)
{
	const char *comma;
	struct csv csv;
	bool found;

	if (!memmem(line, length, names[NCU_KERNEL], strlen(names[NCU_KERNEL])) &&
	    !memmem(line, length, names[NCU_METRIC], strlen(names[NCU_METRIC])))
		return false;
	comma = memrchr(line, ',', length);
	if (!comma || csv_open_bytes(&csv, line, (size_t)(comma - line)) < 0)
		return false;
	found = csv_next(&csv) > 0 && (ncu_is_header(&csv) || ncu_is_summary(&csv));
	csv_close(&csv);
	return found;
}

bool ncu_recognise(const struct ingest_file *file)
{
	const char *at = file->head, *end = file->head + file->head_bytes;
	bool found = false;

	while (at < end && !found) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		size_t length = (size_t)((line_end ? line_end : end) - at);

		found = begins_header(at, length < 1024 ? length : 1024);
		at += length + 1;
	}
	return found;
}

static bool is_identity(const struct csv_field *name)
{
	for (size_t i = 0; i < NCU_COLUMNS; i++)
		if (csv_is(name, names[i]))
			return true;
	return false;
}

void ncu_figures_free(struct figure *figures, size_t n)
{
	for (size_t i = 0; figures && i < n; i++) {
		free(figures[i].name);
		free(figures[i].unit);
	}
	free(figures);
}

static int add_figure(struct ncu *ncu, size_t i, const struct csv_field *name)
{
	struct figure *figure = &ncu->figures[i];

	figure->name = strndup(name->text, name->length);
	figure->known = -1;
	for (size_t k = 0; figure->name && k < N_KNOWN; k++)
		if (!strcmp(figure->name, known_figures[k].name))
			figure->known = (int)k;
	if (csv_is(name, "device__attribute_display_name"))
		ncu->display_name = i;
	if (csv_is(name, "device__attribute_total_memory"))
		ncu->total_memory = i;
	return figure->name ? 0 : -ENOMEM;
}

/* A header that is repeated need not have its units again. */
static void keep_units(struct ncu *ncu, struct figure *before, size_t n)
{
	for (size_t i = 0; i < n && i < ncu->n_columns; i++) {
		struct figure *figure = &ncu->figures[i];

		if (!figure->name || !before[i].name || strcmp(figure->name, before[i].name) != 0)
			continue;
		figure->unit = before[i].unit;
		before[i].unit = NULL;
	}
}

static int add_figures(struct ncu *ncu)
{
	ncu->figures = calloc(ncu->n_columns, sizeof(*ncu->figures));
	if (!ncu->figures)
		return -ENOMEM;
	for (size_t i = 0; i < ncu->n_columns; i++) {
		struct csv_field name = csv_trimmed(&ncu->csv, i);

		if (name.length && !is_identity(&name) && add_figure(ncu, i, &name) < 0)
			return -ENOMEM;
	}
	return 0;
}

int ncu_take_header(struct ncu *ncu)
{
	struct figure *before = ncu->figures;
	size_t n_before = before ? ncu->n_columns : 0;
	int r = 0;

	for (size_t c = 0; c < NCU_COLUMNS; c++)
		ncu->at[c] = NOWHERE;
	for (size_t i = 0; i < ncu->csv.n; i++) {
		struct csv_field name = csv_trimmed(&ncu->csv, i);

		for (size_t c = 0; c < NCU_COLUMNS; c++)
			if (ncu->at[c] == NOWHERE && csv_is(&name, names[c]))
				ncu->at[c] = i;
	}
	ncu->n_columns = ncu->csv.n;
	ncu->details = ncu->at[NCU_METRIC] != NOWHERE && ncu->at[NCU_VALUE] != NOWHERE;
	ncu->display_name = ncu->total_memory = NOWHERE;
	ncu->figures = NULL;
	ncu->units_read = false;
	ncu->header_new = true;
	if (!ncu->details)
		r = add_figures(ncu);
	if (r >= 0 && ncu->figures)
		keep_units(ncu, before, n_before);
	ncu_figures_free(before, n_before);
	return r;
}

int ncu_take_units(struct ncu *ncu)
{
	ncu->units_read = true;
	for (size_t i = 0; i < ncu->csv.n && i < ncu->n_columns; i++) {
		struct csv_field unit = csv_trimmed(&ncu->csv, i);
		struct figure *figure = &ncu->figures[i];

		if (!figure->name)
			continue;
		free(figure->unit);
		figure->unit = strndup(unit.text, unit.length);
		if (!figure->unit)
			return -ENOMEM;
	}
	return 0;
}

void ncu_take_known(const struct ncu *ncu, size_t i, struct row_launch *launch,
		    struct row_device *device)
{
	struct csv_field text = csv_trimmed(&ncu->csv, i);
	const struct figure *figure = &ncu->figures[i];
	int known = figure->known, power;
	double value;
	uint32_t n;

	if (known < 0 || number_read(&ncu->form, text.text, text.length, &value) != NUMBER_READ)
		return;
	if (known_figures[known].unit && figure->unit &&
	    scaled_unit_power(figure->unit, known_figures[known].unit, &power))
		value = round(scaled_by_power(value, power));
	if (value < 0 || value > UINT32_MAX)
		return;
	n = (uint32_t)value;
	memcpy((known_figures[known].launch ? (char *)launch : (char *)device) +
		       known_figures[known].offset,
	       &n, sizeof(n));
}

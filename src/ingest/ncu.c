/* SPDX-License-Identifier: Apache-2.0
 *
 * Nsight Compute's CSV, as `ncu --csv` prints it with `--page raw` (a launch a row, a figure a
 * column, units in the row below the names) or `--page details` (a figure a row, rules between
 * them). What the program itself printed may stand before it and inside it.
 *
 * The file is read twice: the first time to see how it writes numbers.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ingest/csv.h"
#include "ingest/importers.h"
#include "ingest/ingest.h"
#include "ingest/intake.h"

/* Columns that are no figures. Those of rules stand in rows of their own. */
enum ncu_column {
	NCU_ID,
	NCU_PROCESS_ID,
	NCU_PROCESS_NAME,
	NCU_HOST,
	NCU_KERNEL,
	NCU_CONTEXT,
	NCU_STREAM,
	NCU_BLOCK,
	NCU_GRID,
	NCU_DEVICE,
	NCU_CC,
	NCU_SECTION,
	NCU_METRIC,
	NCU_UNIT,
	NCU_VALUE,
	NCU_RULE,
	NCU_RULE_TYPE,
	NCU_RULE_TEXT,
	NCU_SPEEDUP_TYPE,
	NCU_SPEEDUP,
	NCU_COLUMNS
};
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
#define NOWHERE SIZE_MAX

/* Figures of the raw page that say what the device and the launch are. */
static const struct {
	const char *name;
	size_t offset; /* of a uint32_t of row_device, or of row_launch */
	bool launch;
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
	  true },
	{ "launch__shared_mem_per_block_dynamic", offsetof(struct row_launch, dynamic_shared_bytes),
	  true },
};
#define N_KNOWN (sizeof(known_figures) / sizeof(known_figures[0]))

/* A figure of the raw page; its ids are of the part in use. */
struct figure {
	char *name, *unit;
	uint32_t name_id, unit_id;
	int known; /* index into known_figures, or -1 */
};

struct seen_device {
	uint32_t pid, device;
};

struct ncu {
	const struct ingest_file *file;
	struct intake *intake;
	struct csv csv;
	struct number_form form;
	size_t at[NCU_COLUMNS];
	size_t n_columns;
	bool details;

	struct figure *figures; /* raw page: of each column, name NULL: not a figure */
	bool units_read;
	size_t display_name, total_memory; /* columns */

	uint32_t pid;
	struct intake_part *part; /* of pid; NULL: none yet */
	struct seen_process {
		uint32_t pid;
		struct intake_part *part;
	} * processes;
	size_t n_processes, processes_capacity;
	struct seen_device *devices;
	size_t n_devices, devices_capacity;
	uint64_t strange; /* lines that are no rows */
	uint64_t rows;
};

static struct csv_field field(const struct ncu *ncu, enum ncu_column column)
{
	return csv_trimmed(&ncu->csv, ncu->at[column]);
}

static bool is_header(const struct csv *csv)
{
	bool id = false, kernel = false;

	for (size_t i = 0; i < csv->n && !(id && kernel); i++) {
		struct csv_field name = csv_trimmed(csv, i);

		id = id || csv_is(&name, names[NCU_ID]);
		kernel = kernel || csv_is(&name, names[NCU_KERNEL]);
	}
	return id && kernel;
}

/* The header of a raw page is longer than what is looked at: the names that matter come first. */
static bool begins_header(const char *line, size_t length)
{
	const char *comma;
	struct csv csv;
	bool found;

	if (!memmem(line, length, names[NCU_KERNEL], strlen(names[NCU_KERNEL])))
		return false;
	comma = memrchr(line, ',', length);
	if (!comma || csv_open_bytes(&csv, line, (size_t)(comma - line)) < 0)
		return false;
	found = csv_next(&csv) > 0 && is_header(&csv);
	csv_close(&csv);
	return found;
}

static bool recognise(const struct ingest_file *file)
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

/* Goes to the record after the header. */
static int read_header(struct ncu *ncu, struct err *err)
{
	int r;

	while ((r = csv_next(&ncu->csv)) > 0 && !is_header(&ncu->csv))
		;
	if (r < 0)
		return err_sys(err, r, "%s cannot be read", ncu->file->path);
	if (!r)
		return err_set(err, -EINVAL, "%s has no line with the names of the columns.",
			       ncu->file->path);
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
	if (ncu->details || ncu->figures)
		return 0;
	ncu->display_name = ncu->total_memory = NOWHERE;
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

static bool read_uint(const struct csv_field *text, uint32_t *ret_value)
{
	uint64_t value = 0;

	if (!text->length || text->length > 10)
		return false;
	for (size_t i = 0; i < text->length; i++) {
		if (text->text[i] < '0' || text->text[i] > '9')
			return false;
		value = 10 * value + (uint64_t)(text->text[i] - '0');
	}
	if (value > UINT32_MAX)
		return false;
	*ret_value = (uint32_t)value;
	return true;
}

/* "(32, 1, 1)" */
static void read_sizes(struct csv_field text, uint32_t size[3])
{
	size_t n = 0;

	for (size_t i = 0; i < text.length && n < 3; i++) {
		struct csv_field digits = { text.text + i, 0 };

		while (i < text.length && text.text[i] >= '0' && text.text[i] <= '9') {
			digits.length++;
			i++;
		}
		if (digits.length && !read_uint(&digits, &size[n++]))
			size[n - 1] = 0;
	}
}

/* Reads all values once, to see how the file writes numbers. */
static int look_at_numbers(struct ncu *ncu, struct err *err)
{
	int r = read_header(ncu, err);

	if (r < 0)
		return r;
	while ((r = csv_next(&ncu->csv)) > 0) {
		uint32_t id;
		struct csv_field text = field(ncu, NCU_ID);

		if (!read_uint(&text, &id) || ncu->csv.n > ncu->n_columns)
			continue;
		if (ncu->details) {
			text = field(ncu, NCU_VALUE);
			number_form_see(&ncu->form, text.text, text.length);
			continue;
		}
		for (size_t i = 0; i < ncu->csv.n; i++) {
			if (!ncu->figures[i].name)
				continue;
			text = csv_trimmed(&ncu->csv, i);
			number_form_see(&ncu->form, text.text, text.length);
		}
	}
	number_form_decide(&ncu->form);
	return r < 0 ? err_sys(err, r, "%s cannot be read", ncu->file->path) : 0;
}

static int add_fact(struct ncu *ncu, const char *key, const struct csv_field *value)
{
	struct row_fact row = { .key = part_text(ncu->part, key),
				.value = part_string(ncu->part, value->text, value->length) };

	return value->length ? part_add(ncu->part, RECORD_FACT, &row) : 0;
}

/* The part of the row's process. */
static int choose_part(struct ncu *ncu)
{
	struct csv_field text = field(ncu, NCU_PROCESS_ID);
	struct csv_field program = field(ncu, NCU_PROCESS_NAME), host = field(ncu, NCU_HOST);
	struct intake_process *process;
	uint32_t pid = 0;

	if (text.length && !read_uint(&text, &pid))
		pid = 0;
	if (ncu->part && pid == ncu->pid)
		return 0;
	for (size_t i = 0; i < ncu->n_columns && ncu->figures; i++)
		ncu->figures[i].name_id = ncu->figures[i].unit_id = 0;
	ncu->pid = pid;
	for (size_t i = 0; i < ncu->n_processes; i++)
		if (ncu->processes[i].pid == pid) {
			ncu->part = ncu->processes[i].part;
			return 0;
		}
	if (array_grow(&ncu->processes, &ncu->processes_capacity, ncu->n_processes + 1,
		       sizeof(*ncu->processes)) < 0)
		return -ENOMEM;
	process = intake_process(ncu->intake, ncu->file->rank_hint, pid);
	ncu->part = process ? intake_part(process) : NULL;
	if (!ncu->part)
		return -ENOMEM;
	ncu->processes[ncu->n_processes++] = (struct seen_process){ pid, ncu->part };
	if (add_fact(ncu, "program", &program) < 0)
		return -ENOMEM;
	return add_fact(ncu, "host", &host);
}

/* Of a figure that says what a device or launch is. */
static void take_known(const struct ncu *ncu, size_t i, struct row_launch *launch,
		       struct row_device *device)
{
	struct csv_field text = csv_trimmed(&ncu->csv, i);
	int known = ncu->figures[i].known;
	double value;
	uint32_t n;

	if (known < 0 || number_read(&ncu->form, text.text, text.length, &value) != NUMBER_READ ||
	    value < 0 || value > UINT32_MAX)
		return;
	n = (uint32_t)value;
	memcpy((known_figures[known].launch ? (char *)launch : (char *)device) +
		       known_figures[known].offset,
	       &n, sizeof(n));
}

static int add_device(struct ncu *ncu, struct row_device *row)
{
	struct csv_field cc = field(ncu, NCU_CC), name = csv_trimmed(&ncu->csv, ncu->display_name);
	struct csv_field memory = csv_trimmed(&ncu->csv, ncu->total_memory);
	double bytes;

	for (size_t i = 0; i < ncu->n_devices; i++)
		if (ncu->devices[i].pid == ncu->pid && ncu->devices[i].device == row->device)
			return 0;
	if (array_grow(&ncu->devices, &ncu->devices_capacity, ncu->n_devices + 1,
		       sizeof(*ncu->devices)) < 0)
		return -ENOMEM;
	ncu->devices[ncu->n_devices++] = (struct seen_device){ ncu->pid, row->device };
	/* "9.0" */
	if (cc.length == 3 && cc.text[0] >= '0' && cc.text[0] <= '9' && cc.text[2] >= '0' &&
	    cc.text[2] <= '9')
		row->capability = (uint32_t)(10 * (cc.text[0] - '0') + cc.text[2] - '0');
	else if (cc.length == 4 && cc.text[0] >= '1' && cc.text[0] <= '9' && cc.text[1] >= '0' &&
		 cc.text[1] <= '9' && cc.text[3] >= '0' && cc.text[3] <= '9')
		row->capability = (uint32_t)(100 * (cc.text[0] - '0') + 10 * (cc.text[1] - '0') +
					     cc.text[3] - '0');
	row->name = part_string(ncu->part, name.text, name.length);
	if (number_read(&ncu->form, memory.text, memory.length, &bytes) == NUMBER_READ &&
	    bytes >= 0 && bytes < 0x1p63)
		row->memory_bytes = (uint64_t)bytes;
	return part_add(ncu->part, RECORD_DEVICE, row);
}

/* What all figures of this row have in common. */
static int begin_row(struct ncu *ncu, uint32_t id, struct row_metric *ret_row)
{
	struct csv_field context = field(ncu, NCU_CONTEXT), stream = field(ncu, NCU_STREAM);
	struct csv_field device = field(ncu, NCU_DEVICE), kernel = field(ncu, NCU_KERNEL);
	struct row_launch launch = { 0 };
	struct row_device described = { 0 };
	struct row_metric row = { .profile = id };
	uint32_t size[3] = { 0 };
	int r = choose_part(ncu);

	if (r < 0)
		return r;
	if (!read_uint(&context, &row.context))
		row.context = 0;
	if (!read_uint(&stream, &row.stream))
		row.stream = 0;
	if (!read_uint(&device, &row.device))
		row.device = 0;
	launch.name = part_string(ncu->part, kernel.text, kernel.length);
	read_sizes(field(ncu, NCU_GRID), size);
	launch.grid_x = size[0], launch.grid_y = size[1], launch.grid_z = size[2];
	memset(size, 0, sizeof(size));
	read_sizes(field(ncu, NCU_BLOCK), size);
	launch.block_x = size[0], launch.block_y = size[1], launch.block_z = size[2];
	for (size_t i = 0; ncu->figures && i < ncu->csv.n; i++)
		take_known(ncu, i, &launch, &described);
	row.launch = part_launch(ncu->part, &launch);
	described.device = row.device;
	*ret_row = row;
	return add_device(ncu, &described);
}

static int add_value(struct ncu *ncu, struct row_metric *row, const struct csv_field *text)
{
	row->value = 0;
	row->text = 0;
	switch (number_read(&ncu->form, text->text, text->length, &row->value)) {
	case NUMBER_READ:
		break;
	case NUMBER_OTHER:
		part_damaged(ncu->part, ncu->csv.line,
			     "a number that is not of the form of the others");
		return 0;
	case NUMBER_NONE:
		row->text = part_string(ncu->part, text->text, text->length);
		break;
	}
	return part_add(ncu->part, RECORD_METRIC, row);
}

static int add_raw(struct ncu *ncu, struct row_metric *row)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ncu->csv.n; i++) {
		struct figure *figure = &ncu->figures[i];
		struct csv_field text = csv_trimmed(&ncu->csv, i);

		/* Not collected for this launch. */
		if (!figure->name || !text.length)
			continue;
		if (!figure->name_id) {
			figure->name_id = part_text(ncu->part, figure->name);
			figure->unit_id = part_text(ncu->part, figure->unit ? figure->unit : "");
		}
		row->name = figure->name_id;
		row->unit = figure->unit_id;
		r = add_value(ncu, row, &text);
	}
	return r;
}

/* The advice of a rule, as the text of a figure; its estimate as one of its own. */
static int add_rule(struct ncu *ncu, struct row_metric *row)
{
	struct csv_field rule = field(ncu, NCU_RULE), type = field(ncu, NCU_RULE_TYPE);
	struct csv_field text = field(ncu, NCU_RULE_TEXT), speedup = field(ncu, NCU_SPEEDUP);
	char name[256];
	int r;

	snprintf(name, sizeof(name), "rule %.*s", (int)(rule.length < 200 ? rule.length : 200),
		 rule.text);
	row->name = part_text(ncu->part, name);
	row->unit = part_string(ncu->part, type.text, type.length);
	row->text = part_string(ncu->part, text.text, text.length);
	r = part_add(ncu->part, RECORD_METRIC, row);
	if (r < 0 || !speedup.length)
		return r;
	strcat(name, " estimated speedup");
	row->name = part_text(ncu->part, name);
	type = field(ncu, NCU_SPEEDUP_TYPE);
	row->unit = part_string(ncu->part, type.text, type.length);
	return add_value(ncu, row, &speedup);
}

static int add_details(struct ncu *ncu, struct row_metric *row)
{
	struct csv_field section = field(ncu, NCU_SECTION), metric = field(ncu, NCU_METRIC);
	struct csv_field unit = field(ncu, NCU_UNIT), value = field(ncu, NCU_VALUE);
	struct csv_field rule = field(ncu, NCU_RULE);

	row->section = part_string(ncu->part, section.text, section.length);
	if (!metric.length && rule.length)
		return add_rule(ncu, row);
	if (!metric.length) {
		part_damaged(ncu->part, ncu->csv.line, "neither a metric nor a rule");
		return 0;
	}
	if (!value.length)
		return 0;
	row->name = part_string(ncu->part, metric.text, metric.length);
	row->unit = part_string(ncu->part, unit.text, unit.length);
	return add_value(ncu, row, &value);
}

/* The row of units has no launch. */
static int read_units(struct ncu *ncu)
{
	ncu->units_read = true;
	for (size_t i = 0; i < ncu->csv.n && i < ncu->n_columns; i++) {
		struct csv_field unit = csv_trimmed(&ncu->csv, i);

		if (!ncu->figures[i].name)
			continue;
		ncu->figures[i].unit = strndup(unit.text, unit.length);
		if (!ncu->figures[i].unit)
			return -ENOMEM;
	}
	return 0;
}

static int read_row(struct ncu *ncu)
{
	struct csv_field first = csv_trimmed(&ncu->csv, 0), id_text = field(ncu, NCU_ID);
	struct row_metric row;
	uint32_t id;
	int r;

	/* What ncu says of itself, and its header again, for another process. */
	if ((first.length >= 2 && !memcmp(first.text, "==", 2)) || is_header(&ncu->csv))
		return 0;
	if (!ncu->csv.broken && !id_text.length && ncu->figures && !ncu->units_read &&
	    ncu->csv.n == ncu->n_columns)
		return read_units(ncu);
	if (ncu->csv.broken || ncu->csv.n > ncu->n_columns || !read_uint(&id_text, &id) ||
	    ncu->csv.n <= ncu->at[NCU_KERNEL]) {
		ncu->strange++;
		if (ncu->part && (ncu->csv.broken || read_uint(&id_text, &id)))
			part_damaged(ncu->part, ncu->csv.line,
				     "a row that is cut or has too many fields");
		return 0;
	}
	r = begin_row(ncu, id, &row);
	ncu->rows++;
	if (r < 0)
		return r;
	return ncu->details ? add_details(ncu, &row) : add_raw(ncu, &row);
}

static void release(struct ncu *ncu)
{
	for (size_t i = 0; ncu->figures && i < ncu->n_columns; i++) {
		free(ncu->figures[i].name);
		free(ncu->figures[i].unit);
	}
	free(ncu->figures);
	free(ncu->processes);
	free(ncu->devices);
	csv_close(&ncu->csv);
}

static int read_all(struct ncu *ncu, struct err *err)
{
	int r = csv_open(&ncu->csv, ncu->file->path, err);

	if (r >= 0)
		r = look_at_numbers(ncu, err);
	if (r < 0)
		return r;
	csv_close(&ncu->csv);
	r = csv_open(&ncu->csv, ncu->file->path, err);
	if (r >= 0)
		r = read_header(ncu, err);
	while (r >= 0 && (r = csv_next(&ncu->csv)) > 0)
		r = read_row(ncu);
	if (r < 0)
		return r;
	if (!ncu->rows)
		return err_set(err, -EINVAL, "%s has no launches behind its header.",
			       ncu->file->path);
	if (ncu->form.points && ncu->form.commas)
		intake_note(ncu->intake,
			    "%s: %llu numbers have a decimal point and %llu a decimal comma; all "
			    "were read with the %s.",
			    ncu->file->path, (unsigned long long)ncu->form.points,
			    (unsigned long long)ncu->form.commas,
			    ncu->form.decimal == '.' ? "point" : "comma");
	if (ncu->strange)
		intake_note(ncu->intake, "%s: lines that are no rows of its table: %llu.",
			    ncu->file->path, (unsigned long long)ncu->strange);
	return 0;
}

static int read_file(const struct ingest_file *file, struct intake *intake, struct err *err)
{
	struct ncu ncu = { .file = file, .intake = intake };
	int r;

	if (file->gzip)
		return err_set(err, -EINVAL, "%s is compressed; unpack it first.", file->path);
	r = read_all(&ncu, err);
	for (size_t i = 0; r >= 0 && i < ncu.n_processes; i++)
		r = part_failed(ncu.processes[i].part);
	release(&ncu);
	if (r < 0 && err && !err->message[0])
		err_sys(err, r, "%s cannot be imported", file->path);
	return r;
}

const struct importer ncu_importer = {
	.name = "ncu",
	.words = "Nsight Compute CSV",
	.recognise = recognise,
	.read = read_file,
};

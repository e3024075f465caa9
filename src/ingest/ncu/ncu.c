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
#include "ingest/importers.h"
#include "ingest/ncu/ncu_inside.h"

static struct csv_field column_field(const struct ncu *ncu, enum ncu_column column)
{
	return csv_trimmed(&ncu->csv, ncu->at[column]);
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

/* Goes to the record after the header. */
static int read_ncu_header(struct ncu *ncu, struct err *err)
{
	int r;

	while ((r = csv_next(&ncu->csv)) > 0 && !ncu_is_header(&ncu->csv))
		if (ncu_is_summary(&ncu->csv))
			return err_set(
				err, -EINVAL,
				"%s is a summary of Nsight Compute, which has no launches: export the "
				"report without --print-summary (ncu --import FILE --csv --page raw).",
				ncu->file->path);
	if (r < 0)
		return err_sys(err, r, "%s cannot be read", ncu->file->path);
	if (!r)
		return err_set(err, -EINVAL, "%s has no line with the names of the columns.",
			       ncu->file->path);
	return ncu_take_header(ncu);
}

/* Reads all values once, to see how the file writes numbers. */
static int look_at_numbers(struct ncu *ncu, struct err *err)
{
	int r = read_ncu_header(ncu, err);

	if (r < 0)
		return r;
	while ((r = csv_next(&ncu->csv)) > 0) {
		uint32_t id;
		struct csv_field text = column_field(ncu, NCU_ID);

		if (ncu_is_header(&ncu->csv) && ncu_take_header(ncu) < 0)
			return -ENOMEM;
		if (!read_uint(&text, &id) || ncu->csv.n > ncu->n_columns)
			continue;
		if (ncu->details) {
			text = column_field(ncu, NCU_VALUE);
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
	struct csv_field text = column_field(ncu, NCU_PROCESS_ID);
	struct csv_field program = column_field(ncu, NCU_PROCESS_NAME),
			 host = column_field(ncu, NCU_HOST);
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

static int add_ncu_device(struct ncu *ncu, struct row_device *row)
{
	struct csv_field cc = column_field(ncu, NCU_CC),
			 name = csv_trimmed(&ncu->csv, ncu->display_name);
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
	struct csv_field context = column_field(ncu, NCU_CONTEXT),
			 stream = column_field(ncu, NCU_STREAM);
	struct csv_field device = column_field(ncu, NCU_DEVICE),
			 kernel = column_field(ncu, NCU_KERNEL);
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
	read_sizes(column_field(ncu, NCU_GRID), size);
	launch.grid_x = size[0], launch.grid_y = size[1], launch.grid_z = size[2];
	memset(size, 0, sizeof(size));
	read_sizes(column_field(ncu, NCU_BLOCK), size);
	launch.block_x = size[0], launch.block_y = size[1], launch.block_z = size[2];
	for (size_t i = 0; ncu->figures && i < ncu->csv.n; i++)
		ncu_take_known(ncu, i, &launch, &described);
	row.launch = part_launch(ncu->part, &launch);
	described.device = row.device;
	*ret_row = row;
	return add_ncu_device(ncu, &described);
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
	struct csv_field rule = column_field(ncu, NCU_RULE),
			 type = column_field(ncu, NCU_RULE_TYPE);
	struct csv_field text = column_field(ncu, NCU_RULE_TEXT),
			 speedup = column_field(ncu, NCU_SPEEDUP);
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
	type = column_field(ncu, NCU_SPEEDUP_TYPE);
	row->unit = part_string(ncu->part, type.text, type.length);
	return add_value(ncu, row, &speedup);
}

static int add_details(struct ncu *ncu, struct row_metric *row)
{
	struct csv_field section = column_field(ncu, NCU_SECTION),
			 metric = column_field(ncu, NCU_METRIC);
	struct csv_field unit = column_field(ncu, NCU_UNIT), value = column_field(ncu, NCU_VALUE);
	struct csv_field rule = column_field(ncu, NCU_RULE);

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

/* A number that no launch of the headers before has. */
static uint32_t launch_number(struct ncu *ncu, uint32_t id)
{
	if (ncu->header_new)
		ncu->id_shift = id < ncu->id_next ? ncu->id_next : 0;
	ncu->header_new = false;
	if (id < UINT32_MAX - ncu->id_shift)
		id += ncu->id_shift;
	if (id >= ncu->id_next && id < UINT32_MAX)
		ncu->id_next = id + 1;
	return id;
}

static int read_ncu_row(struct ncu *ncu)
{
	struct csv_field first = csv_trimmed(&ncu->csv, 0), id_text = column_field(ncu, NCU_ID);
	struct row_metric row;
	uint32_t id;
	int r;

	/* What ncu says of itself. */
	if (first.length >= 2 && !memcmp(first.text, "==", 2))
		return 0;
	if (ncu_is_header(&ncu->csv))
		return ncu_take_header(ncu);
	if (!ncu->csv.broken && !id_text.length && ncu->figures && !ncu->units_read &&
	    ncu->csv.n == ncu->n_columns)
		return ncu_take_units(ncu);
	if (ncu->csv.broken || ncu->csv.n > ncu->n_columns || !read_uint(&id_text, &id) ||
	    ncu->csv.n <= ncu->at[NCU_KERNEL]) {
		ncu->strange++;
		if (ncu->part && (ncu->csv.broken || read_uint(&id_text, &id)))
			part_damaged(ncu->part, ncu->csv.line,
				     "a row that is cut or has too many fields");
		return 0;
	}
	r = begin_row(ncu, launch_number(ncu, id), &row);
	ncu->rows++;
	if (r < 0)
		return r;
	return ncu->details ? add_details(ncu, &row) : add_raw(ncu, &row);
}

static void ncu_release(struct ncu *ncu)
{
	ncu_figures_free(ncu->figures, ncu->n_columns);
	free(ncu->processes);
	free(ncu->devices);
	csv_close(&ncu->csv);
}

static int read_ncu_csv(struct ncu *ncu, struct err *err)
{
	int r = csv_open(&ncu->csv, ncu->file->path, err);

	if (r >= 0)
		r = look_at_numbers(ncu, err);
	if (r < 0)
		return r;
	csv_close(&ncu->csv);
	r = csv_open(&ncu->csv, ncu->file->path, err);
	if (r >= 0)
		r = read_ncu_header(ncu, err);
	while (r >= 0 && (r = csv_next(&ncu->csv)) > 0)
		r = read_ncu_row(ncu);
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

static int read_ncu_file(const struct ingest_file *file, struct intake *intake, struct err *err)
{
	struct ncu ncu = { .file = file, .intake = intake };
	int r;

	if (file->gzip)
		return err_set(err, -EINVAL, "%s is compressed; unpack it first.", file->path);
	r = read_ncu_csv(&ncu, err);
	for (size_t i = 0; r >= 0 && i < ncu.n_processes; i++)
		r = part_failed(ncu.processes[i].part);
	ncu_release(&ncu);
	if (r < 0 && err && !err->message[0])
		err_sys(err, r, "%s cannot be imported", file->path);
	return r;
}

const struct importer ncu_importer = {
	.name = "ncu",
	.title = "Nsight Compute CSV",
	.recognise = ncu_recognise,
	.read = read_ncu_file,
};

/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV of `nvidia-smi --query-gpu=… --format=csv`, with or without units behind the values. Columns
 * that moescope reads itself become the samples that it records; other numbers become samples named
 * "smi NAME [unit]".
 *
 * Times are those of the log's place, without a zone: they are taken for local ones, as `smi` prints
 * them.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "device/driver/smi_names.h"
#include "ingest/importers.h"
#include "ingest/ingest.h"
#include "ingest/shared/csv.h"
#include "ingest/shared/intake.h"

#define SMI_COLUMNS_MAX 256

struct column {
	const struct smi_column *known; /* NULL: none of ours */
	char *name;			/* as the file has it, without the unit */
	char *unit;			/* "": none */
	uint32_t metric;		/* string; 0: not a number */
	uint64_t texts;			/* values that are no numbers */
	bool with_unit;			/* values have it behind them */
};

struct device {
	char *key; /* index, UUID or bus id */
	uint32_t number;
	struct row_device row;
};

struct smi {
	const struct ingest_file *file;
	struct intake *intake;
	struct intake_part *part;
	struct csv csv;
	struct column columns[SMI_COLUMNS_MAX];
	size_t n;
	int timestamp, key; /* columns, or -1 */
	struct device *devices;
	size_t n_devices, capacity;
	int64_t last_ns;
	uint32_t in_group; /* lines before this one that have its time */
	bool driver_told, several;
	bool unended; /* the last value may be cut, and nothing tells */
	uint64_t rows;
};

/* "memory.used [MiB]" */
static void split_name(struct csv_field text, struct csv_field *ret_name,
		       struct csv_field *ret_unit)
{
	const char *open = text.length ? memrchr(text.text, '[', text.length) : NULL;

	*ret_name = text;
	*ret_unit = (struct csv_field){ "", 0 };
	if (!open || open == text.text || text.text[text.length - 1] != ']')
		return;
	ret_unit->text = open + 1;
	ret_unit->length = (size_t)(text.text + text.length - open) - 2;
	ret_name->length = (size_t)(open - text.text);
	while (ret_name->length && ret_name->text[ret_name->length - 1] == ' ')
		ret_name->length--;
}

/* "2026/11/15 00:45:02.409" */
static bool read_time(const struct csv_field *text, int64_t *ret_ns)
{
	struct tm tm = { .tm_isdst = -1 };
	char copy[32];
	int end = 0, year, month;
	unsigned int ms = 0;
	time_t seconds;

	if (text->length < 19 || text->length >= sizeof(copy) ||
	    memchr(text->text, 0, text->length))
		return false;
	memcpy(copy, text->text, text->length);
	copy[text->length] = 0;
	if (sscanf(copy, "%4d/%2d/%2d %2d:%2d:%2d%n", &year, &month, &tm.tm_mday, &tm.tm_hour,
		   &tm.tm_min, &tm.tm_sec, &end) != 6)
		return false;
	if (copy[end] == '.') {
		int digits = 0;

		if (sscanf(copy + end + 1, "%3u%n", &ms, &digits) != 1 || digits != 3)
			return false;
		end += 1 + digits;
	}
	if (copy[end] || year < 1970 || year > 2200 || month < 1 || month > 12 || tm.tm_mday < 1 ||
	    tm.tm_mday > 31 || tm.tm_hour < 0 || tm.tm_hour > 23 || tm.tm_min < 0 ||
	    tm.tm_min > 59 || tm.tm_sec < 0 || tm.tm_sec > 60)
		return false;
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	seconds = mktime(&tm);
	if (seconds == (time_t)-1)
		return false;
	*ret_ns = (int64_t)seconds * 1000000000 + (int64_t)ms * 1000000;
	return true;
}

/* Most names look like nvidia-smi's, and one of them is of a reading: tables of all kinds have a name and an
 * index. */
static bool is_header(const struct csv *csv)
{
	size_t known = 0, readings = 0;

	for (size_t i = 0; i < csv->n; i++) {
		const struct smi_column *column;
		struct csv_field name, unit;

		split_name(csv_trimmed(csv, i), &name, &unit);
		column = smi_column_find(name.text, name.length);
		known += column || (name.length && memchr(name.text, '.', name.length));
		readings += column && (column->kind == SMI_NUMBER || column->kind == SMI_MASK);
	}
	return readings && 2 * known >= csv->n;
}

/* A first line of values: there was no header. */
static bool is_headless(const struct csv *csv)
{
	struct csv_field first = csv_trimmed(csv, 0);
	int64_t time_ns;

	return csv->n > 1 && read_time(&first, &time_ns);
}

static bool recognise_smi(const struct ingest_file *file)
{
	struct csv csv;
	bool found;

	if (csv_open_bytes(&csv, file->head, file->head_bytes) < 0)
		return false;
	found = csv_next(&csv) > 0 && !csv.broken && (is_header(&csv) || is_headless(&csv));
	csv_close(&csv);
	return found;
}

static int read_smi_header(struct smi *smi, struct err *err)
{
	/* What tells devices apart, the best first. */
	static const enum smi_kind keys[] = { SMI_INDEX, SMI_UUID, SMI_BUS_ID };
	int r = csv_next(&smi->csv);

	if (r < 0)
		return err_sys(err, r, "%s cannot be read", smi->file->path);
	if (!r || !is_header(&smi->csv))
		return err_set(err, -EINVAL,
			       "%s has no line with the names of its columns: record it without "
			       "noheader.",
			       smi->file->path);
	if (smi->csv.n > SMI_COLUMNS_MAX)
		return err_set(err, -EINVAL, "%s has more than %d columns.", smi->file->path,
			       SMI_COLUMNS_MAX);
	smi->timestamp = smi->key = -1;
	for (; smi->n < smi->csv.n; smi->n++) {
		struct column *column = &smi->columns[smi->n];
		struct csv_field name, unit;

		split_name(csv_trimmed(&smi->csv, smi->n), &name, &unit);
		column->known = smi_column_find(name.text, name.length);
		column->name = strndup(name.text, name.length);
		column->unit = strndup(unit.text, unit.length);
		if (!column->name || !column->unit) {
			smi->n++;
			return -ENOMEM;
		}
		if (column->known && column->known->kind == SMI_TIMESTAMP)
			smi->timestamp = (int)smi->n;
	}
	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]) && smi->key < 0; k++)
		for (size_t i = 0; i < smi->n && smi->key < 0; i++)
			if (smi->columns[i].known && smi->columns[i].known->kind == keys[k])
				smi->key = (int)i;
	return 0;
}

static struct device *find_device(struct smi *smi)
{
	struct csv_field key = { "", 0 };
	struct number_form form = { .decimal = '.' };
	struct device *device;
	char place[16];
	double number;

	if (smi->key >= 0) {
		key = csv_trimmed(&smi->csv, (size_t)smi->key);
	} else {
		key.text = place;
		key.length = (size_t)snprintf(place, sizeof(place), "%u", smi->in_group);
	}
	for (size_t i = 0; i < smi->n_devices; i++)
		if (csv_is(&key, smi->devices[i].key))
			return &smi->devices[i];
	if (array_grow(&smi->devices, &smi->capacity, smi->n_devices + 1, sizeof(*smi->devices)) <
	    0)
		return NULL;
	device = &smi->devices[smi->n_devices];
	*device = (struct device){ .key = strndup(key.text, key.length),
				   .number = (uint32_t)smi->n_devices };
	if (!device->key)
		return NULL;
	if (smi->key >= 0 && smi->columns[smi->key].known->kind == SMI_INDEX &&
	    number_read(&form, key.text, key.length, &number) == NUMBER_READ && number >= 0 &&
	    number < 65536)
		device->number = (uint32_t)number;
	device->row.device = device->number;
	smi->n_devices++;
	return device;
}

/* A factor for a unit that is written behind a value instead of the column's own. */
static double unit_factor(const char *expected, const char *unit, size_t length)
{
	static const struct {
		const char *unit, *of;
		double factor;
	} units[] = { { "KiB", "MiB", 1.0 / 1024 },
		      { "GiB", "MiB", 1024 },
		      { "mW", "W", 1e-3 },
		      { "kW", "W", 1e3 },
		      { "GHz", "MHz", 1e3 } };

	if (!length || (strlen(expected) == length && !memcmp(expected, unit, length)))
		return 1;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(units[i].of, expected) && strlen(units[i].unit) == length &&
		    !memcmp(units[i].unit, unit, length))
			return units[i].factor;
	return 0;
}

enum reading { READING_OK, READING_NONE, READING_TEXT };

/* cut: the text may go on. */
static enum reading read_smi_value(struct column *column, struct csv_field text, bool cut,
				   double *ret)
{
	struct number_form form = { .decimal = '.' };
	const char *blank = memchr(text.text, ' ', text.length);
	size_t digits = blank ? (size_t)(blank - text.text) : text.length;
	double value, factor;

	/* [N/A], [Not Supported], [Unknown Error]; some versions leave the brackets away. */
	if (!text.length || *text.text == '[' || csv_is(&text, "N/A"))
		return READING_NONE;
	if (column->known && column->known->kind == SMI_MASK) {
		char copy[24], *end;

		if (text.length >= sizeof(copy))
			return READING_TEXT;
		memcpy(copy, text.text, text.length);
		copy[text.length] = 0;
		*ret = (double)strtoull(copy, &end, 16);
		return *end || strncmp(copy, "0x", 2) != 0 ? READING_TEXT : READING_OK;
	}
	if (number_read(&form, text.text, digits, &value) != NUMBER_READ)
		return READING_TEXT;
	while (digits < text.length && text.text[digits] == ' ')
		digits++;
	factor = unit_factor(column->unit, text.text + digits, text.length - digits);
	/* Cut before the unit that others have it may be the beginning of a number. */
	if (factor <= 0 || (cut && column->with_unit && digits == text.length))
		return READING_TEXT;
	column->with_unit = column->with_unit || digits < text.length;
	if (column->known && column->known->divisor > 0)
		factor *= column->known->divisor;
	*ret = value * factor;
	return isfinite(*ret) ? READING_OK : READING_TEXT;
}

static int add_smi_sample(struct smi *smi, struct column *column, struct device *device,
			  int64_t time_ns, struct csv_field text)
{
	struct row_sample row = { .time_ns = time_ns, .device = device->number };
	bool cut = smi->csv.unended && column == &smi->columns[smi->n - 1];
	char name[160];

	switch (read_smi_value(column, text, cut, &row.value)) {
	case READING_NONE:
		return 0;
	case READING_TEXT:
		column->texts++;
		/* Numbers that are expected here and cannot be read are damage. */
		if (column->known)
			part_damaged(smi->part, smi->csv.line,
				     "no number where a reading should be");
		return 0;
	case READING_OK:
		break;
	}
	if (!column->metric && column->known) {
		column->metric = part_text(smi->part, gpu_readings[column->known->reading].metric);
	} else if (!column->metric) {
		snprintf(name, sizeof(name), "smi %.100s%s%.20s%s", column->name,
			 *column->unit ? " [" : "", column->unit, *column->unit ? "]" : "");
		column->metric = part_text(smi->part, name);
	}
	row.metric = column->metric;
	if (column->known && column->known->reading == GPU_MEMORY_TOTAL && row.value >= 0 &&
	    row.value < 0x1p63)
		device->row.memory_bytes = (uint64_t)row.value;
	return part_add(smi->part, RECORD_SAMPLE, &row);
}

static int add_smi_field(struct smi *smi, struct column *column, struct device *device,
			 int64_t time_ns, struct csv_field text)
{
	uint32_t string;

	if (!column->known || column->known->kind == SMI_NUMBER || column->known->kind == SMI_MASK)
		return add_smi_sample(smi, column, device, time_ns, text);
	if (!text.length || *text.text == '[')
		return 0;
	switch (column->known->kind) {
	case SMI_NAME:
		if (!device->row.name)
			device->row.name = part_string(smi->part, text.text, text.length);
		return 0;
	case SMI_UUID:
		if (!device->row.uuid)
			device->row.uuid = part_string(smi->part, text.text, text.length);
		return 0;
	case SMI_DRIVER:
		if (smi->driver_told)
			return 0;
		smi->driver_told = true;
		string = part_string(smi->part, text.text, text.length);
		return part_add(smi->part, RECORD_FACT,
				&(struct row_fact){ .key = part_text(smi->part, "driver_version"),
						    .value = string });
	default:
		return 0;
	}
}

static int read_smi_row(struct smi *smi)
{
	int64_t time_ns = 0;
	struct device *device;
	int r = 0;

	if (smi->csv.broken || smi->csv.n != smi->n) {
		part_damaged(smi->part, smi->csv.line, "a line with another number of fields");
		return 0;
	}
	/* The header again, when the log was begun several times. */
	if (is_header(&smi->csv))
		return 0;
	if (smi->timestamp >= 0) {
		struct csv_field text = csv_trimmed(&smi->csv, (size_t)smi->timestamp);

		if (!read_time(&text, &time_ns)) {
			part_damaged(smi->part, smi->csv.line,
				     "no time where the timestamp should be");
			return 0;
		}
	}
	smi->in_group = smi->rows && time_ns == smi->last_ns ? smi->in_group + 1 : 0;
	smi->several = smi->several || smi->in_group;
	smi->last_ns = time_ns;
	smi->rows++;
	device = find_device(smi);
	if (!device)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < smi->n; i++)
		r = add_smi_field(smi, &smi->columns[i], device, time_ns,
				  csv_trimmed(&smi->csv, i));
	smi->unended = smi->csv.unended && !smi->columns[smi->n - 1].with_unit;
	return r;
}

static void add_notes(struct smi *smi)
{
	const char *path = smi->file->path;

	if (smi->timestamp < 0)
		intake_note(smi->intake,
			    "%s has no timestamp column: all its samples lie at time 0.", path);
	if (smi->key < 0)
		intake_note(smi->intake,
			    "%s has no column that tells devices apart%s; query index or uuid.",
			    path, smi->several ? ": lines of one time were numbered" : "");
	if (smi->unended)
		intake_note(smi->intake,
			    "%s: its last line has no end; the last value of it may be cut.", path);
	for (size_t i = 0; i < smi->n; i++)
		if (!smi->columns[i].known && smi->columns[i].texts)
			intake_note(smi->intake,
				    "%s: values of column %.100s that are no numbers: %llu.", path,
				    smi->columns[i].name,
				    (unsigned long long)smi->columns[i].texts);
}

static int read_smi_csv(struct smi *smi, struct err *err)
{
	struct intake_process *process;
	int r = csv_open(&smi->csv, smi->file->path, err);

	if (r >= 0)
		r = read_smi_header(smi, err);
	if (r < 0)
		return r;
	process = intake_process(smi->intake, smi->file->rank_hint, 0);
	smi->part = process ? intake_part(process) : NULL;
	if (!smi->part)
		return -ENOMEM;
	process->wall_clock = smi->timestamp >= 0;
	while ((r = csv_next(&smi->csv)) > 0 && (r = read_smi_row(smi)) >= 0)
		;
	for (size_t i = 0; r >= 0 && i < smi->n_devices; i++)
		r = part_add(smi->part, RECORD_DEVICE, &smi->devices[i].row);
	if (r < 0)
		return r;
	if (!smi->rows)
		return err_set(err, -EINVAL, "%s has no line behind its header that can be read.",
			       smi->file->path);
	add_notes(smi);
	return part_failed(smi->part);
}

static int read_smi_file(const struct ingest_file *file, struct intake *intake, struct err *err)
{
	struct smi smi = { .file = file, .intake = intake };
	int r;

	if (file->gzip)
		return err_set(err, -EINVAL, "%s is compressed; unpack it first.", file->path);
	r = read_smi_csv(&smi, err);
	for (size_t i = 0; i < smi.n; i++) {
		free(smi.columns[i].name);
		free(smi.columns[i].unit);
	}
	for (size_t i = 0; i < smi.n_devices; i++)
		free(smi.devices[i].key);
	free(smi.devices);
	csv_close(&smi.csv);
	if (r < 0 && err && !err->message[0])
		err_sys(err, r, "%s cannot be imported", file->path);
	return r;
}

const struct importer smi_importer = {
	.name = "smi",
	.title = "nvidia-smi CSV",
	.recognise = recognise_smi,
	.read = read_smi_file,
};

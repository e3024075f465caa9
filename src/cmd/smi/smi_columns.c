/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of columns; see smi.h. Main thread.
 */
#include "cmd/smi/smi.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/csv_write.h"
#include "device/driver/smi_names.h"
#include "base/text/nearest.h"

static int unknown_column(const char *name, size_t length, struct err *err)
{
	char word[64];
	struct nearest nearest;

	if (length == 0)
		return err_set(err, -EINVAL, "the list of columns has an empty name.");
	snprintf(word, sizeof(word), "%.*s", (int)(length < 60 ? length : 60), name);
	nearest = nearest_to(word);
	for (size_t i = 0; i < smi_columns_n; i++)
		nearest_offer(&nearest, smi_columns[i].name);
	if (nearest.best)
		return err_set(err, -EINVAL, "no column '%s'; did you mean '%s'?", word,
			       nearest.best);
	return err_set(err, -EINVAL, "no column '%s'; '--help-columns' lists them.", word);
}

int smi_format_parse(const char *names, struct smi_format *ret_format, struct err *err)
{
	struct smi_format format = { .units = true };

	for (;;) {
		size_t length;

		names += strspn(names, " ");
		length = strcspn(names, ",");
		while (length && names[length - 1] == ' ')
			length--;
		if (format.n == SMI_COLUMNS_MAX)
			return err_set(err, -EINVAL, "there are at most %d columns.",
				       SMI_COLUMNS_MAX);
		format.columns[format.n] = smi_column_find(names, length);
		if (!format.columns[format.n++])
			return unknown_column(names, length, err);
		names = strchr(names, ',');
		if (!names++)
			break;
	}
	*ret_format = format;
	return 0;
}

uint64_t smi_format_readings(const struct smi_format *format)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < format->n; i++)
		if (format->columns[i]->kind == SMI_NUMBER || format->columns[i]->kind == SMI_MASK)
			bits |= GPU_BIT(format->columns[i]->reading);
	return bits;
}

void smi_print_header(const struct smi_format *format, FILE *out)
{
	for (size_t i = 0; i < format->n; i++) {
		const struct smi_column *c = format->columns[i];

		fprintf(out, "%s%s", i ? ", " : "", c->header ? c->header : c->name);
		if (c->unit)
			fprintf(out, " [%s]", c->unit);
	}
	fputc('\n', out);
}

static void print_time(int64_t realtime_ns, FILE *out)
{
	time_t seconds = (time_t)(realtime_ns / 1000000000);
	struct tm tm;
	char text[32];

	if (!localtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%Y/%m/%d %H:%M:%S", &tm))
		fputs("[N/A]", out);
	else
		fprintf(out, "%s.%03d", text, (int)(realtime_ns / 1000000 % 1000));
}

/* Names come from the driver, or from a file. */
static void print_text(const char *text, FILE *out)
{
	if (!text || !*text)
		fputs("[N/A]", out);
	else
		csv_write_text(text, out);
}

static void print_reading(const struct smi_format *format, const struct smi_column *c,
			  const struct gpu_values *values, FILE *out)
{
	double value = values->value[c->reading];

	/* A run is a file, and may say anything. */
	if (!(values->known & GPU_BIT(c->reading)) || !(value >= 0 && value < 0x1p64)) {
		fputs("[N/A]", out);
	} else if (c->kind == SMI_MASK) {
		fprintf(out, "0x%016llx", (unsigned long long)value);
	} else {
		if (c->divisor > 0)
			value /= c->divisor;
		/* Whole numbers are cut, as nvidia-smi does: what is used is not rounded up. */
		fprintf(out, "%.*f", c->decimals, c->decimals ? value : floor(value));
		if (format->units && c->unit)
			fprintf(out, " %s", c->unit);
	}
}

void smi_print_line(const struct smi_format *format, const struct smi_line *line, FILE *out)
{
	static const char *const mig[] = {
		[GPU_MIG_NONE] = "", [GPU_MIG_OFF] = "Disabled", [GPU_MIG_ON] = "Enabled"
	};

	for (size_t i = 0; i < format->n; i++) {
		const struct smi_column *c = format->columns[i];

		if (i)
			fputs(", ", out);
		switch (c->kind) {
		case SMI_TIMESTAMP:
			print_time(line->realtime_ns, out);
			break;
		case SMI_INDEX:
			fprintf(out, "%u", line->index);
			break;
		case SMI_NAME:
			print_text(line->name, out);
			break;
		case SMI_UUID:
			print_text(line->uuid, out);
			break;
		case SMI_BUS_ID:
			print_text(line->bus_id, out);
			break;
		case SMI_DRIVER:
			print_text(line->driver, out);
			break;
		case SMI_MIG:
			print_text(mig[line->mig], out);
			break;
		case SMI_NUMBER:
		case SMI_MASK:
			print_reading(format, c, &line->values, out);
			break;
		}
	}
	fputc('\n', out);
}

void smi_print_columns(FILE *out)
{
	for (size_t i = 0; i < smi_columns_n; i++)
		fprintf(out, "%-38s %s%s%s%s\n", smi_columns[i].name, smi_columns[i].help,
			smi_columns[i].unit ? " [" : "",
			smi_columns[i].unit ? smi_columns[i].unit : "",
			smi_columns[i].unit ? "]" : "");
}

bool smi_devices_have(const char *list, uint32_t index, const char *uuid)
{
	if (!list)
		return true;
	for (;;) {
		size_t length = strcspn(list, ",");
		char *end;
		unsigned long number = strtoul(list, &end, 10);

		if (length && (size_t)(end - list) == length && *list != '-' && *list != '+' &&
		    number == index)
			return true;
		if (uuid && length && strlen(uuid) == length && strncmp(list, uuid, length) == 0)
			return true;
		if (!list[length])
			return false;
		list += length + 1;
	}
}

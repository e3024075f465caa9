/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of columns; see smi.h. Main thread.
 */
#include "cmd/smi.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/nearest.h"

enum column_kind { TIMESTAMP, INDEX, NAME, UUID, BUS_ID, DRIVER, MIG, NUMBER, MASK };

struct smi_column {
	const char *name;
	const char *also;   /* another name that nvidia-smi takes for it; NULL: none */
	const char *header; /* NULL: the name */
	const char *unit;   /* NULL: none */
	const char *help;
	enum column_kind kind;
	enum gpu_reading reading; /* NUMBER and MASK */
	double divisor; /* NUMBER: of the reading's own unit in the column's; 0: the same */
	int decimals;
};

#define MIB 1048576.0

static const struct smi_column all[] = {
	{ "timestamp", NULL, NULL, NULL, "when the line was made, local time", TIMESTAMP },
	{ "index", NULL, NULL, NULL, "number of the device; of a run, the program's number",
	  INDEX },
	{ "name", "gpu_name", NULL, NULL, "product name", NAME },
	{ "uuid", "gpu_uuid", NULL, NULL, "identity of the device", UUID },
	{ "pci.bus_id", "gpu_bus_id", NULL, NULL, "place on the PCI bus", BUS_ID },
	{ "driver_version", NULL, NULL, NULL, "version of the driver", DRIVER },
	{ "mig.mode.current", NULL, NULL, NULL, "whether the device is cut into MIG instances",
	  MIG },
	{ "utilization.gpu", NULL, NULL, "%", "share of the time with a kernel running", NUMBER,
	  GPU_UTILIZATION_GPU },
	{ "utilization.memory", NULL, NULL, "%", "share of the time with memory traffic", NUMBER,
	  GPU_UTILIZATION_MEMORY },
	{ "memory.total", NULL, NULL, "MiB", "installed memory", NUMBER, GPU_MEMORY_TOTAL, MIB },
	{ "memory.reserved", NULL, NULL, "MiB", "memory that the driver keeps", NUMBER,
	  GPU_MEMORY_RESERVED, MIB },
	{ "memory.used", NULL, NULL, "MiB", "allocated memory", NUMBER, GPU_MEMORY_USED, MIB },
	{ "memory.free", NULL, NULL, "MiB", "free memory", NUMBER, GPU_MEMORY_FREE, MIB },
	{ "temperature.gpu", NULL, NULL, NULL, "core temperature, degrees Celsius", NUMBER,
	  GPU_TEMPERATURE },
	{ "power.draw", NULL, NULL, "W", "power drawn now", NUMBER, GPU_POWER, 1, 2 },
	{ "power.limit", NULL, NULL, "W", "power limit that is set", NUMBER, GPU_POWER_LIMIT, 1,
	  2 },
	{ "clocks.sm", "clocks.current.sm", "clocks.current.sm", "MHz",
	  "clock of the multiprocessors", NUMBER, GPU_CLOCK_SM },
	{ "clocks.mem", "clocks.current.memory", "clocks.current.memory", "MHz",
	  "clock of the memory", NUMBER, GPU_CLOCK_MEMORY },
	{ "clocks.max.sm", NULL, NULL, "MHz", "highest clock of the multiprocessors", NUMBER,
	  GPU_CLOCK_SM_MAX },
	{ "clocks.max.mem", "clocks.max.memory", "clocks.max.memory", "MHz",
	  "highest clock of the memory", NUMBER, GPU_CLOCK_MEMORY_MAX },
	{ "clocks_event_reasons.active", "clocks_throttle_reasons.active", NULL, NULL,
	  "why the clocks are below their maximum, as a bit mask", MASK, GPU_CLOCK_REASONS },
	{ "ecc.errors.corrected.volatile.total", NULL, NULL, NULL,
	  "corrected memory errors since the driver was loaded", NUMBER, GPU_ECC_CORRECTED },
	{ "ecc.errors.uncorrected.volatile.total", NULL, NULL, NULL,
	  "uncorrected memory errors since the driver was loaded", NUMBER, GPU_ECC_UNCORRECTED },
	{ "pcie.link.gen.current", "pcie.link.gen.gpucurrent", NULL, NULL,
	  "generation of the PCIe link; less when the device is idle", NUMBER,
	  GPU_PCIE_GENERATION },
	{ "pcie.link.width.current", NULL, NULL, NULL, "lanes of the PCIe link", NUMBER,
	  GPU_PCIE_WIDTH },
	{ "fan.speed", NULL, NULL, "%", "fan speed", NUMBER, GPU_FAN },
};
#define N_ALL (sizeof(all) / sizeof(all[0]))

static const struct smi_column *find(const char *name, size_t length)
{
	for (size_t i = 0; i < N_ALL; i++) {
		if (strlen(all[i].name) == length && memcmp(all[i].name, name, length) == 0)
			return &all[i];
		if (all[i].also && strlen(all[i].also) == length &&
		    memcmp(all[i].also, name, length) == 0)
			return &all[i];
	}
	return NULL;
}

static int unknown(const char *name, size_t length, struct err *err)
{
	char word[64];
	struct nearest nearest;

	if (length == 0)
		return err_set(err, -EINVAL, "the list of columns has an empty name.");
	snprintf(word, sizeof(word), "%.*s", (int)(length < 60 ? length : 60), name);
	nearest = nearest_to(word);
	for (size_t i = 0; i < N_ALL; i++)
		nearest_offer(&nearest, all[i].name);
	if (nearest.best)
		return err_set(err, -EINVAL, "there is no column '%s'; did you mean '%s'?", word,
			       nearest.best);
	return err_set(err, -EINVAL, "there is no column '%s'; '--help-columns' lists them.", word);
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
		format.columns[format.n] = find(names, length);
		if (!format.columns[format.n++])
			return unknown(names, length, err);
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
		if (format->columns[i]->kind == NUMBER || format->columns[i]->kind == MASK)
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

/* Names come from the driver, or from a file: what would break a line apart is quoted. */
static void print_text(const char *text, FILE *out)
{
	if (!text || !*text) {
		fputs("[N/A]", out);
	} else if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, out);
	} else {
		fputc('"', out);
		for (; *text; text++) {
			if (*text == '"')
				fputc('"', out);
			fputc(*text == '\n' || *text == '\r' ? ' ' : *text, out);
		}
		fputc('"', out);
	}
}

static void print_reading(const struct smi_format *format, const struct smi_column *c,
			  const struct gpu_values *values, FILE *out)
{
	double value = values->value[c->reading];

	/* A run is a file, and may say anything. */
	if (!(values->known & GPU_BIT(c->reading)) || !(value >= 0 && value < 0x1p64)) {
		fputs("[N/A]", out);
	} else if (c->kind == MASK) {
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
		case TIMESTAMP:
			print_time(line->realtime_ns, out);
			break;
		case INDEX:
			fprintf(out, "%u", line->index);
			break;
		case NAME:
			print_text(line->name, out);
			break;
		case UUID:
			print_text(line->uuid, out);
			break;
		case BUS_ID:
			print_text(line->bus_id, out);
			break;
		case DRIVER:
			print_text(line->driver, out);
			break;
		case MIG:
			print_text(mig[line->mig], out);
			break;
		case NUMBER:
		case MASK:
			print_reading(format, c, &line->values, out);
			break;
		}
	}
	fputc('\n', out);
}

void smi_print_columns(FILE *out)
{
	for (size_t i = 0; i < N_ALL; i++)
		fprintf(out, "%-38s %s%s%s%s\n", all[i].name, all[i].help, all[i].unit ? " [" : "",
			all[i].unit ? all[i].unit : "", all[i].unit ? "]" : "");
}

int smi_interval_parse(const char *text, int64_t *ret_ns, struct err *err)
{
	char *end;
	double value = strtod(text, &end);
	double unit = !*end || strcmp(end, "s") == 0 ? 1e9 : strcmp(end, "ms") == 0 ? 1e6 : 0;

	if (end == text || unit == 0 || !isfinite(value))
		return err_set(err, -EINVAL, "an interval is a time such as 1s or 500ms, not '%s'.",
			       text);
	if (value * unit < 1e6 || value * unit > 86400e9)
		return err_set(err, -EINVAL,
			       "the interval '%s' is out of range; it goes from 1ms to 86400s.",
			       text);
	*ret_ns = (int64_t)(value * unit);
	return 0;
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

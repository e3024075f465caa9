/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of `smi`, by the names and in the form of nvidia-smi's CSV, whether a line comes from
 * a device or from a recorded run.
 */
#ifndef CMD_SMI_H
#define CMD_SMI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "device/driver/gpu_devices.h"
#include "tables/tables.h"

#define SMI_COLUMNS_MAX 64
#define SMI_DEFAULT_COLUMNS                                                                        \
	"timestamp,name,utilization.gpu,utilization.memory,memory.used,memory.free,temperature.gpu"

/* One line: what is known of a device at a time. */
struct smi_line {
	int64_t realtime_ns;
	uint32_t index;
	const char *name, *uuid, *bus_id, *driver; /* "" or NULL: not known */
	enum gpu_mig mig;
	struct gpu_values values;
};

struct smi_column;

struct smi_format {
	const struct smi_column *columns[SMI_COLUMNS_MAX];
	size_t n;
	bool units; /* behind the values; the header has them always */
};

/* A list of names with commas between. 0, or -EINVAL with the name that is none. */
int smi_format_parse(const char *names, struct smi_format *ret_format, struct err *err);
/* The readings that these columns need, a bit for each. */
uint64_t smi_format_readings(const struct smi_format *format);
void smi_print_header(const struct smi_format *format, FILE *out);
void smi_print_line(const struct smi_format *format, const struct smi_line *line, FILE *out);
/* All columns, a line each. */
void smi_print_columns(FILE *out);

/* Whether a list such as "0,GPU-5f..." has this device; NULL: every device is meant. */
bool smi_devices_have(const char *list, uint32_t index, const char *uuid);

struct smi_plan {
	struct smi_format format;
	int64_t interval_ns;
	uint64_t count; /* rounds; 0: no end */
	const char *devices;
	bool header;
	bool once; /* of devices: as nvidia-smi without a loop; a run has all its lines */
};
/* The lines of a recorded run: one a device and interval, with the last readings in it. 0, or
 * -errno with a sentence. */
int smi_from_run(const struct run *run, const struct smi_plan *plan, FILE *out, struct err *err);

#endif

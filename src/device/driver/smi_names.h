/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of nvidia-smi's CSV that have a place here: for `smi`, which prints them, and for the
 * importer of such files.
 */
#ifndef DEVICE_SMI_NAMES_H
#define DEVICE_SMI_NAMES_H

#include <stddef.h>

#include "device/driver/gpu_devices.h"

enum smi_kind {
	SMI_TIMESTAMP,
	SMI_INDEX,
	SMI_NAME,
	SMI_UUID,
	SMI_BUS_ID,
	SMI_DRIVER,
	SMI_MIG,
	SMI_NUMBER,
	SMI_MASK
};

struct smi_column {
	const char *name;
	const char *also;   /* another name that nvidia-smi takes for it; NULL: none */
	const char *header; /* NULL: the name */
	const char *unit;   /* NULL: none */
	const char *help;
	enum smi_kind kind;
	enum gpu_reading reading; /* SMI_NUMBER and SMI_MASK */
	double divisor; /* SMI_NUMBER: of the reading's own unit in the column's; 0: the same */
	int decimals;
};

extern const struct smi_column smi_columns[];
extern const size_t smi_columns_n;

/* By either name or the header; NULL: there is none. */
const struct smi_column *smi_column_find(const char *name, size_t length);

#endif

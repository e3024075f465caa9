/* SPDX-License-Identifier: Apache-2.0
 *
 * What vendors say of their GPUs, for machines that nobody has calibrated. Pure, any thread.
 */
#ifndef DEVICE_DATA_SHEETS_H
#define DEVICE_DATA_SHEETS_H

#include "device/sheets/peaks.h"

/* By the name that the driver gives and, where that is not enough, the size of the memory (0: not
 * known). False: not in the table. *ret_source: static words that name the data sheet. */
bool data_sheet_find(const char *name, double memory_bytes, struct peaks *ret_peaks,
		     const char **ret_source);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The import of Nsight Compute's CSV, between its files:
 *
 *   ncu.c          the rows
 *   ncu_columns.c  what their fields are: headers and units
 */
#ifndef INGEST_NCU_INSIDE_H
#define INGEST_NCU_INSIDE_H

#include "ingest/ingest.h"
#include "ingest/shared/csv.h"
#include "ingest/shared/intake.h"

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
#define NOWHERE SIZE_MAX

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
	/* Behind another header launches may be counted from 0 again: what is added to their numbers,
	 * and the first number that no launch has. */
	uint32_t id_shift, id_next;
	bool header_new;  /* no row since */
	uint64_t strange; /* lines that are no rows */
	uint64_t rows;
};

bool ncu_is_header(const struct csv *csv);
/* The header of what --print-summary prints, which has no launches. */
bool ncu_is_summary(const struct csv *csv);
bool ncu_recognise(const struct ingest_file *file);
/* The record is a header: what fields mean from here on. Logs that several runs were written to have
 * several, each with its figures. 0 or -ENOMEM. */
int ncu_take_header(struct ncu *ncu);
/* The record is the row of units. */
int ncu_take_units(struct ncu *ncu);
/* Puts a figure that says what the device or the launch is in its place there. */
void ncu_take_known(const struct ncu *ncu, size_t i, struct row_launch *launch,
		    struct row_device *device);
void ncu_figures_free(struct figure *figures, size_t n);

#endif

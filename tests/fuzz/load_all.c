/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a run and reads every loaded byte; see fuzz.h. One thread.
 */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "fuzz.h"
#include "tables/load.h"

/* Times, durations and steps, which analyses add up. */
static void assert_sane(const int64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!time_is_sane(values[i]))
			abort();
}

/* Tables are arrays of 8-byte slots: rows, shard[], then a pointer per column, two for a list. */
static uint32_t touch_table(const char *table, const struct kind_desc *desc, uint32_t sum)
{
	size_t n, at = 2;

	memcpy(&n, table, sizeof(n));
	for (unsigned int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		size_t size = column_type_size(column->type), values = n;
		const void *array;
		const uint64_t *first;

		memcpy(&array, table + at++ * 8, sizeof(array));
		if (column->count_column >= 0) {
			memcpy(&first, table + at++ * 8, sizeof(first));
			values = n && first ? (size_t)first[n] : 0;
			if (n && first)
				sum = crc32c(sum, first, (n + 1) * sizeof(*first));
		}
		if (array && column->type == COLUMN_I64)
			assert_sane(array, values);
		if (array && values)
			sum = crc32c(sum, array, values * size);
	}
	return sum;
}

static uint32_t touch_dictionaries(const struct run *run, uint32_t sum)
{
	for (uint32_t id = 0; id <= run->internal->dictionaries[RECORD_STRING].n; id++) {
		const char *text = run_string(run, id);

		sum = crc32c(sum, text, strlen(text));
	}
	for (uint32_t id = 0; id <= run->internal->dictionaries[RECORD_SITE].n; id++)
		sum += run_site(run, id).name;
	for (uint32_t id = 0; id <= run->internal->dictionaries[RECORD_LAUNCH].n; id++)
		sum += run_launch(run, id).grid_x;
	return sum;
}

int fuzz_load(const char *path, const struct run_want *want, struct fuzz_rows *ret_rows)
{
	static const size_t offsets[RECORD_KIND_LIMIT] = {
#define KIND(id, NAME, name) [id] = offsetof(struct run, name),
		RECORD_KINDS(KIND)
#undef KIND
	};
	struct fuzz_rows rows = { .checksum = 0 };
	struct err err = { "" };
	struct run *run;
	int r = run_load(path, want, &run, &err);

	if (r < 0) {
		if (!err.message[0])
			abort();
		return r;
	}
	rows.checksum = touch_dictionaries(run, 0);
	for (unsigned int k = 1; k < RECORD_KIND_LIMIT; k++) {
		const char *table = (const char *)run + offsets[k];
		size_t n;

		memcpy(&n, table, sizeof(n));
		rows.n[k] = n;
		rows.checksum = touch_table(table, kind_desc(k), rows.checksum);
		if (n > run_rows(run, (enum record_kind)k))
			abort();
	}
	(void)loss_total(&run->loss);
	run_free(run);
	if (ret_rows)
		*ret_rows = rows;
	return 0;
}

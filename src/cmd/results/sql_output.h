/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of queries as text, JSON or CSV. Main thread.
 */
#ifndef CMD_SQL_OUTPUT_H
#define CMD_SQL_OUTPUT_H

#include "base/buf.h"
#include "base/text/json_write.h"
#include "base/text/text_table.h"
#include "surfaces/sql/sql.h"

enum sql_format { SQL_TEXT_TABLE, SQL_JSON, SQL_CSV };

struct sql_output {
	enum sql_format format;
	struct text_layout layout;
	FILE *target, *out; /* out: where rows go; of JSON, memory until all results are there */
	char *text;
	size_t text_size;
	size_t n; /* results so far */
	/* Of the result that is being made. */
	char **names;
	size_t n_names;
	struct buf rows;	/* cells of the text table, one after the other */
	unsigned char *numbers; /* of each column: whether all its values are numbers */
	size_t n_cells;
	struct json json;
};

/* 0 or -ENOMEM. */
int sql_output_init(struct sql_output *output, enum sql_format format,
		    const struct text_layout *layout, FILE *target);
/* After the last result. 0 or -errno. */
int sql_output_finish(struct sql_output *output);
void sql_output_release(struct sql_output *output);
struct sql_sink sql_output_sink(struct sql_output *output);

#endif

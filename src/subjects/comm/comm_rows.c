/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of communication: sums, bytes and bandwidths; see comm.h. Pure, any thread.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "subjects/comm/comm_rows.h"

static const char NOT_RECORDED[] = "the kernel's name says nothing of its data";

/* Element types as PyTorch, NCCL and C++ write them, in lower case. */
static const struct {
	const char *name;
	unsigned int bytes;
} types[] = {
	{ "float", 4 },
	{ "float32", 4 },
	{ "half", 2 },
	{ "float16", 2 },
	{ "bfloat16", 2 },
	{ "double", 8 },
	{ "float64", 8 },
	{ "long", 8 },
	{ "int64", 8 },
	{ "int", 4 },
	{ "int32", 4 },
	{ "short", 2 },
	{ "int16", 2 },
	{ "char", 1 },
	{ "int8", 1 },
	{ "byte", 1 },
	{ "uint8", 1 },
	{ "bool", 1 },
	{ "uint16", 2 },
	{ "uint32", 4 },
	{ "uint64", 8 },
	{ "float8_e4m3fn", 1 },
	{ "float8_e5m2", 1 },
	{ "float8_e4m3fnuz", 1 },
	{ "float8_e5m2fnuz", 1 },
	{ "complexfloat", 8 },
	{ "complexdouble", 16 },
	{ "complexhalf", 4 },
	{ "c10::half", 2 },
	{ "c10::bfloat16", 2 },
	{ "signed char", 1 },
	{ "unsigned char", 1 },
	{ "long int", 8 },
};

static unsigned int type_bytes(const char *type)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcasecmp(types[i].name, type))
			return types[i].bytes;
	return 0;
}

/* What the bus moves for each byte of a collective of n ranks; n == 0 asks for none of them. */
enum bus { BUS_ALL_REDUCE, BUS_EXCHANGE, BUS_ONE, BUS_NO_DATA };
static const struct {
	const char *letters; /* of the name, without what is not a letter */
	enum bus bus;
} buses[] = {
	{ "allreduce", BUS_ALL_REDUCE },
	{ "allgather", BUS_EXCHANGE },
	{ "reducescatter", BUS_EXCHANGE },
	{ "alltoall", BUS_EXCHANGE },
	{ "barrier", BUS_NO_DATA },
	{ "broadcast", BUS_ONE },
	{ "scatter", BUS_EXCHANGE },
	{ "gather", BUS_EXCHANGE },
	{ "send", BUS_ONE },
	{ "recv", BUS_ONE },
	{ "reduce", BUS_ONE },
};

static struct value bus_factor(const char *name, uint32_t group_size)
{
	double n = group_size;
	char letters[64];
	size_t length = 0;

	for (; *name && length + 1 < sizeof(letters); name++)
		if (isalpha((unsigned char)*name))
			letters[length++] = (char)tolower((unsigned char)*name);
	letters[length] = '\0';
	for (size_t i = 0; i < sizeof(buses) / sizeof(buses[0]); i++) {
		if (!strstr(letters, buses[i].letters))
			continue;
		if (buses[i].bus == BUS_NO_DATA)
			return value_absent("a barrier moves no data");
		if (buses[i].bus == BUS_ONE)
			return value_of(1);
		if (!group_size)
			return value_absent("the size of its group was not reported");
		return value_of((buses[i].bus == BUS_ALL_REDUCE ? 2 : 1) * (n - 1) / n);
	}
	return value_absent("what its ranks send to each other is unknown");
}

int comm_rows_init(struct comm_rows *rows, const struct run *run,
		   const struct kernel_classes *classes)
{
	*rows = (struct comm_rows){ .run = run };
	comm_names_init(&rows->names, run, classes);
	rows->row_of = calloc(run->collective.n + 1, sizeof(*rows->row_of));
	if (!rows->row_of) {
		comm_rows_release(rows);
		return -ENOMEM;
	}
	for (size_t i = 0; i < run->collective.n; i++)
		rows->row_of[i] = COMM_NO_ROW;
	return 0;
}

void comm_rows_release(struct comm_rows *rows)
{
	comm_names_release(&rows->names);
	for (size_t i = 0; i < rows->n; i++)
		free(rows->rows[i].name);
	free(rows->rows);
	free(rows->name);
	free(rows->sums);
	hash_map_release(&rows->map);
	free(rows->row_of);
	*rows = (struct comm_rows){ 0 };
}

static uint32_t hash_row(const struct comm_row *key, uint32_t name)
{
	uint64_t hash = hash_mix(0, (uint64_t)key->transport << 1 | key->recorded);

	hash = hash_mix(hash, (uint64_t)name << 32 | key->group);
	return (uint32_t)hash_mix(hash, (uint64_t)key->type << 32 | key->group_size);
}

static int find_comm_row(struct comm_rows *rows, const struct comm_row *key, uint32_t name,
			 size_t *ret_row)
{
	uint32_t hash = hash_row(key, name), number;
	struct hash_walk walk = hash_map_walk(&rows->map, hash);
	size_t n = rows->n;

	while ((number = hash_map_next(&rows->map, &walk))) {
		const struct comm_row *row = &rows->rows[number - 1];

		if (rows->name[number - 1] == name && row->transport == key->transport &&
		    row->recorded == key->recorded && row->group == key->group &&
		    row->type == key->type && row->group_size == key->group_size) {
			*ret_row = number - 1;
			return 0;
		}
	}
	if (array_grow(&rows->rows, &rows->rows_capacity, n + 1, sizeof(*rows->rows)) < 0 ||
	    array_grow(&rows->name, &rows->name_capacity, n + 1, sizeof(*rows->name)) < 0 ||
	    array_grow(&rows->sums, &rows->sums_capacity, n + 1, sizeof(*rows->sums)) < 0 ||
	    hash_map_add(&rows->map, hash, (uint32_t)n + 1) < 0)
		return -ENOMEM;
	rows->rows[n] = *key;
	rows->name[n] = name;
	rows->sums[n] = (struct comm_sums){ 0 };
	rows->n++;
	*ret_row = n;
	return 0;
}

static void account_call(struct comm_row *row, int64_t duration_ns, bool untimed)
{
	row->count++;
	row->untimed += untimed;
	if (untimed)
		return;
	row->sum_ns += duration_ns;
	row->max_ns = duration_ns > row->max_ns ? duration_ns : row->max_ns;
}

int comm_rows_kernel(struct comm_rows *rows, const struct comm_launch *launch, size_t kernel)
{
	struct comm_row key = { .transport = (enum comm_transport)launch->transport };
	size_t row;

	if (find_comm_row(rows, &key, launch->name, &row) < 0)
		return -ENOMEM;
	account_call(&rows->rows[row], rows->run->kernel.duration_ns[kernel],
		     rows->run->kernel.untimed[kernel] != 0);
	rows->sums[row].unsized++;
	rows->sums[row].no_bytes = NOT_RECORDED;
	return 0;
}

static void size_record(const struct comm_rows *rows, size_t record, struct comm_sums *sums)
{
	const struct table_collective *c = &rows->run->collective;
	uint64_t elements = c->in_elements[record] > c->out_elements[record]
				    ? c->in_elements[record]
				    : c->out_elements[record];
	unsigned int bytes = c->type[record] ? type_bytes(run_string(rows->run, c->type[record]))
					     : 0;

	if (!elements)
		sums->no_bytes = "its number of elements was not reported";
	else if (!c->type[record])
		sums->no_bytes = "the type of its elements was not reported";
	else if (!bytes)
		sums->no_bytes = "the size of its element type is unknown";
	else if (elements > (UINT64_MAX - sums->bytes) / bytes)
		sums->no_bytes = "its size does not fit into 64 bits";
	else {
		sums->bytes += elements * bytes;
		return;
	}
	sums->unsized++;
}

int comm_rows_record(struct comm_rows *rows, enum comm_transport transport, size_t record,
		     bool untimed)
{
	const struct table_collective *c = &rows->run->collective;
	struct comm_row key = { .transport = transport,
				.recorded = true,
				.group = c->group[record],
				.type = c->type[record],
				.group_size = c->group_size[record] };
	size_t row;

	if (find_comm_row(rows, &key, c->name[record], &row) < 0)
		return -ENOMEM;
	rows->row_of[record] = (uint32_t)row;
	account_call(&rows->rows[row], c->duration_ns[record], untimed);
	size_record(rows, record, &rows->sums[row]);
	return 0;
}

static void rate_row(struct comm_row *row, const struct comm_sums *sums)
{
	uint64_t timed = row->count - row->untimed;
	struct value factor = bus_factor(row->name, row->group_size);

	row->mean_ns = timed ? value_of((double)row->sum_ns / (double)timed)
			     : value_absent("none was timed");
	row->bytes = sums->unsized ? value_absent(sums->no_bytes) : value_of((double)sums->bytes);
	if (!row->bytes.known)
		row->algorithm_bytes_per_s = row->bytes;
	else if (row->untimed || row->sum_ns <= 0)
		row->algorithm_bytes_per_s = value_absent("not all of them were timed");
	else
		row->algorithm_bytes_per_s = value_of(row->bytes.v * 1e9 / (double)row->sum_ns);
	row->bus_bytes_per_s = row->algorithm_bytes_per_s;
	if (row->algorithm_bytes_per_s.known)
		row->bus_bytes_per_s = factor.known
					       ? value_of(row->algorithm_bytes_per_s.v * factor.v)
					       : factor;
}

int comm_rows_finish(struct comm_rows *rows)
{
	int64_t sums[2] = { 0 }; /* of devices, of the host */

	for (size_t i = 0; i < rows->n; i++)
		sums[rows->rows[i].transport == COMM_HOST] += rows->rows[i].sum_ns;
	for (size_t i = 0; i < rows->n; i++) {
		struct comm_row *row = &rows->rows[i];
		const char *name = row->recorded ? run_string(rows->run, rows->name[i])
						 : rows->names.texts[rows->name[i]];

		int64_t all = sums[row->transport == COMM_HOST];

		row->name = strdup(*name ? name : "(no name)");
		if (!row->name)
			return -ENOMEM;
		row->share_pct = all > 0 ? 100.0 * (double)row->sum_ns / (double)all : 0;
		rate_row(row, &rows->sums[i]);
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The import of an Nsight Systems file, between its files:
 *
 *   nsight.c        what kind of file, which tables, the threads
 *   nsight_rows.c   rows of the large tables into records
 *   nsight_nvtx.c   those of NVTX
 *   nsight_names.c  strings and NVTX domains
 *   nsight_info.c   devices, threads, clocks, and what was left out
 */
#ifndef INGEST_NSIGHT_INSIDE_H
#define INGEST_NSIGHT_INSIDE_H

#include <pthread.h>

#include "base/hash_map.h"
#include "ingest/ingest.h"
#include "ingest/nsight/nsight_scan.h"
#include "ingest/shared/intake.h"

/* Texts of StringIds, by id. Filled before threads start. */
struct ns_string {
	int64_t id;
	size_t offset;
	uint32_t length;
};
struct ns_strings {
	struct ns_string *v; /* by id */
	size_t n, capacity;
	char *bytes;
	size_t size, bytes_capacity;
};

/* An NVTX domain of a process that has a name. Filled before threads start. */
struct ns_domain {
	uint32_t pid;
	int64_t id;
	char *name;
};

struct nsight {
	const struct ingest_file *file;
	struct intake *intake;
	struct scan_file scan;
	struct ns_strings strings;
	struct ns_domain *domains;
	size_t n_domains, domains_capacity;
	/* Processes that use CUDA, ascending: their places are their ranks. */
	uint32_t *cuda_pids;
	size_t n_cuda_pids, cuda_pids_capacity;
	uint32_t default_pid; /* for rows that do not say */
	int64_t shift_ns;
	bool wall_clock;
	int64_t end_ns; /* of the recording; INT64_MIN: not told */
	struct ns_metric {
		int64_t type, id; /* of the device and among its metrics */
		char *name;
	} * metrics;
	size_t n_metrics, metrics_capacity;

	pthread_mutex_t lock; /* of what follows */
	uint32_t *pids;	      /* that have rows */
	size_t n_pids, pids_capacity;
	uint64_t op_ids;     /* numbers at the end of PyTorch's range names that were taken off */
	uint64_t nvtx_other; /* NVTX rows of kinds that have no place here */
	uint64_t graphs;     /* launches of graphs whose kernels are not told apart */
};

/* An id of the file with what was made of it. */
struct ns_map {
	struct hash_map map; /* by key */
	struct {
		int64_t key;
		uint32_t value;
	} * v;
	size_t n, capacity;
};

/* What a thread has of a process. */
struct ns_seat {
	uint32_t pid;
	struct intake_part *part;
	uint64_t order;
	struct ns_map names;
};

/* One of the threads. */
struct ns_worker {
	struct nsight *ns;
	uint64_t order; /* turn of the rows that are being read */
	struct ns_seat *seats;
	size_t n_seats, capacity;
	struct ns_seat *last;
	uint64_t op_ids, nvtx_other, graphs;
	size_t metric_next; /* where the next of a sample's metrics is looked for first */
};

static inline uint32_t ns_pid(int64_t global)
{
	return (uint32_t)((uint64_t)global >> 24 & 0xffffff);
}
static inline uint32_t ns_tid(int64_t global)
{
	return (uint32_t)(global & 0xffffff);
}

/* Columns of rows as numbers: false where there is none. */
static inline bool ns_int(const struct scan_value *v, int64_t *ret)
{
	if (v->type != SCAN_INT)
		return scan_int(v, ret);
	*ret = v->i;
	return true;
}

/* What is not a number of that size is told as 0, as NULL is. */
static inline uint32_t ns_u32(const struct scan_value *v)
{
	int64_t i;

	return ns_int(v, &i) && i >= 0 && i <= UINT32_MAX ? (uint32_t)i : 0;
}

static inline uint64_t ns_u64(const struct scan_value *v)
{
	int64_t i;

	return ns_int(v, &i) ? (uint64_t)i : 0;
}

static inline uint32_t ns_thread(const struct scan_value *global)
{
	int64_t id;

	return ns_int(global, &id) ? ns_tid(id) : 0;
}

/* The rows of a table. */
struct ns_table {
	const char *name;
	uint64_t kinds;	   /* of records that they become */
	const char *needs; /* a column without which it says nothing */
	const char *const *columns;
	size_t n;
	scan_row row; /* context: struct ns_worker */
};
extern const struct ns_table ns_tables[];
extern const size_t ns_tables_n;
/* The process of a serialised id; NULL: no memory. */
struct ns_seat *ns_seat_of(struct ns_worker *worker, const struct scan_value *global);
/* False: it is none, which is counted. */
bool ns_time(struct ns_seat *seat, int64_t rowid, const struct scan_value *v, int64_t *ret);

extern const char *const ns_nvtx_columns[];
#define NS_NVTX_COLUMNS 15
int ns_nvtx_row(void *context, int64_t rowid, const struct scan_value *v);

/* NULL: no memory. */
struct ns_seat *ns_seat(struct ns_worker *worker, uint32_t pid);

int ns_strings_read(struct nsight *ns);
/* NULL: there is no such string. */
const char *ns_string(const struct nsight *ns, int64_t id, size_t *ret_length);
int ns_domains_read(struct nsight *ns, uint64_t *damaged);
/* NULL: it has none. */
const char *ns_domain_name(const struct nsight *ns, uint32_t pid, int64_t id);
void ns_names_release(struct nsight *ns);

/* What a string of the file becomes. */
enum ns_use { NS_PLAIN, NS_CALL, NS_RANGE };
/* NS_CALL: the id of the name without its version, times two, plus one for the driver's. NS_RANGE: a
 * site. Else a string. 0: no such string, or no memory. */
uint32_t ns_name(struct ns_worker *worker, struct ns_seat *seat, int64_t id, enum ns_use use);
/* The name of a GPU metric; 0: it has none, or no memory. */
uint32_t ns_metric_name(struct ns_worker *worker, struct ns_seat *seat, int64_t type, int64_t id);
void ns_map_release(struct ns_map *map);
uint32_t ns_map_get(const struct ns_map *map, int64_t key);
int ns_map_add(struct ns_map *map, int64_t key, uint32_t value);
/* PyTorch's "NAME, op_id = 5, …" without what differs from call to call; the length to keep. */
size_t ns_range_length(const char *text, size_t length);

/* All of an open file; the caller has set file, intake and scan, and made the lock. */
int nsight_read(struct nsight *ns, struct err *err);
void nsight_release(struct nsight *ns);

/* Before the rows: which processes there are, and the clock. */
int ns_info_begin(struct nsight *ns);
/* After them: facts, devices, threads; what was not read. */
int ns_info_end(struct nsight *ns, struct ns_worker *worker);

#endif

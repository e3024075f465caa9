/* SPDX-License-Identifier: Apache-2.0
 *
 * SQLite files that Nsight Systems exports. Tables and columns differ by version and are there only
 * when something was recorded: everything goes by what a file has. Tables are read in pieces, by as
 * many threads as there are CPUs, each once.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parallel.h"
#include "ingest/importers.h"
#include "ingest/nsight/nsight_inside.h"
#include "ingest/nsight/own_sqlite.h"

static bool recognise_nsight(const struct ingest_file *file)
{
	return file->head_bytes >= 16 && !memcmp(file->head, "SQLite format 3", 16);
}

static struct intake_process *ns_process(struct nsight *ns, uint32_t pid)
{
	size_t rank = 0, ranks = ns->n_cuda_pids ? ns->n_cuda_pids : 1;
	struct intake_process *process;
	bool known = false;
	int r = 0;

	while (rank < ns->n_cuda_pids && ns->cuda_pids[rank] != pid)
		rank++;
	if (rank == ns->n_cuda_pids)
		rank = 0; /* a helper of one of them; nothing says of which */
	process = intake_process(ns->intake, ns->file->rank_hint * (uint32_t)ranks + (uint32_t)rank,
				 pid);
	if (!process)
		return NULL;
	pthread_mutex_lock(&ns->lock);
	process->shift_ns = ns->shift_ns;
	process->wall_clock = ns->wall_clock;
	for (size_t i = 0; i < ns->n_pids; i++)
		known = known || ns->pids[i] == pid;
	if (!known) {
		r = array_grow(&ns->pids, &ns->pids_capacity, ns->n_pids + 1, sizeof(*ns->pids));
		if (r >= 0)
			ns->pids[ns->n_pids++] = pid;
	}
	pthread_mutex_unlock(&ns->lock);
	return r < 0 ? NULL : process;
}

static struct ns_seat *new_seat(struct ns_worker *worker, uint32_t pid)
{
	struct intake_process *process = ns_process(worker->ns, pid);
	struct intake_part *part = process ? intake_part(process) : NULL;
	struct ns_seat *seat;

	if (!part || array_grow(&worker->seats, &worker->capacity, worker->n_seats + 1,
				sizeof(*worker->seats)) < 0)
		return NULL;
	seat = &worker->seats[worker->n_seats++];
	*seat = (struct ns_seat){ .pid = pid, .part = part };
	return seat;
}

struct ns_seat *ns_seat(struct ns_worker *worker, uint32_t pid)
{
	struct ns_seat *seat = worker->last && worker->last->pid == pid ? worker->last : NULL;

	for (size_t i = 0; !seat && i < worker->n_seats; i++)
		if (worker->seats[i].pid == pid)
			seat = &worker->seats[i];
	if (!seat)
		seat = new_seat(worker, pid);
	worker->last = seat;
	if (!seat)
		return NULL;
	if (seat->order != worker->order) {
		seat->order = worker->order;
		if (part_turn(seat->part, worker->order) < 0)
			return NULL;
	}
	return seat;
}

/* A piece of a table, as a task of its own. */
struct piece {
	const struct ns_table *table;
	const struct scan_table *scan;
	size_t chunk;
};

struct plan {
	struct nsight *ns;
	struct scan_table *scans; /* one for each of ns_tables */
	struct piece *pieces;
	size_t n, capacity;
	struct ns_worker *workers;
	unsigned int n_workers;
};

static bool is_wanted(const struct nsight *ns, const struct ns_table *table)
{
	for (enum record_kind kind = 1; kind < RECORD_KIND_LIMIT; kind++)
		if ((table->kinds >> kind & 1) && intake_wants(ns->intake, kind))
			return true;
	return false;
}

static int add_pieces(struct plan *plan, size_t i)
{
	struct scan_table *scan = &plan->scans[i];
	const struct ns_table *table = &ns_tables[i];
	bool complete;
	int r;

	if (!is_wanted(plan->ns, table))
		return 0;
	r = scan_table_open(&plan->ns->scan, table->name, &table->needs, 1, scan);
	complete = r > 0 && scan->has[0];
	scan_table_close(scan);
	if (r < 0 || !complete)
		return r < 0 ? r : 0;
	r = scan_table_open(&plan->ns->scan, table->name, table->columns, table->n, scan);
	if (r <= 0)
		return r;
	for (size_t chunk = 0; chunk < scan_chunks(scan); chunk++) {
		if (array_grow(&plan->pieces, &plan->capacity, plan->n + 1, sizeof(*plan->pieces)) <
		    0)
			return -ENOMEM;
		plan->pieces[plan->n++] = (struct piece){ table, scan, chunk };
	}
	if (scan->damaged_pages)
		intake_note(plan->ns->intake, "%s: %llu pages of table %s cannot be read.",
			    plan->ns->file->path, (unsigned long long)scan->damaged_pages,
			    table->name);
	return 0;
}

static int read_piece(void *context, size_t i, unsigned int w)
{
	struct plan *plan = context;
	struct piece *piece = &plan->pieces[i];
	struct ns_worker *worker = &plan->workers[w];
	uint64_t damaged = 0;
	int r;

	worker->order = i + 1;
	r = scan_chunk(piece->scan, piece->chunk, piece->table->row, worker, &damaged);
	if (r >= 0 && damaged) {
		struct ns_seat *seat = ns_seat(worker, plan->ns->default_pid);
		char what[100];

		if (!seat)
			return -ENOMEM;
		snprintf(what, sizeof(what), "a row of %.60s that is broken", piece->table->name);
		while (damaged--)
			part_damaged(seat->part, 0, what);
	}
	return r;
}

static int read_tables(struct nsight *ns, struct plan *plan)
{
	int r = 0;

	plan->scans = calloc(ns_tables_n, sizeof(*plan->scans));
	if (!plan->scans)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < ns_tables_n; i++)
		r = add_pieces(plan, i);
	if (r < 0)
		return r;
	plan->n_workers = parallel_workers(plan->n ? plan->n : 1);
	plan->workers = calloc(plan->n_workers, sizeof(*plan->workers));
	if (!plan->workers)
		return -ENOMEM;
	for (unsigned int w = 0; w < plan->n_workers; w++)
		plan->workers[w].ns = ns;
	r = plan->n ? parallel_run(plan->n, plan->n_workers, read_piece, plan) : 0;
	for (unsigned int w = 0; w < plan->n_workers; w++) {
		ns->op_ids += plan->workers[w].op_ids;
		ns->nvtx_other += plan->workers[w].nvtx_other;
		ns->graphs += plan->workers[w].graphs;
	}
	if (r < 0)
		return r;
	plan->workers[0].order = plan->n + 1;
	r = ns_info_end(ns, &plan->workers[0]);
	for (unsigned int w = 0; w < plan->n_workers; w++)
		for (size_t s = 0; r >= 0 && s < plan->workers[w].n_seats; s++)
			r = part_failed(plan->workers[w].seats[s].part);
	return r;
}

static void plan_release(struct plan *plan)
{
	for (size_t i = 0; plan->scans && i < ns_tables_n; i++)
		scan_table_close(&plan->scans[i]);
	for (unsigned int w = 0; plan->workers && w < plan->n_workers; w++) {
		for (size_t s = 0; s < plan->workers[w].n_seats; s++)
			ns_map_release(&plan->workers[w].seats[s].names);
		free(plan->workers[w].seats);
	}
	free(plan->workers);
	free(plan->pieces);
	free(plan->scans);
}

static bool is_nsight(const struct scan_file *scan)
{
	static const char *const any[] = { "META_DATA_EXPORT", "EXPORT_META_DATA",
					   "TARGET_INFO_SESSION_START_TIME" };

	for (size_t i = 0; i < sizeof(any) / sizeof(any[0]); i++)
		if (scan_has_table(scan, any[i]))
			return true;
	/* Some tools keep only what they need of an export. */
	for (size_t i = 0; i < ns_tables_n; i++)
		if (scan_has_table(scan, ns_tables[i].name))
			return scan_has_table(scan, "StringIds");
	return false;
}

int nsight_read(struct nsight *ns, struct err *err)
{
	struct plan plan = { .ns = ns };
	uint64_t damaged = 0;
	int r;

	if (scan_has_table(&ns->scan, "MOESCOPE_RUN"))
		return own_sqlite_read(ns->scan.db, ns->intake, err);
	if (!is_nsight(&ns->scan))
		return err_set(err, -EINVAL,
			       "%s is an SQLite file, but not an export of Nsight Systems: it has "
			       "none of its tables.",
			       ns->file->path);
	if (ns->scan.damaged)
		intake_note(ns->intake, "%s is damaged or cut off; what is left of it was read.",
			    ns->file->path);
	r = ns_info_begin(ns);
	if (r >= 0)
		r = ns_strings_read(ns);
	for (size_t i = 0; r >= 0 && i < ns_tables_n; i++)
		if (ns_tables[i].row == ns_nvtx_row && is_wanted(ns, &ns_tables[i]))
			r = ns_domains_read(ns, &damaged);
	if (r >= 0)
		r = read_tables(ns, &plan);
	plan_release(&plan);
	return r;
}

void nsight_release(struct nsight *ns)
{
	ns_names_release(ns);
	for (size_t i = 0; i < ns->n_metrics; i++)
		free(ns->metrics[i].name);
	free(ns->metrics);
	free(ns->cuda_pids);
	free(ns->pids);
	scan_file_close(&ns->scan);
	pthread_mutex_destroy(&ns->lock);
}

static int read_nsight_file(const struct ingest_file *file, struct intake *intake, struct err *err)
{
	struct nsight ns = { .file = file, .intake = intake };
	int r;

	if (file->gzip)
		return err_set(err, -EINVAL, "%s is compressed; unpack it first.", file->path);
	r = scan_file_open(&ns.scan, file->path, err);
	if (r < 0)
		return r;
	pthread_mutex_init(&ns.lock, NULL);
	r = nsight_read(&ns, err);
	if (ns.scan.endless)
		intake_note(intake,
			    "%s: a table or view of it has no end; what came before was read.",
			    file->path);
	nsight_release(&ns);
	if (r < 0 && err && !err->message[0])
		err_sys(err, r, "%s cannot be imported", file->path);
	return r;
}

const struct importer nsight_importer = {
	.name = "nsight",
	.title = "Nsight Systems SQLite export",
	.recognise = recognise_nsight,
	.read = read_nsight_file,
};

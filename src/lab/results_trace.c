/* SPDX-License-Identifier: Apache-2.0
 *
 * What an experiment's folder contains of its trace: the tables that users of other frameworks
 * read, a database, and the memory peak.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/whole_file.h"
#include "lab/results.h"
#include "lab/shared/child.h"
#include "subjects/memory/memory.h"
#include "surfaces/views/document_view.h"

static int write_table(const struct point *point, const struct document_view *book, size_t file,
		       const char *name, struct err *err)
{
	char *path = point_path(point, name);
	struct whole_file whole;
	int r = path ? whole_file_open(&whole, path) : -ENOMEM;

	if (r < 0)
		err_sys(err, r, "cannot write '%s'", path ? path : name);
	else
		r = whole_file_close(&whole, document_view_write(book, file, whole.file, err), err);
	free(path);
	return r;
}

static int write_tables(const struct point *point, const struct run *run, struct err *err)
{
	static const struct {
		const char *in_book, *name;
		bool counters; /* only where there are some */
	} wanted[] = {
		{ "nsys_metrics.json", "nsys_metrics.json" },
		{ "nsys_summary.csv", "nsys_summary.csv" },
		{ "ncu_metrics.json", "ncu_metrics.json", true },
		{ "ncu_summary.csv", "kernel_comparison.csv", true },
	};
	struct view_options options = { .utf8 = true, .width = 80, .question = QUESTION_ALL };
	struct document_view book;
	int r = document_view_open(&book, &document_book, run, &options, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < document_view_files(&book); i++) {
		char name[128];

		document_view_file_name(&book, i, name, sizeof(name));
		for (size_t k = 0; r == 0 && k < sizeof(wanted) / sizeof(*wanted); k++)
			if (strcmp(wanted[k].in_book, name) == 0 &&
			    (!wanted[k].counters || run->metric.n))
				r = write_table(point, &book, i, wanted[k].name, err);
	}
	document_view_close(&book);
	return r;
}

/* Of the GPU with the most; without one, of the host. */
static void find_peak(struct point *point, const struct run *run)
{
	struct memory memory;
	double peaks[2] = { -1, -1 };

	if (memory_analyze(run, 0, &memory) < 0) {
		err_set(&point->trace_unknown, -ENOMEM, "no memory to analyse the trace");
		return;
	}
	for (size_t i = 0; i < memory.n; i++) {
		const struct memory_device *device = &memory.devices[i];
		double *peak = &peaks[device->device >= 0];

		if ((double)device->peak_bytes > *peak)
			*peak = (double)device->peak_bytes;
	}
	point->trace_peak_bytes = peaks[1] >= 0 ? peaks[1] : peaks[0];
	if (point->trace_peak_bytes < 0)
		err_set(&point->trace_unknown, -ENODATA, "the trace has no allocations");
	memory_release(&memory);
}

static void export_sqlite(struct point *point, const char *trace)
{
	static const int politely[] = { SIGTERM, 0 };
	struct argv argv = { NULL, 0, 0 };
	struct texts none = { NULL, 0 };
	struct child child = { .pid = 0 };
	struct err err = { "" };
	int r = argv_add_all(&argv, point->tools->moescope, "export", trace, "--to", "sqlite", "-o",
			     NULL);

	if (r == 0)
		r = argv_add(&argv, "%s/trace.sqlite", point->directory);
	if (r == 0 && child_start(&child, argv.v, &none, point->log_fd, &err) == 0) {
		child_wait(&child, 0, point->stop);
		child_end(&child, politely, 1);
	}
	if (!child.ended || child.status)
		point_note(point,
			   "the trace was not written as trace.sqlite; " POINT_LOG " says why.");
	argv_release(&argv);
}

void results_trace(struct point *point)
{
	char *path = point_path(point, POINT_TRACE);
	struct err err = { "" };
	struct run *run;

	if (!path)
		return;
	if (access(path, F_OK) < 0) {
		err_set(&point->trace_unknown, -ENOENT, "the program left no trace");
		point_note(point, "there is no trace: the program did not start, or recorded "
				  "nothing.");
	} else if (run_load(path, NULL, &run, &err) < 0) {
		point->trace_unknown = err;
		point_note(point, "%s", err.message);
	} else {
		find_peak(point, run);
		if (write_tables(point, run, &err) < 0)
			point_note(point, "%s", err.message);
		run_free(run);
		/* Whoever stopped us wants the end. */
		if (!*point->stop)
			export_sqlite(point, path);
	}
	free(path);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a book that are no section: each with its columns and where they come from, and
 * the function that writes its rows. Rows that can be millions are never held.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "present/book/csv_book.h"
#include "subjects/api/api_calls.h"
#include "subjects/shared/kernel_stream.h"

#define NO_COUNTERS "empty: needs hardware counters of the kernel, which were not collected"
#define WHEN "seconds since 1970, with the nanoseconds"

static struct cell megabytes(double bytes)
{
	return cell_real(bytes / 1e6);
}

const struct csv_column csv_memory_stats[] = {
	{ "timestamp", WHEN },
	{ "allocated_mb", "live bytes of the program's allocator / 1e6, replayed; the most in its "
			  "part of the time, or PyTorch's own count" },
	{ "reserved_mb", "what PyTorch's allocator held then / 1e6; empty: not reported" },
	{ "peak_mb", "the most of allocated_mb so far" },
	{ "fragmentation_percent",
	  "empty: replayed for the whole run (memory.csv), not over time" },
	{ "rank", "of the process" },
	{ "device", "-1: the host; empty: the program does not say" },
	{ NULL, NULL },
};

int csv_write_memory_stats(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	csv_header(file->columns, out);
	for (size_t i = 0; i < book->memory.n; i++) {
		const struct memory_moment *m = &book->memory.rows[i];
		char when[40];
		struct cell cells[] = {
			csv_timestamp(m->realtime_ns, when, sizeof(when)),
			megabytes(m->allocated_bytes),
			m->reserved_bytes.known ? megabytes(m->reserved_bytes.v)
						: cell_value(m->reserved_bytes),
			megabytes(m->peak_bytes),
			cell_absent("not known over time"),
			cell_uint(m->rank),
			cell_value(m->device),
		};

		grid_csv_row(cells, sizeof(cells) / sizeof(cells[0]), out);
	}
	return 0;
}

const struct csv_column csv_kernel_stats[] = {
	{ "timestamp", WHEN ", of its start on the device" },
	{ "kernel_name", "demangled name of the device's record" },
	{ "execution_time_ms", "end - start on the device; empty: the device gave no times" },
	{ "occupancy_percent", NO_COUNTERS },
	{ "memory_bandwidth_gbps", NO_COUNTERS },
	{ "expert_id", "of the innermost range around the launch that names one" },
	{ "operation_type", "class of the kernel by its name ('moescope explain kernel_class')" },
	{ "layer", "of the innermost range around the launch that names one" },
	{ NULL, NULL },
};

static void kernel_row(const struct kernel_event *e, FILE *out)
{
	char when[40], ms[40];
	struct cell cells[] = {
		csv_timestamp(e->realtime_ns, when, sizeof(when)),
		cell_text(e->name),
		cell_text(ms),
		cell_absent(NO_COUNTERS),
		cell_absent(NO_COUNTERS),
		e->expert < 0 ? cell_absent("no expert") : cell_int(e->expert),
		cell_text(e->class),
		e->layer < 0 ? cell_absent("no layer") : cell_int(e->layer),
	};

	/* By hand: the general way to print a double is slow for millions. */
	if (e->untimed)
		cells[2] = cell_absent("untimed");
	else
		snprintf(ms, sizeof(ms), "%" PRId64 ".%06" PRId64, e->duration_ns / 1000000,
			 e->duration_ns % 1000000);
	grid_csv_row(cells, sizeof(cells) / sizeof(cells[0]), out);
}

int csv_write_kernel_stats(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	struct selection sel = { book->options.step_first, book->options.step_last,
				 book->options.layer, book->options.phase };
	struct kernel_stream stream;
	struct kernel_event event;
	int r = kernel_stream_init(&stream, book->run, &sel);

	if (r < 0)
		return r;
	csv_header(file->columns, out);
	while ((r = kernel_stream_next(&stream, &event)) > 0)
		kernel_row(&event, out);
	kernel_stream_release(&stream);
	return r;
}

const struct csv_column csv_expert_routing[] = {
	{ "timestamp", WHEN ", of the last record of the layer in the step" },
	{ "token_count", "valid tokens" },
	{ "active_experts", "experts with at least one assignment" },
	{ "load_balance_score", "legacy name of cv: population std / mean of the assignments" },
	{ "step", "" },
	{ "layer", "" },
	{ "phase", "" },
	{ "expert_N", "assignments of expert N; empty: the layer has fewer experts" },
	{ NULL, NULL },
};

int csv_write_expert_routing(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	const struct routing *routing = answer_routing(book->answers);
	enum { FIXED = 7 };
	uint32_t experts = 0;
	struct cell *cells;

	for (size_t i = 0; i < routing->n; i++)
		experts = routing->layers[i].experts > experts ? routing->layers[i].experts
							       : experts;
	cells = calloc(FIXED + (size_t)experts, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	for (size_t c = 0; c < FIXED; c++)
		fprintf(out, "%s%s", c ? "," : "", file->columns[c].key);
	for (uint32_t e = 0; e < experts; e++)
		fprintf(out, ",expert_%" PRIu32, e);
	fputc('\n', out);
	for (size_t i = 0; i < routing->n; i++) {
		const struct routing_layer *layer = &routing->layers[i];

		for (size_t s = 0; s < layer->n_steps; s++) {
			const struct routing_step *step = &layer->steps[s];
			char when[40];

			cells[0] = csv_timestamp(step->realtime_ns, when, sizeof(when));
			cells[1] = cell_uint(step->tokens);
			cells[2] = cell_uint(step->load.unique);
			cells[3] = step->load.known ? cell_real(step->load.cv)
						    : cell_absent("no assignments");
			cells[4] = cell_int(step->step);
			cells[5] = cell_int(layer->layer);
			cells[6] = cell_text(phase_name(layer->phase));
			for (uint32_t e = 0; e < experts; e++)
				cells[FIXED + e] = e < layer->experts ? cell_uint(step->n[e])
								      : cell_absent("no expert");
			grid_csv_row(cells, FIXED + (size_t)experts, out);
		}
	}
	free(cells);
	return 0;
}

const struct csv_column csv_nsys_summary[] = {
	{ "Kernel Name", "demangled name" },
	{ "Time %", "share of the device time of all kernels" },
	{ "Total Time (ns)", "sum over the timed executions" },
	{ "Instances", "executions, untimed ones included" },
	{ "Avg (ns)", "mean of the timed ones" },
	{ "Med (ns)", "their median" },
	{ "Min (ns)", "" },
	{ "Max (ns)", "" },
	{ NULL, NULL },
};

static void summary_row(const char *name, double share, int64_t time_ns, uint64_t count,
			const struct stats_summary *s, FILE *out)
{
	static const char none[] = "none was timed";
	struct cell cells[] = {
		cell_text(name),
		s->n ? cell_real(share) : cell_absent(none),
		s->n ? cell_int(time_ns) : cell_absent(none),
		cell_uint(count),
		s->n ? cell_real(s->mean) : cell_absent(none),
		s->n ? cell_real(s->p50) : cell_absent(none),
		s->n ? cell_real(s->min) : cell_absent(none),
		s->n ? cell_real(s->max) : cell_absent(none),
	};

	grid_csv_row(cells, sizeof(cells) / sizeof(cells[0]), out);
}

int csv_write_nsys_summary(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	csv_header(file->columns, out);
	for (size_t i = 0; i < answer_kernels(book->answers)->n; i++) {
		const struct kernel_row *row = &answer_kernels(book->answers)->rows[i];

		summary_row(row->name, row->share_pct, row->time_ns, row->count, &row->summary,
			    out);
	}
	return 0;
}

const struct csv_column csv_api_summary[] = {
	{ "Name", "of the call into the CUDA runtime or driver" },
	{ "Time %", "share of the time of all recorded calls" },
	{ "Total Time (ns)", "sum of their durations on the host" },
	{ "Num Calls", "" },
	{ "Avg (ns)", "mean" },
	{ "Med (ns)", "median" },
	{ "Min (ns)", "" },
	{ "Max (ns)", "" },
	{ NULL, NULL },
};

int csv_write_api_summary(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	csv_header(file->columns, out);
	for (size_t i = 0; i < answer_api_calls(book->answers)->n; i++) {
		const struct api_row *row = &answer_api_calls(book->answers)->rows[i];

		summary_row(row->name ? run_string(book->run, row->name) : "(no name)",
			    row->share_pct, row->time_ns, row->count, &row->summary, out);
	}
	return 0;
}

const struct csv_column csv_verdicts[] = {
	{ "id", "of the rule" },
	{ "severity", "critical, warning, note or ok" },
	{ "title", "" },
	{ "gain_pct", "estimate, of the step time, under gain_assumption" },
	{ "gain_assumption", "" },
	{ "advice", "" },
	{ "evidence", "key=value of the measured figures, by semicolons" },
	{ NULL, NULL },
};

size_t csv_verdict_cells(const struct verdict *v, char *evidence, size_t size, struct cell *cell)
{
	const struct cell *first = cell;
	size_t at = 0;

	evidence[0] = '\0';
	for (size_t e = 0; e < v->n_evidence && at < size; e++) {
		char number[40];

		json_format_double(number, sizeof(number), v->evidence[e].v);
		at += (size_t)snprintf(evidence + at, size - at, "%s%s=%s", e ? "; " : "",
				       v->evidence[e].key, number);
	}
	*cell++ = cell_text(v->id);
	*cell++ = cell_text(severity_name(v->severity));
	*cell++ = cell_text(v->title);
	*cell++ = cell_value(v->gain_pct);
	*cell++ = v->gain_assumption ? cell_text(v->gain_assumption)
				     : cell_absent("no gain is estimated");
	*cell++ = cell_text(v->advice);
	*cell++ = cell_text(evidence);
	return (size_t)(cell - first);
}

int csv_write_verdicts(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	csv_header(file->columns, out);
	for (size_t i = 0; i < book->verdicts.n; i++) {
		char evidence[CSV_EVIDENCE_SIZE];
		struct cell cells[CSV_CELLS_MAX];
		size_t n = csv_verdict_cells(&book->verdicts.items[i], evidence, sizeof(evidence),
					     cells);

		grid_csv_row(cells, n, out);
	}
	return 0;
}

const struct csv_column csv_timeline[] = {
	{ "rank", "of the process" },
	{ "device", "as the process numbers it" },
	{ "window_ns", "from the first to the last work, without what was not covered" },
	{ "busy_ns", "union of kernels, copies and sets" },
	{ "busy_pct", "100 * busy / window" },
	{ "idle_ns", "window - busy" },
	{ "idle_host_ns", "nothing queued, the host was busy with its own code" },
	{ "idle_launch_ns", "being launched" },
	{ "idle_sync_ns", "nothing queued after a wait of the host" },
	{ "idle_copy_ns", "a blocking copy, or a copy by another device" },
	{ "idle_queued_ns", "queued, not begun" },
	{ "idle_profiler_ns", "at the edges of windows of records" },
	{ "idle_unknown_ns", "the calls that would tell were not recorded" },
	{ "kernel_ns", "union of kernels" },
	{ "copy_ns", "union of copies" },
	{ "set_ns", "union of sets" },
	{ "overlap_ns", "kernels and copies at once" },
	{ "overlap_pct", "100 * overlap / copies; empty: nothing was copied" },
	{ NULL, NULL },
};
_Static_assert(IDLE_CAUSES == 7, "a column of timeline.csv for each cause, in their order");

size_t csv_timeline_cells(const struct timeline_device *d, struct cell *cell)
{
	const struct cell *first = cell;

	*cell++ = cell_uint(d->rank);
	*cell++ = cell_uint(d->device);
	*cell++ = cell_int(d->window_ns);
	*cell++ = cell_int(d->busy_ns);
	*cell++ = cell_real(d->busy_pct);
	*cell++ = cell_int(d->idle_ns);
	for (int c = 0; c < IDLE_CAUSES; c++)
		*cell++ = cell_int(d->idle_by_cause[c]);
	*cell++ = cell_int(d->kernel_ns);
	*cell++ = cell_int(d->copy_ns);
	*cell++ = cell_int(d->set_ns);
	*cell++ = cell_int(d->overlap_ns);
	*cell++ = cell_value(d->overlap_pct);
	return (size_t)(cell - first);
}

int csv_write_timeline(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	csv_header(file->columns, out);
	for (size_t i = 0; i < answer_timeline(book->answers)->n; i++) {
		struct cell cells[CSV_CELLS_MAX];
		size_t n = csv_timeline_cells(&answer_timeline(book->answers)->devices[i], cells);

		grid_csv_row(cells, n, out);
	}
	return 0;
}

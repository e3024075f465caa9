/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of several runs side by side; see kernel_comparison.h. Totals are those of the
 * runs as they are; the mean of an execution is what compares. 'moescope compare' says which
 * differences are more than noise.
 */
#include "exports/csv/kernel_comparison.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "exports/csv/csv_cells.h"
#include "subjects/pages/section.h"

struct kernel_figures {
	uint64_t count;
	int64_t time_ns;
	double mean_ns;
	bool there, timed;
};

struct compared_run {
	char *label;
	bool device; /* it has device records, so that a kernel that is not there did not run */
};

struct compared_kernel {
	char *name;
	struct kernel_figures *figures; /* of each run */
	size_t capacity;
};

struct kernel_comparison {
	struct compared_run *runs;
	size_t n_runs, runs_capacity;
	struct compared_kernel *kernels; /* in the order in which they came */
	size_t n, capacity;
};

struct kernel_comparison *kernel_comparison_new(void)
{
	return calloc(1, sizeof(struct kernel_comparison));
}

void kernel_comparison_free(struct kernel_comparison *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n_runs; i++)
		free(c->runs[i].label);
	for (size_t i = 0; i < c->n; i++) {
		free(c->kernels[i].name);
		free(c->kernels[i].figures);
	}
	free(c->runs);
	free(c->kernels);
	free(c);
}

/* A few hundred names a run: looked for one by one. */
static struct compared_kernel *find_kernel(struct kernel_comparison *c, const char *name)
{
	struct compared_kernel *kernel;

	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->kernels[i].name, name))
			return &c->kernels[i];
	if (array_grow(&c->kernels, &c->capacity, c->n + 1, sizeof(*c->kernels)) < 0)
		return NULL;
	kernel = &c->kernels[c->n];
	*kernel = (struct compared_kernel){ .name = strdup(name) };
	if (!kernel->name)
		return NULL;
	c->n++;
	return kernel;
}

static int add_kernel(struct kernel_comparison *c, const struct kernel_row *row)
{
	struct compared_kernel *kernel = find_kernel(c, row->name);
	size_t old;

	if (!kernel)
		return -1;
	old = kernel->capacity;
	if (array_grow(&kernel->figures, &kernel->capacity, c->n_runs, sizeof(*kernel->figures)) <
	    0)
		return -1;
	memset(kernel->figures + old, 0, (kernel->capacity - old) * sizeof(*kernel->figures));
	kernel->figures[c->n_runs - 1] = (struct kernel_figures){ row->count, row->time_ns,
								  row->summary.n ? row->summary.mean
										 : 0,
								  true, row->summary.n != 0 };
	return 0;
}

int kernel_comparison_add(struct kernel_comparison *c, const char *label, const struct run *run,
			  const struct kernels *kernels)
{
	if (array_grow(&c->runs, &c->runs_capacity, c->n_runs + 1, sizeof(*c->runs)) < 0)
		return -ENOMEM;
	c->runs[c->n_runs] = (struct compared_run){ strdup(label), scene_has_device(run) };
	if (!c->runs[c->n_runs].label)
		return -ENOMEM;
	c->n_runs++;
	for (size_t i = 0; i < kernels->n; i++)
		if (add_kernel(c, &kernels->rows[i]) < 0)
			return -ENOMEM;
	return 0;
}

static struct kernel_figures figures_of(const struct compared_kernel *kernel, size_t run)
{
	return run < kernel->capacity ? kernel->figures[run] : (struct kernel_figures){ 0 };
}

static void write_header(const struct kernel_comparison *c, FILE *out)
{
	static const char *const figures[] = { "Instances", "Total Time (ns)", "Avg (ns)",
					       "Avg change %" };

	fputs("Kernel Name", out);
	for (size_t run = 0; run < c->n_runs; run++)
		/* Of the first run there is no change. */
		for (size_t i = 0; i < (run ? 4 : 3); i++) {
			char title[400];
			struct cell cell = cell_text(title);

			snprintf(title, sizeof(title), "%.300s %s", c->runs[run].label, figures[i]);
			fputc(',', out);
			csv_cells(&cell, 1, out);
		}
	fputc('\n', out);
}

static void write_kernel(const struct kernel_comparison *c, const struct compared_kernel *kernel,
			 FILE *out)
{
	struct kernel_figures first = figures_of(kernel, 0);
	struct cell name = cell_text(kernel->name);

	csv_cells(&name, 1, out);
	for (size_t run = 0; run < c->n_runs; run++) {
		struct kernel_figures f = figures_of(kernel, run);
		bool known = c->runs[run].device;
		bool change = f.timed && first.timed && first.mean_ns > 0;
		struct cell cells[] = {
			known ? cell_uint(f.count) : cell_absent("no device records"),
			known && (f.timed || !f.there) ? cell_int(f.time_ns)
						       : cell_absent("none was timed"),
			f.timed ? cell_real(f.mean_ns) : cell_absent("none was timed"),
			change ? cell_real(100 * (f.mean_ns - first.mean_ns) / first.mean_ns)
			       : cell_absent("not timed in both"),
		};

		fputc(',', out);
		csv_cells(cells, run ? 4 : 3, out);
	}
	fputc('\n', out);
}

void kernel_comparison_write(const struct kernel_comparison *c, FILE *out)
{
	write_header(c, out);
	for (size_t i = 0; i < c->n; i++)
		write_kernel(c, &c->kernels[i], out);
}

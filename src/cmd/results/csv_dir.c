/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs as directories of tables; see csv_dir.h. Main thread.
 */
#include "cmd/results/csv_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/whole_file.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/progress.h"
#include "exports/csv/kernel_comparison.h"
#include "surfaces/views/document_view.h"

/* What is being written, for all runs of the command. */
struct job {
	const char *directory;
	struct view_options options;
	bool several;
	char **labels; /* of the runs so far, each different */
	size_t n;
	struct kernel_comparison *comparison;
};

static int make_directory(const char *path)
{
	struct stat st;

	if (mkdir(path, 0777) == 0)
		return EXIT_OK;
	if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return EXIT_OK;
	return fail("cannot create the directory '%s': %s.", path, strerror(errno));
}

/* The run's name, with a number when an earlier run has it. NULL: no memory. */
static char *make_label(const struct job *job, const char *name)
{
	char *label = strdup(name);
	size_t number = 1;

	for (size_t i = 0; label && i < job->n;) {
		if (strcmp(job->labels[i], label) != 0) {
			i++;
			continue;
		}
		free(label);
		if (asprintf(&label, "%s-%zu", name, ++number) < 0)
			return NULL;
		i = 0;
	}
	return label;
}

static int write_one(const char *directory, const char *name, const struct document_view *book,
		     size_t file, const struct kernel_comparison *comparison)
{
	struct err err = { "" };
	struct whole_file whole;
	char *path;
	int r;

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return fail("no memory.");
	r = whole_file_open(&whole, path);
	if (r < 0) {
		fail("cannot write '%s': %s.", path, strerror(-r));
		free(path);
		return EXIT_FAILED;
	}
	if (comparison)
		kernel_comparison_write(comparison, whole.file);
	else
		r = document_view_write(book, file, whole.file, &err);
	r = whole_file_close(&whole, r, &err);
	free(path);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

static int write_book(const struct document_view *book, const char *directory)
{
	int r = make_directory(directory);

	for (size_t i = 0; r == EXIT_OK && i < document_view_files(book); i++) {
		char name[128];

		document_view_file_name(book, i, name, sizeof(name));
		r = write_one(directory, name, book, i, NULL);
	}
	return r;
}

static int write_labelled(struct job *job, const struct run *run, const struct document_view *book)
{
	char *label = make_label(job, run->info.name), *directory = NULL;
	int r;

	if (!label || asprintf(&directory, "%s/%s", job->directory, label) < 0) {
		free(label);
		return fail("no memory.");
	}
	job->labels[job->n++] = label;
	r = kernel_comparison_add(job->comparison, label, run, answer_kernels(book->answers)) < 0
		    ? fail("no memory.")
		    : EXIT_OK;
	if (r == EXIT_OK)
		r = write_book(book, directory);
	free(directory);
	return r;
}

static int write_run(struct job *job, const char *given)
{
	struct err err = { "" };
	struct document_view book;
	struct run *run;
	int r = run_open(given, WANT_ALL, &run);

	if (r != EXIT_OK)
		return r;
	progress_begin("writing the tables");
	r = document_view_open(&book, &document_book, run, &job->options, &err);
	if (r < 0) {
		progress_end();
		run_free(run);
		return fail("%s", err.message[0] ? err.message : strerror(-r));
	}
	r = job->several ? write_labelled(job, run, &book) : write_book(&book, job->directory);
	progress_end();
	document_view_close(&book);
	run_free(run);
	return r;
}

int csv_dir_write(struct invocation *inv, const char *directory)
{
	const struct table_values *values = inv->values;
	struct job job = { .directory = directory,
			   .options = table_view_options(values),
			   .several = inv->n_args > 1 };
	int r;

	if (values->json || values->dashboard)
		return usage_error(inv->command, "'--csv' excludes '--json' and '--dashboard'.");
	r = make_directory(directory);
	if (r != EXIT_OK)
		return r;
	job.labels = calloc((size_t)inv->n_args + 1, sizeof(*job.labels));
	job.comparison = kernel_comparison_new();
	if (!job.labels || !job.comparison)
		r = fail("no memory.");
	for (int i = 0; r == EXIT_OK && i < (job.several ? inv->n_args : 1); i++)
		r = write_run(&job, inv->n_args ? inv->args[i] : NULL);
	if (r == EXIT_OK && job.several)
		r = write_one(directory, KERNEL_COMPARISON_FILE, NULL, 0, job.comparison);
	if (r == EXIT_OK)
		say("wrote the tables to %s; columns.csv says what they hold.", directory);
	for (size_t i = 0; i < job.n; i++)
		free(job.labels[i]);
	free(job.labels);
	kernel_comparison_free(job.comparison);
	return r;
}

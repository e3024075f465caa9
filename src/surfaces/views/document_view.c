/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents of runs; see document_view.h.
 */
#include "surfaces/views/document_view.h"

#include "subjects/answers/subject.h"
#include "surfaces/csv/grid_csv.h"
#include "surfaces/json/fields_json.h"
#include "surfaces/views/scene.h"

int document_view_open(struct document_view *view, const struct document *document,
		       const struct run *run, const struct view_options *options, struct err *err)
{
	struct question question = options->question;
	struct asked asked[ASKED_MAX];
	int r;

	*view = (struct document_view){ .document = document };
	view->n = document->ask(run, &question, asked);
	r = scene_compute(run, options, asked, view->n, view->answers, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < view->n; i++) {
		view->scenes[i] = scene_of(run, options, &view->answers[i]);
		view->scenes[i].question = asked[i].question;
	}
	r = document->make(view->scenes, view->n, &view->own);
	if (r >= 0)
		return 0;
	document_view_close(view);
	return err_sys(err, r, "cannot analyse run '%s'", run->info.name);
}

void document_view_close(struct document_view *view)
{
	if (view->own)
		view->document->release(view->own);
	answers_release(view->answers);
	*view = (struct document_view){ 0 };
}

size_t document_view_files(const struct document_view *view)
{
	size_t n = 0;

	while (view->document->files[n].name)
		n++;
	return n;
}

void document_view_file_name(const struct document_view *view, size_t file, char *out, size_t size)
{
	document_file_name(&view->document->files[file], view->scenes->run, out, size);
}

static int write_section(const struct section *section, const struct scene *all, FILE *out)
{
	struct answers answers;
	struct scene scene = section_scene(section, all, &answers);
	struct grid grid;
	int r = section_grid(section, &scene, &grid);

	if (r >= 0)
		grid_csv(&grid, 0, out);
	grid_release(&grid);
	return r;
}

static int write_object(const struct field_set *set, const struct field_row *from, FILE *out)
{
	struct json json;

	json_init_file(&json, out, 2);
	json_object(&json);
	fields_json(&json, set->fields, set->n_fields, from);
	json_object_end(&json);
	return json_finish(&json, NULL);
}

static int write_file(const struct document_view *view, const struct document_file *file, FILE *out)
{
	struct field_row from = { .run = view->scenes->run, .form = 1, .answers = view->answers };

	if (file->section)
		return write_section(file->section, view->scenes, out);
	from.item = file->subject ? view->answers->of[file->subject->id]
				  : (const char *)view->own + file->own;
	return field_set_has_rows(file->fields) ? rows_csv(file->fields, &from, out)
						: write_object(file->fields, &from, out);
}

int document_view_write(const struct document_view *view, size_t file, FILE *out, struct err *err)
{
	int r = write_file(view, &view->document->files[file], out);

	if (r < 0) {
		char name[DOCUMENT_FILE_NAME_SIZE];

		document_view_file_name(view, file, name, sizeof(name));
		return err_sys(err, r, "cannot make '%s'", name);
	}
	return 0;
}

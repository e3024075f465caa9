/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of sections and documents in every form; see scene.h and views.h.
 */
#include "surfaces/views/scene.h"

#include <errno.h>
#include <string.h>

#include "device/sheets/kernel_class.h"
#include "device/sheets/peaks.h"
#include "subjects/answers/subject.h"
#include "surfaces/csv/grid_csv.h"
#include "surfaces/json/section_json.h"
#include "surfaces/markdown/markdown.h"
#include "surfaces/text/page_text.h"
#include "surfaces/views/document_view.h"

struct asked section_asked(const struct section *section, const struct view_options *options)
{
	struct asked asked = { options->question, { section->name, section->reads } };

	asked.question.router_time = section->router_time;
	asked.question.routed_tokens = section->routed_tokens;
	return asked;
}

static void lend(struct asked *asked, size_t n, const struct kernel_classes *classes,
		 const struct peaks_file *peaks)
{
	for (size_t i = 0; i < n; i++) {
		asked[i].question.classes = classes;
		asked[i].question.peaks = peaks;
	}
}

int scene_compute(const struct run *run, const struct view_options *options, struct asked *asked,
		  size_t n, struct answers *ret_answers, struct err *err)
{
	struct kernel_classes *classes = NULL;
	struct peaks_file peaks = { 0 };
	struct plan plan = { 0 };
	int r = 0;

	for (size_t i = 0; i < n; i++)
		plan_subjects(&plan, &asked[i].question, asked[i].reader.reads);
	if (plan.needs & NEEDS_CLASSES)
		r = kernel_classes_new(options->question.classes_file, &classes, err);
	if (r < 0)
		return r;
	if (options->peaks && plan.needs & NEEDS_PEAKS)
		r = peaks_read(options->peaks, &peaks);
	if (r < 0) {
		kernel_classes_free(classes);
		return err_sys(err, r, "cannot read the measured peaks in '%s'", options->peaks);
	}
	lend(asked, n, classes, &peaks);
	r = answers_compute(run, asked, n, ret_answers);
	lend(asked, n, NULL, NULL);
	kernel_classes_free(classes);
	peaks_release(&peaks);
	return r < 0 ? err_sys(err, r, "cannot analyse run '%s'", run->info.name) : 0;
}

const struct section *section_find(const char *name)
{
	for (const struct section *const *s = sections; *s; s++)
		if (!strcmp((*s)->name, name))
			return *s;
	return NULL;
}

struct run_want section_want(const struct section *section, const struct view_options *options)
{
	struct question question = options->question;
	struct asked asked[ASKED_MAX] = { section_asked(section, options) };
	struct plan plan = { 0 };
	size_t n = section->document ? section->document->ask(NULL, &question, asked) : 1;

	for (size_t i = 0; i < n; i++)
		plan_subjects(&plan, &asked[i].question, asked[i].reader.reads);
	/* The head of the JSON lists the devices that ran kernels. */
	plan_kinds(&plan, WANT(KERNEL) | (section->document ? section->document->kinds : 0));
	return plan.want;
}

struct scene scene_of(const struct run *run, const struct view_options *options,
		      const struct answers *answers)
{
	return (struct scene){ .run = run,
			       .answers = answers,
			       .question = options->question,
			       .limit = options->limit,
			       .data = options->json || options->csv };
}

/* What an answer is written as: data, or a page for people. */
struct form {
	size_t flag; /* of struct view_options */
	int (*data)(const struct section *section, const struct scene *scene,
		    const struct grid *grid, const void *own, FILE *out, struct err *err);
	int (*page)(const struct page *page, const struct text_layout *layout, FILE *out);
};

static int print_page(const struct form *form, const struct page *page,
		      const struct view_options *options, int narrowest, FILE *out)
{
	struct text_layout layout = { .width = options->width > 0 ? options->width : 80,
				      .color = options->color,
				      .utf8 = options->utf8 };

	if (layout.width < narrowest)
		layout.width = narrowest;
	return form->page(page, &layout, out);
}

static int render_json(const struct section *section, const struct scene *scene,
		       const struct grid *grid, const void *own, FILE *out, struct err *err)
{
	int r = section_json(section, scene, grid, own, out);

	return r < 0 ? err_sys(err, r, "cannot write the JSON of '%s'", section->name) : 0;
}

static int render_csv(const struct section *section, const struct scene *scene,
		      const struct grid *grid, const void *own, FILE *out, struct err *err)
{
	(void)section;
	(void)own;
	(void)err;
	grid_csv(grid, scene->limit, out);
	return 0;
}

static const struct form forms[] = {
	{ offsetof(struct view_options, json), .data = render_json },
	{ offsetof(struct view_options, csv), .data = render_csv },
	{ offsetof(struct view_options, markdown), .page = page_markdown },
};
static const struct form text_form = { .page = page_print };

static const struct form *form_of(const struct view_options *options)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (*(const bool *)((const char *)options + forms[i].flag))
			return &forms[i];
	return &text_form;
}

static int render_page(const struct form *form, const struct section *section,
		       const struct scene *scene, const struct grid *grid,
		       const struct view_options *options, FILE *out, struct err *err)
{
	struct page page = { 0 };
	int r;

	heading_page(scene, section->name, &page);
	section->page(scene, grid, &page);
	r = print_page(form, &page, options, 0, out);
	page_release(&page);
	return r < 0 ? err_sys(err, r, "cannot print the table '%s'", section->name) : 0;
}

/* Sort keys are checked before a byte is written. */
static int render_rows(const struct section *section, const struct scene *scene,
		       const struct view_options *options, FILE *out, struct err *err)
{
	const struct form *form = form_of(options);
	struct grid grid;
	int r = section_grid(section, scene, &grid);

	if (r < 0)
		err_sys(err, r, "cannot make the table '%s'", section->name);
	else
		r = grid_sort(&grid, options->sort, err);
	if (r >= 0 && form->data)
		r = form->data(section, scene, &grid, NULL, out, err);
	else if (r >= 0)
		r = render_page(form, section, scene, &grid, options, out, err);
	grid_release(&grid);
	return r;
}

static int render_document(const struct section *section, const struct run *run,
			   const struct view_options *options, FILE *out, struct err *err)
{
	const struct document *document = section->document;
	const struct form *form = form_of(options);
	struct document_view view;
	struct page page = { 0 };
	int r = document_view_open(&view, document, run, options, err);

	if (r < 0)
		return r;
	if (form->data) {
		r = form->data(section, view.scenes, NULL, view.own, out, err);
	} else {
		document->page(view.scenes, view.own, &page);
		r = print_page(form, &page, options, document->narrowest, out);
		page_release(&page);
		if (r < 0)
			err_sys(err, r, "cannot print the %s of '%s'", section->name,
				run->info.name);
	}
	document_view_close(&view);
	return r;
}

/* Why a document has not the form that the options ask for; NULL: it has. */
static const char *refusal(const struct document *document, const struct view_options *options)
{
	if (options->json && document->not_json)
		return document->not_json;
	if (options->csv && document->not_csv)
		return document->not_csv;
	return options->sort ? document->not_sorted : NULL;
}

int section_render(const struct section *section, const struct run *run,
		   const struct view_options *options, FILE *out, struct err *err)
{
	const char *refused = section->document ? refusal(section->document, options) : NULL;
	struct answers answers;
	struct asked asked;
	struct scene scene;
	int r;

	if (refused)
		return err_set(err, -EINVAL, "%s", refused);
	if (section->document)
		return render_document(section, run, options, out, err);
	asked = section_asked(section, options);
	r = scene_compute(run, options, &asked, 1, &answers, err);
	if (r < 0)
		return r;
	scene = scene_of(run, options, &answers);
	r = render_rows(section, &scene, options, out, err);
	answers_release(&answers);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pages of sections share; see section.h.
 */
#include "subjects/pages/section.h"

#include <stdio.h>

#include "base/text/format.h"
#include "subjects/answers/subject.h"
#include "subjects/shared/coverage.h"

void section_schema(const struct section *section, char *ret_schema, size_t size)
{
	snprintf(ret_schema, size, "moescope/%s/1",
		 section->schema ? section->schema : section->name);
}

struct field_row section_from(const struct section *section, const struct scene *scene)
{
	ANSWERS_CHECK(scene->answers, section->subject);
	return (struct field_row){ .run = scene->run,
				   .item = scene->answers->of[section->subject->id],
				   .form = section->form ? section->form(scene) : 1,
				   .answers = scene->answers };
}

int section_grid(const struct section *section, const struct scene *scene, struct grid *ret_grid)
{
	struct field_row from = section_from(section, scene);

	return grid_fill(ret_grid, section->rows, &from);
}

struct scene section_scene(const struct section *section, const struct scene *scene,
			   struct answers *ret_answers)
{
	struct scene own = *scene;

	*ret_answers = answers_for(scene->answers,
				   (struct reader){ section->name, section->reads });
	own.answers = ret_answers;
	return own;
}

const struct grid *page_rows(struct page *page, const struct field_set *set,
			     const struct field_row *from)
{
	struct grid *grid = page_grid(page);
	int r = grid ? grid_fill(grid, set, from) : 0;

	if (r < 0)
		page->error = r;
	return r < 0 ? NULL : grid;
}

const struct grid *page_section(struct page *page, const struct section *section,
				const struct scene *scene)
{
	struct field_row from = section_from(section, scene);

	return page_rows(page, section->rows, &from);
}

size_t page_top(struct page *page, const struct section *section, const struct scene *scene,
		size_t top)
{
	const struct grid *grid = page_section(page, section, scene);
	struct grid *first = grid ? page_keep(page, sizeof(*first)) : NULL;

	if (!first)
		return 0;
	*first = *grid;
	first->n = grid_shown(grid, top);
	section->page(scene, first, page);
	return grid->n;
}

bool scene_has_device(const struct run *run)
{
	return run->kernel.n || run->copy.n || run->set.n || run->api.n;
}

void page_no_device(const struct scene *scene, struct page *page)
{
	page_words(page, 2, 2, "no device records in this run: %s",
		   run_is_foreign(scene->run)
			   ? "the file that it was imported from has none"
			   : "the program used no GPU, or its GPU was not recorded ('moescope "
			     "doctor' says what works here)");
}

void page_sampled(const struct scene *scene, const char *what, struct page *page)
{
	const struct coverage *c = answer_coverage(scene->answers);

	if (!c->sampled)
		return;
	page_line(page, 2, "%ssampled: %zu window%s, %s of the run", what, c->n_windows,
		  c->n_windows == 1 ? "" : "s", format_pct(c->coverage_pct.v).text);
	if (c->steps)
		page_put(page, ", %zu of %zu steps", c->steps_covered, c->steps);
}

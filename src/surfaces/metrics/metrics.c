/* SPDX-License-Identifier: Apache-2.0
 *
 * See metrics.h. A family of metrics is a field of a total: its name is the section's and the field's.
 */
#include "surfaces/metrics/metrics.h"

#include <math.h>
#include <string.h>

#include "base/text/json_write.h"
#include "subjects/answers/subject.h"
#include "subjects/meanings/meanings.h"
#include "surfaces/views/scene.h"

#define SECTIONS_MAX 32

static const struct view_options whole_run = { .json = true, .question = QUESTION_ALL };

/* Suffixes of keys in the units of the house, and what stands for them here. A name that ends in "count"
 * would be a part of a histogram. */
static const struct unit {
	const char *suffix, *base;
	double factor;
} units[] = {
	{ "_ns", "_seconds", 1e-9 },
	{ "_pct", "_ratio", 1e-2 },
	{ "_per_s", "_per_second", 1 },
	{ "count", "number", 1 },
	{ "", "", 1 },
};
#define NO_UNIT (&units[4])

static const struct unit *unit_of(const char *key)
{
	const struct unit *unit = units;
	size_t length = strlen(key);

	while (strlen(unit->suffix) > length ||
	       strcmp(key + length - strlen(unit->suffix), unit->suffix) != 0)
		unit++;
	return unit;
}

static bool is_reported(const struct section *section)
{
	return section->total && section->sql;
}

struct run_want metrics_want(void)
{
	struct run_want want = { 0 };

	for (const struct section *const *s = sections; *s; s++)
		if (is_reported(*s)) {
			struct run_want more = section_want(*s, &whole_run);

			want_add(&want, &more);
		}
	return want;
}

/* As a label's value and in a help text. */
static void put_escaped(const char *text, FILE *out)
{
	for (; *text; text++)
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
}

static void put_number(double value, FILE *out)
{
	char text[40];

	json_format_double(text, sizeof(text), value);
	fputs(text, out);
}

/* A family: what its name is made of. */
struct family {
	const char *section, *group, *key; /* group: "", or with an underscore at its end */
	const char *meaning;
	const struct unit *own, *shown; /* the key's unit, and that of its group if it has none */
};

/* Letters, digits and underscores alone. */
static void put_name(const struct family *family, FILE *out)
{
	int length = (int)(strlen(family->key) - strlen(family->own->suffix));
	char name[160];

	snprintf(name, sizeof(name), "moescope_%s_%s%.*s%s", family->section, family->group, length,
		 family->key, family->shown->base);
	for (char *c = name; *c; c++)
		if (*c == '-' || *c == '.')
			*c = '_';
	fputs(name, out);
}

static void put_head(const struct family *family, FILE *out)
{
	fputs("# TYPE ", out);
	put_name(family, out);
	fputs(" gauge\n# HELP ", out);
	put_name(family, out);
	fputc(' ', out);
	put_escaped(family->meaning, out);
	fputc('\n', out);
}

static void put_label(const char *name, const char *value, char before, FILE *out)
{
	fprintf(out, "%c%s=\"", before, name);
	put_escaped(value, out);
	fputc('"', out);
}

/* What is absent, or no finite number, has no series. */
static bool is_number(const struct cell *cell)
{
	return cell->kind != CELL_ABSENT && cell->kind != CELL_TEXT &&
	       (cell->kind != CELL_REAL || isfinite(cell->d));
}

static void put_value(const struct family *family, const struct cell *cell, FILE *out)
{
	double value = cell->kind == CELL_BOOL ? (double)cell->u : cell_number(cell);

	fputs("} ", out);
	put_number(value * family->shown->factor, out);
	fputc('\n', out);
}

static struct family family_of(const char *section, const char *group, const struct unit *unit,
			       const struct field *field)
{
	struct family family = { .section = section, .group = group, .key = field->key };

	family.meaning = field->meaning ? field->meaning : key_meaning(field->key);
	if (!family.meaning)
		family.meaning = field->key;
	family.own = family.shown = unit_of(field->key);
	if (family.own == NO_UNIT)
		family.shown = unit;
	return family;
}

/* A family for each field of a total, and of the objects in it. unit: of all in the group. */
static void put_fields(const char *section, const char *group, const struct unit *unit,
		       const struct field *fields, size_t n, const struct field_row *from,
		       FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		const struct field *field = &fields[i];
		struct family family = family_of(section, group, unit, field);
		int length = (int)(strlen(field->key) - strlen(family.own->suffix));
		struct field_row inside;
		struct cell cell;
		char name[64];

		if (!field_exists(field, from->form))
			continue;
		if (field->of) {
			snprintf(name, sizeof(name), "%s%.*s_", group, length, field->key);
			if (field->of->shape == FIELD_OBJECT && !field->of->table &&
			    !field_enter(field, from, &inside))
				put_fields(section, name, family.own, field->of->fields,
					   field->of->n_fields, &inside, out);
			continue;
		}
		cell = field_read(field, from);
		if (!is_number(&cell))
			continue;
		put_head(&family, out);
		put_name(&family, out);
		put_label("run", from->run->info.name, '{', out);
		put_value(&family, &cell, out);
	}
}

static void put_run(const struct run *run, FILE *out)
{
	static const char *const labels[] = { "run", "status", "host", "level", "version" };
	const char *const values[] = { run->info.name, run->info.status, run->info.host,
				       run->info.level, run->info.version };

	fputs("# TYPE moescope_run_info gauge\n# HELP moescope_run_info the run that the figures are of\n"
	      "moescope_run_info",
	      out);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		put_label(labels[i], values[i], i ? ',' : '{', out);
	fputs("} 1\n# TYPE moescope_lost_records gauge\n"
	      "# HELP moescope_lost_records records that were dropped, cut or not understood\n"
	      "moescope_lost_records",
	      out);
	put_label("run", run->info.name, '{', out);
	fputs("} ", out);
	put_number((double)loss_total(&run->loss), out);
	fputc('\n', out);
}

int metrics_print(const struct run *run, FILE *out, struct err *err)
{
	const struct section *reported[SECTIONS_MAX];
	struct asked asked[SECTIONS_MAX];
	struct answers answers[SECTIONS_MAX];
	size_t n = 0;
	int r = 0;

	for (const struct section *const *s = sections; run && *s && n < SECTIONS_MAX; s++)
		if (is_reported(*s)) {
			asked[n] = section_asked(*s, &whole_run);
			reported[n++] = *s;
		}
	if (n)
		r = scene_compute(run, &whole_run, asked, n, answers, err);
	if (r < 0)
		return r;
	if (run)
		put_run(run, out);
	for (size_t i = 0; i < n; i++) {
		struct scene scene = scene_of(run, &whole_run, &answers[i]);
		struct field_row from = section_from(reported[i], &scene);

		put_fields(reported[i]->name, "", NO_UNIT, reported[i]->total->fields,
			   reported[i]->total->n_fields, &from, out);
	}
	if (n)
		answers_release(answers);
	fputs("# EOF\n", out);
	return 0;
}

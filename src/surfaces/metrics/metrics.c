/* SPDX-License-Identifier: Apache-2.0
 *
 * See metrics.h. A family of metrics is a field of a total, named after the section and the field; or one of
 * rows, named after what a row is, too, with a series for each row. Its labels are the fields that name the
 * row.
 */
#include "surfaces/metrics/metrics.h"

#include <math.h>
#include <string.h>

#include "base/text/json_write.h"
#include "base/text/utf8.h"
#include "subjects/answers/subject.h"
#include "subjects/meanings/meanings.h"
#include "surfaces/views/scene.h"

#define SECTIONS_MAX 32
#define NAME_SIZE 160

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

/* Sections with the same total are told once. */
static bool is_reported(const struct section *const *section)
{
	if (!(*section)->total || !(*section)->sql)
		return false;
	for (const struct section *const *s = sections; s < section; s++)
		if ((*s)->total == (*section)->total)
			return false;
	return true;
}

/* What single tokens did has no series. */
static struct asked asked_of(const struct section *section)
{
	struct asked asked = section_asked(section, &whole_run);

	asked.question.routed_tokens = false;
	return asked;
}

struct run_want metrics_want(void)
{
	struct plan plan = { 0 };

	for (const struct section *const *s = sections; *s; s++)
		if (is_reported(s)) {
			struct asked asked = asked_of(*s);

			plan_subjects(&plan, &asked.question, asked.reader.reads);
		}
	return plan.want;
}

/* As a label's value and in a help text. Names may be anything; the format is UTF-8. */
static void put_escaped(const char *text, FILE *out)
{
	size_t length = strlen(text), used;
	uint32_t point;
	int valid;

	for (; length; text += used, length -= used) {
		used = utf8_decode(text, length, &point, &valid);
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if (!valid || !utf8_is_harmless(point))
			fputc('?', out);
		else
			fwrite(text, 1, used, out);
	}
}

static void put_number(double value, FILE *out)
{
	char text[40];

	json_format_double(text, sizeof(text), value);
	fputs(text, out);
}

/* Where fields stand: what the names of their families begin with, and the unit of a group. */
struct place {
	char name[NAME_SIZE];
	const struct unit *unit;
};

struct family {
	char name[NAME_SIZE];
	const struct field *field;
	const struct unit *unit; /* the key's, or that of its group if it has none */
};

static struct place place_in(const struct place *place, const char *word, const struct unit *unit)
{
	struct place inside = { .unit = unit };

	snprintf(inside.name, sizeof(inside.name), "%.100s_%.50s", place->name, word);
	return inside;
}

static struct place place_of_group(const struct place *place, const struct field *field)
{
	const struct unit *unit = unit_of(field->key);
	char word[64];

	snprintf(word, sizeof(word), "%.*s", (int)(strlen(field->key) - strlen(unit->suffix)),
		 field->key);
	return place_in(place, word, unit);
}

/* Letters, digits and underscores alone. */
static struct family family_of(const struct place *place, const struct field *field)
{
	const struct unit *own = unit_of(field->key);
	struct family family = { .field = field, .unit = own == NO_UNIT ? place->unit : own };
	int length = (int)(strlen(field->key) - strlen(own->suffix));

	snprintf(family.name, sizeof(family.name), "moescope_%.100s_%.*s%s", place->name, length,
		 field->key, family.unit->base);
	for (char *c = family.name; *c; c++)
		if (*c == '-' || *c == '.')
			*c = '_';
	return family;
}

static void put_head(const struct family *family, FILE *out)
{
	const struct field *field = family->field;
	const char *meaning = field->meaning ? field->meaning : key_meaning(field->key);

	fprintf(out, "# TYPE %s %s\n# HELP %s ", family->name, field->grows ? "counter" : "gauge",
		family->name);
	if (meaning)
		put_escaped(meaning, out);
	else /* every figure without words of its own has a definition */
		fprintf(out, "defined by 'moescope explain %s'",
			field->metric ? field->metric : field->key);
	fputc('\n', out);
}

static void put_label(const char *name, const char *value, char before, FILE *out)
{
	fprintf(out, "%c%s=\"", before, name);
	put_escaped(value, out);
	fputc('"', out);
}

/* Of a row: what names it. */
static void put_names(const struct field *fields, size_t n, const struct field_row *row, FILE *out)
{
	char text[40];

	for (size_t i = 0; i < n; i++) {
		struct cell cell;

		if (!fields[i].names_row || !field_exists(&fields[i], row->form))
			continue;
		cell = field_read(&fields[i], row);
		if (cell.kind == CELL_ABSENT)
			continue;
		if (cell.kind != CELL_TEXT)
			json_format_double(text, sizeof(text), cell_number(&cell));
		put_label(fields[i].key, cell.kind == CELL_TEXT ? cell.s : text, ',', out);
	}
}

/* What is absent, or no finite number, has no series. */
static bool is_number(const struct cell *cell)
{
	return cell->kind != CELL_ABSENT && cell->kind != CELL_TEXT &&
	       (cell->kind != CELL_REAL || isfinite(cell->d));
}

static void put_sample_name(const struct family *family, const struct run *run, FILE *out)
{
	fputs(family->name, out);
	if (family->field->grows)
		fputs("_total", out);
	put_label("run", run->info.name, '{', out);
}

static void put_value(const struct family *family, const struct cell *cell, FILE *out)
{
	double value = cell->kind == CELL_BOOL ? (double)cell->u : cell_number(cell);

	fputs("} ", out);
	put_number(value * family->unit->factor, out);
	fputc('\n', out);
}

/* Rows of a table, or of a list in a total. */
struct rows {
	const struct field *fields;
	size_t n_fields;
	const struct field_set *set; /* NULL: these items */
	const struct field_items *items;
	const struct field_row *from;
};

/* A family, row by row. */
struct telling {
	const struct rows *rows;
	struct family family;
	size_t told, left_out; /* rows */
	bool begun;
	FILE *out;
};

static int tell_row(const struct field_row *row, void *data)
{
	struct telling *telling = data;
	struct cell cell;

	if (telling->told == METRICS_ROWS) {
		telling->left_out++;
		return 0;
	}
	telling->told++;
	cell = field_read(telling->family.field, row);
	if (!is_number(&cell))
		return 0;
	if (!telling->begun)
		put_head(&telling->family, telling->out);
	telling->begun = true;
	put_sample_name(&telling->family, row->run, telling->out);
	put_names(telling->rows->fields, telling->rows->n_fields, row, telling->out);
	put_value(&telling->family, &cell, telling->out);
	return 0;
}

/* The watched fields of rows. How many rows are too many. */
static size_t put_rows(const struct place *place, const struct rows *rows, FILE *out)
{
	size_t left_out = 0;

	for (size_t i = 0; i < rows->n_fields; i++) {
		struct telling telling = { .rows = rows, .out = out };

		if (!rows->fields[i].watched || !field_exists(&rows->fields[i], rows->from->form))
			continue;
		telling.family = family_of(place, &rows->fields[i]);
		if (rows->set)
			field_set_each(rows->set, rows->from, tell_row, &telling);
		else
			field_items_each(rows->items, rows->from, tell_row, &telling);
		left_out = telling.left_out;
	}
	return left_out;
}

static size_t put_set(const struct place *section, const struct field_set *set,
		      const struct field_row *from, FILE *out)
{
	struct rows rows = { .set = set, .from = from };
	struct place place;

	if (!set || !set->row)
		return 0;
	rows.fields = set->fields;
	rows.n_fields = set->n_fields;
	place = place_in(section, set->row, NO_UNIT);
	return put_rows(&place, &rows, out);
}

static size_t put_fields(const struct place *place, const struct field *fields, size_t n,
			 const struct field_row *from, FILE *out);

/* The fields of an object in a total, or of the rows of a list. */
static size_t put_group(const struct place *place, const struct field *field,
			const struct field_row *from, FILE *out)
{
	const struct field_group *group = field->of;
	struct place inside = place_of_group(place, field);
	struct rows rows = { .fields = group->fields,
			     .n_fields = group->n_fields,
			     .items = &group->items };
	struct field_row row;

	if (group->table || (group->shape != FIELD_OBJECT && group->shape != FIELD_LIST) ||
	    field_enter(field, from, &row))
		return 0;
	if (group->shape == FIELD_OBJECT)
		return put_fields(&inside, group->fields, group->n_fields, &row, out);
	rows.from = &row;
	return put_rows(&inside, &rows, out);
}

/* A family for each field of a total, and of what lies in it. How many rows are too many. */
static size_t put_fields(const struct place *place, const struct field *fields, size_t n,
			 const struct field_row *from, FILE *out)
{
	size_t left_out = 0;

	for (size_t i = 0; i < n; i++) {
		struct family family;
		struct cell cell;

		if (!field_exists(&fields[i], from->form))
			continue;
		if (fields[i].of) {
			left_out += put_group(place, &fields[i], from, out);
			continue;
		}
		cell = field_read(&fields[i], from);
		if (!is_number(&cell))
			continue;
		family = family_of(place, &fields[i]);
		put_head(&family, out);
		put_sample_name(&family, from->run, out);
		put_value(&family, &cell, out);
	}
	return left_out;
}

/* A number of the run itself. */
static void put_of_run(const char *name, const char *help, uint64_t value, const struct run *run,
		       FILE *out)
{
	fprintf(out, "# TYPE moescope_%s gauge\n# HELP moescope_%s %s\nmoescope_%s", name, name,
		help, name);
	put_label("run", run->info.name, '{', out);
	fputs("} ", out);
	put_number((double)value, out);
	fputc('\n', out);
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
	fputs("} 1\n", out);
	put_of_run("lost_records", "records that were dropped, cut or not understood",
		   loss_total(&run->loss), run, out);
}

static int is_row(const struct field_row *row, void *data)
{
	(void)row;
	(void)data;
	return 1;
}

/* Without records a total would be zeros that nobody counted. Where the report does not tell, a table without
 * a row had none. */
static bool has_records(const struct section *section, const struct scene *scene,
			const struct field_row *from)
{
	bool lacks;

	if (report_judges(section, scene, &lacks))
		return !lacks;
	return !section->rows || field_set_each(section->rows, from, is_row, NULL) == 1;
}

/* How many rows are too many. */
static size_t put_section(const struct section *section, const struct run *run,
			  const struct answers *answers, FILE *out)
{
	struct scene scene = scene_of(run, &whole_run, answers);
	struct place place = { .unit = NO_UNIT };
	struct field_row from;

	from = section_from(section, &scene);
	if (!has_records(section, &scene, &from))
		return 0;
	snprintf(place.name, sizeof(place.name), "%s", section->name);
	return put_fields(&place, section->total->fields, section->total->n_fields, &from, out) +
	       put_set(&place, section->rows, &from, out) +
	       put_set(&place, section->watched, &from, out);
}

int metrics_print(const struct run *run, FILE *out, struct err *err)
{
	const struct section *reported[SECTIONS_MAX];
	struct asked asked[SECTIONS_MAX];
	struct answers answers[SECTIONS_MAX];
	size_t n = 0, left_out = 0;
	int r = 0;

	for (const struct section *const *s = sections; run && *s && n < SECTIONS_MAX; s++)
		if (is_reported(s)) {
			asked[n] = asked_of(*s);
			reported[n++] = *s;
		}
	if (n)
		r = scene_compute(run, &whole_run, asked, n, answers, err);
	if (r < 0)
		return r;
	if (run)
		put_run(run, out);
	for (size_t i = 0; i < n; i++)
		left_out += put_section(reported[i], run, &answers[i], out);
	if (run)
		put_of_run("rows_left_out", "rows without series: there are too many of their kind",
			   left_out, run, out);
	if (n)
		answers_release(answers);
	fputs("# EOF\n", out);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that show one table of a subject, made of its section: its words become those of the command,
 * its parameters options. Main thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/results/table.h"
#include "documents/document.h"

/* As OPTION_NUMBERS writes them. */
_Static_assert(offsetof(struct question, n_capacity_factors) ==
		       offsetof(struct question, capacity_factors) + NUMBERS_MAX * sizeof(double),
	       "the number of the factors follows them");

struct table_command {
	struct command command;
	const struct section *section;
	struct option_group groups[5];
};
static struct table_command *tables; /* by place */
static size_t n_tables;

struct option_desc table_step_options[2];

static struct option_desc option_of(const struct question_parameter *p)
{
	static const enum option_kind kinds[] = {
		[ASK_FLAG] = OPTION_FLAG,	[ASK_NUMBER] = OPTION_SMALL,
		[ASK_NUMBERS] = OPTION_NUMBERS, [ASK_CHOICE] = OPTION_CHOICE,
		[ASK_MOMENT] = OPTION_MOMENT,	[ASK_STEPS] = OPTION_WINDOW,
		[ASK_FILE] = OPTION_STRING,	[ASK_TABLE] = OPTION_CHOICE,
		[ASK_NAME] = OPTION_STRING,
	};

	bool other_table = p->kind == ASK_TABLE && !p->choices;

	return (struct option_desc){
		.name = p->name,
		.short_name = p->letter,
		.kind = other_table ? OPTION_FLAG : kinds[p->kind],
		.metavar = p->metavar,
		.help = p->help,
		.default_text = p->default_text,
		.choices = p->choices,
		.values = p->values,
		.min = p->min,
		.max = p->max,
		.offset = other_table ? offsetof(struct table_values, second_table)
			  : p->kind == ASK_TABLE
				  ? offsetof(struct table_values, table)
				  : offsetof(struct table_values, question) + p->offset,
		.completion = p->kind == ASK_FILE ? COMPLETE_FILE : COMPLETE_NOTHING,
	};
}

static int run_table(struct invocation *inv)
{
	const struct table_values *values = inv->values;
	const struct section *section = section_find(inv->command->name);
	const struct section *const *choice = section->command.tables;

	return table_show(inv,
			  choice ? choice[values->second_table ? 1 : values->table]->name
				 : section->name,
			  20);
}

static int make_command(struct table_command *table)
{
	const struct section_command *words = &table->section->command;
	struct option_desc *own;
	char *description;
	size_t n = 0;

	while (words->parameters && words->parameters[n])
		n++;
	own = calloc(n + 1, sizeof(*own));
	table->groups[0].options = own;
	table->groups[1].options = table_row_options;
	table->groups[2].options = table_page_options;
	table->groups[3].options = table_format_options;
	if (!own || asprintf(&description, "%s %s", words->description, NEWEST_RUN) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		own[i] = option_of(words->parameters[i]);
	table->command = (struct command){
		.name = table->section->name,
		.purpose = words->host ? PURPOSE_HOST : PURPOSE_LOOK,
		.summary = words->summary,
		.words = "[RUN]",
		.description = description,
		.groups = table->groups,
		.examples = words->examples,
		.defaults = &table_defaults,
		.values_size = sizeof(struct table_values),
		.max_args = 1,
		.completion = COMPLETE_RUN,
		.run = run_table,
	};
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct table_command *x = a, *y = b;

	return x->section->command.place - y->section->command.place;
}

int table_commands_make(void)
{
	size_t n = 0;
	int r = 0;

	table_step_options[0] = option_of(&ask_steps);
	for (const struct section *const *s = sections; *s; s++)
		n_tables += (*s)->command.summary != NULL;
	tables = calloc(n_tables, sizeof(*tables));
	if (!tables)
		return -ENOMEM;
	for (const struct section *const *s = sections; *s; s++)
		if ((*s)->command.summary)
			tables[n++].section = *s;
	qsort(tables, n_tables, sizeof(*tables), by_place);
	for (size_t i = 0; i < n_tables && r == 0; i++)
		r = make_command(&tables[i]);
	return r;
}

const struct command *table_command(size_t number)
{
	return number < n_tables ? &tables[number].command : NULL;
}

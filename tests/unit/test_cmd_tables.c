/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands made of sections: which there are, and that their options become the question.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/results/table.h"
#include "documents/document.h"
#include "moescope.h"
#include "subjects/kernels/kernels.h"

static int make(void **state)
{
	(void)state;
	return commands_make();
}

static void sections_with_words_are_commands(void **state)
{
	int place = 0;

	(void)state;
	for (const struct section *const *s = sections; *s; s++) {
		const struct command *command = command_find((*s)->name);

		if (!(*s)->command.summary) {
			assert_true(!command || command->run == cmd_report.run);
			continue;
		}
		assert_non_null(command);
		assert_string_equal(command->summary, (*s)->command.summary);
		assert_non_null(strstr(command->description, (*s)->command.description));
		assert_non_null(strstr(command->description, NEWEST_RUN));
		assert_non_null(command->examples[0].line);
	}
	for (size_t i = 0; table_command(i); i++) {
		const struct section *section = section_find(table_command(i)->name);

		assert_true(section->command.place > place);
		place = section->command.place;
	}
}

/* The words after a command, up to NULL. */
static struct table_values parsed(const char *name, ...)
{
	const struct command *command = command_find(name);
	struct table_values values = table_defaults;
	struct invocation inv = { .command = command, .values = &values };
	char *words[16];
	va_list args;
	int n = 0;

	va_start(args, name);
	while ((words[n] = va_arg(args, char *)))
		n++;
	va_end(args);
	assert_int_equal(options_parse(&inv, n, words), PARSE_OK);
	return values;
}

static void options_become_the_question(void **state)
{
	struct question q = parsed("routing", NULL).question;
	struct table_values values;

	(void)state;
	assert_int_equal(q.sel.layer, -1);
	assert_int_equal(q.sel.phase, -1);
	assert_false(selection_is_window(&q.sel));
	assert_int_equal(q.n_capacity_factors, 0);
	values = parsed("routing", "--tile-rows=16", "--capacity-factor", "1,1.5", "-l3",
			"--phase=decode", "--step", "2:5", "--columns", "experts", NULL);
	q = values.question;
	assert_int_equal(q.tile_rows, 16);
	assert_int_equal(q.n_capacity_factors, 2);
	assert_true(q.capacity_factors[0] == 1 && q.capacity_factors[1] == 1.5);
	assert_int_equal(q.sel.layer, 3);
	assert_int_equal(q.sel.phase, MOESCOPE_DECODE);
	assert_true(q.sel.step_first == 2 && q.sel.step_last == 5);
	assert_ptr_equal(section_routing.command.tables[values.table], &section_routing_experts);
	assert_int_equal(parsed("api", "-p", "all", NULL).question.sel.phase, -1);
	q = parsed("kernels", "--by", "graph", "--classes", "file", NULL).question;
	assert_int_equal(q.kernels_by, KERNELS_BY_GRAPH);
	assert_string_equal(q.classes_file, "file");
	q = parsed("ops", "--by-stack", NULL).question;
	assert_true(q.by_stack && !q.by_shape);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_with_words_are_commands),
		cmocka_unit_test(options_become_the_question),
	};

	return cmocka_run_group_tests(tests, make, NULL);
}

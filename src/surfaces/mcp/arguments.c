/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments of tools: which there are, whether they are what they should be, and their values; see tool.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "documents/document.h"
#include "surfaces/mcp/tool.h"

const char *tool_argument(const struct tool_call *call, const char *name)
{
	const struct json_node *node = json_get(call->arguments, name);

	if (!node || node->type == JSON_NULL)
		return NULL;
	return node->type == JSON_TRUE ? "true" : node->type == JSON_FALSE ? "false" : node->text;
}

size_t tool_number(const struct tool_call *call, const char *name)
{
	const char *text = tool_argument(call, name);

	return text ? strtoull(text, NULL, 10) : 0;
}

int tool_run(const struct tool_call *call, const char *argument, char **ret_name, struct err *err)
{
	return call->host->find(call->host->context, tool_argument(call, argument), ret_name, err);
}

const struct section *tool_table_at(size_t i)
{
	for (const struct section *const *s = sections; *s; s++)
		if (!(*s)->document && !i--)
			return *s;
	return NULL;
}

const struct section *tool_table_owner(const struct section *table)
{
	for (const struct section *const *s = sections; *s && !table->command.summary; s++)
		for (const struct section *const *t = (*s)->command.tables; t && *t; t++)
			if (*t == table)
				return *s;
	return table;
}

/* Tables have names of their own here, and files are not an agent's to choose. */
bool tool_parameter(const struct section *table, size_t i, struct argument *ret_parameter)
{
	const struct question_parameter *const *p = tool_table_owner(table)->command.parameters;

	for (; p && *p; p++) {
		if ((*p)->kind == ASK_TABLE || (*p)->kind == ASK_FILE || i--)
			continue;
		*ret_parameter = (struct argument){
			.name = (*p)->name,
			.help = (*p)->help,
			.kind = (*p)->kind == ASK_FLAG	   ? ARGUMENT_FLAG
				: (*p)->kind == ASK_NUMBER ? ARGUMENT_WHOLE
							   : ARGUMENT_TEXT,
			.choices = (*p)->choices,
		};
		return true;
	}
	return false;
}

bool tool_table_has(const struct section *table, const char *name, struct argument *ret_parameter)
{
	for (size_t i = 0; tool_parameter(table, i, ret_parameter); i++)
		if (!strcmp(ret_parameter->name, name))
			return true;
	return false;
}

/* An argument of a tool by its name; false: it has none. Parameters of tables are the host's to check. */
static bool find_argument(const struct tool *tool, const char *name, struct argument *ret_argument)
{
	const struct section *table;

	for (const struct argument *a = tool->arguments; a->name; a++)
		if (!strcmp(a->name, name)) {
			*ret_argument = *a;
			return true;
		}
	for (size_t i = 0; tool->of_tables && (table = tool_table_at(i)); i++)
		if (tool_table_has(table, name, ret_argument))
			return true;
	return false;
}

static bool is_whole(const struct json_node *node)
{
	size_t digits;

	if (node->type != JSON_NUMBER && node->type != JSON_STRING)
		return false;
	digits = strspn(node->text, "0123456789");
	return digits && digits <= 15 && !node->text[digits];
}

/* Texts may be given as numbers ("steps": 3), and numbers as texts. */
static int check_value(const struct argument *argument, const struct json_node *node,
		       struct err *err)
{
	bool flag = node->type == JSON_TRUE || node->type == JSON_FALSE;

	if (node->type == JSON_NULL)
		return 0;
	if (argument->kind == ARGUMENT_FLAG && !flag)
		return err_set(err, -EINVAL, "'%s' must be true or false.", argument->name);
	if (argument->kind == ARGUMENT_WHOLE && !is_whole(node))
		return err_set(err, -EINVAL, "'%s' must be a whole number, not negative.",
			       argument->name);
	if (argument->kind == ARGUMENT_TEXT && node->type != JSON_STRING &&
	    node->type != JSON_NUMBER)
		return err_set(err, -EINVAL, "'%s' must be a text.", argument->name);
	return 0;
}

static int unknown_argument(const struct tool *tool, const char *name, struct err *err)
{
	struct nearest nearest = nearest_to(name);
	const struct section *table;
	struct argument parameter;

	for (const struct argument *a = tool->arguments; a->name; a++)
		nearest_offer(&nearest, a->name);
	for (size_t t = 0; tool->of_tables && (table = tool_table_at(t)); t++)
		for (size_t i = 0; tool_parameter(table, i, &parameter); i++)
			nearest_offer(&nearest, parameter.name);
	return err_set(err, -EINVAL, "the tool '%s' has no argument '%.60s'%s%s%s", tool->name,
		       name, nearest.best ? "; did you mean '" : "",
		       nearest.best ? nearest.best : "", nearest.best ? "'?" : ".");
}

int tool_check(const struct tool_call *call, const struct tool *tool, struct err *err)
{
	const struct json_node *node = call->arguments ? call->arguments->child : NULL;
	struct argument argument;
	int r = 0;

	for (; node && r >= 0; node = node->next)
		r = find_argument(tool, node->key, &argument)
			    ? check_value(&argument, node, err)
			    : unknown_argument(tool, node->key, err);
	for (const struct argument *a = tool->arguments; a->name && r >= 0; a++)
		if (a->required && !tool_argument(call, a->name))
			r = err_set(err, -EINVAL, "the tool '%s' needs '%s'.", tool->name, a->name);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine `command`: a shell line with {parameter} in it. Values are quoted for the shell, so a
 * prompt stays one word; {{ and }} are braces.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/shell_word.h"
#include "lab/engines/engine.h"

/* A list is several words; so is a map, of NAME=VALUE. */
static int put_value(struct buf *out, const struct experiment *e, const struct parameter *p)
{
	const struct texts *texts = (const void *)((const char *)e + p->offset);
	char *text;

	if (p->type == PARAMETER_LIST || p->type == PARAMETER_MAP) {
		for (size_t i = 0; i < texts->n; i++) {
			if (i)
				buf_append(out, " ", 1);
			shell_word(out, texts->v[i]);
			if (p->type == PARAMETER_MAP) {
				buf_append(out, "=", 1);
				shell_word(out, texts->v[++i]);
			}
		}
		return 0;
	}
	text = experiment_get(e, p);
	if (!text)
		return -ENOMEM;
	shell_word(out, text);
	free(text);
	return 0;
}

static int put_parameter(struct buf *out, const struct experiment *e, const char *from,
			 size_t length, struct err *err)
{
	char name[64];
	const struct parameter *p;

	if (length >= sizeof(name))
		return err_set(err, -EINVAL,
			       "'{%.40s…' in the command is not a parameter; write {{ for a brace.",
			       from);
	memcpy(name, from, length);
	name[length] = '\0';
	p = parameter_find(name);
	if (p)
		return put_value(out, e, p);
	if (parameter_nearest(name))
		return err_set(
			err, -EINVAL,
			"{%s} in the command is not a parameter; did you mean {%s}? Write {{ "
			"for a brace.",
			name, parameter_nearest(name));
	return err_set(err, -EINVAL,
		       "{%s} in the command is not a parameter ('moescope bench --list-parameters' "
		       "has them); write {{ for a brace.",
		       name);
}

int command_expand(const struct experiment *e, char **ret_line, struct err *err)
{
	struct buf out = { 0 };
	int r = 0;

	for (const char *c = e->command; *c && r == 0; c++) {
		const char *end = strchr(c, '}');

		if ((*c == '{' || *c == '}') && c[1] == *c) {
			buf_append(&out, c++, 1);
		} else if (*c == '{' && end) {
			r = put_parameter(&out, e, c + 1, (size_t)(end - c - 1), err);
			c = end;
		} else if (*c == '{') {
			r = err_set(err, -EINVAL,
				    "a '{' in the command has no '}'; write {{ for a brace.");
		} else {
			buf_append(&out, c, 1);
		}
	}
	buf_append(&out, "", 1);
	if (out.failed || r == -ENOMEM)
		r = err_set(err, -ENOMEM, "no memory.");
	if (r < 0) {
		buf_release(&out);
		return r;
	}
	*ret_line = out.data;
	return 0;
}

static int check_command(const struct experiment *e, const struct lab_tools *tools, struct err *err)
{
	char *line;
	int r = command_expand(e, &line, err);

	(void)tools;
	if (r == 0)
		free(line);
	return r;
}

static int drive_command(const struct experiment *e, const struct lab_tools *tools,
			 const char *directory, struct argv *argv, struct err *err)
{
	char *line;
	int r = command_expand(e, &line, err);

	(void)tools;
	(void)directory;
	if (r < 0)
		return r;
	r = argv_add_all(argv, "/bin/sh", "-c", line, NULL);
	free(line);
	return r ? err_set(err, -ENOMEM, "no memory.") : 0;
}

const struct engine engine_command = {
	.name = "command",
	.summary = "any command, with {parameter} in its line",
	.trains = true,
	.gpus = true,
	.check = check_command,
	.driver = drive_command,
};

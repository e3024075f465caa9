/* SPDX-License-Identifier: Apache-2.0
 *
 * An experiment as YAML. Reading needs libyaml; the writer puts all text in double quotes, which
 * needs nothing. A file is untrusted: one mapping of known keys, two levels deep, each key once.
 */
#include "lab/shared/experiment.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/input_file.h"
#include "base/files/whole_file.h"
#include "base/text/utf8.h"

/* Characters that YAML allows unescaped in quotes. */
static bool plain_point(uint32_t point)
{
	if (point == '"' || point == '\\' || point == 0xFEFF || point < 0x20)
		return false;
	return point < 0x7F || (point >= 0xA0 && point != 0x2028 && point != 0x2029 &&
				point != 0xFFFE && point != 0xFFFF);
}

static void put_quoted(FILE *out, const char *text)
{
	size_t length = strlen(text);

	fputc('"', out);
	for (size_t at = 0; at < length;) {
		uint32_t point;
		int valid;
		size_t n = utf8_decode(text + at, length - at, &point, &valid);

		if (plain_point(point))
			fwrite(text + at, 1, n, out);
		else if (point == '"' || point == '\\')
			fprintf(out, "\\%c", (char)point);
		else if (point == '\n')
			fputs("\\n", out);
		else
			fprintf(out, point > 0xFFFF ? "\\U%08X" : "\\u%04X", point);
		at += n;
	}
	fputc('"', out);
}

static void put_texts(FILE *out, const struct parameter *p, const struct texts *texts)
{
	bool map = p->type == PARAMETER_MAP;

	if (texts->n == 0) {
		fputs(map ? " {}\n" : " []\n", out);
		return;
	}
	fputc('\n', out);
	for (size_t i = 0; i < texts->n; i++) {
		fputs(map ? "  " : "  - ", out);
		put_quoted(out, texts->v[i]);
		if (map) {
			fputs(": ", out);
			put_quoted(out, texts->v[++i]);
		}
		fputc('\n', out);
	}
}

static int put_parameter(FILE *out, const struct experiment *experiment, const struct parameter *p)
{
	char *text;

	fprintf(out, "%s:", p->key);
	if (p->type == PARAMETER_LIST || p->type == PARAMETER_MAP) {
		put_texts(out, p, (const void *)((const char *)experiment + p->offset));
		return 0;
	}
	text = experiment_get(experiment, p);
	if (!text)
		return -ENOMEM;
	fputc(' ', out);
	if (p->type == PARAMETER_TEXT && (*text || p->default_text))
		put_quoted(out, text);
	else
		fputs(*text ? text : "null", out);
	fputc('\n', out);
	free(text);
	return 0;
}

int experiment_save(const struct experiment *experiment, const char *path, struct err *err)
{
	struct whole_file file;
	int r = whole_file_open(&file, path);

	if (r < 0)
		return err_sys(err, r, "cannot write %s", path);
	for (const struct parameter *p = parameters; p->key && r == 0; p++) {
		if (p == parameters || p->part != p[-1].part)
			fprintf(file.file, "%s# %s\n", p == parameters ? "" : "\n",
				parameter_parts[p->part]);
		r = put_parameter(file.file, experiment, p);
	}
	return whole_file_close(&file, r, err);
}

#ifdef HAVE_YAML

#include <yaml.h>

/* One document being read. */
struct reader {
	const char *path;
	yaml_document_t document;
	struct experiment *experiment;
	size_t line_of[PARAMETERS_MAX]; /* where a key was; 0: not yet */
	struct err *err;
};

__attribute__((format(printf, 3, 4))) static int wrong(struct reader *reader,
						       const yaml_node_t *node, const char *format,
						       ...)
{
	char text[700];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return err_set(reader->err, -EINVAL, "%s:%zu:%zu: %s", reader->path,
		       node->start_mark.line + 1, node->start_mark.column + 1, text);
}

static yaml_node_t *node_at(struct reader *reader, int index)
{
	return yaml_document_get_node(&reader->document, index);
}

/* A scalar's text; NULL: not a scalar, or a NUL in it. */
static const char *scalar(const yaml_node_t *node)
{
	const char *text = (const char *)node->data.scalar.value;

	if (node->type != YAML_SCALAR_NODE || strlen(text) != node->data.scalar.length)
		return NULL;
	return text;
}

static bool is_null(const yaml_node_t *node)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL" };

	if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcmp(words[i], (const char *)node->data.scalar.value) == 0)
			return true;
	return false;
}

static const char *kind_of(const yaml_node_t *node)
{
	return node->type == YAML_SEQUENCE_NODE	 ? "a list"
	       : node->type == YAML_MAPPING_NODE ? "a map"
						 : "text with a NUL in it";
}

static int append_item(struct reader *reader, const struct parameter *p, const yaml_node_t *node,
		       const char *name, const char *value)
{
	if (experiment_append(reader->experiment, p, name, value) < 0)
		return wrong(reader, node, "no memory.");
	return 0;
}

static int read_list(struct reader *reader, const struct parameter *p, const yaml_node_t *node)
{
	for (yaml_node_item_t *item = node->data.sequence.items.start;
	     item < node->data.sequence.items.top; item++) {
		const yaml_node_t *one = node_at(reader, *item);
		const char *text = scalar(one);

		if (!text)
			return wrong(reader, one, "an entry of '%s' is %s; it must be one value.",
				     p->key, kind_of(one));
		if (append_item(reader, p, one, NULL, text) < 0)
			return -EINVAL;
	}
	return 0;
}

/* The value of a map entry: one value, or a list, which is joined with commas. */
static int read_entry(struct reader *reader, const struct parameter *p, const char *name,
		      const yaml_node_t *value)
{
	char joined[4096] = "";
	size_t used = 0;

	if (is_null(value))
		return append_item(reader, p, value, name, "");
	if (scalar(value))
		return append_item(reader, p, value, name, scalar(value));
	if (value->type != YAML_SEQUENCE_NODE)
		return wrong(reader, value, "'%s' in '%s' is %s; it must be a value or a list.",
			     name, p->key, kind_of(value));
	for (yaml_node_item_t *item = value->data.sequence.items.start;
	     item < value->data.sequence.items.top; item++) {
		const yaml_node_t *one = node_at(reader, *item);
		const char *text = scalar(one);

		if (!text)
			return wrong(reader, one, "an entry of '%s' is %s; it must be one value.",
				     name, kind_of(one));
		used += (size_t)snprintf(joined + used, sizeof(joined) - used, "%s%s",
					 used ? "," : "", text);
		if (used >= sizeof(joined))
			return wrong(reader, one, "the list '%s' is longer than %zu characters.",
				     name, sizeof(joined) - 1);
	}
	return append_item(reader, p, value, name, joined);
}

static int read_map(struct reader *reader, const struct parameter *p, const yaml_node_t *node)
{
	for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	     pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = node_at(reader, pair->key);
		const char *name = scalar(key);
		int r;

		if (!name || !*name)
			return wrong(reader, key, "a name in '%s' must be plain text.", p->key);
		r = read_entry(reader, p, name, node_at(reader, pair->value));
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_value(struct reader *reader, const struct parameter *p, const yaml_node_t *node)
{
	bool list = p->type == PARAMETER_LIST && node->type == YAML_SEQUENCE_NODE;
	bool map = p->type == PARAMETER_MAP && node->type == YAML_MAPPING_NODE;
	struct err err = { "" };

	if (is_null(node))
		return 0;
	if (list || map) {
		if (experiment_set(reader->experiment, p->key, "", NULL) < 0)
			return wrong(reader, node, "no memory.");
		return list ? read_list(reader, p, node) : read_map(reader, p, node);
	}
	if (!scalar(node))
		return wrong(reader, node, "'%s' is %s; it must be %s.", p->key, kind_of(node),
			     p->type == PARAMETER_LIST	? "a list"
			     : p->type == PARAMETER_MAP ? "a map"
							: "one value");
	if (experiment_set(reader->experiment, p->key, scalar(node), &err) < 0)
		return wrong(reader, node, "%s", err.message);
	return 0;
}

static int read_pair(struct reader *reader, const yaml_node_pair_t *pair)
{
	const yaml_node_t *key = node_at(reader, pair->key);
	const char *name = scalar(key);
	const struct parameter *p = name ? parameter_find(name) : NULL;
	size_t *line;

	if (!name)
		return wrong(reader, key, "a key must be plain text.");
	if (!p && parameter_nearest(name))
		return wrong(reader, key, "unknown key '%.200s'; did you mean '%s'?", name,
			     parameter_nearest(name));
	if (!p)
		return wrong(reader, key,
			     "unknown key '%.200s'; 'moescope bench --list-parameters' has them "
			     "all.",
			     name);
	line = &reader->line_of[p - parameters];
	if (*line)
		return wrong(reader, key, "'%s' is already in line %zu; keep one of them.", p->key,
			     *line);
	*line = key->start_mark.line + 1;
	return read_value(reader, p, node_at(reader, pair->value));
}

static int read_document(struct reader *reader)
{
	const yaml_node_t *root = yaml_document_get_root_node(&reader->document);

	/* An empty file means all defaults. */
	if (!root || is_null(root))
		return 0;
	if (root->type != YAML_MAPPING_NODE)
		return wrong(reader, root, "a configuration is lines of 'key: value'.");
	for (yaml_node_pair_t *pair = root->data.mapping.pairs.start;
	     pair < root->data.mapping.pairs.top; pair++) {
		int r = read_pair(reader, pair);

		if (r < 0)
			return r;
	}
	return 0;
}

/* The next document of the file; the caller deletes it. */
static int parse_document(yaml_parser_t *parser, struct reader *reader)
{
	size_t line, column;

	if (yaml_parser_load(parser, &reader->document))
		return 0;
	line = parser->problem_mark.line + 1;
	column = parser->problem_mark.column + 1;
	if (parser->error == YAML_READER_ERROR)
		return err_set(reader->err, -EINVAL, "%s: byte %zu: %s.", reader->path,
			       parser->problem_offset, parser->problem);
	return err_set(reader->err, parser->error == YAML_MEMORY_ERROR ? -ENOMEM : -EINVAL,
		       "%s:%zu:%zu: %s.", reader->path, line, column,
		       parser->problem ? parser->problem : "no memory");
}

static int only_one(yaml_parser_t *parser, struct reader *reader)
{
	const yaml_node_t *root;
	int r;

	yaml_document_delete(&reader->document);
	r = parse_document(parser, reader);
	root = r < 0 ? NULL : yaml_document_get_root_node(&reader->document);
	if (root)
		r = wrong(reader, root, "a second document; a configuration is one.");
	return r;
}

int experiment_load(struct experiment *experiment, const char *path, struct err *err)
{
	struct experiment loaded;
	struct reader reader = { .path = path, .experiment = &loaded, .err = err };
	yaml_parser_t parser;
	FILE *file = input_stream(path, err);
	int r;

	if (!file)
		return -errno;
	if (!yaml_parser_initialize(&parser)) {
		fclose(file);
		return err_set(err, -ENOMEM, "%s: no memory.", path);
	}
	yaml_parser_set_input_file(&parser, file);
	r = experiment_copy(&loaded, experiment);
	if (r == 0) {
		r = parse_document(&parser, &reader);
		if (r == 0) {
			r = read_document(&reader);
			if (r == 0)
				r = only_one(&parser, &reader);
			yaml_document_delete(&reader.document);
		}
		if (r == 0) {
			experiment_release(experiment);
			*experiment = loaded;
		} else {
			experiment_release(&loaded);
		}
	}
	yaml_parser_delete(&parser);
	fclose(file);
	return r;
}

#else

int experiment_load(struct experiment *experiment, const char *path, struct err *err)
{
	(void)experiment;
	return err_set(
		err, -ENOSYS,
		"%s: this build cannot read YAML; give the parameters as options, or build with "
		"libyaml (libyaml-dev).",
		path);
}

#endif

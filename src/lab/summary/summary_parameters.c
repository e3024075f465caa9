/* SPDX-License-Identifier: Apache-2.0
 *
 * Which parameters the experiments of a batch share, and which differ; see summary.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lab/summary/summary_inside.h"

/* Where an experiment is stored, how it was started, how often, and its seed: not what it
 * measures. */
static const char *const not_compared[] = {
	"experiment_name", "output_dir", "seed",    "gpus",    "launcher",    "launcher_args",
	"parameter_sweep", "preset",	 "api_key", "repeats", "time_limit_s"
};

void batch_write_node(struct json *json, const struct json_node *node)
{
	switch (node->type) {
	case JSON_NULL:
		json_null(json);
		return;
	case JSON_FALSE:
	case JSON_TRUE:
		json_bool(json, node->type == JSON_TRUE);
		return;
	case JSON_NUMBER:
		json_raw(json, node->text);
		return;
	case JSON_STRING:
		json_string(json, node->text);
		return;
	case JSON_ARRAY:
		json_array_line(json);
		for (const struct json_node *n = node->child; n; n = n->next)
			batch_write_node(json, n);
		json_array_end(json);
		return;
	case JSON_OBJECT:
		json_object_line(json);
		for (const struct json_node *n = node->child; n; n = n->next) {
			json_key(json, n->key);
			batch_write_node(json, n);
		}
		json_object_end(json);
		return;
	}
}

static char *compact(const struct json_node *node)
{
	char *text = NULL;
	struct json json;

	json_init_buffer(&json, 0);
	batch_write_node(&json, node);
	return json_finish(&json, &text) < 0 ? NULL : text;
}

/* Lists and maps as the options take them: a b, name=value name=value. */
static char *words_of(const struct json_node *node)
{
	struct buf out = { 0 };

	buf_append(&out, "", 1);
	out.size = 0;
	for (const struct json_node *n = node->child; n; n = n->next) {
		char *word = n->type == JSON_STRING ? strdup(n->text) : compact(n);

		if (!word)
			out.failed = true;
		else
			buf_printf(&out, "%s%s%s%s", out.size ? " " : "", n->key ? n->key : "",
				   n->key ? "=" : "", word);
		free(word);
	}
	if (out.failed)
		buf_release(&out);
	return out.data;
}

char *batch_text_of(const struct json_node *node)
{
	char number[64];
	double v;

	if (!node || node->type == JSON_NULL)
		return strdup("");
	if (node->type == JSON_STRING)
		return strdup(node->text);
	if (node->type == JSON_NUMBER) {
		v = batch_number(node->text); /* 1 and 1.0 are the same */
		if (isnan(v))
			return strdup(node->text);
		json_format_double(number, sizeof(number), v);
		return strdup(number);
	}
	if (node->type == JSON_ARRAY || node->type == JSON_OBJECT)
		return words_of(node);
	return compact(node);
}

static bool is_compared(const char *key)
{
	for (size_t i = 0; i < sizeof(not_compared) / sizeof(not_compared[0]); i++)
		if (!strcmp(not_compared[i], key))
			return false;
	return true;
}

/* 1: not the same in all readable experiments; 0: the same; -ENOMEM. */
static int varies(const struct batch *batch, const char *key)
{
	char *first = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < batch->n; i++) {
		char *text;

		if (!batch->experiments[i].root)
			continue;
		text = batch_text_of(batch_config(&batch->experiments[i], key));
		if (!text) {
			r = -ENOMEM;
		} else if (!first) {
			first = text;
		} else {
			r = strcmp(first, text) != 0;
			free(text);
		}
	}
	free(first);
	return r;
}

size_t batch_parameter_index(const struct batch *batch, const char *key)
{
	for (size_t i = 0; i < batch->n_parameters; i++)
		if (!strcmp(batch->parameters[i], key))
			return i;
	return SIZE_MAX;
}

static bool is_told(const char *key)
{
	return strcmp(key, "experiment_name") != 0 && strcmp(key, "output_dir") != 0 &&
	       strcmp(key, "api_key") != 0;
}

/* What is the same in all, as in the first; skips those without a value. */
static int find_constants(struct batch *batch)
{
	const struct json_node *config = NULL;
	size_t capacity = 0;

	for (size_t i = 0; !config && i < batch->n; i++)
		config = json_get(batch->experiments[i].root, "config");
	for (const struct json_node *node = config ? config->child : NULL; node;
	     node = node->next) {
		int r = is_told(node->key) ? varies(batch, node->key) : 1;
		char *text = r == 0 ? batch_text_of(node) : NULL;

		if (r < 0 || (r == 0 && !text) ||
		    (r == 0 && array_grow(&batch->constants, &capacity, batch->n_constants + 1,
					  sizeof(*batch->constants)) < 0)) {
			free(text);
			return -ENOMEM;
		}
		if (text && *text)
			batch->constants[batch->n_constants++] = (struct batch_constant){ node,
											  text };
		else
			free(text);
	}
	return 0;
}

/* Those of the first experiment, then those that only others have. */
static int find_varying(struct batch *batch)
{
	const struct json_node *first = NULL;
	size_t capacity = 0;

	for (size_t i = 0; i < batch->n; i++) {
		const struct json_node *config = json_get(batch->experiments[i].root, "config");

		for (const struct json_node *node = config ? config->child : NULL; node;
		     node = node->next) {
			int r;

			if (!is_compared(node->key) || json_get(first, node->key) ||
			    batch_parameter_index(batch, node->key) != SIZE_MAX)
				continue;
			r = varies(batch, node->key);
			if (r == 0)
				continue;
			if (r < 0 || array_grow(&batch->parameters, &capacity,
						batch->n_parameters + 1, sizeof(char *)) < 0)
				return -ENOMEM;
			batch->parameters[batch->n_parameters++] = node->key;
		}
		first = first ? first : config;
	}
	return 0;
}

static void find_hardware(struct batch *batch)
{
	const char *common = NULL;
	bool differs = false;
	size_t known = 0, readable = batch->n - batch->counts[BATCH_UNREADABLE];

	for (size_t i = 0; i < batch->n; i++) {
		const char *hardware = batch->experiments[i].hardware;

		if (!hardware)
			continue;
		known++;
		differs = differs || (common && strcmp(common, hardware) != 0);
		common = hardware;
	}
	batch->hardware = differs || known < readable ? NULL : common;
	batch->no_hardware = known == 0 ? "no experiment names a GPU"
			     : differs	? "not the same in all experiments"
					: "some experiments do not say";
}

int batch_find_parameters(struct batch *batch)
{
	int r = find_varying(batch);

	find_hardware(batch);
	return r < 0 ? r : find_constants(batch);
}

void batch_parameters_release(struct batch *batch)
{
	for (size_t i = 0; i < batch->n_constants; i++)
		free(batch->constants[i].text);
	free(batch->constants);
	free(batch->parameters);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Options out of the table of parameters; see parameter_options.h. Main thread.
 */
#include "cmd/options/parameter_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/recording/installed.h"
#include "cmd/recording/launch.h"
#include "cmd/terminal/output.h"
#include "lab/engines/engine.h"

const struct option_desc config_options[] = {
	{ .name = "config",
	  .short_name = 'c',
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "YAML file with parameters; options override it",
	  .offset = offsetof(struct parameter_values, config),
	  .completion = COMPLETE_FILE },
	{ 0 },
};
struct option_desc parameter_options[PARAMETERS_MAX + 1];
struct option_desc sweep_parameter_options[PARAMETERS_MAX + 1];

/* "max_tokens" as "max-tokens", with a word in front. On the heap for good. */
static char *option_name(const char *before, const char *key)
{
	char *name;

	if (asprintf(&name, "%s%s", before, key) < 0)
		return NULL;
	for (char *c = name; *c; c++)
		if (*c == '_')
			*c = '-';
	return name;
}

static const char *metavar(const struct parameter *p)
{
	static const char *const words[] = {
		[PARAMETER_TEXT] = "TEXT", [PARAMETER_INT] = "N",	[PARAMETER_NUMBER] = "X",
		[PARAMETER_FLAG] = NULL,   [PARAMETER_CHOICE] = "WORD", [PARAMETER_LIST] = "LIST",
		[PARAMETER_MAP] = "PAIRS",
	};

	return p->choices ? "WORD" : words[p->type];
}

/* With the words to choose from; on the heap for good. */
static const char *help_text(const struct parameter *p, bool negated)
{
	char text[400];
	size_t used = (size_t)snprintf(text, sizeof(text), "%s%s", negated ? "do not " : "",
				       p->help);

	for (size_t i = 0; p->choices && p->choices[i] && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? ", " : ": ",
					 p->choices[i]);
	return strdup(text);
}

/* Flags that are on have an option that switches them off. */
static bool is_negated(const struct parameter *p)
{
	return p->type == PARAMETER_FLAG && strcmp(p->default_text, "true") == 0;
}

static int add_parameter_option(struct option_desc *option, const struct parameter *p)
{
	*option = (struct option_desc){
		.name = option_name(is_negated(p) ? "no-" : "", p->key),
		.kind = OPTION_PARAMETER,
		.metavar = metavar(p),
		.help = help_text(p, is_negated(p)),
		.default_text = p->type == PARAMETER_FLAG ? NULL : p->default_text,
		.choices = p->choices,
		.completion = strcmp(p->key, "output_dir") == 0 ? COMPLETE_DIR
			      : strcmp(p->key, "model_path") == 0 ||
					      strcmp(p->key, "arrival_trace") == 0
				      ? COMPLETE_FILE
				      : COMPLETE_NOTHING,
	};
	return option->name && option->help ? 0 : -ENOMEM;
}

static int add_alias(struct option_desc *option, const char *alias, const char *key)
{
	const struct parameter *p = parameter_find(key);
	char *help, *name = option_name("", key);

	if (!name || asprintf(&help, "same as --%s", name) < 0)
		return -ENOMEM;
	free(name);
	*option = (struct option_desc){
		.name = option_name("", alias),
		.kind = OPTION_PARAMETER,
		.metavar = metavar(p),
		.help = help,
	};
	return option->name ? 0 : -ENOMEM;
}

int parameter_options_make(void)
{
	size_t n = 0, n_sweep = 0;
	int r = 0;

	for (const struct parameter *p = parameters; p->key && r == 0; p++)
		r = p->part == PART_SWEEP
			    ? add_parameter_option(&sweep_parameter_options[n_sweep++], p)
			    : add_parameter_option(&parameter_options[n++], p);
	for (const char *const *alias = parameter_aliases; *alias && r == 0; alias += 2)
		r = add_alias(&parameter_options[n++], alias[0], alias[1]);
	return r;
}

static void key_of(const struct option_desc *option, char *key, size_t size)
{
	bool negated = !option->metavar && strncmp(option->name, "no-", 3) == 0;

	snprintf(key, size, "%s", option->name + (negated ? 3 : 0));
	for (char *c = key; *c; c++)
		if (*c == '-')
			*c = '_';
}

/* A list or a map that is given again grows. */
static int set_word(struct experiment *e, const struct option_desc *option, const char *text,
		    bool again, struct err *err)
{
	char key[64], *before, *both = NULL;
	const struct parameter *p;
	int r;

	key_of(option, key, sizeof(key));
	p = parameter_find(key);
	if (!option->metavar)
		return experiment_set(e, key, is_negated(p) ? "false" : "true", err);
	if (!again || (p->type != PARAMETER_LIST && p->type != PARAMETER_MAP))
		return experiment_set(e, key, text, err);
	before = experiment_get(e, p);
	r = before && asprintf(&both, "%s %s", before, text) >= 0
		    ? experiment_set(e, key, both, err)
		    : err_set(err, -ENOMEM, "no memory.");
	free(before);
	free(both);
	return r;
}

static int set_words(const struct parameter_words *words, struct experiment *e, struct err *err)
{
	int r = 0;

	for (unsigned int i = 0; i < words->n && r == 0; i++) {
		bool again = false;

		for (unsigned int k = 0; k < i; k++)
			again |= words->v[k].option == words->v[i].option;
		r = set_word(e, words->v[i].option, words->v[i].text, again, err);
	}
	return r;
}

static int take_parameters(const struct command *command, const struct parameter_values *values,
			   bool checked, struct experiment *ret_experiment)
{
	struct experiment e;
	struct err err = { "" };
	int r = experiment_init(&e);

	if (r < 0)
		return fail("no memory.");
	if (values->config)
		r = experiment_load(&e, values->config, &err);
	if (r == 0)
		r = set_words(&values->words, &e, &err);
	if (r == 0 && checked)
		r = experiment_complete(&e);
	if (r == 0 && checked)
		r = experiment_check(&e, &err);
	if (r < 0) {
		experiment_release(&e);
		return usage_error(command, "%s", err.message[0] ? err.message : "no memory.");
	}
	*ret_experiment = e;
	return EXIT_OK;
}

int parameters_read(const struct command *command, const struct parameter_values *values,
		    struct experiment *ret_experiment)
{
	return take_parameters(command, values, false, ret_experiment);
}

int parameters_take(const struct command *command, const struct parameter_values *values,
		    struct experiment *ret_experiment)
{
	return take_parameters(command, values, true, ret_experiment);
}

const struct lab_tools *lab_tools_find(void)
{
	static struct lab_tools tools;

	if (!tools.moescope) {
		const char *python = getenv("MOESCOPE_PYTHON");

		tools.moescope = installed_program("moescope");
		tools.tinymoe = installed_program("tinymoe");
		tools.python = python ? python : "python3";
	}
	return &tools;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The one parser of options: --name value, --name=value, -n value, -nvalue, and "--".
 * Main thread, no state.
 */
#include "cmd/options/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "base/text/nearest.h"
#include "cmd/terminal/output.h"

const struct option_desc *option_next(const struct command *command, size_t *group, size_t *index)
{
	if (!command->groups)
		return NULL;
	for (; command->groups[*group].options; (*group)++, *index = 0) {
		const struct option_desc *option = &command->groups[*group].options[*index];

		if (option->name) {
			(*index)++;
			return option;
		}
	}
	return NULL;
}

struct found {
	const struct option_desc *option;
	void *destination;
};

/* By long name of `length` characters, or by short name when name is NULL. */
static struct found find_option(struct invocation *inv, const char *name, size_t length,
				char short_name)
{
	const struct option_desc *option;
	size_t group = 0, index = 0;

	while ((option = option_next(inv->command, &group, &index))) {
		if (name ? strlen(option->name) == length &&
				    strncmp(option->name, name, length) == 0
			 : option->short_name && option->short_name == short_name)
			return (struct found){ option, (char *)inv->values +
							       inv->command->groups[group].base +
							       option->offset };
	}
	return (struct found){ NULL, NULL };
}

static enum parse_result unknown_option(const struct command *command, const char *name,
					size_t length)
{
	const struct option_desc *option;
	size_t group = 0, index = 0;
	char word[64];
	struct nearest nearest;

	snprintf(word, sizeof(word), "%.*s", (int)(length < 60 ? length : 60), name);
	nearest = nearest_to(word);
	while ((option = option_next(command, &group, &index)))
		nearest_offer(&nearest, option->name);
	nearest_offer(&nearest, "help");
	if (nearest.best)
		usage_error(command, "unknown option '--%s'; did you mean '--%s'?", word,
			    nearest.best);
	else
		usage_error(command, "unknown option '--%s'.", word);
	return PARSE_WRONG;
}

static enum parse_result set_choice(const struct command *command, const struct option_desc *o,
				    const char *text, int *destination)
{
	struct nearest nearest = nearest_to(text);
	char all[256] = "";

	for (int i = 0; o->choices[i]; i++) {
		size_t used = strlen(all);

		if (strcmp(o->choices[i], text) == 0) {
			*destination = o->values ? o->values[i] : i;
			return PARSE_OK;
		}
		nearest_offer(&nearest, o->choices[i]);
		snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "", o->choices[i]);
	}
	if (nearest.best)
		usage_error(command, "'--%s' cannot be '%s'; did you mean '%s' (one of %s)?",
			    o->name, text, nearest.best, all);
	else
		usage_error(command, "'--%s' cannot be '%s'; choose one of %s.", o->name, text,
			    all);
	return PARSE_WRONG;
}

static bool parse_integer(const char *text, int64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoll(text, &end, 10);
	return end != text && !*end && errno == 0;
}

static enum parse_result out_of_range(const struct command *command, const struct option_desc *o,
				      const char *text)
{
	/* The largest double above 2^53 would be printed with digits nobody wrote in a table. */
	if (o->max < 9e15)
		usage_error(command, "'--%s %s' is out of range; it must be from %.15g to %.15g.",
			    o->name, text, o->min, o->max);
	else
		usage_error(command, "'--%s %s' is out of range; it must be at least %.15g.",
			    o->name, text, o->min);
	return PARSE_WRONG;
}

static enum parse_result set_number(const struct command *command, const struct option_desc *o,
				    const char *text, void *destination)
{
	int64_t integer = 0;
	double real = 0;
	bool ok;

	if (o->kind == OPTION_DOUBLE) {
		char *end;

		real = strtod(text, &end);
		ok = end != text && !*end && isfinite(real);
	} else {
		ok = parse_integer(text, &integer);
		real = (double)integer;
	}
	if (!ok) {
		usage_error(command, "'--%s' needs a %s, not '%s'.", o->name,
			    o->kind == OPTION_DOUBLE ? "number" : "whole number", text);
		return PARSE_WRONG;
	}
	if (real < o->min || real > o->max)
		return out_of_range(command, o, text);
	if (o->kind == OPTION_DOUBLE)
		*(double *)destination = real;
	else if (o->kind == OPTION_SMALL)
		*(int *)destination = (int)integer;
	else if (o->kind == OPTION_UINT)
		*(uint64_t *)destination = (uint64_t)integer;
	else
		*(int64_t *)destination = integer;
	return PARSE_OK;
}

static enum parse_result set_window(const struct command *command, const struct option_desc *o,
				    const char *text, int64_t *destination)
{
	int64_t first = INT64_MIN, last = INT64_MAX; /* open */
	const char *colon = strchr(text, ':');
	char before[32];
	bool ok;

	if (!colon) {
		ok = parse_integer(text, &first);
		last = first;
	} else {
		size_t length = (size_t)(colon - text);

		snprintf(before, sizeof(before), "%.*s", (int)(length < 31 ? length : 31), text);
		ok = (length == 0 || parse_integer(before, &first)) &&
		     (!colon[1] || parse_integer(colon + 1, &last)) && text[1];
	}
	if (!ok) {
		usage_error(command, "'--%s' needs steps as A, A:B, A: or :B, not '%s'.", o->name,
			    text);
		return PARSE_WRONG;
	}
	if (first > last) {
		usage_error(command, "'--%s %s' ends before it begins.", o->name, text);
		return PARSE_WRONG;
	}
	destination[0] = first;
	destination[1] = last;
	return PARSE_OK;
}

static enum parse_result set_moment(const struct command *command, const struct option_desc *o,
				    const char *text, struct given_moment *destination)
{
	if (moment_parse(text, destination))
		return PARSE_OK;
	usage_error(command, "'--%s' needs a moment such as 1.5s, 800ms, 20us or 7ns, not '%s'.",
		    o->name, text);
	return PARSE_WRONG;
}

/* The numbers, and then how many there are, as unsigned int. */
static enum parse_result set_numbers(const struct command *command, const struct option_desc *o,
				     const char *text, double *destination)
{
	double list[NUMBERS_MAX];
	unsigned int n = 0;
	const char *at = text;

	for (;;) {
		char *end;
		double real = strtod(at, &end);

		if (end == at || (*end && *end != ',') || !isfinite(real) || n == NUMBERS_MAX) {
			usage_error(command, "'--%s' needs up to %d numbers as X or X,X, not '%s'.",
				    o->name, NUMBERS_MAX, text);
			return PARSE_WRONG;
		}
		if (real < o->min || real > o->max)
			return out_of_range(command, o, text);
		list[n++] = real;
		if (!*end)
			break;
		at = end + 1;
	}
	memcpy(destination, list, n * sizeof(*list));
	memcpy(destination + NUMBERS_MAX, &n, sizeof(n));
	return PARSE_OK;
}

static enum parse_result add_string(const struct command *command, const struct option_desc *o,
				    const char *text, struct string_list *destination)
{
	if (destination->n == STRINGS_MAX) {
		usage_error(command, "'--%s' can be given at most %d times.", o->name, STRINGS_MAX);
		return PARSE_WRONG;
	}
	destination->v[destination->n++] = text;
	return PARSE_OK;
}

static enum parse_result add_parameter(const struct command *command, const struct option_desc *o,
				       const char *text, struct parameter_words *destination)
{
	if (destination->n == PARAMETER_WORDS_MAX) {
		usage_error(command, "more than %d parameters; use --config.", PARAMETER_WORDS_MAX);
		return PARSE_WRONG;
	}
	destination->v[destination->n].option = o;
	destination->v[destination->n++].text = text;
	return PARSE_OK;
}

static enum parse_result set_value(const struct command *command, struct found found,
				   const char *text)
{
	switch (found.option->kind) {
	case OPTION_FLAG:
		*(bool *)found.destination = true;
		return PARSE_OK;
	case OPTION_STRING:
	case OPTION_STRINGS:
		if (!*text) {
			usage_error(command, "'--%s' needs a %s, not an empty word.",
				    found.option->name, found.option->metavar);
			return PARSE_WRONG;
		}
		if (found.option->kind == OPTION_STRINGS)
			return add_string(command, found.option, text, found.destination);
		*(const char **)found.destination = text;
		return PARSE_OK;
	case OPTION_CHOICE:
		return set_choice(command, found.option, text, found.destination);
	case OPTION_WINDOW:
		return set_window(command, found.option, text, found.destination);
	case OPTION_MOMENT:
		return set_moment(command, found.option, text, found.destination);
	case OPTION_NUMBERS:
		return set_numbers(command, found.option, text, found.destination);
	case OPTION_PARAMETER:
		return add_parameter(command, found.option, text, found.destination);
	case OPTION_SMALL:
	case OPTION_INT:
	case OPTION_UINT:
	case OPTION_DOUBLE:
		break;
	}
	return set_number(command, found.option, text, found.destination);
}

static enum parse_result missing_value(const struct command *command, const struct option_desc *o)
{
	usage_error(command, "'--%s' needs a value: --%s %s.", o->name, o->name, o->metavar);
	return PARSE_WRONG;
}

/* Both parsers take argv[*i] apart and leave *i at the last word they used. */
static enum parse_result parse_long(struct invocation *inv, int argc, char **argv, int *i)
{
	const char *name = argv[*i] + 2;
	const char *equals = strchr(name, '=');
	size_t length = equals ? (size_t)(equals - name) : strlen(name);
	struct found found;

	if (length == 4 && strncmp(name, "help", 4) == 0 && !equals)
		return PARSE_HELP;
	found = find_option(inv, name, length, 0);
	if (!found.option)
		return unknown_option(inv->command, name, length);
	if (!option_takes_value(found.option)) {
		if (equals) {
			usage_error(inv->command, "'--%s' takes no value.", found.option->name);
			return PARSE_WRONG;
		}
		return set_value(inv->command, found, "");
	}
	if (equals)
		return set_value(inv->command, found, equals + 1);
	if (*i + 1 >= argc || strcmp(argv[*i + 1], "--") == 0)
		return missing_value(inv->command, found.option);
	return set_value(inv->command, found, argv[++*i]);
}

static enum parse_result parse_short(struct invocation *inv, int argc, char **argv, int *i)
{
	for (const char *c = argv[*i] + 1; *c; c++) {
		struct found found = find_option(inv, NULL, 0, *c);
		enum parse_result r;

		if (!found.option) {
			if (*c == 'h')
				return PARSE_HELP;
			usage_error(inv->command, "unknown option '-%c'.", *c);
			return PARSE_WRONG;
		}
		if (option_takes_value(found.option)) {
			if (c[1])
				return set_value(inv->command, found, c + 1);
			if (*i + 1 >= argc || strcmp(argv[*i + 1], "--") == 0)
				return missing_value(inv->command, found.option);
			return set_value(inv->command, found, argv[++*i]);
		}
		r = set_value(inv->command, found, "");
		if (r != PARSE_OK)
			return r;
	}
	return PARSE_OK;
}

static enum parse_result check_count(struct invocation *inv)
{
	const struct command *command = inv->command;

	if (inv->n_args < command->min_args) {
		usage_error(command, "'%s' needs %s.", command->name, command->words);
		return PARSE_WRONG;
	}
	if (command->max_args >= 0 && inv->n_args > command->max_args) {
		usage_error(command, "'%s' does not take the argument '%s'.", command->name,
			    inv->args[command->max_args]);
		return PARSE_WRONG;
	}
	return PARSE_OK;
}

enum parse_result options_parse(struct invocation *inv, int argc, char **argv)
{
	const struct command *command = inv->command;

	inv->args = argv;
	inv->n_args = 0;
	for (int i = 0; i < argc; i++) {
		enum parse_result r = PARSE_OK;
		bool rest = strcmp(argv[i], "--") == 0;

		if (rest) {
			i++;
		} else if (argv[i][0] == '-' && argv[i][1] == '-') {
			r = parse_long(inv, argc, argv, &i);
		} else if (argv[i][0] == '-' && argv[i][1]) {
			r = parse_short(inv, argc, argv, &i);
		} else if (command->args_after_dashes) {
			usage_error(command, "'%s' does not take '%s' before '--'.", command->name,
				    argv[i]);
			return PARSE_WRONG;
		} else {
			rest = command->args_end_options;
			if (!rest)
				argv[inv->n_args++] = argv[i];
		}
		if (r != PARSE_OK)
			return r;
		if (rest) {
			for (; i < argc; i++)
				argv[inv->n_args++] = argv[i];
			/* argv of a program to run must end as execvp wants it. */
			argv[inv->n_args] = NULL;
			break;
		}
	}
	return check_count(inv);
}

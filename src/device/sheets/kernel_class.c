/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of kernels; see kernel_class.h.
 */
#include "device/sheets/kernel_class.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "device/sheets/kernel_name.h"
#include "device/sheets/kernel_patterns.h"

struct rule {
	const char *class;
	char *owned; /* a class of the file; NULL: `class` is of the table or of an earlier rule */
	enum kernel_pattern_in in;
	bool compiled;
	regex_t regex;
};

struct kernel_classes {
	struct rule *rules;
	size_t n, capacity;
	struct rule ranges[N_RANGE_PATTERNS];
};

/* Rules of one class share its text, so that classes can be told apart by their address. */
static const char *known_class(const struct kernel_classes *classes, const char *class)
{
	for (size_t i = 0; i < classes->n; i++)
		if (!strcmp(classes->rules[i].class, class))
			return classes->rules[i].class;
	return NULL;
}

/* The message of regcomp in `message`; 0, -ENOMEM or -EINVAL. */
static int add_rule(struct kernel_classes *classes, const struct kernel_pattern *from, bool copied,
		    char *message, size_t size)
{
	const char *known = known_class(classes, from->class);
	struct rule *rule;
	int code;

	if (array_grow(&classes->rules, &classes->capacity, classes->n + 1, sizeof(*rule)) < 0)
		return -ENOMEM;
	rule = &classes->rules[classes->n];
	*rule = (struct rule){ .class = known ? known : from->class, .in = from->in };
	if (!known && copied) {
		rule->owned = strdup(from->class);
		if (!rule->owned)
			return -ENOMEM;
		rule->class = rule->owned;
	}
	classes->n++;
	code = regcomp(&rule->regex, from->pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
	if (code == REG_ESPACE)
		return -ENOMEM;
	if (code) {
		regerror(code, NULL, message, size);
		return -EINVAL;
	}
	rule->compiled = true;
	return 0;
}

static int add_line(struct kernel_classes *classes, char *line, const char *path,
		    unsigned int number, struct err *err)
{
	char *tab = strchr(line, '\t');
	char message[160];
	int r;

	line[strcspn(line, "\r\n")] = '\0';
	if (!line[0] || line[0] == '#')
		return 0;
	if (!tab || tab == line || !tab[1])
		return err_set(err, -EINVAL,
			       "line %u of '%s' is not a class, a tab and a pattern; write for "
			       "example 'attention<TAB>my_flash'",
			       number, path);
	*tab = '\0';
	r = add_rule(classes, &(struct kernel_pattern){ line, IN_NAME, tab + 1 }, true, message,
		     sizeof(message));
	if (r == -EINVAL)
		return err_set(err, r,
			       "line %u of '%s' has a pattern that is not a regular "
			       "expression: %s",
			       number, path, message);
	return r < 0 ? err_sys(err, r, "cannot keep the classes of '%s'", path) : 0;
}

static int add_file(struct kernel_classes *classes, const char *path, struct err *err)
{
	FILE *file = fopen(path, "re");
	unsigned int number = 0;
	char *line = NULL;
	size_t size = 0;
	int r = 0;

	if (!file)
		return err_sys(err, -errno, "cannot open the classes file '%s'", path);
	errno = 0;
	while (r >= 0 && getline(&line, &size, file) >= 0)
		r = add_line(classes, line, path, ++number, err);
	if (r >= 0 && (ferror(file) || !feof(file)))
		r = err_sys(err, errno ? -errno : -EIO, "cannot read the classes file '%s'", path);
	free(line);
	fclose(file);
	return r;
}

static int add_ranges(struct kernel_classes *classes)
{
	for (size_t i = 0; i < N_RANGE_PATTERNS; i++) {
		struct rule *rule = &classes->ranges[i];

		if (range_patterns[i].class)
			rule->class = known_class(classes, range_patterns[i].class);
		if (regcomp(&rule->regex, range_patterns[i].pattern,
			    REG_EXTENDED | REG_ICASE | REG_NOSUB))
			return -ENOMEM;
		rule->compiled = true;
	}
	return 0;
}

int kernel_classes_new(const char *path, struct kernel_classes **ret_classes, struct err *err)
{
	struct kernel_classes *classes = calloc(1, sizeof(*classes));
	char message[160];
	int r = 0;

	if (!classes)
		return err_sys(err, -ENOMEM, "cannot keep the classes of kernels");
	if (path)
		r = add_file(classes, path, err);
	for (size_t i = 0; r >= 0 && i < n_kernel_patterns; i++) {
		r = add_rule(classes, &kernel_patterns[i], false, message, sizeof(message));
		if (r < 0)
			err_sys(err, r, "cannot keep the classes of kernels");
	}
	if (r >= 0 && add_ranges(classes) < 0)
		r = err_sys(err, -ENOMEM, "cannot keep the classes of kernels");
	if (r < 0) {
		kernel_classes_free(classes);
		return r;
	}
	*ret_classes = classes;
	return 0;
}

void kernel_classes_free(struct kernel_classes *classes)
{
	if (!classes)
		return;
	for (size_t i = 0; i < classes->n; i++) {
		free(classes->rules[i].owned);
		if (classes->rules[i].compiled)
			regfree(&classes->rules[i].regex);
	}
	for (size_t i = 0; i < N_RANGE_PATTERNS; i++)
		if (classes->ranges[i].compiled)
			regfree(&classes->ranges[i].regex);
	free(classes->rules);
	free(classes);
}

/* 1, 0 or -ENOMEM. */
static int matches(const struct rule *rule, const char *text)
{
	int code = regexec(&rule->regex, text, 0, NULL, 0);

	return code == REG_ESPACE ? -ENOMEM : !code;
}

const char *kernel_class_of(const struct kernel_classes *classes, const char *name)
{
	char *function = NULL;
	const char *class = "other", *texts[2];
	int found = 0;

	if (kernel_short_name(name, &function) < 0)
		return NULL;
	texts[IN_FUNCTION] = function;
	texts[IN_NAME] = name;
	for (size_t i = 0; i < classes->n && !found; i++) {
		found = matches(&classes->rules[i], texts[classes->rules[i].in]);
		if (found)
			class = classes->rules[i].class;
	}
	free(function);
	return found < 0 ? NULL : class;
}

int kernel_class_range(const struct kernel_classes *classes, const char *range)
{
	for (int i = 0; i < N_RANGE_PATTERNS; i++) {
		const struct range_pattern *pattern = &range_patterns[i];
		int found = matches(&classes->ranges[i], range);

		if (found < 0)
			return found;
		if (found && !(pattern->except && strcasestr(range, pattern->except)))
			return i;
	}
	return KERNEL_RANGE_NONE;
}

bool kernel_class_range_decides(int rule)
{
	return rule >= 0 && range_patterns[rule].class;
}

enum moe_part kernel_class_range_part(int rule, bool *ret_certain)
{
	*ret_certain = rule >= 0 && range_patterns[rule].certain;
	return rule >= 0 ? range_patterns[rule].part : MOE_PARTS;
}

const char *kernel_class_in_range(const struct kernel_classes *classes, const char *class, int rule)
{
	for (size_t i = 0; rule >= 0 && i < 3 && range_patterns[rule].yields[i]; i++)
		if (!strcmp(class, range_patterns[rule].yields[i]))
			return classes->ranges[rule].class;
	return NULL;
}

bool kernel_class_communicates(const char *class)
{
	static const char *const classes[] = { "collective", "dispatch", "combine", "notify" };

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (!strcmp(class, classes[i]))
			return true;
	return false;
}

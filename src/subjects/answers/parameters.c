/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters that many subjects have, and values given as text; see parameters.h.
 */
#include "subjects/answers/parameters.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"

const struct question_parameter ask_layer = {
	.name = "layer",
	.letter = 'l',
	.kind = ASK_NUMBER,
	.metavar = "N",
	.max = 1e6,
	.help = "only this layer, counted from 0",
	.default_text = "all",
	.offset = offsetof(struct question, sel.layer),
};

static const char *const phases[] = { "all",	 "forward", "backward",	 "optimizer",  "data",
				      "prefill", "decode",  "recompute", "evaluation", NULL };
static const int phase_values[] = { -1,
				    MOESCOPE_FORWARD,
				    MOESCOPE_BACKWARD,
				    MOESCOPE_OPTIMIZER,
				    MOESCOPE_DATA,
				    MOESCOPE_PREFILL,
				    MOESCOPE_DECODE,
				    MOESCOPE_RECOMPUTE,
				    MOESCOPE_EVALUATION };

const struct question_parameter ask_phase = {
	.name = "phase",
	.letter = 'p',
	.kind = ASK_CHOICE,
	.metavar = "PHASE",
	.choices = phases,
	.values = phase_values,
	.help = "only this phase: all, forward, backward, optimizer, data, prefill, decode, "
		"recompute or evaluation",
	.default_text = "all",
	.offset = offsetof(struct question, sel.phase),
};

const struct question_parameter ask_range = {
	.name = "range",
	.kind = ASK_NAME,
	.metavar = "NAME",
	.help = "only while the thread was in a range of this name",
	.default_text = "all",
	.offset = offsetof(struct question, range),
};
const struct question_parameter ask_steps = {
	.name = "steps",
	.kind = ASK_STEPS,
	.metavar = "A:B",
	.help = "only steps A to B, inclusive; A: and :B leave one end open",
	.default_text = "all",
	.offset = offsetof(struct question, sel.step_first),
};

static bool parse_whole(const char *text, const char **ret_end, int64_t *ret_value)
{
	char *end;

	errno = 0;
	*ret_value = strtoll(text, &end, 10);
	*ret_end = end;
	return !errno && end != text;
}

static bool take_flag(const char *text, bool *ret)
{
	*ret = !*text || !strcmp(text, "1") || !strcmp(text, "true");
	return *ret || !strcmp(text, "0") || !strcmp(text, "false");
}

static bool take_number(const struct question_parameter *p, const char *text, int *ret)
{
	const char *end;
	int64_t value;

	if (!parse_whole(text, &end, &value) || *end || (double)value < p->min ||
	    (double)value > p->max)
		return false;
	*ret = (int)value;
	return true;
}

/* The numbers, and behind the last place for one how many there are. */
static bool take_numbers(const struct question_parameter *p, const char *text, double *ret)
{
	double values[QUESTION_FACTORS_MAX];
	unsigned int n = 0;

	for (;; text++) {
		char *end;

		if (n == QUESTION_FACTORS_MAX)
			return false;
		values[n] = strtod(text, &end);
		if (end == text || (*end && *end != ',') || !isfinite(values[n]) ||
		    values[n] < p->min || values[n] > p->max)
			return false;
		n++;
		text = end;
		if (!*text)
			break;
	}
	memcpy(ret, values, n * sizeof(*values));
	memcpy(ret + QUESTION_FACTORS_MAX, &n, sizeof(n));
	return true;
}

static bool take_choice(const struct question_parameter *p, const char *text, int *ret)
{
	for (int i = 0; p->choices[i]; i++)
		if (!strcmp(p->choices[i], text)) {
			*ret = p->values ? p->values[i] : i;
			return true;
		}
	return false;
}

static bool take_steps(const char *text, int64_t *ret)
{
	int64_t first = INT64_MIN, last = INT64_MAX;
	const char *at = text;

	if (*at != ':' && !parse_whole(at, &at, &first))
		return false;
	if (!*at)
		last = first;
	else if (*at++ != ':' || (*at && (!parse_whole(at, &at, &last) || *at)))
		return false;
	if (first > last || !text[strspn(text, ":")])
		return false;
	ret[0] = first;
	ret[1] = last;
	return true;
}

int parameter_set(const struct question_parameter *parameter, const char *text,
		  struct question *question, struct err *err)
{
	void *to = (char *)question + parameter->offset;
	bool good = false;

	switch (parameter->kind) {
	case ASK_FLAG:
		good = take_flag(text, to);
		break;
	case ASK_NUMBER:
		good = take_number(parameter, text, to);
		break;
	case ASK_NUMBERS:
		good = take_numbers(parameter, text, to);
		break;
	case ASK_CHOICE:
		good = take_choice(parameter, text, to);
		break;
	case ASK_MOMENT:
		good = moment_parse(text, to);
		break;
	case ASK_STEPS:
		good = take_steps(text, to);
		break;
	case ASK_FILE:
	case ASK_NAME:
		*(const char **)to = text;
		good = *text != '\0';
		break;
	case ASK_TABLE:
		break;
	}
	return good ? 0
		    : err_set(err, -EINVAL, "'%s' means '%s', which '%s' does not answer.",
			      parameter->name, parameter->help, text);
}

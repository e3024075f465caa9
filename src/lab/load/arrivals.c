/* SPDX-License-Identifier: Apache-2.0
 *
 * When requests are sent; see arrivals.h.
 */
#include "lab/load/arrivals.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/files/input_file.h"
#include "base/text/json_read.h"
#include "lab/load/sampling.h"

#define LATEST_S 1e9 /* a later time is a mistake, and might not fit nanoseconds */

void arrivals_release(struct arrivals *arrivals)
{
	free(arrivals->due_ns);
	free(arrivals->prompt_tokens);
	free(arrivals->output_tokens);
	memset(arrivals, 0, sizeof(*arrivals));
}

static double rate_at(const struct experiment *e, size_t i, size_t n)
{
	double share = n > 1 ? (double)i / (double)(n - 1) : 0;

	switch (e->ramp) {
	case RAMP_LINEAR:
		return e->ramp_start + (e->ramp_end - e->ramp_start) * share;
	case RAMP_EXPONENTIAL:
		return e->ramp_start * pow(e->ramp_end / e->ramp_start, share);
	default:
		return e->request_rate;
	}
}

static int make_clocked(const struct experiment *e, size_t n, struct arrivals *arrivals,
			struct err *err)
{
	double shape = e->arrival == ARRIVAL_GAMMA ? e->burstiness : 1;
	double *due_s = malloc(n * sizeof(*due_s));
	struct sampler sampler;
	double at = 0, scale = 1;

	arrivals->due_ns = malloc(n * sizeof(*arrivals->due_ns));
	if (!due_s || !arrivals->due_ns) {
		free(due_s);
		return err_set(err, -ENOMEM, "not enough memory for %zu arrivals.", n);
	}
	sampler_seed(&sampler, e->seed, STREAM_ARRIVALS);
	for (size_t i = 0; i < n; i++) {
		double rate = rate_at(e, i, n);

		at += e->arrival == ARRIVAL_CONSTANT
			      ? 1 / rate
			      : sample_gamma(&sampler, shape) / (rate * shape);
		due_s[i] = at;
	}
	if (e->rescale && e->ramp == RAMP_NONE && at > 0)
		scale = (double)n / e->request_rate / at;
	for (size_t i = 0; i < n; i++)
		arrivals->due_ns[i] = llround(fmin(due_s[i] * scale, LATEST_S) * 1e9);
	free(due_s);
	arrivals->n = n;
	return 0;
}

/* A trace being read. */
struct trace {
	const char *path;
	size_t line, capacity[3];
	bool objects, fractions;
	double *at, last;
	struct arrivals *arrivals;
};

static int bad_line(const struct trace *trace, const char *what, struct err *err)
{
	return err_set(err, -EINVAL,
		       "%s, line %zu: %s; a line is a time in seconds, or an object with "
		       "\"timestamp\", \"input_length\" and \"output_length\".",
		       trace->path, trace->line, what);
}

static int read_object(struct trace *trace, const char *text, size_t length, double *ret_at,
		       int64_t tokens[2], struct err *err)
{
	static const char *const keys[2] = { "input_length", "output_length" };
	struct json_node *root = NULL;
	const struct json_node *stamp;
	struct err inner = { "" };
	int r = 0;

	if (json_parse("the line", text, length, &root, &inner) < 0)
		return bad_line(trace, inner.message, err);
	stamp = json_get(root, "timestamp");
	if (!stamp || stamp->type != JSON_NUMBER) {
		r = bad_line(trace, "there is no number \"timestamp\"", err);
	} else {
		*ret_at = strtod(stamp->text, NULL);
		trace->fractions |= strpbrk(stamp->text, ".eE") != NULL;
	}
	for (int k = 0; k < 2 && r == 0; k++) {
		tokens[k] = json_get_int(root, keys[k], -1);
		if (json_get(root, keys[k]) && tokens[k] < 1)
			r = bad_line(trace, "a length is not a whole number above 0", err);
	}
	json_node_free(root);
	return r;
}

static int read_line(struct trace *trace, const char *text, size_t length, struct err *err)
{
	struct arrivals *a = trace->arrivals;
	bool object = *text == '{';
	int64_t tokens[2] = { -1, -1 };
	double at = 0;
	char *end;
	int r;

	if (a->n && object != trace->objects)
		return bad_line(trace, "lines of both forms in one file", err);
	trace->objects = object;
	if (object) {
		r = read_object(trace, text, length, &at, tokens, err);
		if (r < 0)
			return r;
	} else {
		at = strtod(text, &end);
		if (end == text || *end)
			return bad_line(trace, "not a number", err);
	}
	if (!(at >= 0 && at <= LATEST_S * (object ? 1e3 : 1)))
		return bad_line(trace, "a time out of range", err);
	if (a->n && at < trace->last)
		return bad_line(trace, "earlier than the line before, sort the file by time", err);
	if (array_grow(&trace->at, &trace->capacity[0], a->n + 1, sizeof(*trace->at)) < 0 ||
	    array_grow(&a->prompt_tokens, &trace->capacity[1], a->n + 1, sizeof(int64_t)) < 0 ||
	    array_grow(&a->output_tokens, &trace->capacity[2], a->n + 1, sizeof(int64_t)) < 0)
		return err_set(err, -ENOMEM, "not enough memory for %s.", trace->path);
	a->prompt_tokens[a->n] = tokens[0];
	a->output_tokens[a->n] = tokens[1];
	trace->last = at;
	trace->at[a->n++] = at;
	return 0;
}

static int read_lines(struct trace *trace, FILE *file, size_t most, struct err *err)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t length;
	int r = 0;

	while (r == 0 && trace->arrivals->n < most && (length = getline(&line, &room, file)) >= 0) {
		trace->line++;
		while (length > 0 && strchr(" \t\r\n", line[length - 1]))
			line[--length] = '\0';
		if (length == 0)
			continue;
		if (strlen(line) != (size_t)length)
			r = bad_line(trace, "a zero byte", err);
		else
			r = read_line(trace, line, (size_t)length, err);
	}
	if (r == 0 && ferror(file))
		r = err_sys(err, -EIO, "%s cannot be read", trace->path);
	free(line);
	return r;
}

static int make_trace(const struct experiment *e, struct arrivals *arrivals, struct err *err)
{
	struct trace trace = { .path = e->arrival_trace, .arrivals = arrivals };
	size_t most = experiment_given(e, parameter_find("requests")) ? (size_t)e->requests
								      : SIZE_MAX;
	FILE *file;
	double unit;
	int r;

	if (!e->arrival_trace)
		return err_set(err, -EINVAL, "'arrival: trace' needs a file in arrival_trace.");
	file = input_stream(e->arrival_trace, err);
	if (!file)
		return -errno;
	r = read_lines(&trace, file, most, err);
	fclose(file);
	if (r == 0 && arrivals->n == 0)
		r = err_set(err, -EINVAL, "%s has no arrivals.", trace.path);
	if (r == 0) {
		arrivals->due_ns = malloc(arrivals->n * sizeof(*arrivals->due_ns));
		if (!arrivals->due_ns)
			r = err_set(err, -ENOMEM, "not enough memory for %s.", trace.path);
	}
	unit = trace.objects && !trace.fractions ? 1e6 : 1e9;
	for (size_t i = 0; r == 0 && i < arrivals->n; i++)
		arrivals->due_ns[i] = llround((trace.at[i] - trace.at[0]) * unit);
	free(trace.at);
	return r;
}

int arrivals_make(const struct experiment *e, struct arrivals *ret_arrivals, struct err *err)
{
	struct arrivals arrivals = { 0 };
	int r = 0;

	if (e->arrival == ARRIVAL_TRACE)
		r = make_trace(e, &arrivals, err);
	else if (e->arrival == ARRIVAL_CLOSED)
		arrivals.n = (size_t)e->requests;
	else
		r = make_clocked(e, (size_t)e->requests, &arrivals, err);
	if (r < 0) {
		arrivals_release(&arrivals);
		return r;
	}
	*ret_arrivals = arrivals;
	return 0;
}

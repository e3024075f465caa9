/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of parameters and the values behind it. Pure, any thread.
 */
#include "lab/shared/experiment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/json_write.h"
#include "base/text/nearest.h"
#include "base/text/utf8.h"

static const char *const tasks[] = { "inference", "training", NULL };
static const char *const profile_modes[] = { "inference_only", "trace", "full", NULL };
static const char *const old_modes[] = { "nsys", "trace", "nsys_ncu", "full", NULL };
static const char *const endpoints[] = { "chat", "completions", NULL };
static const char *const arrivals[] = { "closed", "constant", "poisson", "gamma", "trace", NULL };
static const char *const ramps[] = { "none", "linear", "exponential", NULL };
static const char *const dialects[] = { "vllm", "guidellm", "aiperf", NULL };
static const char *const presets[] = { "quick", "comprehensive", "scaling", NULL };
static const char *const launchers[] = { "local", "torchrun", "mpirun", "slurm", NULL };

const char *const parameter_parts[PARAMETER_PARTS] = {
	[PART_WORK] = "what runs",	  [PART_MEASURE] = "how it is measured",
	[PART_LOAD] = "load of a server", [PART_PLACE] = "where it goes",
	[PART_SWEEP] = "a sweep",
};

#define AT(field) offsetof(struct experiment, field)
#define TEXT(key, part, preset, help)                                                              \
	{                                                                                          \
#key, part, PARAMETER_TEXT, preset, help, NULL, NULL, 0, 0, AT(key)                \
	}
#define WORD(key, part, preset, words, help)                                                       \
	{                                                                                          \
#key, part, PARAMETER_TEXT, preset, help, words, NULL, 0, 0, AT(key)               \
	}
#define CHOICE(key, part, preset, words, old, help)                                                \
	{                                                                                          \
#key, part, PARAMETER_CHOICE, preset, help, words, old, 0, 0, AT(key)              \
	}
#define INT(key, part, preset, least, most, help)                                                  \
	{                                                                                          \
#key, part, PARAMETER_INT, preset, help, NULL, NULL, least, most, AT(key)          \
	}
#define NUMBER(key, part, preset, least, most, help)                                               \
	{                                                                                          \
#key, part, PARAMETER_NUMBER, preset, help, NULL, NULL, least, most, AT(key)       \
	}
#define FLAG(key, part, preset, help)                                                              \
	{                                                                                          \
#key, part, PARAMETER_FLAG, preset, help, NULL, NULL, 0, 1, AT(key)                \
	}
#define LIST(key, part, help)                                                                      \
	{                                                                                          \
#key, part, PARAMETER_LIST, NULL, help, NULL, NULL, 0, 0, AT(key)                  \
	}
#define MAP(key, part, preset, help)                                                               \
	{                                                                                          \
#key, part, PARAMETER_MAP, preset, help, NULL, NULL, 0, 0, AT(key)                 \
	}

/* clang-format off */
const struct parameter parameters[] = {
	TEXT(engine, PART_WORK, "builtin", "what runs the model; --list-engines names them"),
	TEXT(model, PART_WORK, NULL, "the model: a name, a folder, or a tinymoe checkpoint"),
	TEXT(model_path, PART_WORK, NULL, "path of the model; same as model"),
	TEXT(model_name, PART_WORK, NULL, "its name in results; by default the last part of the path"),
	CHOICE(task, PART_WORK, "inference", tasks, NULL, "what to measure"),
	TEXT(prompt, PART_WORK, "Hello, how are you?", "the text to continue"),
	INT(max_tokens, PART_WORK, "100", 1, 1e9, "tokens to generate per sequence"),
	INT(batch_size, PART_WORK, "1", 1, 1e6, "sequences generated together"),
	INT(tensor_parallel_size, PART_WORK, "1", 1, 4096, "GPUs that each layer is split across"),
	INT(pipeline_parallel_size, PART_WORK, "1", 1, 4096, "pipeline stages, each on its own GPUs"),
	INT(data_parallel_size, PART_WORK, "1", 1, 4096, "copies of the model, each on its own GPUs"),
	NUMBER(temperature, PART_WORK, "0.7", 0, 100, "sampling temperature; 0: always the likeliest token"),
	TEXT(command, PART_WORK, NULL, "for engine command: a shell line with {parameter} in it"),
	LIST(server_args, PART_WORK, "more arguments for the server or driver"),
	INT(steps, PART_WORK, "20", 1, 1e9, "training steps"),
	INT(threads, PART_WORK, "0", 0, 4096, "threads of the embedded model; 0: automatic"),

	CHOICE(profile_mode, PART_MEASURE, "inference_only", profile_modes, old_modes,
	       "no trace, a trace, or a trace and hardware counters"),
	INT(repeats, PART_MEASURE, "1", 1, 1e6, "measured repetitions"),
	INT(warmup, PART_MEASURE, "1", 0, 1e6, "unmeasured repetitions before them, or requests to a server"),
	INT(seed, PART_MEASURE, "0", 0, 9007199254740992.0, "seed for all random numbers"),
	NUMBER(time_limit_s, PART_MEASURE, "0", 0, 1e9, "seconds for the whole experiment; 0: no limit"),
	MAP(environment, PART_MEASURE, NULL, "variables for the program, NAME=VALUE"),
	MAP(trace_options, PART_MEASURE, NULL, "options of 'moescope run', NAME=VALUE"),
	MAP(counter_options, PART_MEASURE, "launch_count=10 kernel_count=100 set=full",
	    "options for hardware counters, NAME=VALUE"),
	NUMBER(price_per_hour, PART_MEASURE, "0", 0, 1e9, "price of the machine, for the cost of a token; 0: unknown"),

	TEXT(url, PART_LOAD, NULL, "URL of a running server, such as http://127.0.0.1:8000"),
	TEXT(api_key, PART_LOAD, NULL, "its API key; $NAME: the value of that variable, kept out of all files"),
	CHOICE(endpoint, PART_LOAD, "chat", endpoints, NULL, "the API to use"),
	INT(requests, PART_LOAD, "100", 1, 1e9, "requests to send"),
	INT(concurrency, PART_LOAD, "0", 0, 1e6, "requests in flight; 0: one, or no limit if they arrive by a clock"),
	CHOICE(arrival, PART_LOAD, "closed", arrivals, NULL, "when to send requests; closed: the next when one ends"),
	NUMBER(request_rate, PART_LOAD, "0", 0, 1e9, "requests per second for constant, poisson and gamma"),
	NUMBER(burstiness, PART_LOAD, "1", 1e-6, 1e6, "shape of gamma; 1 is poisson, less is burstier"),
	FLAG(rescale, PART_LOAD, "true", "stretch arrivals to take exactly requests / rate seconds"),
	FLAG(ignore_eos, PART_LOAD, "false", "generate exactly the requested number of tokens"),
	FLAG(stop_over_saturated, PART_LOAD, "false", "stop when the server permanently falls behind the rate"),
	CHOICE(ramp, PART_LOAD, "none", ramps, NULL, "the rate grows from ramp_start to ramp_end"),
	NUMBER(ramp_start, PART_LOAD, "0", 0, 1e9, "requests per second at the beginning"),
	NUMBER(ramp_end, PART_LOAD, "0", 0, 1e9, "requests per second at the end"),
	TEXT(arrival_trace, PART_LOAD, NULL, "file of arrivals to replay"),
	TEXT(prompt_tokens, PART_LOAD, NULL, "prompt length: N, or a distribution; none: the prompt itself"),
	TEXT(output_tokens, PART_LOAD, NULL, "tokens to request: N, or a distribution; none: max_tokens"),
	TEXT(goodput, PART_LOAD, NULL, "limits in milliseconds, such as ttft:200 tpot:50 e2el:2000"),
	NUMBER(request_timeout_s, PART_LOAD, "600", 0, 1e9, "seconds per request; 0: no limit"),
	NUMBER(cancel_pct, PART_LOAD, "0", 0, 100, "percentage of requests that the client cancels"),
	NUMBER(cancel_after_s, PART_LOAD, "1", 0, 1e9, "seconds before it cancels them"),
	WORD(dialect, PART_LOAD, "vllm", dialects, "whose definitions of TTFT, TPOT and so on to show"),

	TEXT(experiment_name, PART_PLACE, NULL, "folder for the results; by default named after model, mode and time"),
	TEXT(output_dir, PART_PLACE, "results", "its parent folder"),

	TEXT(parameter_sweep, PART_SWEEP, NULL, "values to try, such as \"batch_size:1,2,4;max_tokens:100,200\""),
	WORD(preset, PART_SWEEP, NULL, presets, "values to try, by name"),
	WORD(launcher, PART_SWEEP, "local", launchers, "what starts the experiments"),
	LIST(gpus, PART_SWEEP, "GPUs to use, by index; all by default"),
	LIST(launcher_args, PART_SWEEP, "more arguments for the launcher"),
	INT(nodes, PART_SWEEP, "1", 1, 1e6, "machines per experiment"),
	INT(processes, PART_SWEEP, "1", 1, 1e6, "processes per experiment on each machine"),
	{ .key = NULL },
};

const char *const parallel_sizes[] = { "tensor_parallel_size", "pipeline_parallel_size",
				       "data_parallel_size", NULL };

const char *const parameter_aliases[] = {
	"nsys_options", "trace_options",
	"ncu_options", "counter_options",
	"base_prompt", "prompt",
	NULL,
};
/* clang-format on */
_Static_assert(sizeof(parameters) / sizeof(*parameters) <= PARAMETERS_MAX, "room in given[]");

const char *parameter_type_name(enum parameter_type type)
{
	static const char *const names[] = {
		[PARAMETER_TEXT] = "text",     [PARAMETER_INT] = "integer",
		[PARAMETER_NUMBER] = "number", [PARAMETER_FLAG] = "flag",
		[PARAMETER_CHOICE] = "choice", [PARAMETER_LIST] = "list",
		[PARAMETER_MAP] = "map",
	};

	return names[type];
}

int64_t experiment_parallel(const struct experiment *e)
{
	return e->tensor_parallel_size * e->pipeline_parallel_size * e->data_parallel_size;
}

const char *experiment_parallel_by(const struct experiment *e)
{
	return e->tensor_parallel_size != 1	? parallel_sizes[0]
	       : e->pipeline_parallel_size != 1 ? parallel_sizes[1]
	       : e->data_parallel_size != 1	? parallel_sizes[2]
						: NULL;
}

const struct parameter *parameter_find(const char *key)
{
	for (const char *const *alias = parameter_aliases; *alias; alias += 2)
		if (strcmp(alias[0], key) == 0)
			key = alias[1];
	for (const struct parameter *p = parameters; p->key; p++)
		if (strcmp(p->key, key) == 0)
			return p;
	return NULL;
}

const char *parameter_nearest(const char *key)
{
	struct nearest nearest = nearest_to(key);

	for (const struct parameter *p = parameters; p->key; p++)
		nearest_offer(&nearest, p->key);
	return nearest.best;
}

int texts_add(struct texts *texts, const char *text)
{
	char **grown = realloc(texts->v, (texts->n + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	texts->v = grown;
	texts->v[texts->n] = strdup(text);
	if (!texts->v[texts->n])
		return -ENOMEM;
	texts->n++;
	return 0;
}

void texts_release(struct texts *texts)
{
	for (size_t i = 0; i < texts->n; i++)
		free(texts->v[i]);
	free(texts->v);
	*texts = (struct texts){ NULL, 0 };
}

static void *parameter_field(const struct experiment *experiment, const struct parameter *p)
{
	return (char *)experiment + p->offset;
}

/* Reads one word of a list at *at, unquoted, into buf. False: none left. */
static bool next_word(const char **at, struct buf *word)
{
	const char *c = *at + strspn(*at, " \t\r\n,");
	char quote = 0;

	word->size = 0;
	if (!*c)
		return false;
	for (; *c && (quote || !strchr(" \t\r\n,", *c)); c++) {
		if (quote ? *c == quote : *c == '\'' || *c == '"')
			quote = quote ? 0 : *c;
		else if (*c == '\\' && quote != '\'' && c[1])
			buf_append(word, ++c, 1);
		else
			buf_append(word, c, 1);
	}
	buf_append(word, "", 1);
	*at = c;
	return true;
}

static void put_word(struct buf *out, const char *name, const char *value)
{
	const char *parts[] = { name, value };
	bool bare = value[0] || name;

	for (int i = name ? 0 : 1; i < 2; i++)
		if (strpbrk(parts[i], " \t\r\n,'\"\\"))
			bare = false;
	if (out->size)
		buf_append(out, " ", 1);
	if (!bare)
		buf_append(out, "\"", 1);
	for (int i = name ? 0 : 1; i < 2; i++) {
		for (const char *c = parts[i]; *c; c++) {
			if (!bare && (*c == '"' || *c == '\\'))
				buf_append(out, "\\", 1);
			buf_append(out, c, 1);
		}
		if (i == 0)
			buf_append(out, "=", 1);
	}
	if (!bare)
		buf_append(out, "\"", 1);
}

/* An existing name gets the new value. */
static int map_put(struct texts *map, const char *name, const char *value)
{
	for (size_t i = 0; i + 1 < map->n; i += 2) {
		char *copy;

		if (strcmp(map->v[i], name) != 0)
			continue;
		copy = strdup(value);
		if (!copy)
			return -ENOMEM;
		free(map->v[i + 1]);
		map->v[i + 1] = copy;
		return 0;
	}
	if (texts_add(map, name) < 0)
		return -ENOMEM;
	if (texts_add(map, value) == 0)
		return 0;
	free(map->v[--map->n]);
	return -ENOMEM;
}

int experiment_append(struct experiment *experiment, const struct parameter *parameter,
		      const char *name, const char *value)
{
	struct texts *texts = parameter_field(experiment, parameter);

	experiment->given[parameter - parameters] = true;
	return parameter->type == PARAMETER_MAP ? map_put(texts, name, value)
						: texts_add(texts, value);
}

/* A map keeps its defaults unless they are overridden. */
static int parse_words(const struct parameter *p, const char *text, struct texts *ret,
		       struct err *err)
{
	struct texts texts = { NULL, 0 };
	struct buf word = { 0 };
	int r = 0;

	if (p->type == PARAMETER_MAP && p->default_text && text != p->default_text)
		r = parse_words(p, p->default_text, &texts, err);
	while (r == 0 && next_word(&text, &word)) {
		char *equals = word.failed ? NULL : strchr(word.data, '=');

		if (word.failed)
			r = -ENOMEM;
		else if (p->type == PARAMETER_LIST)
			r = texts_add(&texts, word.data);
		else if (!equals || equals == word.data)
			r = err_set(err, -EINVAL, "'%s' needs NAME=VALUE, not '%s'.", p->key,
				    word.data);
		else {
			*equals = '\0';
			r = map_put(&texts, word.data, equals + 1);
		}
	}
	buf_release(&word);
	if (r < 0) {
		texts_release(&texts);
		return r;
	}
	texts_release(ret);
	*ret = texts;
	return 0;
}

static int find_choice(const struct parameter *p, const char *text, struct err *err)
{
	struct nearest nearest = nearest_to(text);
	char all[256] = "";

	for (const char *const *old = p->aliases; old && *old; old += 2)
		if (strcmp(old[0], text) == 0)
			text = old[1];
	for (int i = 0; p->choices[i]; i++) {
		size_t used = strlen(all);

		if (strcmp(p->choices[i], text) == 0)
			return i;
		nearest_offer(&nearest, p->choices[i]);
		snprintf(all + used, sizeof(all) - used, "%s%s", i ? ", " : "", p->choices[i]);
	}
	if (nearest.best)
		return err_set(err, -EINVAL, "'%s' cannot be '%s'; did you mean '%s' (one of %s)?",
			       p->key, text, nearest.best, all);
	return err_set(err, -EINVAL, "'%s' cannot be '%s'; choose one of %s.", p->key, text, all);
}

static int parse_number(const struct parameter *p, const char *text, void *at, struct err *err)
{
	bool whole = p->type == PARAMETER_INT;
	int64_t integer = 0;
	double real;
	char *end;

	errno = 0;
	if (whole) {
		integer = strtoll(text, &end, 10);
		real = (double)integer;
	} else {
		real = strtod(text, &end);
	}
	if (end == text || *end || !isfinite(real) || (whole && errno))
		return err_set(err, -EINVAL, "'%s' needs a %s, not '%s'.", p->key,
			       whole ? "whole number" : "number", text);
	if (real < p->min || real > p->max)
		return err_set(err, -ERANGE, "'%s' cannot be %s; it must be from %.15g to %.15g.",
			       p->key, text, p->min, p->max);
	if (whole)
		*(int64_t *)at = integer;
	else
		*(double *)at = real;
	return 0;
}

static int parse_flag(const struct parameter *p, const char *text, bool *at, struct err *err)
{
	static const char *const words[] = { "false", "true", "no", "yes", "off", "on", "0", "1" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcasecmp(words[i], text) == 0) {
			*at = i & 1;
			return 0;
		}
	return err_set(err, -EINVAL, "'%s' needs true or false, not '%s'.", p->key, text);
}

/* Result files are UTF-8; anything else could not be written back unchanged. */
static int check_utf8(const struct parameter *p, const char *text, struct err *err)
{
	size_t length = strlen(text);

	for (size_t at = 0; at < length;) {
		uint32_t point;
		int valid;

		at += utf8_decode(text + at, length - at, &point, &valid);
		if (!valid)
			return err_set(err, -EILSEQ, "'%s' has a byte that is not UTF-8 at %zu.",
				       p->key, at - 1);
	}
	return 0;
}

static int set_text(const struct parameter *p, const char *text, char **at, struct err *err)
{
	char *copy = NULL;

	if (p->choices && *text) {
		int i = find_choice(p, text, err);

		if (i < 0)
			return i;
		text = p->choices[i];
	}
	if (*text) {
		copy = strdup(text);
		if (!copy)
			return -ENOMEM;
	}
	free(*at);
	*at = copy;
	return 0;
}

static int set_value(struct experiment *experiment, const struct parameter *p, const char *text,
		     struct err *err)
{
	void *at = parameter_field(experiment, p);
	int r = check_utf8(p, text, err);

	if (r < 0)
		return r;
	switch (p->type) {
	case PARAMETER_TEXT:
		return set_text(p, text, at, err);
	case PARAMETER_FLAG:
		return parse_flag(p, text, at, err);
	case PARAMETER_CHOICE:
		r = find_choice(p, text, err);
		if (r < 0)
			return r;
		*(int *)at = r;
		return 0;
	case PARAMETER_LIST:
	case PARAMETER_MAP:
		return parse_words(p, text, at, err);
	case PARAMETER_INT:
	case PARAMETER_NUMBER:
		break;
	}
	return parse_number(p, text, at, err);
}

int experiment_init(struct experiment *experiment)
{
	memset(experiment, 0, sizeof(*experiment));
	for (const struct parameter *p = parameters; p->key; p++) {
		int r = p->default_text ? set_value(experiment, p, p->default_text, NULL) : 0;

		if (r < 0) {
			experiment_release(experiment);
			return r;
		}
	}
	return 0;
}

void experiment_release(struct experiment *experiment)
{
	for (const struct parameter *p = parameters; p->key; p++) {
		void *at = parameter_field(experiment, p);

		if (p->type == PARAMETER_TEXT) {
			free(*(char **)at);
			*(char **)at = NULL;
		} else if (p->type == PARAMETER_LIST || p->type == PARAMETER_MAP) {
			texts_release(at);
		}
	}
}

int experiment_copy(struct experiment *to, const struct experiment *from)
{
	struct experiment copy = { 0 };

	for (const struct parameter *p = parameters; p->key; p++) {
		char *text = experiment_get(from, p);
		int r = text ? set_value(&copy, p, text, NULL) : -ENOMEM;

		free(text);
		if (r < 0) {
			experiment_release(&copy);
			return r;
		}
	}
	memcpy(copy.given, from->given, sizeof(copy.given));
	*to = copy;
	return 0;
}

int experiment_set(struct experiment *experiment, const char *key, const char *value,
		   struct err *err)
{
	const struct parameter *p = parameter_find(key);
	int r;

	if (!p) {
		const char *near = parameter_nearest(key);

		if (near)
			return err_set(err, -EINVAL, "there is no '%s'; did you mean '%s'?", key,
				       near);
		return err_set(err, -EINVAL,
			       "there is no '%s'; 'moescope bench --list-parameters' lists them.",
			       key);
	}
	r = set_value(experiment, p, value, err);
	if (r == -ENOMEM)
		return err_set(err, r, "no memory.");
	if (r == 0)
		experiment->given[p - parameters] = true;
	return r;
}

static char *words_text(const struct parameter *p, const struct texts *texts)
{
	struct buf out = { 0 };

	for (size_t i = 0; i < texts->n; i++) {
		bool map = p->type == PARAMETER_MAP;

		put_word(&out, map ? texts->v[i] : NULL, texts->v[i + (map ? 1 : 0)]);
		i += map ? 1 : 0;
	}
	buf_append(&out, "", 1);
	if (!out.failed)
		return out.data;
	buf_release(&out);
	return NULL;
}

char *experiment_get(const struct experiment *experiment, const struct parameter *parameter)
{
	const void *at = parameter_field(experiment, parameter);
	char number[40];

	switch (parameter->type) {
	case PARAMETER_TEXT:
		return strdup(*(char *const *)at ? *(char *const *)at : "");
	case PARAMETER_INT:
		snprintf(number, sizeof(number), "%lld", (long long)*(const int64_t *)at);
		return strdup(number);
	case PARAMETER_NUMBER:
		json_format_double(number, sizeof(number), *(const double *)at);
		return strdup(number);
	case PARAMETER_FLAG:
		return strdup(*(const bool *)at ? "true" : "false");
	case PARAMETER_CHOICE:
		return strdup(parameter->choices[*(const int *)at]);
	case PARAMETER_LIST:
	case PARAMETER_MAP:
		break;
	}
	return words_text(parameter, at);
}

/* The last part of a path, ignoring a trailing slash. */
static char *last_part(const char *path)
{
	size_t end = strlen(path), from;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (from = end; from > 0 && path[from - 1] != '/';)
		from--;
	return strndup(path + from, end - from);
}

int experiment_complete(struct experiment *experiment)
{
	const char *path = experiment->model_path ? experiment->model_path : experiment->model;
	char *name;

	if (experiment->model_name && experiment_given(experiment, parameter_find("model_name")))
		return 0;
	if (!path && strcmp(experiment->engine, "builtin") == 0)
		path = "tinymoe";
	if (!path)
		path = experiment->engine;
	name = last_part(path);
	if (!name)
		return -ENOMEM;
	free(experiment->model_name);
	experiment->model_name = name;
	return 0;
}

static int check_arrival(const struct experiment *e, struct err *err)
{
	bool clocked = e->arrival == ARRIVAL_CONSTANT || e->arrival == ARRIVAL_POISSON ||
		       e->arrival == ARRIVAL_GAMMA;

	if (clocked && e->ramp == RAMP_NONE && !(e->request_rate > 0))
		return err_set(err, -EINVAL, "'arrival: %s' needs a request_rate above 0.",
			       arrivals[e->arrival]);
	if (e->arrival == ARRIVAL_TRACE && !e->arrival_trace)
		return err_set(err, -EINVAL,
			       "'arrival: trace' needs a file in arrival_trace to replay.");
	if (e->ramp != RAMP_NONE && !clocked)
		return err_set(err, -EINVAL,
			       "a ramp needs an arrival with a rate: constant, poisson or gamma.");
	if (e->ramp != RAMP_NONE && !(e->ramp_start > 0 && e->ramp_end > 0))
		return err_set(err, -EINVAL, "a ramp needs ramp_start and ramp_end, both above 0.");
	return 0;
}

int experiment_check(const struct experiment *experiment, struct err *err)
{
	const char *engine = experiment->engine;

	if (!engine)
		return err_set(err, -EINVAL, "'engine' is empty; omit it for the embedded model.");
	if (strcmp(engine, "command") == 0 && !experiment->command)
		return err_set(err, -EINVAL,
			       "engine 'command' needs a command, such as "
			       "--command './serve --batch {batch_size}'.");
	if (strcmp(engine, "openai") == 0 && !experiment->url)
		return err_set(err, -EINVAL,
			       "engine 'openai' needs the url of the server, such as "
			       "--url http://127.0.0.1:8000.");
	if (experiment->experiment_name &&
	    (strchr(experiment->experiment_name, '/') || experiment->experiment_name[0] == '.'))
		return err_set(
			err, -EINVAL,
			"'experiment_name' is a folder's name without '/', not beginning with "
			"a dot; output_dir says where it lies.");
	return check_arrival(experiment, err);
}

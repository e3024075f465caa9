/* SPDX-License-Identifier: Apache-2.0
 *
 * One experiment: every parameter with its name, type, default and help in one table
 * (experiment.c). The YAML reader and writer, the options of `bench` and `sweep`, the Python
 * classes and the documentation follow that table. A parameter that was not given has its default;
 * `given` tells which were.
 */
#ifndef LAB_EXPERIMENT_H
#define LAB_EXPERIMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum parameter_type {
	PARAMETER_TEXT,	  /* char *; NULL: none */
	PARAMETER_INT,	  /* int64_t */
	PARAMETER_NUMBER, /* double */
	PARAMETER_FLAG,	  /* bool */
	PARAMETER_CHOICE, /* int, index into choices */
	PARAMETER_LIST,	  /* struct texts */
	PARAMETER_MAP,	  /* struct texts: name, value, name, value */
};

struct texts {
	char **v;
	size_t n;
};
int texts_add(struct texts *texts, const char *text); /* 0 or -ENOMEM */
void texts_release(struct texts *texts);

/* Chapters of the table. */
enum parameter_part { PART_WORK, PART_MEASURE, PART_LOAD, PART_PLACE, PART_SWEEP, PARAMETER_PARTS };
extern const char *const parameter_parts[PARAMETER_PARTS];

struct parameter {
	const char *key; /* in YAML and in a sweep; the option is the same with dashes */
	enum parameter_part part;
	enum parameter_type type;
	const char *default_text;   /* as it would be written; NULL: none */
	const char *help;	    /* one line, no full stop */
	const char *const *choices; /* of a CHOICE, or the only values of a TEXT; NULL: any */
	const char *const *aliases; /* old names of choices, in pairs: old, new */
	double min, max;
	size_t offset; /* in struct experiment */
};

enum task { TASK_INFERENCE, TASK_TRAINING };
enum profile_mode { PROFILE_INFERENCE_ONLY, PROFILE_TRACE, PROFILE_FULL };
enum arrival { ARRIVAL_CLOSED, ARRIVAL_CONSTANT, ARRIVAL_POISSON, ARRIVAL_GAMMA, ARRIVAL_TRACE };
enum ramp { RAMP_NONE, RAMP_LINEAR, RAMP_EXPONENTIAL };
enum endpoint { ENDPOINT_CHAT, ENDPOINT_COMPLETIONS };

#define PARAMETERS_MAX 96

struct experiment {
	/* what runs */
	char *engine, *model, *model_path, *model_name;
	int task; /* enum task */
	char *prompt;
	int64_t max_tokens, batch_size;
	int64_t tensor_parallel_size, pipeline_parallel_size, data_parallel_size;
	double temperature;
	char *command; /* of engine `command`, with {parameter} placeholders */
	struct texts server_args;
	int64_t steps, threads;
	/* how it is measured */
	int profile_mode; /* enum profile_mode */
	int64_t repeats, warmup, seed;
	double time_limit_s; /* 0: none */
	struct texts environment, trace_options, counter_options;
	double price_per_hour; /* of the machine; 0: unknown */
	/* load of a server */
	char *url, *api_key;
	int endpoint; /* enum endpoint */
	int64_t requests, concurrency;
	int arrival; /* enum arrival */
	double request_rate, burstiness;
	bool rescale, ignore_eos, stop_over_saturated;
	int ramp; /* enum ramp */
	double ramp_start, ramp_end;
	char *arrival_trace, *prompt_tokens, *output_tokens; /* the last two: distributions */
	char *goodput;					     /* "ttft:200 tpot:50 e2el:2000", ms */
	double request_timeout_s, cancel_pct, cancel_after_s;
	char *dialect;
	/* where it goes */
	char *experiment_name, *output_dir;
	/* a sweep over it */
	char *parameter_sweep, *preset, *launcher;
	struct texts gpus, launcher_args;
	int64_t nodes, processes;

	bool given[PARAMETERS_MAX]; /* by index of the table */
};

extern const struct parameter parameters[]; /* ends with a NULL key */
/* Aliases of parameters, in pairs: theirs, ours; NULL-terminated. */
extern const char *const parameter_aliases[];

/* Keys of the sizes whose product is the number of GPUs of a model; NULL-terminated. */
extern const char *const parallel_sizes[];
/* That product. Launcher processes count one GPU each, if they are more. */
int64_t experiment_parallel(const struct experiment *experiment);
/* The first of them that is not 1; NULL: all are. */
const char *experiment_parallel_by(const struct experiment *experiment);

/* By key or alias; NULL: unknown. */
const struct parameter *parameter_find(const char *key);
/* The key that was probably meant; NULL: nothing similar. */
const char *parameter_nearest(const char *key);
const char *parameter_type_name(enum parameter_type type);
static inline bool experiment_given(const struct experiment *experiment,
				    const struct parameter *parameter)
{
	return experiment->given[parameter - parameters];
}
/* All defaults. 0 or -ENOMEM. */
int experiment_init(struct experiment *experiment);
int experiment_copy(struct experiment *to, const struct experiment *from);
void experiment_release(struct experiment *experiment);
/* Sets a value from text, as in a flag or a sweep. One sentence on a bad value, or an unknown key
 * with a suggestion. A list is words separated by blanks or commas, a map is NAME=VALUE likewise;
 * quotes and backslashes protect blanks and commas. Empty text means none. */
int experiment_set(struct experiment *experiment, const char *key, const char *value,
		   struct err *err);
/* The value as text that experiment_set reads back; free() it. NULL: no memory. */
char *experiment_get(const struct experiment *experiment, const struct parameter *parameter);
/* The same for a list or a map, which grows. */
int experiment_append(struct experiment *experiment, const struct parameter *parameter,
		      const char *name, const char *value);
/* Derives values from others: model_name from the path. Call it when everything is given, and again
 * after a change. 0 or -ENOMEM. */
int experiment_complete(struct experiment *experiment);
/* Checks combinations: once everything is given. */
int experiment_check(const struct experiment *experiment, struct err *err);

/* YAML. Errors name file, line and column. The writer writes every value, so the file is the
 * effective configuration. */
int experiment_load(struct experiment *experiment, const char *path, struct err *err);
int experiment_save(const struct experiment *experiment, const char *path, struct err *err);

#endif

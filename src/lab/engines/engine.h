/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of engines: what runs an experiment. A `driver` is a program that does the work and
 * writes requests.jsonl; a `server` is one that the load client (load.h) talks to; an engine with
 * neither is a server that is already running. Adding one is one file and one line.
 */
#ifndef LAB_ENGINE_H
#define LAB_ENGINE_H

#include "lab/serving/requests.h"
#include "lab/shared/experiment.h"

/* Variables in a driver's environment. */
#define DRIVER_REQUESTS "MOESCOPE_BENCH_REQUESTS" /* file to write requests.jsonl to */
#define DRIVER_CONFIG "MOESCOPE_BENCH_CONFIG"	  /* the effective configuration, YAML */

/* Programs that the tool needs, by path. */
struct lab_tools {
	const char *moescope, *tinymoe, *python;
};

struct argv {
	char **v; /* ends with NULL */
	size_t n, capacity;
};
int argv_add(struct argv *argv, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds several words; NULL ends them. */
int argv_add_all(struct argv *argv, ...) __attribute__((sentinel));
void argv_release(struct argv *argv);

/* A server's own count of the tokens per expert, queried over HTTP around the load. It includes
 * warm-up. */
struct engine_recorder {
	bool (*wanted)(const struct experiment *experiment);
	const char *const *begin, *const *end; /* paths to GET; each list ends with NULL */
	/* A program that creates EXPERTS_FILE in `directory` from what the server left there. */
	int (*collect)(const struct lab_tools *tools, const char *directory, struct argv *argv,
		       struct err *err);
};
#define EXPERTS_FILE "expert_distribution.csv" /* layer,expert,tokens */

struct engine {
	const char *name, *summary; /* one line, no full stop */
	bool trains;		    /* task: training is possible */
	bool gpus;		    /* its driver or server runs on GPUs of this machine, if any */
	/* 0, or -ENOENT with a sentence that contains the command to install what is missing. */
	int (*check)(const struct experiment *experiment, const struct lab_tools *tools,
		     struct err *err);
	int (*driver)(const struct experiment *experiment, const struct lab_tools *tools,
		      const char *directory, struct argv *argv, struct err *err);
	int (*server)(const struct experiment *experiment, const struct lab_tools *tools,
		      const char *directory, int port, struct argv *argv, struct err *err);
	const char *ready_path;			/* of a server: answers 200 when it is ready */
	const struct engine_recorder *recorder; /* of a server; NULL: it has none */
};

extern const struct engine *const engines[]; /* ends with NULL */
const struct engine *engine_find(const char *name);

/* The line of engine `command` with its values; free() it. */
int command_expand(const struct experiment *experiment, char **ret_line, struct err *err);

extern const struct engine engine_builtin, engine_command, engine_transformers, engine_openai,
	engine_vllm, engine_sglang;

#endif

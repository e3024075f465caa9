/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line. One table in options.c provides parsing, ranges and --help.
 */
#ifndef TINYMOE_OPTIONS_H
#define TINYMOE_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "tinymoe/parameters/config.h"

struct failure;

struct settings {
	struct config config;
	int32_t steps, threads, generate, log_every;
	int32_t sequences, repeats, warmup;
	int32_t quiet, describe, help; /* flags */
	double temperature;
	const char *corpus, *save, *load, *prompt, *counts, *requests;
	uint64_t given; /* bit i: row i of the table was on the command line */
};

/* 0, or -EINVAL and a sentence. Strings point into argv. */
int options_parse(int argc, char **argv, struct settings *ret_settings, struct failure *failure);

/* Takes from a checkpoint's configuration what the command line did not set. An architecture option
 * that contradicts the checkpoint fails. */
int options_merge(struct settings *settings, const struct config *checkpoint,
		  struct failure *failure);

void options_help(FILE *out);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of an experiment as options: made from the table of lab/shared/experiment.h, so that there
 * is no second list. `bench` has all but those of a sweep.
 */
#ifndef CMD_PARAMETER_OPTIONS_H
#define CMD_PARAMETER_OPTIONS_H

#include "cmd/options/options.h"
#include "lab/shared/experiment.h"

struct parameter_values {
	struct parameter_words words; /* first: options of parameters write into it */
	const char *config;
};

/* Destination: struct parameter_values, at the base of the group. */
extern const struct option_desc config_options[];
extern struct option_desc parameter_options[];
extern struct option_desc sweep_parameter_options[]; /* those of a sweep alone */

/* Fills the two of parameters, once, before options are parsed. 0 or -ENOMEM. */
int parameter_options_make(void);

/* The defaults, then the file of --config, then the words; checked and complete. EXIT_OK, or
 * EXIT_USAGE after saying what is wrong. The caller releases the experiment then, and only then. */
int parameters_take(const struct command *command, const struct parameter_values *values,
		    struct experiment *ret_experiment);

/* The same, neither checked nor complete: the values of a sweep may be what is missing. */
int parameters_read(const struct command *command, const struct parameter_values *values,
		    struct experiment *ret_experiment);

/* Programs that experiments stand on; static, found once. */
struct lab_tools;
const struct lab_tools *lab_tools_find(void);

#endif

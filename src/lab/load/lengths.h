/* SPDX-License-Identifier: Apache-2.0
 *
 * Lengths of prompts and answers from text: "128", "uniform:64,256" (inclusive),
 * "normal:MEAN,DEVIATION", "lognormal:MEDIAN,SIGMA" (sigma of the natural logarithm), or
 * "file:PATH" with one whole number per line, taken in turn. Every length is at least 1.
 *
 * Prompts consist of that many short English words. Most tokenizers have a token for each; the
 * server's count is the truth.
 */
#ifndef LAB_LENGTHS_H
#define LAB_LENGTHS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "lab/load/sampling.h"

enum lengths_kind {
	LENGTHS_FIXED,
	LENGTHS_UNIFORM,
	LENGTHS_NORMAL,
	LENGTHS_LOGNORMAL,
	LENGTHS_FILE
};

#define LENGTH_MAX ((int64_t)1 << 24)

struct lengths {
	enum lengths_kind kind;
	double a, b;
	int64_t *list; /* of a file */
	size_t n, next;
};

/* `key` names the parameter in the sentence. */
int lengths_parse(const char *text, const char *key, struct lengths *ret_lengths, struct err *err);
void lengths_release(struct lengths *lengths);
int64_t lengths_draw(struct lengths *lengths, struct sampler *sampler);
void prompt_append(struct buf *buf, struct sampler *sampler, int64_t words);

#endif

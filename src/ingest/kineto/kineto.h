/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of PyTorch (Kineto) traces, with the choices that it makes by itself; tests and benchmarks
 * make them.
 */
#ifndef INGEST_KINETO_H
#define INGEST_KINETO_H

#include "ingest/ingest.h"

struct scan;

struct kineto_choices {
	const struct scan *scan; /* how text is looked through */
	size_t block_bytes;	 /* what one thread reads at a time */
	unsigned int workers;
};

int kineto_read(const struct ingest_file *file, struct intake *intake,
		const struct kineto_choices *choices, struct err *err);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix multiplication on one thread: CBLAS if built with HAVE_CBLAS, otherwise plain C.
 *
 * The same call with the same operands always gives the same bits: callers split parallel work into
 * calls, this file never does.
 */
#ifndef TINYMOE_GEMM_H
#define TINYMOE_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "tinymoe/system/real.h"

/* A row-major matrix or a window of one; `transposed` means the product uses its transpose. */
struct matrix {
	const real *data;
	size_t stride;
	bool transposed;
};

static inline struct matrix plain(const real *data, size_t stride)
{
	return (struct matrix){ data, stride, false };
}

static inline struct matrix transposed(const real *data, size_t stride)
{
	return (struct matrix){ data, stride, true };
}

/* Once, before the first gemm and before any thread starts. */
void gemm_init(void);

/* c[m,n] = alpha * a[m,k] * b[k,n], or += with `accumulate`. Costs 2*m*n*k FLOPs. */
void gemm(size_t m, size_t n, size_t k, real alpha, struct matrix a, struct matrix b,
	  bool accumulate, real *c, size_t c_stride);

/* "OpenBLAS 0.3.21", "CBLAS" or "plain C". */
const char *gemm_name(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix multiplication. Any thread; the packing buffers are per thread.
 *
 * The plain C path is the usual scheme: panels of both operands are packed so that the inner
 * kernel reads them in order, and the kernel keeps a ROWS x COLUMNS tile of the result in vector
 * registers. Panels are padded with zeros, so the kernel has no edge cases.
 */
#include "tinymoe/math/gemm.h"

#ifdef HAVE_CBLAS

#include <cblas.h>
#include <string.h>

/* Only in OpenBLAS; with another CBLAS they are null. */
extern void openblas_set_num_threads(int threads) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));

void gemm_init(void)
{
	/* Our pool does the threading; results would depend on a second layer below it. */
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
}

const char *gemm_name(void)
{
	static char name[32];
	const char *config = openblas_get_config ? openblas_get_config() : NULL;

	if (!config)
		return "CBLAS";
	/* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words. */
	size_t length = strcspn(config, " ");

	if (config[length])
		length += 1 + strcspn(config + length + 1, " ");
	if (length >= sizeof(name))
		length = sizeof(name) - 1;
	memcpy(name, config, length);
	name[length] = 0;
	return name;
}

void gemm(size_t m, size_t n, size_t k, real alpha, struct matrix a, struct matrix b,
	  bool accumulate, real *c, size_t c_stride)
{
	CBLAS_TRANSPOSE a_op = a.transposed ? CblasTrans : CblasNoTrans;
	CBLAS_TRANSPOSE b_op = b.transposed ? CblasTrans : CblasNoTrans;

#ifdef TINYMOE_DOUBLE
	cblas_dgemm(CblasRowMajor, a_op, b_op, (int)m, (int)n, (int)k, alpha, a.data, (int)a.stride,
		    b.data, (int)b.stride, accumulate ? 1 : 0, c, (int)c_stride);
#else
	cblas_sgemm(CblasRowMajor, a_op, b_op, (int)m, (int)n, (int)k, alpha, a.data, (int)a.stride,
		    b.data, (int)b.stride, accumulate ? 1 : 0, c, (int)c_stride);
#endif
}

#else

#include <string.h>

typedef real vector __attribute__((vector_size(32), may_alias));

enum {
	LANES = sizeof(vector) / sizeof(real),
	ROWS = 4,
	COLUMNS = 2 * LANES,
	DEPTH_BLOCK = 256,
	ROW_BLOCK = 16 * ROWS,
	COLUMN_BLOCK = 8 * COLUMNS,
};

static _Thread_local real packed_a[ROW_BLOCK * DEPTH_BLOCK] __attribute__((aligned(64)));
static _Thread_local real packed_b[COLUMN_BLOCK * DEPTH_BLOCK] __attribute__((aligned(64)));

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* tile = a panel * b panel. Inlined into one function per instruction set. */
static inline __attribute__((always_inline)) void kernel(size_t depth, const real *a, const real *b,
							 real *tile)
{
	vector sum[ROWS][2] = { 0 };

	for (size_t p = 0; p < depth; p++) {
		const vector *row = (const vector *)__builtin_assume_aligned(b + p * COLUMNS, 32);

		for (int i = 0; i < ROWS; i++) {
			sum[i][0] += a[p * ROWS + i] * row[0];
			sum[i][1] += a[p * ROWS + i] * row[1];
		}
	}
	memcpy(tile, sum, sizeof(sum));
}

typedef void kernel_function(size_t depth, const real *a, const real *b, real *tile);

static void kernel_generic(size_t depth, const real *a, const real *b, real *tile)
{
	kernel(depth, a, b, tile);
}

static kernel_function *best_kernel = kernel_generic;

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) static void kernel_avx2(size_t depth, const real *a,
							    const real *b, real *tile)
{
	kernel(depth, a, b, tile);
}

void gemm_init(void)
{
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		best_kernel = kernel_avx2;
}
#else
void gemm_init(void)
{
}
#endif

const char *gemm_name(void)
{
	return "plain C";
}

/* Strips of `width` lines (rows of a, columns of b), each stored depth by depth. `across` and
 * `along` are the distances in memory between lines and between depths. */
static void pack(real *to, const real *from, size_t lines, size_t depth, size_t width,
		 size_t across, size_t along)
{
	for (size_t first = 0; first < lines; first += width) {
		size_t valid = min_size(width, lines - first);

		for (size_t p = 0; p < depth; p++) {
			const real *source = from + first * across + p * along;

			for (size_t i = 0; i < valid; i++)
				to[i] = source[i * across];
			for (size_t i = valid; i < width; i++)
				to[i] = 0;
			to += width;
		}
	}
}

/* c[m,n] += alpha * packed_a * packed_b for one block. */
static void multiply_block(size_t m, size_t n, size_t depth, real alpha, real *c, size_t c_stride)
{
	real tile[ROWS * COLUMNS] __attribute__((aligned(64)));

	for (size_t j = 0; j < n; j += COLUMNS) {
		size_t columns = min_size(COLUMNS, n - j);

		for (size_t i = 0; i < m; i += ROWS) {
			size_t rows = min_size(ROWS, m - i);

			best_kernel(depth, packed_a + i * depth, packed_b + j * depth, tile);
			for (size_t r = 0; r < rows; r++) {
				real *out = c + (i + r) * c_stride + j;

				for (size_t s = 0; s < columns; s++)
					out[s] += alpha * tile[r * COLUMNS + s];
			}
		}
	}
}

void gemm(size_t m, size_t n, size_t k, real alpha, struct matrix a, struct matrix b,
	  bool accumulate, real *c, size_t c_stride)
{
	size_t a_across = a.transposed ? 1 : a.stride, a_along = a.transposed ? a.stride : 1;
	size_t b_across = b.transposed ? b.stride : 1, b_along = b.transposed ? 1 : b.stride;

	for (size_t i = 0; i < m && !accumulate; i++)
		memset(c + i * c_stride, 0, n * sizeof(real));
	for (size_t j = 0; j < n; j += COLUMN_BLOCK) {
		size_t columns = min_size(COLUMN_BLOCK, n - j);

		for (size_t p = 0; p < k; p += DEPTH_BLOCK) {
			size_t depth = min_size(DEPTH_BLOCK, k - p);

			pack(packed_b, b.data + j * b_across + p * b_along, columns, depth, COLUMNS,
			     b_across, b_along);
			for (size_t i = 0; i < m; i += ROW_BLOCK) {
				size_t rows = min_size(ROW_BLOCK, m - i);

				pack(packed_a, a.data + i * a_across + p * a_along, rows, depth,
				     ROWS, a_across, a_along);
				multiply_block(rows, columns, depth, alpha, c + i * c_stride + j,
					       c_stride);
			}
		}
	}
}

#endif

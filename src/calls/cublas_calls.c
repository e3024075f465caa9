/* SPDX-License-Identifier: Apache-2.0
 *
 * libmoescope-calls-cublas.so: matrix products of cuBLAS and cuBLASLt, with their sizes as the library counts them
 * (matrices by columns). Any thread of the program.
 */
#include "calls/cublas_table.h"
#include "calls/device_call.h"

#include <string.h>

#define NOT_INITIALIZED 1 /* CUBLAS_STATUS_NOT_INITIALIZED */

/* cudaDataType, as library_types.h numbers them. */
enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_C_32F = 4, CUDA_C_64F = 5 };
static struct number_type types[] = {
	{ 0, "fp32", 0 },      { 1, "fp64", 0 },       { 2, "fp16", 0 },      { 3, "int8", 0 },
	{ 4, "complex64", 0 }, { 5, "complex128", 0 }, { 6, "complex32", 0 }, { 8, "uint8", 0 },
	{ 10, "int32", 0 },    { 14, "bf16", 0 },      { 28, "fp8_e4m3", 0 }, { 29, "fp8_e5m2", 0 },
	{ 33, "fp4_e2m1", 0 },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

enum {
#define FORM(name, integer, type) WRAPPED_##name,
	CUBLAS_CALLS(FORM)
#undef FORM
		N_WRAPPED
};

static struct wrapped wrapped[N_WRAPPED] = {
#define FORM(name, integer, type) { #name, NULL, CALLS_NO_FUNCTION },
	CUBLAS_CALLS(FORM)
#undef FORM
};

static void *find_cublas(const char *name)
{
	return loaded_find(strncmp(name, "cublasLt", strlen("cublasLt")) ? "libcublas.so"
									 : "libcublasLt.so",
			   name);
}

static moescope_name cuda_type(int number)
{
	return type_name(types, N_TYPES, number);
}

#define GEMM(name, parameters, arguments, number, products)                                        \
	DEVICE_CALL(name, find_cublas, NOT_INITIALIZED, parameters, arguments, .peer = -1,         \
		    .type = cuda_type(number), .m = (uint64_t)m, .n = (uint64_t)n,                 \
		    .k = (uint64_t)k, .batch = (uint64_t)(products))

#define FORM(name, integer, type)                                                                  \
	GEMM(name,                                                                                 \
	     (void *handle, int ta, int tb, integer m, integer n, integer k, const void *alpha,    \
	      const void *a, integer lda, const void *b, integer ldb, const void *beta, void *c,   \
	      integer ldc),                                                                        \
	     (handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), type, 1)
PLAIN_GEMMS(FORM)
#undef FORM

#define FORM(name, integer, type)                                                                  \
	GEMM(name,                                                                                 \
	     (void *handle, int ta, int tb, integer m, integer n, integer k, const void *alpha,    \
	      const void *a, integer lda, long long to_a, const void *b, integer ldb,              \
	      long long to_b, const void *beta, void *c, integer ldc, long long to_c,              \
	      integer batch_count),                                                                \
	     (handle, ta, tb, m, n, k, alpha, a, lda, to_a, b, ldb, to_b, beta, c, ldc, to_c,      \
	      batch_count),                                                                        \
	     type, batch_count)
STRIDED_GEMMS(FORM)
#undef FORM

#define FORM(name, integer, type)                                                                  \
	GEMM(name,                                                                                 \
	     (void *handle, int ta, int tb, integer m, integer n, integer k, const void *alpha,    \
	      const void *const *a, integer lda, const void *const *b, integer ldb,                \
	      const void *beta, void *const *c, integer ldc, integer batch_count),                 \
	     (handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, batch_count), type,    \
	     batch_count)
BATCHED_GEMMS(FORM)
#undef FORM

#define FORM(name, integer, type)                                                                  \
	GEMM(name,                                                                                 \
	     (void *handle, int ta, int tb, integer m, integer n, integer k, const void *alpha,    \
	      const void *a, int a_type, integer lda, const void *b, int b_type, integer ldb,      \
	      const void *beta, void *c, int c_type, integer ldc, int compute, int algorithm),     \
	     (handle, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type,     \
	      ldc, compute, algorithm),                                                            \
	     type, 1)
EX_GEMMS(FORM)
#undef FORM

#define FORM(name, integer, type)                                                                  \
	GEMM(name,                                                                                 \
	     (void *handle, int ta, int tb, integer m, integer n, integer k, const void *alpha,    \
	      const void *a, int a_type, integer lda, const void *b, int b_type, integer ldb,      \
	      const void *beta, void *c, int c_type, integer ldc),                                 \
	     (handle, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type,     \
	      ldc),                                                                                \
	     type, 1)
SINGLE_EX_GEMMS(FORM)
#undef FORM

#define FORM(name, integer, type)                                                                  \
	GEMM(name,                                                                                 \
	     (void *handle, int ta, int tb, integer m, integer n, integer k, const void *alpha,    \
	      const void *a, int a_type, integer lda, long long to_a, const void *b, int b_type,   \
	      integer ldb, long long to_b, const void *beta, void *c, int c_type, integer ldc,     \
	      long long to_c, integer batch_count, int compute, int algorithm),                    \
	     (handle, ta, tb, m, n, k, alpha, a, a_type, lda, to_a, b, b_type, ldb, to_b, beta, c, \
	      c_type, ldc, to_c, batch_count, compute, algorithm),                                 \
	     type, batch_count)
STRIDED_EX_GEMMS(FORM)
#undef FORM

#define FORM(name, integer, type)                                                                  \
	GEMM(name,                                                                                 \
	     (void *handle, int ta, int tb, integer m, integer n, integer k, const void *alpha,    \
	      const void *const *a, int a_type, integer lda, const void *const *b, int b_type,     \
	      integer ldb, const void *beta, void *const *c, int c_type, integer ldc,              \
	      integer batch_count, int compute, int algorithm),                                    \
	     (handle, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type, ldb, beta, c, c_type,     \
	      ldc, batch_count, compute, algorithm),                                               \
	     type, batch_count)
BATCHED_EX_GEMMS(FORM)
#undef FORM

/* ---- cuBLASLt: sizes are in descriptions, which the library itself reads out */

enum {
	LAYOUT_TYPE = 0,
	LAYOUT_ROWS = 2,
	LAYOUT_COLUMNS = 3,
	LAYOUT_BATCH = 5,
	PRODUCT_TRANSPOSES_A = 3
};
typedef int attribute_getter(const void *of, int attribute, void *to, size_t size, size_t *written);

static attribute_getter *getter(_Atomic(void *) *known, const char *name)
{
	void *found = atomic_load_explicit(known, memory_order_relaxed);

	if (!found) {
		found = loaded_find("libcublasLt.so", name);
		atomic_store_explicit(known, found, memory_order_relaxed);
	}
	return (attribute_getter *)found;
}

static int32_t attribute_32(attribute_getter *get, const void *of, int attribute, int32_t otherwise)
{
	int32_t value = 0;
	size_t written = 0;

	return get && of && get(of, attribute, &value, sizeof(value), &written) == 0 ? value
										     : otherwise;
}

static uint64_t attribute_64(attribute_getter *get, const void *of, int attribute)
{
	uint64_t value = 0;
	size_t written = 0;

	return get && of && get(of, attribute, &value, sizeof(value), &written) == 0 ? value : 0;
}

static struct call_sizes product_sizes(const void *product, const void *a, const void *d,
				       int status)
{
	static _Atomic(void *) of_layout, of_product;
	attribute_getter *layout = getter(&of_layout, "cublasLtMatrixLayoutGetAttribute");
	bool transposed = attribute_32(getter(&of_product, "cublasLtMatmulDescGetAttribute"),
				       product, PRODUCT_TRANSPOSES_A, 0) != 0;

	return (struct call_sizes){
		.type = cuda_type(attribute_32(layout, a, LAYOUT_TYPE, -1)),
		.m = attribute_64(layout, d, LAYOUT_ROWS),
		.n = attribute_64(layout, d, LAYOUT_COLUMNS),
		.k = attribute_64(layout, a, transposed ? LAYOUT_ROWS : LAYOUT_COLUMNS),
		.batch = (uint64_t)attribute_32(layout, d, LAYOUT_BATCH, 1),
		.peer = -1,
		.status = (uint32_t)status,
	};
}

EXPORT int cublasLtMatmul(void *handle, const void *product, const void *alpha, const void *a,
			  const void *a_layout, const void *b, const void *b_layout,
			  const void *beta, const void *c, const void *c_layout, void *d,
			  const void *d_layout, const void *algorithm, void *workspace,
			  size_t workspace_bytes, void *stream);
EXPORT int cublasLtMatmul(void *handle, const void *product, const void *alpha, const void *a,
			  const void *a_layout, const void *b, const void *b_layout,
			  const void *beta, const void *c, const void *c_layout, void *d,
			  const void *d_layout, const void *algorithm, void *workspace,
			  size_t workspace_bytes, void *stream)
{
	int (*real)(void *, const void *, const void *, const void *, const void *, const void *,
		    const void *, const void *, const void *, const void *, void *, const void *,
		    const void *, void *, size_t,
		    void *) = wrapped_real(&wrapped[WRAPPED_cublasLtMatmul], find_cublas);
	uint64_t start;
	int result;

	if (!real)
		return NOT_INITIALIZED;
	start = device_call_begin();
	result = real(handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
		      d_layout, algorithm, workspace, workspace_bytes, stream);
	if (start) {
		struct call_sizes sizes = product_sizes(product, a_layout, d_layout, result);

		moescope_calls_end(wrapped[WRAPPED_cublasLtMatmul].function, start, &sizes);
	}
	return result;
}

__attribute__((constructor)) static void register_all(void)
{
	types_register(types, N_TYPES);
	wrapped_register(wrapped, N_WRAPPED, "cublas");
}

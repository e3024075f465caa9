/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries of a device, for run --calls: as many functions of cuBLAS, cuBLASLt, cuDNN and NCCL as the test calls, by the
 * names and with the arguments of the real ones. Each is made of this file by FAKE_CUBLAS and so on. A call takes 2 ms, so
 * that its time can be told from that of a wrapper. They check what arrives, and return a status of their own where it is
 * not what was sent.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

static int busy(int status)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < 2000000L);
	return status;
}

#if defined(FAKE_CUBLASLT)
/* As in the real one, rows come as 64 bits, types and counts as 32. */
struct layout {
	int32_t type, batch;
	uint64_t rows, columns;
};
int cublasLtMatrixLayoutGetAttribute(const void *of, int attribute, void *to, size_t size,
				     size_t *written);
int cublasLtMatmulDescGetAttribute(const void *of, int attribute, void *to, size_t size,
				   size_t *written);
int cublasLtMatmul(void *handle, const void *product, const void *alpha, const void *a,
		   const void *a_layout, const void *b, const void *b_layout, const void *beta,
		   const void *c, const void *c_layout, void *d, const void *d_layout,
		   const void *algorithm, void *workspace, size_t bytes, void *stream);

EXPORT int cublasLtMatrixLayoutGetAttribute(const void *of, int attribute, void *to, size_t size,
					    size_t *written)
{
	const struct layout *layout = of;
	const void *from = attribute == 0   ? (const void *)&layout->type
			   : attribute == 5 ? (const void *)&layout->batch
			   : attribute == 2 ? (const void *)&layout->rows
			   : attribute == 3 ? (const void *)&layout->columns
					    : NULL;
	size_t wanted = attribute == 0 || attribute == 5 ? 4 : 8;

	if (!from || size != wanted)
		return 7;
	memcpy(to, from, size);
	*written = size;
	return 0;
}

EXPORT int cublasLtMatmulDescGetAttribute(const void *of, int attribute, void *to, size_t size,
					  size_t *written)
{
	if (attribute != 3 || size != 4)
		return 7;
	memcpy(to, of, size);
	*written = size;
	return 0;
}

EXPORT int cublasLtMatmul(void *handle, const void *product, const void *alpha, const void *a,
			  const void *a_layout, const void *b, const void *b_layout,
			  const void *beta, const void *c, const void *c_layout, void *d,
			  const void *d_layout, const void *algorithm, void *workspace,
			  size_t bytes, void *stream)
{
	(void)handle, (void)product, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout,
		(void)beta;
	(void)c, (void)c_layout, (void)d, (void)d_layout, (void)algorithm, (void)workspace;
	return busy(bytes == 11 && stream == (void *)13 ? 0 : 9);
}
#endif

#if defined(FAKE_CUBLAS)
int cublasLtMatmul(void *handle, const void *product, const void *alpha, const void *a,
		   const void *a_layout, const void *b, const void *b_layout, const void *beta,
		   const void *c, const void *c_layout, void *d, const void *d_layout,
		   const void *algorithm, void *workspace, size_t bytes, void *stream);
int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
		   const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
		   int ldc);
int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
		 const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
		 const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);
int cublasGemmStridedBatchedEx_64(void *handle, int ta, int tb, int64_t m, int64_t n, int64_t k,
				  const void *alpha, const void *a, int a_type, int64_t lda,
				  long long to_a, const void *b, int b_type, int64_t ldb,
				  long long to_b, const void *beta, void *c, int c_type,
				  int64_t ldc, long long to_c, int64_t count, int compute,
				  int algorithm);

EXPORT int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
			  const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
			  int ldc)
{
	(void)handle, (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)alpha, (void)a,
		(void)lda, (void)b;
	(void)ldb, (void)beta, (void)c;
	return busy(ldc == 17 ? 0 : 9);
}

/* Some products are made by the other library. */
EXPORT int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
			const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
			const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
	static const struct {
		int32_t type, batch;
		uint64_t rows, columns;
	} inner_a = { 14, 1, 30, 10 }, inner_d = { 14, 1, 10, 20 };
	static const int32_t transposes = 1;

	(void)ta, (void)tb, (void)m, (void)n, (void)k, (void)lda, (void)b_type, (void)ldb,
		(void)c_type, (void)ldc;
	busy(0);
	return a_type == 14 && compute == 68 && algorithm == 99
		       ? cublasLtMatmul(handle, &transposes, alpha, a, &inner_a, b, NULL, beta, c,
					NULL, c, &inner_d, NULL, NULL, 11, (void *)13)
		       : 9;
}

EXPORT int cublasGemmStridedBatchedEx_64(void *handle, int ta, int tb, int64_t m, int64_t n,
					 int64_t k, const void *alpha, const void *a, int a_type,
					 int64_t lda, long long to_a, const void *b, int b_type,
					 int64_t ldb, long long to_b, const void *beta, void *c,
					 int c_type, int64_t ldc, long long to_c, int64_t count,
					 int compute, int algorithm)
{
	(void)handle, (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)alpha, (void)a,
		(void)a_type;
	(void)lda, (void)to_a, (void)b, (void)b_type, (void)ldb, (void)to_b, (void)beta, (void)c,
		(void)c_type;
	(void)ldc, (void)to_c, (void)count, (void)compute;
	return busy(algorithm == 99 ? 0 : 9);
}
#endif

#if defined(FAKE_CUDNN)
int cudnnBackendExecute(void *handle, void *plan, void *variants);

EXPORT int cudnnBackendExecute(void *handle, void *plan, void *variants)
{
	return busy(handle == (void *)1 && plan == (void *)2 && variants == (void *)3 ? 0 : 9);
}
#endif

#if defined(FAKE_NCCL)
struct unique_id {
	char bytes[128];
};
int ncclCommInitRank(void **comm, int ranks, struct unique_id id, int rank);
int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *comm, void *stream);
int ncclSend(const void *from, size_t n, int type, int peer, void *comm, void *stream);
int ncclGroupStart(void);
int ncclGroupEnd(void);

EXPORT int ncclCommInitRank(void **comm, int ranks, struct unique_id id, int rank)
{
	*comm = (void *)0x1000;
	return busy(ranks == 4 && id.bytes[127] == 'z' && rank == 2 ? 0 : 9);
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, void *comm,
			 void *stream)
{
	(void)from, (void)to, (void)n, (void)type, (void)op;
	return busy(comm == (void *)0x1000 && stream == (void *)13 ? 0 : 9);
}

EXPORT int ncclSend(const void *from, size_t n, int type, int peer, void *comm, void *stream)
{
	(void)from, (void)n, (void)type, (void)peer;
	return busy(comm == (void *)0x1000 && stream == (void *)13 ? 0 : 9);
}

EXPORT int ncclGroupStart(void)
{
	return busy(0);
}

EXPORT int ncclGroupEnd(void)
{
	return busy(5);
}
#endif

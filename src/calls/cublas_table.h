/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix products of cuBLAS, by the form of their arguments. The names ending in _64 take 64-bit sizes.
 *
 * FORM(name, integer, type): type of the numbers, if the name says it.
 */
#ifndef CALLS_CUBLAS_TABLE_H
#define CALLS_CUBLAS_TABLE_H

/* clang-format off */
#define BOTH_SIZES(FORM, name, type) FORM(name, int, type) FORM(name##_64, int64_t, type)

#define PLAIN_GEMMS(FORM) \
	BOTH_SIZES(FORM, cublasSgemm_v2, CUDA_R_32F) BOTH_SIZES(FORM, cublasDgemm_v2, CUDA_R_64F) \
	BOTH_SIZES(FORM, cublasHgemm, CUDA_R_16F) BOTH_SIZES(FORM, cublasCgemm_v2, CUDA_C_32F) \
	BOTH_SIZES(FORM, cublasZgemm_v2, CUDA_C_64F)

#define STRIDED_GEMMS(FORM) \
	BOTH_SIZES(FORM, cublasSgemmStridedBatched, CUDA_R_32F) BOTH_SIZES(FORM, cublasDgemmStridedBatched, CUDA_R_64F) \
	BOTH_SIZES(FORM, cublasHgemmStridedBatched, CUDA_R_16F) BOTH_SIZES(FORM, cublasCgemmStridedBatched, CUDA_C_32F) \
	BOTH_SIZES(FORM, cublasZgemmStridedBatched, CUDA_C_64F)

#define BATCHED_GEMMS(FORM) \
	BOTH_SIZES(FORM, cublasSgemmBatched, CUDA_R_32F) BOTH_SIZES(FORM, cublasDgemmBatched, CUDA_R_64F) \
	BOTH_SIZES(FORM, cublasHgemmBatched, CUDA_R_16F) BOTH_SIZES(FORM, cublasCgemmBatched, CUDA_C_32F) \
	BOTH_SIZES(FORM, cublasZgemmBatched, CUDA_C_64F)

#define EX_GEMMS(FORM) BOTH_SIZES(FORM, cublasGemmEx, a_type)
#define SINGLE_EX_GEMMS(FORM) BOTH_SIZES(FORM, cublasSgemmEx, a_type)
#define STRIDED_EX_GEMMS(FORM) BOTH_SIZES(FORM, cublasGemmStridedBatchedEx, a_type)
#define BATCHED_EX_GEMMS(FORM) BOTH_SIZES(FORM, cublasGemmBatchedEx, a_type)
/* clang-format on */

#define CUBLAS_CALLS(FORM)                                                                         \
	PLAIN_GEMMS(FORM)                                                                          \
	STRIDED_GEMMS(FORM)                                                                        \
	BATCHED_GEMMS(FORM)                                                                        \
	EX_GEMMS(FORM)                                                                             \
	SINGLE_EX_GEMMS(FORM)                                                                      \
	STRIDED_EX_GEMMS(FORM)                                                                     \
	BATCHED_EX_GEMMS(FORM)                                                                     \
	FORM(cublasLtMatmul, uint64_t, CUBLASLT)

#endif

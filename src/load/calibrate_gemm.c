/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU's peak arithmetic: large square matrix products by cuBLASLt, opened at run time and
 * declared here. The binary interface of these functions, structures and numbers is the same in
 * cuBLAS 11 to 13. One thread.
 *
 * The matrices hold random numbers: with zeros a device draws less power and clocks higher than it
 * ever would at work.
 */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/calibrate.h"
#include "load/driver.h"

#define SIZE 8192 /* rows, columns and depth */
#define WORKSPACE (UINT64_C(32) << 20)
#define CHUNK (UINT64_C(16) << 20)

enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14, R_8F_E4M3 = 28 }; /* cudaDataType */
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_FAST_TF32 = 77 };   /* cublasComputeType_t */
enum { DESC_TRANSA = 3, PREFERENCE_WORKSPACE = 1, OP_T = 1 };

struct algorithm {
	uint64_t data[8];
};
struct heuristic {
	struct algorithm algorithm;
	size_t workspace;
	int status;
	float waves;
	int reserved[4];
};

#define LT_FUNCTIONS(FUNCTION)                                                                     \
	FUNCTION(cublasLtCreate, (void **))                                                        \
	FUNCTION(cublasLtDestroy, (void *))                                                        \
	FUNCTION(cublasLtMatmulDescCreate, (void **, int, int))                                    \
	FUNCTION(cublasLtMatmulDescDestroy, (void *))                                              \
	FUNCTION(cublasLtMatmulDescSetAttribute, (void *, int, const void *, size_t))              \
	FUNCTION(cublasLtMatrixLayoutCreate, (void **, int, uint64_t, uint64_t, int64_t))          \
	FUNCTION(cublasLtMatrixLayoutDestroy, (void *))                                            \
	FUNCTION(cublasLtMatmulPreferenceCreate, (void **))                                        \
	FUNCTION(cublasLtMatmulPreferenceDestroy, (void *))                                        \
	FUNCTION(cublasLtMatmulPreferenceSetAttribute, (void *, int, const void *, size_t))        \
	FUNCTION(cublasLtMatmulAlgoGetHeuristic, (void *, void *, void *, void *, void *, void *,  \
						  void *, int, struct heuristic *, int *))         \
	FUNCTION(cublasLtMatmul,                                                                   \
		 (void *, void *, const void *, device_address, void *, device_address, void *,    \
		  const void *, device_address, void *, device_address, void *,                    \
		  const struct algorithm *, device_address, size_t, void *))

static struct {
#define FUNCTION(name, arguments) int(*name) arguments;
	LT_FUNCTIONS(FUNCTION)
#undef FUNCTION
} lt;

/* pattern: bits of a number near 1; noise: the random ones. */
static const struct kind {
	const char *key;
	int type, out_type, compute, scale;
	unsigned int bytes;
	uint64_t pattern, noise;
} kinds[] = {
	{ "bf16_flops_per_s", R_16BF, R_16BF, COMPUTE_32F, R_32F, 2, 0x3f00, 0x807f },
	{ "fp16_flops_per_s", R_16F, R_16F, COMPUTE_32F, R_32F, 2, 0x3800, 0x83ff },
	{ "fp8_flops_per_s", R_8F_E4M3, R_16BF, COMPUTE_32F, R_32F, 1, 0x30, 0x87 },
	{ "tf32_flops_per_s", R_32F, R_32F, COMPUTE_FAST_TF32, R_32F, 4, 0x3f000000, 0x807fffff },
	{ "fp32_flops_per_s", R_32F, R_32F, COMPUTE_32F, R_32F, 4, 0x3f000000, 0x807fffff },
	{ "fp64_flops_per_s", R_64F, R_64F, COMPUTE_64F, R_64F, 8, UINT64_C(0x3fe0000000000000),
	  UINT64_C(0x800fffffffffffff) },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static struct {
	void *handle, *desc, *a_layout, *b_layout, *c_layout, *preference;
	device_address a, b, c, workspace;
	struct heuristic chosen;
	bool in_double;
	unsigned int calls;
} gemm;

/* Besides the loader's names: where toolkits and Python packages keep it. */
static void *open_somewhere(void)
{
	static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12",
					     "libcublasLt.so.11", "libcublasLt.so" };
	static const char *const places[] = {
		"/usr/local/cuda*/lib64/libcublasLt.so.1[0-9]",
		"/usr/local/cuda*/targets/*/lib/libcublasLt.so.1[0-9]",
		"/usr/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1[0-9]",
		"/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1[0-9]",
		"/opt/*/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.1[0-9]",
	};
	const char *given = getenv("MOESCOPE_CUBLASLT");
	const char *environment = getenv("VIRTUAL_ENV");
	char pattern[512];
	void *library = NULL;

	if (given && *given)
		return dlopen(given, RTLD_NOW);
	for (size_t i = 0; !library && i < sizeof(names) / sizeof(names[0]); i++)
		library = dlopen(names[i], RTLD_NOW);
	for (size_t i = 0; !library && i <= sizeof(places) / sizeof(places[0]); i++) {
		glob_t found;

		if (i < sizeof(places) / sizeof(places[0]))
			snprintf(pattern, sizeof(pattern), "%s", places[i]);
		else if (environment && *environment)
			snprintf(pattern, sizeof(pattern),
				 "%s/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.1[0-9]",
				 environment);
		else
			break;
		if (glob(pattern, 0, NULL, &found) != 0)
			continue;
		for (size_t k = found.gl_pathc; !library && k-- > 0;)
			library = dlopen(found.gl_pathv[k], RTLD_NOW);
		globfree(&found);
	}
	return library;
}

static const char *find_library(void)
{
	static char why[160];
	const struct {
		const char *name;
		void *to;
	} functions[] = {
#define FUNCTION(name, arguments) { #name, &lt.name },
		LT_FUNCTIONS(FUNCTION)
#undef FUNCTION
	};
	void *library = open_somewhere();

	if (!library)
		return "no libcublasLt on this machine; name one in MOESCOPE_CUBLASLT";
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *symbol = dlsym(library, functions[i].name);

		if (!symbol) {
			snprintf(why, sizeof(why), "libcublasLt has no %s", functions[i].name);
			return why;
		}
		memcpy(functions[i].to, &symbol, sizeof(symbol));
	}
	return NULL;
}

static int lt_failed(int status, const char *call, char *why, size_t size)
{
	if (status)
		snprintf(why, size, "%.*s: status %d", (int)strcspn(call, "("), call, status);
	return status;
}

#define LT(call) lt_failed(lt.call, #call, why, size)

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* One chunk of numbers, repeated: the device does not notice. */
static int fill(const struct kind *kind, device_address to, uint64_t bytes, char *why, size_t size)
{
	unsigned char *chunk = malloc(CHUNK);
	uint64_t state = UINT64_C(0x9E3779B97F4A7C15);
	int r = 0;

	if (!chunk) {
		snprintf(why, size, "no memory for random numbers");
		return -1;
	}
	for (uint64_t i = 0; i < CHUNK; i += kind->bytes) {
		uint64_t value = kind->pattern | (next_random(&state) & kind->noise);

		memcpy(chunk + i, &value, kind->bytes);
	}
	for (uint64_t at = 0; !r && at < bytes; at += CHUNK)
		r = DRIVER(cuMemcpyHtoD_v2(to + at, chunk, bytes - at < CHUNK ? bytes - at : CHUNK),
			   why, size);
	free(chunk);
	return r;
}

static void give_back(void)
{
	driver.cuMemFree_v2(gemm.a);
	driver.cuMemFree_v2(gemm.b);
	driver.cuMemFree_v2(gemm.c);
	driver.cuMemFree_v2(gemm.workspace);
	if (gemm.a_layout)
		lt.cublasLtMatrixLayoutDestroy(gemm.a_layout);
	if (gemm.b_layout)
		lt.cublasLtMatrixLayoutDestroy(gemm.b_layout);
	if (gemm.c_layout)
		lt.cublasLtMatrixLayoutDestroy(gemm.c_layout);
	if (gemm.preference)
		lt.cublasLtMatmulPreferenceDestroy(gemm.preference);
	if (gemm.desc)
		lt.cublasLtMatmulDescDestroy(gemm.desc);
	if (gemm.handle)
		lt.cublasLtDestroy(gemm.handle);
	memset(&gemm, 0, sizeof(gemm));
}

/* C = A^T B, the one layout that all types support. */
static int prepare(const struct kind *kind, char *why, size_t size)
{
	const uint64_t bytes = (uint64_t)SIZE * SIZE * kind->bytes, workspace = WORKSPACE;
	const int transposed = OP_T;
	int found = 0;

	gemm.in_double = kind->scale == R_64F;
	if (DRIVER(cuMemAlloc_v2(&gemm.a, bytes), why, size) ||
	    DRIVER(cuMemAlloc_v2(&gemm.b, bytes), why, size) ||
	    DRIVER(cuMemAlloc_v2(&gemm.c, (uint64_t)SIZE * SIZE * 8), why, size) ||
	    DRIVER(cuMemAlloc_v2(&gemm.workspace, WORKSPACE), why, size) ||
	    fill(kind, gemm.a, bytes, why, size) || fill(kind, gemm.b, bytes, why, size))
		return -1;
	if (LT(cublasLtCreate(&gemm.handle)) ||
	    LT(cublasLtMatmulDescCreate(&gemm.desc, kind->compute, kind->scale)) ||
	    LT(cublasLtMatmulDescSetAttribute(gemm.desc, DESC_TRANSA, &transposed,
					      sizeof(transposed))) ||
	    LT(cublasLtMatrixLayoutCreate(&gemm.a_layout, kind->type, SIZE, SIZE, SIZE)) ||
	    LT(cublasLtMatrixLayoutCreate(&gemm.b_layout, kind->type, SIZE, SIZE, SIZE)) ||
	    LT(cublasLtMatrixLayoutCreate(&gemm.c_layout, kind->out_type, SIZE, SIZE, SIZE)) ||
	    LT(cublasLtMatmulPreferenceCreate(&gemm.preference)) ||
	    LT(cublasLtMatmulPreferenceSetAttribute(gemm.preference, PREFERENCE_WORKSPACE,
						    &workspace, sizeof(workspace))) ||
	    LT(cublasLtMatmulAlgoGetHeuristic(gemm.handle, gemm.desc, gemm.a_layout, gemm.b_layout,
					      gemm.c_layout, gemm.c_layout, gemm.preference, 1,
					      &gemm.chosen, &found)))
		return -1;
	if (found < 1) {
		snprintf(why, size, "cuBLASLt has no product of this type for this device");
		return -1;
	}
	return 0;
}

static int multiply(void *clock)
{
	static const double one_d = 1, zero_d = 0;
	static const float one = 1, zero = 0;
	const void *alpha = gemm.in_double ? (const void *)&one_d : &one;
	const void *beta = gemm.in_double ? (const void *)&zero_d : &zero;
	void (*note)(void);
	int r = lt.cublasLtMatmul(gemm.handle, gemm.desc, alpha, gemm.a, gemm.a_layout, gemm.b,
				  gemm.b_layout, beta, gemm.c, gemm.c_layout, gemm.c, gemm.c_layout,
				  &gemm.chosen.algorithm, gemm.workspace, WORKSPACE, stream.stream);

	/* Launches run ahead of the device: it is working while the clock is read, which takes a
	 * while and so is done rarely. */
	memcpy(&note, clock, sizeof(note));
	if (gemm.calls++ % 16 == 15)
		note();
	return -r;
}

void calibrate_gemm(const struct device *device, void (*clock)(void))
{
	const char *missing = find_library();

	for (size_t i = 0; i < KINDS; i++) {
		double rates[REPEATS];
		char why[256];

		if (missing) {
			tell_absent(device, kinds[i].key, missing);
			continue;
		}
		if (prepare(&kinds[i], why, sizeof(why)) < 0 ||
		    driver_rates(multiply, &clock, 2.0 * SIZE * SIZE * SIZE, rates, why,
				 sizeof(why)) < 0)
			tell_absent(device, kinds[i].key, why);
		else
			tell(device, kinds[i].key, rates, REPEATS);
		give_back();
	}
}

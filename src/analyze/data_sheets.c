/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of data sheets; see data_sheets.h. Rates in TFLOP/s: dense (half of what a sheet says
 * "with sparsity"), with accumulation in 32 bits, fp64 by tensor cores where they can. Memory in
 * GB/s. 0: the device has no such unit, or the figure could not be compared with a document: then it is
 * n/a until 'doctor --calibrate' has measured it. Names as NVML gives them.
 *
 * Each figure is of the document that its row names. Of the H100 SXM the architecture's white paper
 * has the dense rates themselves; the data sheet of the H200 SXM has the same rates, with sparsity
 * and rounded. The sheet of the T4 says "320+" GB/s.
 */
#include "analyze/data_sheets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct sheet {
	const char *name; /* without "NVIDIA ", "Tesla " and "GeForce " */
	double least_gb;  /* of memory that the driver reports */
	double tflops[PEAK_DTYPES];
	double memory_gb_per_s;
	const char *source;
} sheets[] = {
	/*                          fp64  fp32   tf32   bf16   fp16    fp8 */
	{ "B200",
	  0,
	  { 37, 75, 1100, 2250, 2250, 4500 },
	  7700,
	  "NVIDIA Blackwell data sheet (HGX B200)" },
	{ "H200",
	  0,
	  { 66.9, 66.9, 494.7, 989.4, 989.4, 1978.9 },
	  4800,
	  "NVIDIA H200 data sheet (SXM)" },
	{ "H200 NVL", 0, { 60, 60, 0, 0, 0, 0 }, 4800, "NVIDIA H200 data sheet (NVL)" },
	{ "H100 80GB HBM3",
	  0,
	  { 66.9, 66.9, 494.7, 989.4, 989.4, 1978.9 },
	  3350,
	  "NVIDIA H100 white paper and data sheet (SXM)" },
	{ "H100 NVL", 0, { 60, 60, 0, 0, 0, 0 }, 3900, "NVIDIA H100 data sheet (NVL)" },
	{ "H100 PCIe", 0, { 51, 51, 378, 756, 756, 1513 }, 2000, "NVIDIA H100 data sheet (PCIe)" },
	{ "A100-SXM4-80GB", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 2039, "NVIDIA A100 data sheet" },
	{ "A100-SXM4-40GB", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 1555, "NVIDIA A100 data sheet" },
	{ "A100 80GB PCIe", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 1935, "NVIDIA A100 data sheet" },
	{ "A100-PCIE-40GB", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 1555, "NVIDIA A100 data sheet" },
	{ "L40S", 0, { 0, 91.6, 183, 362.05, 362.05, 733 }, 864, "NVIDIA L40S data sheet" },
	{ "L4", 0, { 0, 30.3, 60, 121, 121, 242.5 }, 300, "NVIDIA L4 data sheet" },
	{ "A10", 0, { 0, 31.2, 0, 0, 0, 0 }, 600, "NVIDIA A10 data sheet" },
	{ "T4", 0, { 0, 8.1, 0, 0, 65, 0 }, 320, "NVIDIA T4 data sheet" },
	{ "V100-SXM2-16GB", 0, { 7.8, 15.7, 0, 0, 125, 0 }, 900, "NVIDIA V100 data sheet" },
	{ "V100-SXM2-32GB", 0, { 7.8, 15.7, 0, 0, 125, 0 }, 900, "NVIDIA V100 data sheet" },
	{ "RTX 5090",
	  30,
	  { 0, 104.8, 104.8, 209.5, 209.5, 0 },
	  1792,
	  "NVIDIA RTX Blackwell architecture white paper" },
	{ "RTX 4090",
	  20,
	  { 0, 82.6, 82.6, 165.2, 165.2, 330.3 },
	  1008,
	  "NVIDIA Ada architecture white paper" },
	{ "RTX 3090",
	  20,
	  { 0, 35.6, 0, 0, 0, 0 },
	  936,
	  "NVIDIA Ampere GA102 architecture white paper" },
};

#define SHEETS (sizeof(sheets) / sizeof(sheets[0]))

static struct peaks peaks_of(const struct sheet *sheet)
{
	struct peaks peaks = { .memory_bytes_per_s = sheet->memory_gb_per_s * 1e9 };

	snprintf(peaks.name, sizeof(peaks.name), "%s", sheet->name);
	/* 66.9 has no exact form: without rounding its product is not a whole number. */
	for (unsigned int d = 0; d < PEAK_DTYPES; d++)
		peaks.flops_per_s[d] = rint(sheet->tflops[d] * 1e12);
	/* A copy reads and writes each byte. */
	peaks.copy_bytes_per_s = peaks.memory_bytes_per_s / 2;
	return peaks;
}

static const char *bare(const char *name)
{
	static const char *const words[] = { "NVIDIA ", "Tesla ", "GeForce " };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(name, words[i], strlen(words[i])))
			name += strlen(words[i]);
	return name;
}

bool data_sheet_find(const char *name, double memory_bytes, struct peaks *ret_peaks,
		     const char **ret_source)
{
	const char *wanted = bare(name);

	for (size_t i = 0; i < SHEETS; i++) {
		if (strcmp(sheets[i].name, wanted) != 0)
			continue;
		/* A card of that name with less memory is another one (a laptop's). */
		if (memory_bytes > 0 && memory_bytes < sheets[i].least_gb * 1e9)
			continue;
		*ret_peaks = peaks_of(&sheets[i]);
		*ret_source = sheets[i].source;
		return true;
	}
	return false;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of data sheets; see data_sheets.h. Rates in TFLOP/s: dense (half of what a sheet says
 * "with sparsity"), with accumulation in 32 bits, fp64 by tensor cores where they can. Memory in
 * GB/s. 0: the device has no such unit, or the figure could not be compared with a document: then it is
 * n/a until 'doctor --calibrate' has measured it. Names as NVML and ROCm give them.
 *
 * Each figure is of the document that its row names. Of the H100 SXM the architecture's white paper
 * has the dense rates themselves; the data sheet of the H200 SXM has the same rates, with sparsity
 * and rounded. The sheet of the T4 says "320+" GB/s. Sheets of whole boards and racks (GB200, GB300,
 * HGX B300) are divided by their GPUs. AMD's are of the whole package: of the MI250 and MI250X, whose
 * two dies are devices of their own, a row has half. fp32 and fp64 are by matrix cores there. Sheets
 * of 2023 and later, AMD's, and those of the H800, H20, A800, L40 and A10G were read as other documents
 * quote them: what those do not have, or not alike, is 0.
 */
#include "device/sheets/data_sheets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct sheet {
	const char *name; /* without the words that bare() takes off */
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
	{ "GB200",
	  0,
	  { 0, 80, 1250, 2500, 2500, 5000 },
	  8000,
	  "NVIDIA GB200 NVL72 data sheet (superchip, half)" },
	{ "B300 SXM6 AC",
	  0,
	  { 1.25, 0, 1125, 2250, 2250, 4500 },
	  8000,
	  "NVIDIA HGX B300 data sheet" },
	{ "GB300",
	  0,
	  { 0, 80, 1250, 2500, 2500, 5000 },
	  8000,
	  "NVIDIA GB300 NVL72 data sheet (a 72nd)" },
	{ "GH200 480GB",
	  0,
	  { 66.9, 66.9, 494.7, 989.4, 989.4, 1978.9 },
	  4000,
	  "NVIDIA GH200 data sheet (96 GB HBM3)" },
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
	{ "H800", 0, { 0, 0, 494.7, 989.4, 989.4, 1978.9 }, 3350, "NVIDIA H800 data sheet (SXM)" },
	{ "H20", 0, { 1, 44, 74, 148, 148, 296 }, 4000, "NVIDIA H20 data sheet" },
	{ "A800-SXM4-80GB", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 2039, "NVIDIA A800 data sheet" },
	{ "A800 80GB PCIe", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 1935, "NVIDIA A800 data sheet" },
	{ "A100-SXM4-80GB", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 2039, "NVIDIA A100 data sheet" },
	{ "A100-SXM4-40GB", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 1555, "NVIDIA A100 data sheet" },
	{ "A100 80GB PCIe", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 1935, "NVIDIA A100 data sheet" },
	{ "A100-PCIE-40GB", 0, { 19.5, 19.5, 156, 312, 312, 0 }, 1555, "NVIDIA A100 data sheet" },
	{ "L40S", 0, { 0, 91.6, 183, 362.05, 362.05, 733 }, 864, "NVIDIA L40S data sheet" },
	{ "L4", 0, { 0, 30.3, 60, 121, 121, 242.5 }, 300, "NVIDIA L4 data sheet" },
	{ "L40", 0, { 0, 0, 0, 181.05, 181.05, 0 }, 864, "NVIDIA L40 data sheet" },
	{ "A40", 0, { 0, 37.4, 74.8, 149.7, 149.7, 0 }, 696, "NVIDIA A40 data sheet" },
	{ "A10", 0, { 0, 31.2, 62.5, 125, 125, 0 }, 600, "NVIDIA A10 data sheet" },
	{ "A10G", 0, { 0, 0, 0, 0, 0, 0 }, 600, "NVIDIA A10G data sheet" },
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
	{ "MI355X",
	  0,
	  { 78.6, 157.3, 0, 2500, 2500, 5000 },
	  8000,
	  "AMD Instinct MI355X data sheet" },
	{ "MI350X",
	  0,
	  { 72.1, 144.2, 0, 2309.6, 2309.6, 4614 },
	  8000,
	  "AMD Instinct MI350X data sheet" },
	{ "MI325X",
	  0,
	  { 163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9 },
	  6000,
	  "AMD Instinct MI325X data sheet" },
	{ "MI300X",
	  0,
	  { 163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9 },
	  5300,
	  "AMD Instinct MI300X data sheet" },
	{ "MI300A",
	  0,
	  { 122.6, 122.6, 490.3, 980.6, 980.6, 1961.2 },
	  5300,
	  "AMD Instinct MI300A data sheet" },
	{ "MI250X",
	  0,
	  { 47.85, 47.85, 0, 191.5, 191.5, 0 },
	  1638.4,
	  "AMD Instinct MI250X data sheet (one of its two dies)" },
	{ "MI250",
	  0,
	  { 45.25, 45.25, 0, 181.05, 181.05, 0 },
	  1638.4,
	  "AMD Instinct MI250 data sheet (one of its two dies)" },
	{ "MI210", 0, { 45.3, 45.3, 0, 181, 181, 0 }, 1638.4, "AMD Instinct MI210 data sheet" },
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

/* The name without the words of a brand before it and those of a board after it ("AMD Instinct MI300X
 * VF" is a whole one, lent to a virtual machine). *ret_length: of what remains. */
static const char *bare(const char *name, size_t *ret_length)
{
	static const char *const before[] = { "NVIDIA ", "Tesla ", "GeForce ", "AMD ",
					      "Instinct " };
	static const char *const after[] = { " VF", " OAM" };

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
		if (!strncmp(name, before[i], strlen(before[i])))
			name += strlen(before[i]);
	*ret_length = strlen(name);
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
		size_t n = strlen(after[i]);

		if (*ret_length > n && !strncmp(name + *ret_length - n, after[i], n))
			*ret_length -= n;
	}
	return name;
}

bool data_sheet_find(const char *name, double memory_bytes, struct peaks *ret_peaks,
		     const char **ret_source)
{
	size_t length;
	const char *wanted = bare(name, &length);

	for (size_t i = 0; i < SHEETS; i++) {
		if (strlen(sheets[i].name) != length ||
		    strncmp(sheets[i].name, wanted, length) != 0)
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices, their peaks and counters, and the data type that the run computes with; see
 * efficiency.h.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "device/sheets/data_sheets.h"
#include "device/sheets/kernel_class.h"
#include "subjects/efficiency/efficiency.h"

#define CALIBRATE "run 'moescope doctor --calibrate' on its machine"

const char *gpm_metric_key(enum gpm_metric metric)
{
	static const char *const keys[] = { "sm_active_pct", "sm_occupancy_pct",
					    "tensor_active_pct", "dram_bandwidth_pct" };

	return keys[metric];
}

static size_t device_row(const struct run *run, uint16_t shard, uint32_t device)
{
	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.shard[i] == shard && run->device.device[i] == device)
			return i;
	return SIZE_MAX;
}

static void take_peaks(struct efficiency_device *d, const struct peaks *measured, double memory)
{
	if (measured) {
		d->peaks = *measured;
		d->calibrated = true;
		d->source = "measured by moescope doctor --calibrate";
	} else if (!d->cpu && data_sheet_find(d->name, memory, &d->peaks, &d->source)) {
		d->calibrated = false;
	} else {
		d->reason = d->cpu ? "the peaks of this processor were not measured: " CALIBRATE
				   : "the peaks of this device are unknown: " CALIBRATE;
	}
}

struct efficiency_device efficiency_device_of(const struct run *run, const struct peaks_file *peaks,
					      uint16_t shard, uint32_t device)
{
	size_t row = device_row(run, shard, device);
	struct efficiency_device d = { .shard = shard,
				       .rank = run->shards[shard].rank,
				       .device = device,
				       .name = "unknown device" };
	double told = 0;

	if (row == SIZE_MAX) {
		d.reason = "the run does not say what the device is";
	} else {
		double memory = (double)run->device.memory_bytes[row];

		d.name = run_string(run, run->device.name[row]);
		told = (double)run->device.memory_bytes_per_s[row];
		take_peaks(&d, peaks_find_gpu(peaks, d.name, memory), memory);
	}
	/* The driver's own figure (clock * width) stands in for a sheet that is missing. */
	if (d.peaks.memory_bytes_per_s <= 0)
		d.peaks.memory_bytes_per_s = told;
	d.memory_bytes_per_s = d.peaks.memory_bytes_per_s > 0
				       ? value_of(d.peaks.memory_bytes_per_s)
				       : value_absent(d.reason ? d.reason
							       : "the rate of its memory is not "
								 "known: " CALIBRATE);
	return d;
}

static struct efficiency_device processor(const struct run *run, const struct peaks_file *peaks)
{
	struct efficiency_device d = { .cpu = true, .name = run->info.cpu };

	d.rank = run->n_shards ? run->shards[0].rank : 0;
	/* Files of other profilers seldom say it. */
	if (run_is_foreign(run) && !run->info.cpu[0])
		d.reason = "the file does not say what the processor is";
	else
		take_peaks(&d, peaks_find_cpu(peaks, d.name, run->info.cpus), 0);
	d.memory_bytes_per_s = d.peaks.memory_bytes_per_s > 0
				       ? value_of(d.peaks.memory_bytes_per_s)
				       : value_absent(d.reason ? d.reason
							       : "the rate of its memory was not "
								 "measured");
	return d;
}

static int by_device(const void *a, const void *b)
{
	const struct efficiency_device *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->device, y->device);
}

static struct efficiency_device *find_efficiency_device(struct efficiency *e, uint16_t shard,
							uint32_t device)
{
	for (size_t i = 0; i < e->n_devices; i++)
		if (e->devices[i].shard == shard && e->devices[i].device == device)
			return &e->devices[i];
	return NULL;
}

struct mean {
	double sum;
	uint64_t n;
};

/* Means of the counters that the driver sampled on the devices at hand. */
static int take_counters(const struct run *run, struct efficiency *e)
{
	const struct table_sample *t = &run->sample;
	struct mean *means = calloc(e->n_devices * GPM_METRICS + 1, sizeof(*means));
	uint32_t metrics[GPM_METRICS] = { 0 }; /* string ids, once they are seen */

	if (!means)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		for (unsigned int m = 0; m < GPM_METRICS; m++) {
			struct efficiency_device *d;

			if (!metrics[m] && !strcmp(run_string(run, t->metric[i]),
						   gpm_metric_key((enum gpm_metric)m)))
				metrics[m] = t->metric[i];
			if (!metrics[m] || t->metric[i] != metrics[m])
				continue;
			d = find_efficiency_device(e, t->shard[i], t->device[i]);
			if (!d)
				continue;
			means[(size_t)(d - e->devices) * GPM_METRICS + m].sum += t->value[i];
			means[(size_t)(d - e->devices) * GPM_METRICS + m].n++;
		}
	}
	for (size_t i = 0; i < e->n_devices * GPM_METRICS; i++)
		e->devices[i / GPM_METRICS].gpm[i % GPM_METRICS] =
			means[i].n ? value_of(means[i].sum / (double)means[i].n)
				   : value_absent("the driver's counters (GPM) were not sampled");
	free(means);
	return 0;
}

int efficiency_devices_fill(const struct run *run, const struct peaks_file *peaks,
			    struct efficiency *e)
{
	size_t capacity = 0;
	struct efficiency_device *last = NULL;

	e->on_device = run->kernel.n > 0;
	if (!e->on_device) {
		e->devices = calloc(1, sizeof(*e->devices));
		if (!e->devices)
			return -ENOMEM;
		e->devices[e->n_devices++] = processor(run, peaks);
	}
	for (size_t i = 0; i < run->kernel.n; i++) {
		uint16_t shard = run->kernel.shard[i];
		uint32_t device = run->kernel.device[i];

		if (last && last->shard == shard && last->device == device)
			continue;
		last = find_efficiency_device(e, shard, device);
		if (last)
			continue;
		if (array_grow(&e->devices, &capacity, e->n_devices + 1, sizeof(*e->devices)) < 0)
			return -ENOMEM;
		e->devices[e->n_devices++] = efficiency_device_of(run, peaks, shard, device);
		last = &e->devices[e->n_devices - 1];
	}
	if (e->n_devices)
		qsort(e->devices, e->n_devices, sizeof(*e->devices), by_device);
	if (take_counters(run, e) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < e->n_devices; i++) {
		struct efficiency_device *d = &e->devices[i];
		struct value share = d->gpm[GPM_DRAM];

		d->dram_bytes_per_s = !share.known ? share
				      : !d->memory_bytes_per_s.known
					      ? value_absent(d->memory_bytes_per_s.reason)
					      : value_of(share.v / 100 * d->memory_bytes_per_s.v);
	}
	return 0;
}

/* In this order: "bfloat16" holds "float16", "float32" "float". */
static const struct {
	const char *word;
	enum peak_dtype dtype;
} words[] = {
	{ "bf16", PEAK_BF16 },	 { "bfloat", PEAK_BF16 }, { "fp8", PEAK_FP8 },
	{ "float8", PEAK_FP8 },	 { "e4m3", PEAK_FP8 },	  { "e5m2", PEAK_FP8 },
	{ "tf32", PEAK_TF32 },	 { "fp16", PEAK_FP16 },	  { "float16", PEAK_FP16 },
	{ "half", PEAK_FP16 },	 { "fp64", PEAK_FP64 },	  { "float64", PEAK_FP64 },
	{ "double", PEAK_FP64 }, { "fp32", PEAK_FP32 },	  { "float32", PEAK_FP32 },
	{ "single", PEAK_FP32 },
}, kernel_words[] = {
	{ "e4m3", PEAK_FP8 },	  { "e5m2", PEAK_FP8 },	   { "fp8", PEAK_FP8 },
	{ "nvjet_qq", PEAK_FP8 }, { "bf16", PEAK_BF16 },   { "bfloat", PEAK_BF16 },
	{ "_tst_", PEAK_BF16 },	  { "tf32", PEAK_TF32 },   { "_hsh_", PEAK_FP16 },
	{ "f16", PEAK_FP16 },	  { "fp16", PEAK_FP16 },   { "half", PEAK_FP16 },
	{ "hgemm", PEAK_FP16 },	  { "dgemm", PEAK_FP64 },  { "f64", PEAK_FP64 },
	{ "double", PEAK_FP64 },  { "sgemm", PEAK_FP32 },  { "f32", PEAK_FP32 },
	{ "float", PEAK_FP32 },
};

static char *lowered(const char *text)
{
	char *copy = strdup(text);

	for (char *c = copy; c && *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return copy;
}

/* PEAK_DTYPES: the words say none. -ENOMEM. */
static int dtype_of_fact(const char *value)
{
	char *text = lowered(value);
	int found = PEAK_DTYPES;

	if (!text)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && found == PEAK_DTYPES; i++)
		if (strstr(text, words[i].word))
			found = (int)words[i].dtype;
	free(text);
	return found;
}

/* Letters of Tensile's data types, longer ones first; PEAK_DTYPES: no peak is kept for it. */
static const struct {
	const char *letters;
	enum peak_dtype dtype;
} tensile_types[] = {
	{ "F8N", PEAK_FP8 },   { "B8N", PEAK_FP8 },   { "F8", PEAK_FP8 },    { "B8", PEAK_FP8 },
	{ "I8", PEAK_DTYPES }, { "F6", PEAK_DTYPES }, { "F4", PEAK_DTYPES }, { "4I", PEAK_DTYPES },
	{ "H", PEAK_FP16 },    { "B", PEAK_BF16 },    { "S", PEAK_FP32 },    { "D", PEAK_FP64 },
	{ "X", PEAK_TF32 },    { "C", PEAK_FP32 },    { "Z", PEAK_FP64 },    { "I", PEAK_DTYPES },
};

/* The types that the word consists of, the first of them in *ret_first; 0: it is no such word. */
static unsigned int tensile_word(const char *word, size_t length, enum peak_dtype *ret_first)
{
	const char *end = word + length;
	unsigned int n = 0;

	for (size_t i = 0; word < end && i < sizeof(tensile_types) / sizeof(tensile_types[0]);) {
		size_t letters = strlen(tensile_types[i].letters);

		if (letters > (size_t)(end - word) ||
		    memcmp(word, tensile_types[i].letters, letters) != 0) {
			i++;
			continue;
		}
		if (!n++)
			*ret_first = tensile_types[i].dtype;
		word += letters;
		i = 0;
	}
	return word == end ? n : 0;
}

/* Tensile writes the indices of the product, then the types of input, output and arithmetic, as in
 * Cijk_Alik_Bljk_BBS_BH_…; inputs of two types go before these (F8H_HHS). The matrix units run in the
 * type of the input, in XF32 where it says MX. */
static int tensile_dtype(const char *name)
{
	const char *at = strstr(name, "Cijk_");
	enum peak_dtype first = PEAK_DTYPES, second = PEAK_DTYPES;
	unsigned int n;
	size_t length;

	for (int i = 0; at && i < 3; i++) {
		at = strchr(at, '_');
		at = at ? at + 1 : NULL;
	}
	if (!at)
		return PEAK_DTYPES;
	length = strcspn(at, "_");
	n = tensile_word(at, length, &first);
	at += length + (at[length] == '_');
	length = strcspn(at, "_");
	if (n == 2 && tensile_word(at, length, &second) == 3)
		return (int)second;
	if (n && first == PEAK_FP32 && length == 2 && !memcmp(at, "MX", 2))
		return PEAK_TF32;
	return n ? (int)first : PEAK_DTYPES;
}

static int dtype_of_kernel(const struct kernel_classes *classes, const char *name)
{
	const char *class = kernel_class_of(classes, name);
	char *text;
	int found = PEAK_DTYPES;

	if (!class)
		return -ENOMEM;
	if (strcmp(class, "gemm") != 0 && strcmp(class, "grouped_gemm") != 0 &&
	    strcmp(class, "attention") != 0)
		return PEAK_DTYPES;
	found = tensile_dtype(name);
	text = lowered(name);
	if (!text)
		return -ENOMEM;
	for (size_t i = 0;
	     i < sizeof(kernel_words) / sizeof(kernel_words[0]) && found == PEAK_DTYPES; i++)
		if (strstr(text, kernel_words[i].word))
			found = (int)kernel_words[i].dtype;
	free(text);
	return found;
}

static int from_facts(const struct run *run, struct efficiency *e)
{
	static const char *const keys[] = { "dtype", "precision", "torch_dtype", "data type" };

	for (size_t i = 0; i < run->fact.n; i++) {
		const char *key = run_string(run, run->fact.key[i]);
		int dtype = PEAK_DTYPES;

		for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
			if (!strcmp(keys[k], key))
				dtype = dtype_of_fact(run_string(run, run->fact.value[i]));
		if (dtype < 0)
			return dtype;
		if (dtype < PEAK_DTYPES) {
			e->dtype = value_of(dtype);
			e->dtype_source = "reported by the program";
		}
	}
	return 0;
}

/* The type of most of the time of matrix products and attention. */
static int from_kernels(const struct run *run, const struct kernel_classes *classes,
			struct efficiency *e)
{
	const struct table_kernel *t = &run->kernel;
	int64_t by_dtype[PEAK_DTYPES + 1] = { 0 }, *times;
	uint32_t largest = 0;
	unsigned int most = 0;
	int r = 0;

	for (size_t i = 0; i < t->n; i++)
		largest = t->launch[i] > largest ? t->launch[i] : largest;
	times = calloc((size_t)largest + 1, sizeof(*times));
	if (!times)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		times[t->launch[i]] += t->untimed[i] ? 0 : t->duration_ns[i];
	for (uint32_t i = 0; r >= 0 && i <= largest; i++) {
		if (!times[i])
			continue;
		r = dtype_of_kernel(classes, run_string(run, run_launch(run, i).name));
		if (r >= 0)
			by_dtype[r] += times[i];
	}
	free(times);
	if (r < 0)
		return r;
	for (unsigned int i = 1; i < PEAK_DTYPES; i++)
		most = by_dtype[i] > by_dtype[most] ? i : most;
	if (by_dtype[most] > 0) {
		e->dtype = value_of(most);
		e->dtype_source = "est.: by the names of the kernels";
	}
	return 0;
}

int efficiency_dtype_find(const struct run *run, const struct kernel_classes *classes,
			  struct efficiency *e)
{
	int r;

	e->dtype = value_absent("the data type is unknown: report it with "
				"moescope_info(\"dtype\", \"bf16\")");
	r = from_facts(run, e);
	if (r >= 0 && !e->dtype.known && run->kernel.n)
		r = from_kernels(run, classes, e);
	for (size_t i = 0; r >= 0 && i < e->n_devices; i++) {
		struct efficiency_device *d = &e->devices[i];
		double peak = e->dtype.known ? d->peaks.flops_per_s[(int)e->dtype.v] : 0;

		d->peak_flops_per_s =
			!e->dtype.known ? value_absent(e->dtype.reason)
			: d->reason	? value_absent(d->reason)
			: peak > 0
				? value_of(peak)
				: value_absent("no peak of this data type is known for the device");
	}
	return r;
}

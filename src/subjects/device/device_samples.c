/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples while devices worked; see device_samples.h.
 *
 * All readings of one moment have the same time and device: they follow one another in the table.
 */
#include "subjects/device/device_samples.h"

#include <string.h>

#define CLOCK "clock_sm_mhz"
#define REASONS "clock_limit_reasons"
#define BIT(n) (UINT64_C(1) << (n))
/* Of NVML; the words are in device/sheets/clock_reasons.c. A hardware slowdown is either of the others. */
#define BITS_IDLE BIT(0)
#define BITS_POWER (BIT(2) | BIT(7))
#define BITS_THERMAL (BIT(5) | BIT(6))
#define BITS_LIMITED (BITS_POWER | BITS_THERMAL | BIT(3))

/* Ids of the names that matter; 0: the run has no such name. */
struct names {
	uint32_t clock, reasons, dram, tensor;
};

static struct names find_names(const struct run *run)
{
	const struct table_sample *t = &run->sample;
	struct names names = { 0 };
	uint32_t last = 0;

	for (size_t i = 0; i < t->n; i++) {
		const char *text;

		/* Samples have few names: nearly always one that is known already. */
		if (t->metric[i] == last || t->metric[i] == names.clock ||
		    t->metric[i] == names.reasons || t->metric[i] == names.dram ||
		    t->metric[i] == names.tensor)
			continue;
		last = t->metric[i];
		text = run_string(run, last);
		if (!strcmp(text, CLOCK))
			names.clock = last;
		else if (!strcmp(text, REASONS))
			names.reasons = last;
		else if (!strcmp(text, "dram_bandwidth_pct"))
			names.dram = last;
		else if (!strcmp(text, "tensor_active_pct"))
			names.tensor = last;
	}
	return names;
}

/* One moment of one device. */
struct moment {
	double clock, dram, tensor;
	uint64_t reasons;
	bool has_clock, has_reasons, has_dram, has_tensor;
};

struct sums {
	double clock, dram, tensor, max;
	uint64_t clocks, drams, tensors, reasons, power, thermal, limited;
};

static void note_reading(struct moment *m, const struct names *names, uint32_t metric, double value)
{
	if (metric == names->clock) {
		m->clock = value;
		m->has_clock = value > 0;
	} else if (metric == names->reasons) {
		/* A mask that a double cannot hold is not a reading. */
		m->has_reasons = value >= 0 && value < 9007199254740992.0;
		m->reasons = m->has_reasons ? (uint64_t)value : 0;
	} else if (metric == names->dram) {
		m->dram = value;
		m->has_dram = value >= 0;
	} else if (metric == names->tensor) {
		m->tensor = value;
		m->has_tensor = value >= 0;
	}
}

static void add_moment(struct sums *sums, const struct moment *m)
{
	if (m->has_clock && m->clock > sums->max)
		sums->max = m->clock;
	if (m->has_reasons && (m->reasons & BITS_IDLE))
		return;
	if (m->has_clock) {
		sums->clock += m->clock;
		sums->clocks++;
	}
	if (m->has_reasons) {
		sums->reasons++;
		sums->power += (m->reasons & BITS_POWER) != 0;
		sums->thermal += (m->reasons & BITS_THERMAL) != 0;
		sums->limited += (m->reasons & BITS_LIMITED) != 0;
	}
	if (m->has_dram) {
		sums->dram += m->dram;
		sums->drams++;
	}
	if (m->has_tensor) {
		sums->tensor += m->tensor;
		sums->tensors++;
	}
}

/* Devices of samples are numbered by the driver, those of records by the process: the window is
 * that of any device of the process. */
static bool in_window(const struct timeline *timeline, uint16_t shard, int64_t time_ns)
{
	for (size_t i = 0; i < timeline->n; i++)
		if (timeline->devices[i].shard == shard &&
		    time_ns >= timeline->devices[i].start_ns &&
		    time_ns < timeline->devices[i].end_ns)
			return true;
	return false;
}

static double device_max_mhz(const struct run *run)
{
	double max = 0;

	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.clock_khz[i] / 1000.0 > max)
			max = run->device.clock_khz[i] / 1000.0;
	return max;
}

static struct value share_of_reasons(uint64_t part, uint64_t of)
{
	return of ? value_of(100.0 * (double)part / (double)of)
		  : value_absent("no reasons were sampled while the device worked");
}

void device_samples_summarize(const struct run *run, const struct timeline *timeline,
			      struct device_use *use)
{
	static const char none[] = "no such counter was sampled while the device worked";
	const struct table_sample *t = &run->sample;
	struct names names = find_names(run);
	struct moment moment = { 0 };
	struct sums sums = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		if (i && (t->time_ns[i] != t->time_ns[i - 1] || t->device[i] != t->device[i - 1] ||
			  t->shard[i] != t->shard[i - 1])) {
			add_moment(&sums, &moment);
			moment = (struct moment){ 0 };
		}
		if (in_window(timeline, t->shard[i], t->time_ns[i]))
			note_reading(&moment, &names, t->metric[i], t->value[i]);
	}
	add_moment(&sums, &moment);
	use->clock = (struct device_clock){
		.samples = sums.clocks,
		.mean_mhz = sums.clocks ? sums.clock / (double)sums.clocks : 0,
		.max_mhz = device_max_mhz(run),
		.power_pct = share_of_reasons(sums.power, sums.reasons),
		.thermal_pct = share_of_reasons(sums.thermal, sums.reasons),
		.limited_pct = share_of_reasons(sums.limited, sums.reasons),
	};
	if (use->clock.max_mhz < sums.max)
		use->clock.max_mhz = sums.max;
	use->dram_pct = sums.drams ? value_of(sums.dram / (double)sums.drams) : value_absent(none);
	use->tensor_pct = sums.tensors ? value_of(sums.tensor / (double)sums.tensors)
				       : value_absent(none);
}

struct value device_samples_clock(const struct run *run, uint16_t shard, int64_t start_ns,
				  int64_t end_ns)
{
	const struct table_sample *t = &run->sample;
	uint32_t clock = find_names(run).clock;
	double sum = 0;
	uint64_t n = 0;

	for (size_t i = 0; clock && i < t->n; i++) {
		if (t->metric[i] != clock || t->shard[i] != shard || t->time_ns[i] < start_ns ||
		    t->time_ns[i] >= end_ns)
			continue;
		sum += t->value[i];
		n++;
	}
	return n ? value_of(sum / (double)n) : value_absent("no clock was sampled in the step");
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of counters; see sets.h.
 *
 * Over time there is one pass. NVIDIA's own selections (…TriageCompute.…) are laid out so that all of a unit's counters
 * fit into it; chips without them have the plain names. Throughputs of whole units (sm__throughput) need many
 * passes, and so does the plain hit rate. Exact sets have what one pass can count, too, so that no kernel has to run
 * again: the parts of the hit rate instead of it.
 */
#include "counters/sets.h"

#include <errno.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OF_PEAK ".avg.pct_of_peak_sustained_elapsed"
#define OF_ACTIVE ".avg.pct_of_peak_sustained_active"

/* The first of a name that the chip has is taken. */
static const struct timed_counter timed[] = {
	{ "sm_active_pct", "TPC.TriageCompute.sm__cycles_active" OF_PEAK },
	{ "sm_active_pct", "sm__cycles_active" OF_PEAK },
	{ "tensor_active_pct", "TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime" OF_PEAK },
	{ "tensor_active_pct", "sm__pipe_tensor_cycles_active" OF_PEAK },
	{ "dram_read_pct", "FBSP.TriageCompute.dramc__read_throughput" OF_PEAK },
	{ "dram_read_pct", "dram__read_throughput" OF_PEAK },
	{ "dram_write_pct", "FBSP.TriageCompute.dramc__write_throughput" OF_PEAK },
	{ "dram_write_pct", "dram__write_throughput" OF_PEAK },
	/* Not TPC.TriageCompute.tpc__warps_active_realtime: on GH100 it tells 2% of a kernel that has 99%. */
	{ "warps_active_pct", "sm__warps_active" OF_PEAK },
	{ "instructions_pct", "TPC.TriageCompute.sm__inst_executed_realtime" OF_PEAK },
	/* It tells half of what Nsight Compute tells of the same kernels, from 0.7% to 90%. */
	{ "l2_hit_pct", "LTS.TriageCompute.lts__average_t_sector_hit_rate_realtime.pct", .scale = 2,
	  .rate = true, .chip = "GH100" },
	{ "sm_clock_mhz", "gpc__cycles_elapsed.avg.per_second", .scale = 1e-6 },
	{ "pcie_read_bytes_per_s", "PCI.TriageCompute.pcie__read_bytes.sum", .sum = true },
	{ "pcie_read_bytes_per_s", "pcie__read_bytes.sum", .sum = true },
	{ "pcie_write_bytes_per_s", "PCI.TriageCompute.pcie__write_bytes.sum", .sum = true },
	{ "pcie_write_bytes_per_s", "pcie__write_bytes.sum", .sum = true },
	{ "nvlink_request_rx_bytes_per_s",
	  "NVLRX.TriageCompute.nvlrx__bytes_packet_request_data_user.sum", .sum = true },
	{ "nvlink_response_rx_bytes_per_s",
	  "NVLRX.TriageCompute.nvlrx__bytes_packet_response_data_user.sum", .sum = true },
	{ "nvlink_request_tx_bytes_per_s",
	  "NVLTX.TriageCompute.nvltx__bytes_packet_request_data_user.sum", .sum = true },
	{ "nvlink_response_tx_bytes_per_s",
	  "NVLTX.TriageCompute.nvltx__bytes_packet_response_data_user.sum", .sum = true },
	{ "tensor_half_active_pct",
	  "TPC.TriageCompute.sm__pipe_tensor_op_hmma_cycles_active_realtime" OF_PEAK },
	{ "gpu_active_pct", "FE_B.TriageCompute.gr__cycles_active" OF_PEAK },
};

size_t counters_passes(const struct chip *chip, const char **metrics, size_t n)
{
	struct chip_plan plan;
	size_t passes;

	if (chip_plan_make(chip, metrics, n, &plan, NULL) < 0)
		return 0;
	passes = plan.passes;
	chip_plan_release(&plan);
	return passes;
}

bool counters_fit(const struct chip *chip, const char **metrics, size_t n)
{
	return counters_passes(chip, metrics, n) == 1;
}

int timed_counters_choose(const struct chip *chip, struct timed_counter *counters, size_t *ret_n,
			  struct err *err)
{
	const char *metrics[TIMED_COUNTERS_MOST];
	size_t n = 0;

	for (size_t i = 0; i < COUNT(timed) && n < TIMED_COUNTERS_MOST; i++) {
		bool there = timed[i].chip && strcmp(timed[i].chip, chip_name(chip)) != 0;

		for (size_t k = 0; k < n; k++)
			there = there || !strcmp(counters[k].name, timed[i].name);
		if (there || !chip_has(chip, timed[i].metric))
			continue;
		counters[n] = timed[i];
		metrics[n] = timed[i].metric;
		n += counters_fit(chip, metrics, n + 1);
	}
	*ret_n = n;
	return n ? 0
		 : err_set(err, -ENODEV,
			   "this GPU has none of the counters that can be read over time");
}

static bool joins(const struct chip *chip, const char *const *metrics, const int *group, size_t i,
		  int number)
{
	const char *together[EXACT_METRICS_MOST];
	size_t n = 0;

	for (size_t k = 0; k < i; k++)
		if (group[k] == number)
			together[n++] = metrics[k];
	together[n++] = metrics[i];
	return counters_fit(chip, together, n);
}

int exact_groups(const struct chip *chip, const char *const *metrics, size_t n, int *group,
		 struct err *err)
{
	int groups = 0;

	if (n > EXACT_METRICS_MOST)
		return err_set(err, -E2BIG, "at most %d metrics can be counted in a run",
			       EXACT_METRICS_MOST);
	for (size_t i = 0; i < n; i++) {
		int number = 0;

		group[i] = EXACT_NO_GROUP;
		if (!chip_has(chip, metrics[i]))
			continue;
		while (number <= groups && !joins(chip, metrics, group, i, number))
			number++;
		if (number > groups)
			continue;
		group[i] = number;
		groups += number == groups;
	}
	return groups;
}

/* A metric, and one that tells the same at a fraction of the cost: it is counted by monitors beside the units, which
 * write to memory while kernels run. Counters within the SMs are read by the driver after each kernel, in a millisecond
 * (H200). It is taken on the chip on which the two were compared, with each other and with Nsight Compute. Active warps
 * are of all cycles there, not of active ones: kernel_limits.c divides them. */
struct exact_metric {
	const char *name, *beside;
	const char *otherwise; /* on chips that do not have it by its name */
};
#define COMPARED_ON "GH100"
#define BESIDE(name) "TPC.TriageCompute." name

#define TIME                                                                                       \
	{ EXACT_TIME },                                                                            \
	{                                                                                          \
		EXACT_CLOCK                                                                        \
	}
#define DRAM                                                                                       \
	{ DRAM_METRIC "_read.sum", .otherwise = DRAM_METRIC "_op_read.sum" },                      \
		{ DRAM_METRIC "_write.sum", .otherwise = DRAM_METRIC "_op_write.sum" },            \
	{                                                                                          \
		"dram__throughput" OF_PEAK                                                         \
	}
#define USE                                                                                        \
	{ "sm__cycles_active" OF_PEAK, BESIDE("sm__cycles_active" OF_PEAK) },                      \
		{ "sm__warps_active" OF_ACTIVE,                                                    \
		  BESIDE("tpc__warps_active_shader_cs_realtime" OF_ACTIVE) },                      \
		{ "sm__pipe_tensor_cycles_active" OF_PEAK,                                         \
		  BESIDE("sm__pipe_tensor_cycles_active_realtime" OF_PEAK) },                      \
		{ "sm__inst_executed" OF_PEAK, BESIDE("sm__inst_executed_realtime" OF_PEAK) },     \
	{                                                                                          \
		"lts__t_sectors" OF_PEAK                                                           \
	}
#define CACHES                                                                                     \
	{ "lts__t_sectors_lookup_hit.sum" }, { "lts__t_sectors_lookup_miss.sum" },                 \
		{ "lts__t_bytes.sum" }, { "l1tex__t_sector_hit_rate.pct" },                        \
	{                                                                                          \
		"l1tex__t_bytes.sum"                                                               \
	}
#define PIPES                                                                                      \
	{ "smsp__thread_inst_executed_per_inst_executed.ratio" },                                  \
		{ "sm__inst_executed.avg.per_cycle_active" }, { "smsp__issue_active" OF_ACTIVE },  \
		{ "smsp__warps_eligible.avg.per_cycle_active" },                                   \
		{ "sm__inst_executed_pipe_fma" OF_ACTIVE },                                        \
		{ "sm__inst_executed_pipe_alu" OF_ACTIVE },                                        \
		{ "sm__inst_executed_pipe_lsu" OF_ACTIVE },                                        \
	{                                                                                          \
		"sm__inst_executed_pipe_xu" OF_ACTIVE                                              \
	}
#define STALL(reason)                                                                              \
	{                                                                                          \
		"smsp__average_warps_issue_stalled_" reason "_per_issue_active.ratio"              \
	}
#define STALLS                                                                                     \
	STALL("barrier"), STALL("branch_resolving"), STALL("dispatch_stall"), STALL("drain"),      \
		STALL("gmma"), STALL("imc_miss"), STALL("lg_throttle"), STALL("long_scoreboard"),  \
		STALL("math_pipe_throttle"), STALL("membar"), STALL("mio_throttle"),               \
		STALL("misc"), STALL("no_instruction"), STALL("not_selected"), STALL("selected"),  \
		STALL("short_scoreboard"), STALL("sleeping"), STALL("tex_throttle"), STALL("wait")

static const struct exact_metric basic[] = { TIME, DRAM, USE };
static const struct exact_metric memory[] = { TIME, DRAM, CACHES };
static const struct exact_metric compute[] = { TIME, USE, PIPES };
static const struct exact_metric tensor[] = { TIME, USE };
static const struct exact_metric stalls[] = { TIME, USE, STALLS };
static const struct exact_metric full[] = { TIME, DRAM, USE, CACHES, PIPES, STALLS };

static const struct exact_set {
	const char *name;
	const struct exact_metric *metrics;
	size_t n;
	bool tensor; /* with tensor_set */
} sets[] = {
#define SET(name, ...)                                                                             \
	{                                                                                          \
#name, name, COUNT(name), __VA_ARGS__                                              \
	}
	SET(basic),   SET(memory),
	SET(compute), SET(tensor, .tensor = true),
	SET(stalls),  SET(full, .tensor = true),
#undef SET
};

static const struct exact_set *find_set(const char *name)
{
	for (size_t i = 0; i < COUNT(sets); i++)
		if (!strcmp(sets[i].name, name))
			return &sets[i];
	return NULL;
}

bool exact_is_set(const char *name)
{
	return find_set(name) != NULL;
}

size_t exact_set(const struct chip *chip, const char *name, const char **metrics)
{
	const struct exact_set *set = find_set(name);
	bool compared = !strcmp(chip_name(chip), COMPARED_ON);
	size_t n = 0;

	for (; set && n < set->n; n++) {
		const struct exact_metric *one = &set->metrics[n];

		metrics[n] = one->name;
		if (compared && one->beside && chip_has(chip, one->beside))
			metrics[n] = one->beside;
		else if (one->otherwise && !chip_has(chip, one->name))
			metrics[n] = one->otherwise;
	}
	return n + (set && set->tensor ? tensor_set(chip, metrics + n) : 0);
}

const char *exact_set_name(size_t i)
{
	return i < COUNT(sets) ? sets[i].name : NULL;
}

/* As measured: those of the SMs' own units, but for what is read beside them. */
bool exact_is_within_sm(const char *metric)
{
	static const char *const units[] = { "sm__", "smsp__", "l1tex__", "idc__", "tpc__" };
	bool within = false;

	for (size_t i = 0; i < COUNT(units); i++)
		within = within || strstr(metric, units[i]);
	return within && strncmp(metric, BESIDE(""), strlen(BESIDE(""))) != 0;
}

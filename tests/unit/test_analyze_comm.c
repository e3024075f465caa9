/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication: the run of fake_comm.h by hand, hard cases, and random kernels against a slow
 * reference.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/sheets/kernel_class.h"
#include "fake_comm.h"
#include "judge.h"
#include "subjects/comm/comm.h"

#define US INT64_C(1000)
#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6 * (fabs(b) + 1))

static struct comm analyzed_by(const struct run *run, struct selection sel)
{
	struct kernel_classes *classes;
	struct err err = { "" };
	struct comm comm;

	assert_int_equal(kernel_classes_new(NULL, &classes, &err), 0);
	assert_int_equal(comm_analyze(run, &sel, classes, &comm), 0);
	kernel_classes_free(classes);
	return comm;
}

static struct comm analyzed(const struct run *run)
{
	return analyzed_by(run, SELECT_ALL);
}

static const struct comm_row *row_of(const struct comm *comm, const char *name)
{
	for (size_t i = 0; i < comm->n; i++)
		if (!strcmp(comm->rows[i].name, name))
			return &comm->rows[i];
	fail_msg("no row %s", name);
	return NULL;
}

static void test_devices(void **state)
{
	struct run *run = fake_comm_run();
	struct comm comm = analyzed(run);
	const struct comm_device *d = comm.devices;

	(void)state;
	assert_int_equal(comm.n_devices, 2);
	assert_int_equal(d[0].rank, 0);
	assert_int_equal(d[1].rank, 1);
	assert_int_equal(d[1].device, 1);
	/* 0 to 9950, of each step 0..950 busy: gaps of 50 after nine of them. */
	assert_true(d[0].window_ns.v == 9950e3 && d[0].idle_ns.v == 450e3);
	assert_int_equal(d[0].busy_ns, 9500 * US);
	assert_int_equal(d[0].all.others_ns, 5500 * US);  /* 0..400 and 750..900 */
	assert_int_equal(d[0].non_compute_ns, 4000 * US); /* the rest of 950 */
	assert_int_equal(d[0].all.time_ns, 5000 * US);	  /* 300..800 */
	assert_int_equal(d[0].all.overlap_ns, 1500 * US); /* 300..400 and 750..800 */
	assert_int_equal(d[0].all.exposed_ns, 3500 * US);
	assert_true(d[0].all.overlap_pct.v == 30);
	assert_int_equal(d[1].all.time_ns, 4200 * US); /* 380..800 */
	assert_int_equal(d[1].all.overlap_ns, 700 * US);
	assert_int_equal(d[1].all.exposed_ns, 3500 * US);
	/* Of ten steps of 1000. */
	assert_true(d[0].exposed_pct.v == 35 && comm.exposed_pct.v == 35 && comm.of_steps);
	assert_int_equal(comm.all.count, 40);
	assert_int_equal(comm.all.sum_ns, 10 * (400 + 100 + 320 + 100) * US);
	assert_int_equal(comm.all.overlap_ns, 2200 * US);
	NEAR(comm.all.overlap_pct.v, 100 * 2200.0 / 9200);
	assert_true(comm.idle_ns.v == 900e3);
	comm_release(&comm);
	fake_run_free(run);
}

static void test_transports(void **state)
{
	struct run *run = fake_comm_run();
	struct comm comm = analyzed(run);
	const struct comm_part *of = comm.devices[0].of;

	(void)state;
	assert_int_equal(of[COMM_NCCL].count, 10);
	assert_int_equal(of[COMM_NCCL].time_ns, 4000 * US);
	assert_int_equal(of[COMM_NCCL].others_ns, 6000 * US); /* 0..400, 700..900 */
	assert_int_equal(of[COMM_NCCL].overlap_ns, 1000 * US);
	assert_true(of[COMM_NCCL].overlap_pct.v == 25);
	assert_int_equal(of[COMM_EXPERT].count, 10);
	assert_int_equal(of[COMM_EXPERT].time_ns, 1000 * US);
	assert_int_equal(of[COMM_EXPERT].others_ns, 8500 * US); /* 0..700, 750..900 */
	assert_int_equal(of[COMM_EXPERT].overlap_ns, 500 * US);
	assert_int_equal(of[COMM_EXPERT].exposed_ns, 500 * US);
	assert_int_equal(of[COMM_NVSHMEM].count, 0);
	assert_false(of[COMM_NVSHMEM].overlap_pct.known);
	assert_int_equal(comm.of[COMM_EXPERT].time_ns, 2000 * US);
	comm_release(&comm);
	fake_run_free(run);
}

static void test_rows(void **state)
{
	struct run *run = fake_comm_run();
	struct comm comm = analyzed(run);
	const struct comm_row *row = &comm.rows[0];

	(void)state;
	assert_int_equal(comm.n, 2);
	assert_int_equal(comm.records, 20);
	assert_int_equal(comm.without_kernel, 0);
	assert_string_equal(row->name, "allreduce");
	assert_true(row->recorded && row->transport == COMM_NCCL);
	assert_string_equal(run_string(run, row->group), "dp");
	assert_string_equal(run_string(run, row->type), "Float");
	assert_int_equal(row->count, 20);
	assert_int_equal(row->sum_ns, 7200 * US);
	assert_int_equal(row->max_ns, 400 * US);
	assert_true(row->mean_ns.v == 360e3);
	NEAR(row->share_pct, 100 * 7200.0 / 9200);
	/* 4 MB each; 2 (4 - 1) / 4 of it on the bus. */
	assert_true(row->bytes.v == 80e6);
	NEAR(row->algorithm_bytes_per_s.v, 80e6 / 7200e-6);
	NEAR(row->bus_bytes_per_s.v, 1.5 * 80e6 / 7200e-6);
	row = &comm.rows[1];
	assert_string_equal(row->name, "deep_ep::internode::dispatch");
	assert_false(row->recorded || row->bytes.known || row->bus_bytes_per_s.known);
	assert_false(row->skew.mean_ns.known);
	assert_int_equal(row->transport, COMM_EXPERT);
	comm_release(&comm);
	fake_run_free(run);
}

static void test_ranks(void **state)
{
	struct run *run = fake_comm_run();
	struct comm comm = analyzed(run);

	(void)state;
	assert_int_equal(comm.skew.matched, 10);
	assert_true(comm.skew.mean_ns.v == 80e3 && comm.skew.max_ns.v == 80e3);
	assert_true(comm.skew.wait_ns.v == 800e3);
	assert_true(comm.skew.late_rank.v == 1 && comm.skew.late_pct.v == 100);
	assert_true(comm.wait_pct.v == 4); /* 800 of two times 10000 */
	assert_int_equal(comm.rows[0].skew.matched, 10);
	assert_true(comm.rows[0].skew.late_rank.v == 1);
	comm_release(&comm);
	fake_run_free(run);
}

/* What was launched in the first five steps, as tools that leave out a last step count. */
static void test_steps(void **state)
{
	struct selection sel = SELECT_ALL;
	struct run *run = fake_comm_run();
	struct comm comm;

	(void)state;
	sel.step_last = 4;
	comm = analyzed_by(run, sel);
	assert_int_equal(comm.devices[0].all.time_ns, 2500 * US);
	assert_true(comm.devices[0].window_ns.v == 4950e3 && comm.devices[0].idle_ns.v == 200e3);
	assert_true(comm.devices[0].exposed_pct.v == 35);
	assert_int_equal(comm.records, 10);
	assert_int_equal(comm.skew.matched, 5);
	comm_release(&comm);
	sel.step_first = sel.step_last = 77;
	comm = analyzed_by(run, sel);
	assert_int_equal(comm.n_devices, 0);
	assert_int_equal(comm.n, 0);
	assert_false(comm.exposed_pct.known || comm.idle_ns.known || comm.skew.mean_ns.known);
	comm_release(&comm);
	sel = SELECT_ALL;
	sel.phase = 1;
	comm = analyzed_by(run, sel);
	assert_int_equal(comm.all.count, 0);
	comm_release(&comm);
	fake_run_free(run);
}

/* Only kernels: their names say what they are. */
static void test_names(void **state)
{
	static const struct {
		const char *name;
		enum comm_transport transport;
	} names[] = {
		{ "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)", COMM_NCCL },
		{ "NCCLDevKernel_Generic", COMM_NCCL },
		{ "void dpsk::ep::internode::combine<false, 8>(int4*)", COMM_EXPERT },
		{ "void dpsk::ep::cuda::get_dispatch_layout<256>(long const*)", COMM_EXPERT },
		{ "2ep9internode8dispatch", COMM_EXPERT }, /* cut: it cannot be demangled */
		{ "nvshmemi_transfer_rma", COMM_NVSHMEM },
		{ "void vllm::cross_device_reduce_2stage<float, 8>(x)", COMM_OTHER },
		{ "gemm", COMM_TRANSPORTS },
		{ "step::update", COMM_TRANSPORTS },
	};
	struct run *run = fake_run_new();
	uint64_t expected[COMM_TRANSPORTS] = { 0 };
	struct comm comm;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		fake_kernel(run, names[i].name, (int64_t)(100 * i), (int64_t)(100 * i + 50), i + 1);
		if (names[i].transport < COMM_TRANSPORTS)
			expected[names[i].transport]++;
	}
	comm = analyzed(run);
	for (int t = 0; t < COMM_TRANSPORTS; t++)
		assert_int_equal(comm.of[t].count, expected[t]);
	assert_int_equal(comm.n, 7);
	assert_int_equal(row_of(&comm, "dpsk::ep::internode::combine")->transport, COMM_EXPERT);
	assert_int_equal(comm.skew.matched, 0);
	assert_string_equal(comm.skew.mean_ns.reason, "no collective records in this run");
	/* No steps: of the window, 0..850, 7 times 50. */
	assert_false(comm.of_steps);
	NEAR(comm.exposed_pct.v, 100 * 350.0 / 850);
	comm_release(&comm);
	fake_run_free(run);
}

static void test_bandwidth(void **state)
{
	static const struct {
		const char *name, *type;
		uint32_t ranks;
		uint64_t in, out;
		double bytes, bus; /* of 1 us; -1: absent */
	} cases[] = {
		{ "allreduce", "BFloat16", 8, 500, 500, 1000, 1750e6 },
		{ "_allgather_base", "Half", 8, 100, 800, 1600, 1400e6 },
		{ "reduce_scatter", "Float", 4, 400, 100, 1600, 1200e6 },
		{ "all_to_allv", "Byte", 2, 100, 300, 300, 150e6 },
		{ "broadcast", "Long", 8, 10, 10, 80, 80e6 },
		{ "reduce", "Double", 8, 10, 10, 80, 80e6 },
		{ "send", "Int", 0, 10, 0, 40, 40e6 },
		{ "allreduce", "Float8_e4m3fn", 1, 10, 10, 10, 0 },
		{ "allreduce", "Int", 0, 10, 10, 40, -1 },
		{ "allreduce", "Strange", 4, 10, 10, -1, -1 },
		{ "allreduce", "", 4, 10, 10, -1, -1 },
		{ "allreduce", "Int", 5, 0, 0, -1, -1 },
		{ "barrier", "Int", 4, 1, 1, 4, -1 },
		{ "wait", "Int", 4, 1, 1, 4, -1 },
		{ "allreduce", "Long", 4, UINT64_MAX / 4, 1, -1, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run *run = fake_run_new();
		struct row_collective row = {
			.name = fake_string(run, cases[i].name),
			.duration_ns = 1000,
			.correlation = 1,
			.group_size = cases[i].ranks,
			.type = cases[i].type[0] ? fake_string(run, cases[i].type) : 0,
			.in_elements = cases[i].in,
			.out_elements = cases[i].out,
		};
		struct comm comm;

		fake_kernel(run, FAKE_NCCL, 0, 1000, 1);
		fake_add_collective(run, 0, &row);
		comm = analyzed(run);
		assert_int_equal(comm.n, 1);
		assert_int_equal(comm.rows[0].bytes.known, cases[i].bytes >= 0);
		if (cases[i].bytes >= 0)
			assert_true(comm.rows[0].bytes.v == cases[i].bytes);
		assert_int_equal(comm.rows[0].bus_bytes_per_s.known, cases[i].bus >= 0);
		if (cases[i].bus >= 0)
			NEAR(comm.rows[0].bus_bytes_per_s.v, cases[i].bus);
		assert_true(comm.rows[0].bytes.known || comm.rows[0].bytes.reason);
		assert_false(comm.rows[0].skew.mean_ns.known);
		comm_release(&comm);
		fake_run_free(run);
	}
}

/* A kernel with a record communicates, whatever its name; records without kernels still count. */
static void test_records(void **state)
{
	struct run *run = fake_run_new();
	struct comm comm;

	(void)state;
	fake_comm_kernel(run, 0, 0, "my_kernel", 0, 100);
	fake_collective(run, 0, 0, "alltoall", NULL, 0, 0, 100);
	fake_comm_kernel(run, 0, 0, "gemm", 0, 50); /* begins with it */
	fake_comm_kernel(run, 0, 0, "gemm", 60, 80);
	fake_collective(run, 0, 0, "broadcast", NULL, 0, 500, 600);
	fake_collective(run, 0, 3, "broadcast", NULL, 0, 60, 80); /* another device's */
	comm = analyzed(run);
	assert_int_equal(comm.records, 3);
	assert_int_equal(comm.without_kernel, 2);
	assert_int_equal(comm.of[COMM_OTHER].count, 1);
	assert_int_equal(comm.all.time_ns, 100 * US);
	assert_int_equal(comm.all.overlap_ns, 70 * US);
	assert_int_equal(row_of(&comm, "broadcast")->count, 2);
	assert_false(row_of(&comm, "alltoall")->skew.mean_ns.known);
	comm_release(&comm);
	fake_run_free(run);
}

static void test_untimed(void **state)
{
	struct run *run = fake_run_new();
	struct comm comm;

	(void)state;
	fake_kernel(run, FAKE_NCCL, 100, -1, 1);
	comm = analyzed(run);
	assert_int_equal(comm.all.count, 1);
	assert_int_equal(comm.all.untimed, 1);
	assert_int_equal(comm.n_devices, 1);
	assert_int_equal(comm.rows[0].untimed, 1);
	assert_false(comm.rows[0].mean_ns.known || comm.all.overlap_pct.known);
	assert_false(comm.exposed_pct.known || comm.idle_ns.known || comm.window_ns.known);
	comm_release(&comm);
	fake_kernel(run, FAKE_NCCL, 100, 200, 2);
	comm = analyzed(run);
	assert_int_equal(comm.all.time_ns, 100);
	assert_int_equal(comm.all.sum_ns, 100);
	assert_true(comm.rows[0].mean_ns.v == 100);
	comm_release(&comm);
	fake_run_free(run);
	run = fake_run_new();
	comm = analyzed(run);
	assert_int_equal(comm.n + comm.n_devices, 0);
	comm_release(&comm);
	fake_run_free(run);
}

/* Records of 100..200 and 300..400 us alone: a kernel that goes on between them counts there not. */
static void test_windows(void **state)
{
	static const struct {
		int64_t time_us;
		uint8_t attached;
	} gears[] = { { 100, 1 }, { 200, 0 }, { 300, 1 }, { 400, 0 } };
	struct run *run = fake_run_new();
	const struct comm_device *d;
	struct comm comm;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		fake_add_gear(run, 0,
			      &(struct row_gear){ .time_ns = gears[i].time_us * US,
						  .gear = 2,
						  .attached = gears[i].attached });
	run->shards[0].end_ns = 1000 * US;
	fake_span(run, 0, 1000 * US);
	fake_kernel(run, "gemm", 120 * US, 140 * US, 1);
	fake_kernel(run, FAKE_NCCL, 130 * US, 320 * US, 2);
	fake_kernel(run, "gemm", 310 * US, 390 * US, 3);
	comm = analyzed(run);
	d = comm.devices;
	assert_true(d->window_ns.v == 170e3); /* 120..200, 300..390 */
	assert_true(d->idle_ns.v == 0);
	assert_int_equal(d->all.time_ns, 90 * US);    /* 130..200, 300..320 */
	assert_int_equal(d->all.overlap_ns, 20 * US); /* 130..140, 310..320 */
	assert_int_equal(d->all.exposed_ns, 70 * US);
	assert_int_equal(d->all.others_ns, 100 * US);
	comm_release(&comm);
	fake_run_free(run);
}

static struct run *ranks_run(unsigned int ranks)
{
	struct run *run = fake_run_new();

	for (unsigned int rank = 1; rank < ranks; rank++)
		fake_shard(run, rank, 5000 + rank);
	return run;
}

static void collective_at(struct run *run, uint16_t shard, const char *name, const char *group,
			  uint64_t sequence, int64_t start_us, int64_t end_us)
{
	fake_comm_kernel(run, shard, 0, FAKE_NCCL, start_us, end_us);
	fake_collective(run, shard, 0, name, group, sequence, start_us, end_us);
}

/* What belongs together, and what does not. */
static void test_matching(void **state)
{
	struct run *run = ranks_run(3);
	struct comm comm;

	(void)state;
	/* Three ranks, 0, 10 and 30. Rank 0 ends before rank 2 begins, so that its clock is not the
	 * others': its kernel is the shortest, and it has not waited. */
	collective_at(run, 0, "allreduce", "a", 1, 100, 120);
	collective_at(run, 1, "allreduce", "a", 1, 110, 200);
	collective_at(run, 2, "allreduce", "a", 1, 130, 200);
	/* Other names, groups and numbers; one rank alone. */
	collective_at(run, 0, "allgather", "a", 1, 300, 310);
	collective_at(run, 1, "allreduce", "b", 1, 300, 310);
	collective_at(run, 2, "allreduce", "a", 2, 300, 310);
	collective_at(run, 2, "allreduce", NULL, 1, 500, 510);
	/* Two parts of one call on each of two ranks: begun 5 apart and as long, 1 apart and 1 longer;
	 * then both at once. */
	collective_at(run, 0, "send", "p", 7, 600, 610);
	collective_at(run, 1, "send", "p", 7, 605, 615);
	collective_at(run, 0, "send", "p", 7, 621, 630);
	collective_at(run, 1, "send", "p", 7, 620, 630);
	collective_at(run, 0, "send", "p", 8, 700, 710);
	collective_at(run, 1, "send", "p", 8, 700, 710);
	comm = analyzed(run);
	assert_int_equal(comm.skew.matched, 4);
	assert_true(comm.skew.max_ns.v == 30e3);
	assert_true(comm.skew.mean_ns.v == 36e3 / 4);
	/* 0, 20, 0; 0; 1; 0. */
	assert_true(comm.skew.wait_ns.v == 21e3);
	/* Ranks 2 and 0 were late once each, and in two nobody: the lowest is named. */
	assert_true(comm.skew.late_rank.v == 0 && comm.skew.late_pct.v == 25);
	comm_release(&comm);
	fake_run_free(run);
	/* Five ranks in a group of four: the name of the group means several. */
	run = ranks_run(5);
	for (uint16_t shard = 0; shard < 5; shard++)
		collective_at(run, shard, "allreduce", "a", 1, 100 + shard, 120);
	comm = analyzed(run);
	assert_int_equal(comm.skew.matched, 0);
	comm_release(&comm);
	fake_run_free(run);
	/* All at once: nobody is late. */
	run = ranks_run(2);
	collective_at(run, 0, "allreduce", "a", 1, 100, 120);
	collective_at(run, 1, "allreduce", "a", 1, 100, 120);
	comm = analyzed(run);
	assert_true(comm.skew.matched == 1 && comm.skew.max_ns.v == 0);
	assert_false(comm.skew.late_rank.known);
	assert_true(comm.skew.late_pct.v == 0);
	comm_release(&comm);
	fake_run_free(run);
}

/* One bit a microsecond and set of kernels. */
#define REFERENCE_US 4000
struct reference {
	bool comm[REFERENCE_US], compute[REFERENCE_US], copy[REFERENCE_US];
};

static void test_random(void **state)
{
	(void)state;
	srand(7);
	for (int round = 0; round < 40; round++) {
		struct run *run = fake_run_new();
		struct reference *ref = calloc(1, sizeof(*ref));
		int64_t time = 0, compute = 0, overlap = 0, busy = 0, first = REFERENCE_US,
			last = 0;
		struct comm comm;

		for (int i = 0; i < 5 + round * 4; i++) {
			int64_t start = rand() % (REFERENCE_US - 300), length = 1 + rand() % 200;
			int what = rand() % 4;
			bool *bits = what == 0 ? ref->comm : what == 1 ? ref->copy : ref->compute;

			memset(bits + start, 1, (size_t)length);
			first = start < first ? start : first;
			last = start + length > last ? start + length : last;
			if (what == 1)
				fake_copy(run, 1, 2, 10, start * US, (start + length) * US, 0);
			else
				fake_kernel(run, what ? "gemm" : FAKE_NCCL, start * US,
					    (start + length) * US, 0);
		}
		for (int i = 0; i < REFERENCE_US; i++) {
			time += ref->comm[i];
			compute += ref->compute[i];
			overlap += ref->comm[i] && ref->compute[i];
			busy += ref->comm[i] || ref->compute[i] || ref->copy[i];
		}
		comm = analyzed(run);
		assert_int_equal(comm.all.time_ns, time * US);
		assert_int_equal(comm.all.others_ns, compute * US);
		assert_int_equal(comm.all.overlap_ns, overlap * US);
		assert_int_equal(comm.all.exposed_ns, (time - overlap) * US);
		assert_int_equal(comm.busy_ns, busy * US);
		assert_true(comm.idle_ns.v == (double)((last - first - busy) * US));
		comm_release(&comm);
		free(ref);
		fake_run_free(run);
	}
}

/* Kernels of `us` and all-reduces of 100 us, hidden when the kernels are longer. */
static struct run *steps_run(uint16_t ranks, int64_t kernel_us, int64_t late_us)
{
	struct run *run = ranks_run(ranks);

	for (uint16_t shard = 0; shard < ranks; shard++) {
		for (int64_t step = 0; step < 10; step++) {
			int64_t at = step * 1000, begin = at + 300 + shard * late_us;

			fake_add_step(run, shard,
				      &(struct row_step){ .step = step,
							  .start_ns = at * US,
							  .duration_ns = 1000 * US,
							  .recorded = 1 });
			fake_comm_kernel(run, shard, 0, "gemm", at, at + kernel_us);
			collective_at(run, shard, "allreduce", "a", (uint64_t)step, begin,
				      at + 700);
		}
	}
	fake_span(run, 0, 10000 * US);
	return run;
}

/* The clock of the second rank is 200 us ahead: it begins and ends later, and nobody waits. */
static void test_clocks_that_differ(void **state)
{
	struct run *run = ranks_run(2);
	struct comm comm;

	(void)state;
	for (int64_t step = 0; step < 10; step++)
		for (uint16_t shard = 0; shard < 2; shard++) {
			int64_t at = step * 1000 + 200 * shard;

			fake_comm_kernel(run, shard, 0, "gemm", at, at + 400);
			collective_at(run, shard, "allreduce", "a", (uint64_t)step, at + 400,
				      at + 700);
		}
	fake_span(run, 0, 10000 * US);
	comm = analyzed(run);
	assert_true(comm.skew.mean_ns.v == 200e3);
	assert_true(comm.skew.wait_ns.v == 0);
	assert_false(comm.skew.late_rank.known);
	comm_release(&comm);
	SILENT(run, "rank-late");
	SAYS(run, "comm-exposed", SEVERITY_CRITICAL);
	fake_run_free(run);
}

static void test_rules(void **state)
{
	struct run *run = steps_run(1, 400, 0);
	struct verdict v;
	int found;

	(void)state;
	v = verdict_of(run, "comm-exposed", &found); /* 400..700 of each 1000 */
	assert_true(found);
	assert_int_equal(v.severity, SEVERITY_CRITICAL);
	assert_true(v.gain_pct.v == 30);
	assert_non_null(v.gain_assumption);
	assert_string_equal(v.title, "exposed communication takes 30% of the time of the steps");
	SILENT(run, "rank-late");
	fake_run_free(run);
	run = steps_run(1, 660, 0); /* 40 of 1000 are exposed */
	SILENT(run, "comm-exposed");
	fake_run_free(run);
	run = steps_run(1, 640, 0);
	SAYS(run, "comm-exposed", SEVERITY_WARNING);
	fake_run_free(run);
	run = steps_run(2, 900, 200); /* rank 0 waits 200 of 1000, rank 1 never */
	v = verdict_of(run, "rank-late", &found);
	assert_true(found);
	assert_int_equal(v.severity, SEVERITY_NOTE); /* it waits beside compute: nothing is lost */
	assert_true(v.gain_pct.v == 0);
	assert_string_equal(
		v.title,
		"rank 1 is the last to start 100% of the collectives (2 of 4 ranks recorded): "
		"the others wait 10.0% of the time");
	SILENT(run, "comm-exposed");
	fake_run_free(run);
	/* 600 of 2000 are exposed (400..700 twice); rank 0 waits 100 of them for rank 1: its gain. */
	run = steps_run(2, 400, 100);
	assert_true(verdict_of(run, "rank-late", &found).gain_pct.v == 5);
	v = verdict_of(run, "comm-exposed", &found);
	assert_true(found);
	assert_true(v.gain_pct.v == 25);
	assert_non_null(strstr(v.title, "takes 25%"));
	fake_run_free(run);
	run = steps_run(2, 900, 30); /* 1.5% */
	SILENT(run, "rank-late");
	fake_run_free(run);
	run = fake_gpu_run();
	SILENT(run, "comm-exposed");
	SILENT(run, "rank-late");
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clocks_that_differ),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_transports),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_bandwidth),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_untimed),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_matching),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

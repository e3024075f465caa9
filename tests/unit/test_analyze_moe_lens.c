/* SPDX-License-Identifier: Apache-2.0
 *
 * The MoE lens on runs built by hand: parts and passes, what hides communication, what that costs, and
 * layers. Times are in microseconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "device/sheets/kernel_class.h"
#include "fake_run.h"
#include "moescope.h"
#include "subjects/moe/moe_lens.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/lanes.h"

#define US INT64_C(1000)
#define DISPATCH "void deep_ep::internode::dispatch<false, 8>(int4*, float*)"
#define COMBINE "void deep_ep::internode::combine<false, 8>(int4*, float*)"
#define NOTIFY "void deep_ep::internode::notify_dispatch<false, 8>(int const*)"
#define FLASH "flash_fwd_kernel"
#define GROUPED "m_grouped_gemm_fp8_kernel"
#define GEMM "sm90_gemm_bf16"
#define ALL_TO_ALL "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"

static struct moe_lens analyzed_by(const struct run *run, struct selection sel)
{
	struct kernel_classes *classes;
	struct device_lanes lanes;
	struct attribution at;
	struct err err = { "" };
	struct moe_lens lens;

	assert_int_equal(kernel_classes_new(NULL, &classes, &err), 0);
	assert_int_equal(attribution_init(&at, run), 0);
	assert_int_equal(device_lanes_init(&lanes, run), 0);
	assert_int_equal(moe_lens_analyze_at(&at, &lanes, &sel, classes, &lens), 0);
	device_lanes_release(&lanes);
	attribution_release(&at);
	kernel_classes_free(classes);
	return lens;
}

static struct moe_lens analyzed(const struct run *run)
{
	return analyzed_by(run, SELECT_ALL);
}

/* A kernel that a call of the thread at that moment launches. */
static void work(struct run *run, uint32_t thread, int64_t call, const char *name, int64_t start,
		 int64_t end)
{
	uint64_t id = run->kernel.n + 1;

	fake_add_api(run, 0,
		     &(struct row_api){ .name = fake_string(run, "cudaLaunchKernel"),
					.start_ns = call * US,
					.duration_ns = US / 2,
					.thread = thread,
					.correlation = id });
	fake_kernel(run, name, start * US, end < 0 ? -1 : end * US, id);
}

static void range(struct run *run, uint32_t thread, const char *name, int64_t start, int64_t end,
		  uint8_t depth)
{
	fake_range(run, fake_site(run, name, -1, -1, 0), start * US, end * US, thread, depth);
}

static void op(struct run *run, uint32_t thread, const char *name, int64_t start, int64_t end)
{
	fake_op(run, fake_site(run, name, -1, -1, 0), start * US, end * US, thread, 0, 0);
}

static void assert_row(const struct moe_lens *lens, enum moe_part part, enum moe_pass pass,
		       uint64_t count, int64_t time_us)
{
	const struct moe_row *row = &lens->rows[part][pass];

	if (row->count != count || row->time_ns != time_us * US)
		fail_msg("%s %s: %llu kernels, %lld ns", moe_part_name(part), moe_pass_name(pass),
			 (unsigned long long)row->count, (long long)row->time_ns);
}

/* Forward of one batch beside backward of another, as DualPipe does; one step, two layers. */
static struct run *dual_run(void)
{
	struct run *run = fake_run_new();

	for (int layer = 0; layer < 2; layer++) {
		int64_t t = layer * 1000;

		work(run, 1, t + 1, FLASH, t, t + 200);
		range(run, 1, "attn(F)", t, t + 10, 0);
		/* Beside 100 of mlp(B), 50 of mlp(W); the last 50 beside nothing. */
		work(run, 1, t + 11, NOTIFY, t + 200, t + 250);
		work(run, 1, t + 12, DISPATCH, t + 250, t + 400);
		range(run, 1, "dispatch(F)", t + 10, t + 20, 0);
		work(run, 1, t + 21, GROUPED, t + 200, t + 300);
		range(run, 1, "mlp(B)", t + 20, t + 30, 0);
		work(run, 1, t + 31, GEMM, t + 300, t + 350);
		range(run, 1, "mlp(W)", t + 30, t + 40, 0);
		/* The kernel of a backward dispatch is a combine; it has 60 of attention forward... */
		work(run, 1, t + 41, COMBINE, t + 400, t + 500);
		range(run, 1, "dispatch(B)", t + 40, t + 50, 0);
		work(run, 1, t + 51, GEMM, t + 440, t + 500);
		range(run, 1, "attn(F)", t + 50, t + 60, 0);
		/* ...and the backward pass of attention is launched by a thread of its own. */
		work(run, 2, t + 65, "ln_bwd_kernel", t + 500, t + 600);
		op(run, 2, "autograd::engine::evaluate_function: NormBackward0", t + 62, t + 68);
		range(run, 1, "attn(B)", t + 60, t + 70, 0);
	}
	fake_step(run, 0, 0, 2000 * US, 0);
	fake_span(run, 0, 2000 * US);
	return run;
}

static void test_parts_and_passes(void **state)
{
	struct run *run = dual_run();
	struct moe_lens lens = analyzed(run);

	(void)state;
	assert_null(lens.reason);
	assert_row(&lens, MOE_ATTENTION, MOE_FORWARD, 4, 520);
	assert_row(&lens, MOE_ATTENTION, MOE_BACKWARD, 2, 200);
	assert_row(&lens, MOE_DISPATCH, MOE_FORWARD, 4, 400);
	assert_row(&lens, MOE_DISPATCH, MOE_BACKWARD, 2, 200);
	assert_row(&lens, MOE_COMBINE, MOE_BACKWARD, 0, 0);
	assert_row(&lens, MOE_EXPERTS, MOE_BACKWARD, 2, 200);
	assert_row(&lens, MOE_EXPERTS, MOE_WEIGHT, 2, 100);
	assert_row(&lens, MOE_REST, MOE_UNKNOWN, 0, 0);
	assert_int_equal(lens.kernels_ns, 1200 * US);
	assert_string_equal(lens.precision, "FP8");
	assert_non_null(lens.shared_none);
	moe_lens_release(&lens);
	fake_run_free(run);
}

static void test_hidden_and_beside(void **state)
{
	struct run *run = dual_run();
	struct moe_lens lens = analyzed(run);
	const struct moe_comm *forward = &lens.rows[MOE_DISPATCH][MOE_FORWARD].comm;
	const struct moe_comm *backward = &lens.rows[MOE_DISPATCH][MOE_BACKWARD].comm;

	(void)state;
	assert_int_equal(forward->time_ns, 400 * US);
	assert_int_equal(forward->notify_ns, 100 * US);
	assert_int_equal(forward->hidden_ns, 300 * US);
	assert_int_equal(forward->exposed_ns, 100 * US);
	assert_int_equal(forward->beside_ns[MOE_BACKWARD], 200 * US);
	assert_int_equal(forward->beside_ns[MOE_WEIGHT], 100 * US);
	assert_int_equal(forward->beside_ns[MOE_FORWARD], 0);
	assert_int_equal(forward->two_batch_ns, 300 * US);
	assert_true(forward->hidden_pct.v == 75);
	assert_int_equal(backward->hidden_ns, 120 * US);
	assert_int_equal(backward->two_batch_ns, 120 * US);
	assert_int_equal(lens.comm.count, 6);
	assert_int_equal(lens.comm.time_ns, 600 * US);
	assert_int_equal(lens.comm.exposed_ns, 180 * US);
	assert_int_equal(lens.overlap, MOE_FORWARD_BACKWARD);
	assert_true(lens.two_batch_pct.v == 70);
	moe_lens_release(&lens);
	fake_run_free(run);
}

/* One batch: gradients of weights beside the backward dispatch, a shared expert beside the forward
 * one. Neither is another batch. */
static void test_one_batch(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	work(run, 1, 1, DISPATCH, 100, 200);
	range(run, 1, "dispatch(F)", 0, 10, 0);
	work(run, 1, 11, GEMM, 100, 200);
	range(run, 1, "shared_experts(F)", 10, 20, 0);
	work(run, 1, 21, COMBINE, 300, 400);
	range(run, 1, "dispatch(B)", 20, 30, 0);
	work(run, 1, 31, GEMM, 300, 400);
	range(run, 1, "experts(W)", 30, 40, 0);
	lens = analyzed(run);
	assert_int_equal(lens.comm.hidden_ns, 200 * US);
	assert_int_equal(lens.comm.exposed_ns, 0);
	assert_int_equal(lens.comm.two_batch_ns, 0);
	assert_int_equal(lens.overlap, MOE_NO_OVERLAP);
	assert_row(&lens, MOE_SHARED, MOE_FORWARD, 1, 100);
	assert_null(lens.shared_none);
	moe_lens_release(&lens);
	fake_run_free(run);
}

/* Inference, no ranges: attention beside a dispatch can only be of another batch. */
static void test_two_micro_batches(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	work(run, 1, 1, DISPATCH, 100, 200);
	work(run, 1, 2, FLASH, 120, 180);
	work(run, 1, 3, GROUPED, 200, 300);
	lens = analyzed(run);
	/* Nothing in the run is of a backward pass. */
	assert_row(&lens, MOE_ATTENTION, MOE_FORWARD, 1, 60);
	assert_row(&lens, MOE_EXPERTS, MOE_FORWARD, 1, 100);
	assert_int_equal(lens.comm.two_batch_ns, 60 * US);
	assert_int_equal(lens.overlap, MOE_TWO_BATCHES);
	assert_string_equal(lens.layers_none, "no range names a layer or a part");
	moe_lens_release(&lens);
	fake_run_free(run);
}

/* Without ranges of its own an all-to-all is told by the experts around it. */
static void test_all_to_all_by_order(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	work(run, 1, 1, FLASH, 0, 10);
	work(run, 1, 11, ALL_TO_ALL, 20, 30);
	op(run, 1, "c10d::alltoall_base_", 10, 15);
	work(run, 1, 21, GROUPED, 40, 50);
	work(run, 1, 31, ALL_TO_ALL, 60, 80);
	op(run, 1, "c10d::alltoall_base_", 30, 35);
	/* The backward pass meets the combine first. */
	work(run, 2, 101, "flash_bwd_kernel", 100, 110);
	work(run, 2, 111, ALL_TO_ALL, 120, 124);
	op(run, 2, "autograd::engine::evaluate_function: _AllToAllBackward", 110, 115);
	work(run, 2, 121, GROUPED, 140, 150);
	op(run, 2, "autograd::engine::evaluate_function: GroupedGemmBackward", 120, 125);
	work(run, 2, 131, ALL_TO_ALL, 160, 168);
	op(run, 2, "autograd::engine::evaluate_function: _AllToAllBackward", 130, 135);
	/* A send for the pipeline is none of it. */
	work(run, 1, 141, ALL_TO_ALL, 200, 300);
	op(run, 1, "c10d::send", 140, 145);
	lens = analyzed(run);
	assert_row(&lens, MOE_DISPATCH, MOE_FORWARD, 1, 10);
	assert_row(&lens, MOE_COMBINE, MOE_FORWARD, 1, 20);
	assert_row(&lens, MOE_COMBINE, MOE_BACKWARD, 1, 4);
	assert_row(&lens, MOE_DISPATCH, MOE_BACKWARD, 1, 8);
	assert_int_equal(lens.comm.count, 4);
	assert_int_equal(lens.comm.exposed_ns, 42 * US);
	moe_lens_release(&lens);
	fake_run_free(run);
}

/* Two products of one launch configuration in each of three ranges: the first takes 100, beside
 * communication 120; the second takes 500 always. Mixing them up would give other figures. */
static void test_cost(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	for (int i = 0; i < 3; i++) {
		int64_t t = i * 1000, first = i == 1 ? 120 : 100;

		work(run, 1, t + 1, GEMM, t + 100, t + 100 + first);
		work(run, 1, t + 2, GEMM, t + 300, t + 800);
		range(run, 1, "mlp(F)", t, t + 10, 0);
		if (i == 1)
			work(run, 1, t + 11, DISPATCH, t + 100, t + 220);
	}
	/* Another count in its range: not the same place. */
	work(run, 1, 3001, GEMM, 3100, 3900);
	range(run, 1, "mlp(F)", 3000, 3010, 0);
	lens = analyzed(run);
	assert_int_equal(lens.cost.compared, 1);
	assert_int_equal(lens.cost.n, 1);
	assert_int_equal(lens.cost.rows[0].clear, 2);
	assert_true(lens.cost.extra_ns.v == 20e3);
	assert_true(lens.cost.slower_pct.v == 20);
	assert_true(lens.cost.rows[0].beside_ns == 120e3 && lens.cost.rows[0].clear_ns == 100e3);
	moe_lens_release(&lens);
	fake_run_free(run);
}

/* Sums over devices, which must not see each other's kernels. */
static void test_two_devices(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	for (uint32_t device = 0; device < 2; device++) {
		fake_add_kernel(run, 0,
				&(struct row_kernel){ .launch = fake_launch(run, DISPATCH),
						      .start_ns = 100 * US,
						      .duration_ns = 100 * US,
						      .device = device });
		fake_add_kernel(run, 0,
				&(struct row_kernel){ .launch = fake_launch(run, GEMM),
						      .start_ns = (150 + device * 100) * US,
						      .duration_ns = 100 * US,
						      .device = device });
	}
	lens = analyzed(run);
	assert_int_equal(lens.comm.count, 2);
	assert_int_equal(lens.comm.time_ns, 200 * US);
	assert_int_equal(lens.comm.hidden_ns, 50 * US);
	assert_int_equal(lens.kernels_ns, 350 * US);
	assert_int_equal(lens.rows[MOE_DISPATCH][MOE_FORWARD].comm.count, 2);
	moe_lens_release(&lens);
	fake_run_free(run);
}

static void test_cost_is_absent_without_a_pair(void **state)
{
	struct run *run = dual_run();
	struct moe_lens lens = analyzed(run);

	(void)state;
	assert_false(lens.cost.extra_ns.known);
	assert_int_equal(lens.cost.n, 0);
	moe_lens_release(&lens);
	fake_run_free(run);
}

static void layer_work(struct run *run, int64_t t, const char *experts, int32_t layer)
{
	work(run, 1, t + 1, FLASH, t + 10, t + 20);
	range(run, 1, "attn", t, t + 5, 0);
	work(run, 1, t + 6, GROUPED, t + 20, t + 50);
	fake_range(run, fake_site(run, experts, layer, -1, 0), (t + 5) * US, (t + 8) * US, 1, 0);
	work(run, 1, t + 9, COMBINE, t + 45, t + 65);
	fake_range(run, fake_site(run, "combine", layer, -1, 0), (t + 8) * US, (t + 10) * US, 1, 0);
}

static void test_layers(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	/* Two steps of two layers, told by their order. */
	for (int i = 0; i < 4; i++)
		layer_work(run, i * 100, "experts", -1);
	fake_step(run, 0, 0, 200 * US, 0);
	fake_step(run, 1, 200 * US, 400 * US, 0);
	lens = analyzed(run);
	assert_string_equal(lens.layers_by, "order");
	assert_null(lens.layers_none);
	assert_int_equal(lens.n_layers, 2);
	assert_int_equal(lens.layers[0].number, 1);
	assert_int_equal(lens.layers[1].count, 6);
	assert_int_equal(lens.layers[1].sum_ns[MOE_EXPERTS], 60 * US);
	assert_int_equal(lens.layers[1].comm_ns, 40 * US);
	assert_int_equal(lens.layers[1].hidden_ns, 10 * US);
	moe_lens_release(&lens);
	/* One more attention: the n-th of each are no layer any more. */
	work(run, 1, 391, FLASH, 391, 395);
	range(run, 1, "attn", 390, 395, 0);
	lens = analyzed(run);
	assert_int_equal(lens.n_layers, 0);
	assert_string_equal(lens.layers_none,
			    "the ranges of the parts do not occur equally often in a step");
	moe_lens_release(&lens);
	fake_run_free(run);
	/* Ranges that have a number, of the site or in the name. */
	run = fake_run_new();
	layer_work(run, 0, "experts", 7);
	layer_work(run, 100, "model.layers.9.mlp.experts", -1);
	lens = analyzed(run);
	assert_string_equal(lens.layers_by, "ranges");
	assert_int_equal(lens.n_layers, 2);
	assert_int_equal(lens.layers[0].number, 7);
	assert_int_equal(lens.layers[0].count, 2);
	assert_int_equal(lens.layers[1].number, 9);
	assert_int_equal(lens.layers[1].count, 1);
	moe_lens_release(&lens);
	fake_run_free(run);
}

static void module(struct run *run, const char *name, int64_t start, int64_t end)
{
	fake_add_frame(run, 0,
		       &(struct row_frame){ .name = fake_string(run, name),
					    .start_ns = start * US,
					    .duration_ns = (end - start) * US,
					    .thread = 1 });
}

static void test_modules(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	/* Layer 3 is the second of the sparse ones: the outermost number counts. */
	module(run, "nn.Module: DecoderLayer_3", 0, 100);
	module(run, "nn.Module: SparseMoeLayer_1", 10, 90);
	module(run, "nn.Module: TopKRouter_1", 10, 20);
	module(run, "nn.Module: SharedExpert_1", 50, 60);
	module(run, "layers/moe.py(12): forward", 95, 99);
	work(run, 1, 5, GEMM, 100, 101);
	work(run, 1, 15, GEMM, 110, 112);
	op(run, 1, "aten::mm", 12, 18);
	work(run, 1, 30, GEMM, 120, 123);
	work(run, 1, 55, GEMM, 130, 135);
	/* A range inside of the module says more than the module. */
	work(run, 1, 75, GEMM, 140, 147);
	range(run, 1, "attention", 70, 80, 0);
	/* A frame that is not a module says nothing. */
	work(run, 1, 97, GEMM, 150, 161);
	/* The backward pass of the operation in the router; the other has no arrow. */
	work(run, 2, 205, GEMM, 210, 223);
	op(run, 2, "MmBackward0", 200, 208);
	work(run, 2, 305, GEMM, 310, 327);
	op(run, 2, "MmBackward0", 300, 308);
	fake_add_flow(run, 0,
		      &(struct row_flow){ .name = fake_string(run, "fwdbwd"),
					  .start_ns = 12 * US,
					  .duration_ns = 188 * US,
					  .thread = 1,
					  .end_thread = 2 });
	lens = analyzed(run);
	assert_row(&lens, MOE_ROUTER, MOE_FORWARD, 1, 2);
	assert_row(&lens, MOE_ATTENTION, MOE_UNKNOWN, 0, 0);
	assert_row(&lens, MOE_ATTENTION, MOE_FORWARD, 1, 7);
	assert_row(&lens, MOE_ROUTER, MOE_BACKWARD, 1, 13);
	assert_row(&lens, MOE_REST, MOE_BACKWARD, 1, 17);
	/* Launched by no operation, but in a module, which backward passes do not run. */
	assert_row(&lens, MOE_EXPERTS, MOE_FORWARD, 1, 3);
	assert_row(&lens, MOE_SHARED, MOE_FORWARD, 1, 5);
	assert_row(&lens, MOE_REST, MOE_FORWARD, 2, 12);
	assert_string_equal(lens.layers_by, "ranges");
	assert_int_equal(lens.n_layers, 1);
	assert_int_equal(lens.layers[0].number, 3);
	assert_int_equal(lens.layers[0].count, 7);
	moe_lens_release(&lens);
	fake_run_free(run);
}

/* Attention alone is in every model. */
static void test_layers_need_experts(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	for (int i = 0; i < 2; i++) {
		work(run, 1, i * 100 + 1, FLASH, i * 100 + 10, i * 100 + 20);
		range(run, 1, "attn", i * 100, i * 100 + 5, 0);
		work(run, 1, i * 100 + 50, GROUPED, i * 100 + 20, i * 100 + 50);
	}
	fake_step(run, 0, 0, 200 * US, 0);
	lens = analyzed(run);
	assert_int_equal(lens.n_layers, 0);
	assert_non_null(lens.layers_none);
	moe_lens_release(&lens);
	/* Nor when they are numbered. */
	work(run, 1, 191, FLASH, 191, 195);
	range(run, 1, "layers.4.attn", 190, 195, 0);
	lens = analyzed(run);
	assert_int_equal(lens.n_layers, 0);
	assert_non_null(lens.layers_none);
	moe_lens_release(&lens);
	fake_run_free(run);
}

static void test_dense_models_have_none(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	lens = analyzed(run);
	assert_string_equal(lens.reason, "no kernels in this run");
	work(run, 1, 1, FLASH, 10, 20);
	range(run, 1, "self_attn", 0, 5, 0);
	work(run, 1, 6, GEMM, 20, 50);
	range(run, 1, "mlp.gate_proj", 5, 8, 0);
	/* An all-to-all of sequence parallelism. */
	work(run, 1, 9, ALL_TO_ALL, 50, 60);
	op(run, 1, "c10d::alltoall_base_", 8, 10);
	lens = analyzed(run);
	assert_string_equal(lens.reason, "no mixture-of-experts kernels or ranges found");
	assert_int_equal(lens.comm.count, 0);
	moe_lens_release(&lens);
	fake_run_free(run);
}

static void test_what_nothing_tells(void **state)
{
	struct run *run = fake_run_new();
	struct moe_lens lens;

	(void)state;
	work(run, 1, 1, GROUPED, 10, 20);
	range(run, 1, "experts(B)", 0, 5, 0);
	/* There is a backward pass, and no range or operation says that this is not of it. */
	work(run, 1, 50, GROUPED, 60, 70);
	work(run, 1, 80, GEMM, 90, -1);
	lens = analyzed(run);
	assert_row(&lens, MOE_EXPERTS, MOE_BACKWARD, 1, 10);
	assert_row(&lens, MOE_EXPERTS, MOE_UNKNOWN, 1, 10);
	assert_row(&lens, MOE_REST, MOE_UNKNOWN, 1, 0);
	assert_int_equal(lens.rows[MOE_REST][MOE_UNKNOWN].untimed, 1);
	moe_lens_release(&lens);
	fake_run_free(run);
}

static void test_chosen_steps(void **state)
{
	struct run *run = dual_run();
	struct selection sel = SELECT_ALL;
	struct moe_lens lens;

	(void)state;
	sel.step_first = sel.step_last = 5;
	lens = analyzed_by(run, sel);
	assert_non_null(lens.reason);
	sel.step_first = sel.step_last = 0;
	lens = analyzed_by(run, sel);
	assert_int_equal(lens.comm.time_ns, 600 * US);
	moe_lens_release(&lens);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_and_passes),
		cmocka_unit_test(test_hidden_and_beside),
		cmocka_unit_test(test_one_batch),
		cmocka_unit_test(test_two_micro_batches),
		cmocka_unit_test(test_all_to_all_by_order),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_two_devices),
		cmocka_unit_test(test_cost_is_absent_without_a_pair),
		cmocka_unit_test(test_layers),
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_layers_need_experts),
		cmocka_unit_test(test_dense_models_have_none),
		cmocka_unit_test(test_what_nothing_tells),
		cmocka_unit_test(test_chosen_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

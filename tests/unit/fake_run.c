/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs built by hand; see fake_run.h.
 */
#include "fake_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"

static void *grown(void *items, size_t n, size_t add, size_t size)
{
	size_t have = 1, need = n + add;

	/* Capacity is the power of two at or above n, so that it need not be stored. */
	while (have < n)
		have *= 2;
	if (items && need <= have)
		return items;
	while (have < need)
		have *= 2;
	items = realloc(items, have * size);
	if (!items)
		abort();
	return items;
}

#define ADD_C(id, field, TYPE, CODING)                                                             \
	t->field = grown(t->field, t->n, 1, sizeof(*t->field));                                    \
	t->field[t->n] = row->field;
#define ADD_L(id, field, TYPE, count)                                                              \
	{                                                                                          \
		uint64_t first = t->n ? t->field##_first[t->n] : 0;                                \
		t->field##_first = grown(t->field##_first, t->n ? t->n + 1 : 0, t->n ? 1 : 2,      \
					 sizeof(*t->field##_first));                               \
		t->field = grown(t->field, first, row->count, sizeof(*t->field));                  \
		if (row->count)                                                                    \
			memcpy(t->field + first, row->field, row->count * sizeof(*t->field));      \
		t->field##_first[t->n] = first;                                                    \
		t->field##_first[t->n + 1] = first + row->count;                                   \
	}
#define ADD_B(id, field, count) ADD_L(id, field, U8, count)
#define KIND(id, NAME, name)                                                                       \
	void fake_add_##name(struct run *run, uint16_t shard, const struct row_##name *row)        \
	{                                                                                          \
		struct table_##name *t = &run->name;                                               \
                                                                                                   \
		t->shard = grown(t->shard, t->n, 1, sizeof(*t->shard));                            \
		t->shard[t->n] = shard;                                                            \
		RECORD_COLUMNS_##name(ADD_C, ADD_L, ADD_B) t->n++;                                 \
	}
RECORD_KINDS(KIND)
#undef KIND

#define FREE_C(id, field, TYPE, CODING) free(t->field);
#define FREE_L(id, field, TYPE, count)                                                             \
	free(t->field);                                                                            \
	free(t->field##_first);
#define FREE_B(id, field, count) FREE_L(id, field, U8, count)
#define KIND(id, NAME, name)                                                                       \
	static void free_##name(struct table_##name *t)                                            \
	{                                                                                          \
		free(t->shard);                                                                    \
		RECORD_COLUMNS_##name(FREE_C, FREE_L, FREE_B)                                      \
	}
RECORD_KINDS(KIND)
#undef KIND

struct run *fake_run_new(void)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		abort();
	run->info = (struct run_info){
		.name = strdup("fake"),
		.path = strdup("fake.mscope"),
		.command = strdup("./train --steps 12"),
		.status = strdup("exited"),
		.host = strdup("testhost"),
		.cpu = strdup("Test CPU"),
		.cpus = 2,
		.version = strdup("0.1.0"),
		.level = strdup("full"),
		.notes = strdup(""),
		.source = strdup(""),
		.started_realtime_ns = INT64_C(1769868187000000000),
		.duration_ns = 1500000000,
		.duration_known = true,
	};
	fake_shard(run, 0, 4242);
	return run;
}

void fake_run_free(struct run *run)
{
	free(run->info.name);
	free(run->info.path);
	free(run->info.command);
	free(run->info.status);
	free(run->info.host);
	free(run->info.cpu);
	free(run->info.version);
	free(run->info.level);
	free(run->info.notes);
	free(run->info.source);
	for (size_t i = 0; i < run->n_shards; i++)
		free(run->shards[i].path);
	free(run->shards);
#define KIND(id, NAME, name) free_##name(&run->name);
	RECORD_KINDS(KIND)
#undef KIND
	free(run);
}

uint16_t fake_shard(struct run *run, uint32_t rank, uint32_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "fake.mscope/%u-%u.mst", rank, pid);
	run->shards = grown(run->shards, run->n_shards, 1, sizeof(*run->shards));
	run->shards[run->n_shards] =
		(struct run_shard){ .path = strdup(path), .rank = rank, .pid = pid };
	return (uint16_t)run->n_shards++;
}

uint32_t fake_string(struct run *run, const char *text)
{
	struct row_string row = { .length = (uint32_t)strlen(text) + 1, .text = text };

	for (size_t i = 0; i < run->string.n; i++)
		if (!strcmp(run->string.text + run->string.text_first[i], text))
			return run->string.id[i];
	row.id = (uint32_t)run->string.n + 1;
	fake_add_string(run, 0, &row);
	return row.id;
}

uint32_t fake_site(struct run *run, const char *name, int32_t layer, int32_t expert, uint8_t phase)
{
	struct row_site row = { .id = (uint32_t)run->site.n + 1,
				.name = fake_string(run, name),
				.layer = layer,
				.expert = expert,
				.phase = phase };

	fake_add_site(run, 0, &row);
	return row.id;
}

const char *run_string(const struct run *run, uint32_t id)
{
	if (!id || id > run->string.n)
		return "";
	return run->string.text + run->string.text_first[id - 1];
}

struct site run_site(const struct run *run, uint32_t id)
{
	if (!id || id > run->site.n)
		return (struct site){ .layer = -1, .expert = -1 };
	return (struct site){ run->site.name[id - 1], run->site.layer[id - 1],
			      run->site.expert[id - 1], run->site.phase[id - 1] };
}

struct row_launch run_launch(const struct run *run, uint32_t id)
{
	if (!id || id > run->launch.n)
		return (struct row_launch){ 0 };
	id--;
#define LAUNCH_C(n, field, TYPE, CODING) .field = run->launch.field[id],
	return (struct row_launch){ RECORD_COLUMNS_launch(LAUNCH_C, LAUNCH_C, LAUNCH_C) };
#undef LAUNCH_C
}

const char *phase_name(unsigned int phase)
{
	static const char *const names[] = { "",	"forward", "backward",	"optimizer", "data",
					     "prefill", "decode",  "recompute", "evaluation" };

	return phase < sizeof(names) / sizeof(names[0]) ? names[phase] : "?";
}

const char *memory_use_name(unsigned int use)
{
	static const char *const names[] = { "other",	  "parameters",	 "gradients",
					     "optimizer", "activations", "cache" };

	return use < sizeof(names) / sizeof(names[0]) ? names[use] : "?";
}

uint64_t loss_total(const struct loss *loss)
{
	uint64_t total = 0;

#define LOSS(field, words) total += loss->field;
	LOSS_COUNTERS(LOSS)
#undef LOSS
	return total - loss->salvaged;
}

void fake_span(struct run *run, int64_t start_ns, int64_t end_ns)
{
	run->start_ns = start_ns;
	run->end_ns = end_ns;
	for (size_t i = 0; i < run->n_shards; i++) {
		run->shards[i].start_ns = start_ns;
		run->shards[i].end_ns = end_ns;
	}
}

void fake_range(struct run *run, uint32_t site, int64_t start_ns, int64_t end_ns, uint32_t thread,
		uint8_t depth)
{
	fake_add_range(run, 0,
		       &(struct row_range){ .site = site,
					    .start_ns = start_ns,
					    .duration_ns = end_ns - start_ns,
					    .thread = thread,
					    .depth = depth });
}

void fake_op(struct run *run, uint32_t site, int64_t start_ns, int64_t end_ns, uint32_t thread,
	     uint8_t depth, uint64_t flops)
{
	fake_add_op(run, 0,
		    &(struct row_op){ .site = site,
				      .start_ns = start_ns,
				      .duration_ns = end_ns - start_ns,
				      .thread = thread,
				      .depth = depth,
				      .flops = flops,
				      .bytes = flops / 4 });
}

void fake_step(struct run *run, int64_t step, int64_t start_ns, int64_t end_ns, uint64_t tokens)
{
	fake_add_step(run, 0,
		      &(struct row_step){ .step = step,
					  .start_ns = start_ns,
					  .duration_ns = end_ns - start_ns,
					  .tokens = tokens,
					  .tokens_known = tokens != 0,
					  .recorded = 1 });
}

void fake_routing(struct run *run, int64_t step, int64_t time_ns, int32_t layer, uint32_t k,
		  uint32_t experts, const uint32_t *load)
{
	uint32_t hist[65] = { 0 };
	uint64_t total = 0;

	for (uint32_t e = 0; e < experts; e++)
		total += load[e];
	hist[k] = (uint32_t)(total / k);
	fake_add_routing(run, 0,
			 &(struct row_routing){ .time_ns = time_ns,
						.step = step,
						.layer = layer,
						.phase = MOESCOPE_FORWARD,
						.k = k,
						.tokens = total / k,
						.experts = experts,
						.k_slots = k + 1,
						.load = load,
						.k_hist = hist });
}

uint32_t fake_launch(struct run *run, const char *name)
{
	struct row_launch row = { .id = (uint32_t)run->launch.n + 1,
				  .name = fake_string(run, name) };

	for (size_t i = 0; i < run->launch.n; i++)
		if (run->launch.name[i] == row.name)
			return run->launch.id[i];
	fake_add_launch(run, 0, &row);
	return row.id;
}

void fake_kernel(struct run *run, const char *name, int64_t start_ns, int64_t end_ns,
		 uint64_t correlation)
{
	fake_add_kernel(run, 0,
			&(struct row_kernel){ .launch = fake_launch(run, name),
					      .start_ns = start_ns,
					      .duration_ns = end_ns < 0 ? 0 : end_ns - start_ns,
					      .stream = 7,
					      .correlation = correlation,
					      .untimed = end_ns < 0 });
}

void fake_copy(struct run *run, uint8_t kind, uint8_t host_memory, uint64_t bytes, int64_t start_ns,
	       int64_t end_ns, uint64_t correlation)
{
	fake_add_copy(run, 0,
		      &(struct row_copy){ .start_ns = start_ns,
					  .duration_ns = end_ns < 0 ? 0 : end_ns - start_ns,
					  .bytes = bytes,
					  .kind = kind,
					  .source_memory = kind == 1 ? host_memory : 3,
					  .target_memory = kind == 2 ? host_memory : 3,
					  .stream = 7,
					  .correlation = correlation,
					  .asynchronous = host_memory == 2,
					  .untimed = end_ns < 0 });
}

void fake_call(struct run *run, const char *name, int64_t start_ns, int64_t end_ns,
	       uint64_t correlation)
{
	fake_add_api(run, 0,
		     &(struct row_api){ .name = fake_string(run, name),
					.start_ns = start_ns,
					.duration_ns = end_ns - start_ns,
					.thread = 1,
					.correlation = correlation });
}

#define MS INT64_C(1000000)
#define STEPS 12
#define EXPERTS 8
#define TOKENS 64

struct places {
	uint32_t data, forward, backward, optimizer, worker, attention[2], expert[2], matmul[2],
		adam;
	uint32_t shape;
};

static void add_work(struct run *run, const struct places *p, int64_t at)
{
	fake_range(run, p->data, at, at + 4 * MS, 1, 0);
	for (int l = 0; l < 2; l++) {
		int64_t t = at + 5 * MS + l * 20 * MS;

		fake_op(run, p->matmul[l], t + MS, t + 6 * MS, 1, 2, 40000000);
		fake_range(run, p->attention[l], t, t + 8 * MS, 1, 1);
		fake_op(run, p->expert[l], t + 9 * MS, t + 18 * MS, 2, 1, 90000000);
		fake_op(run, p->expert[l], t + 9 * MS, t + 15 * MS, 1, 1, 60000000);
	}
	fake_range(run, p->worker, at + 10 * MS, at + 44 * MS, 2, 0);
	fake_range(run, p->forward, at + 5 * MS, at + 45 * MS, 1, 0);
	fake_range(run, p->backward, at + 45 * MS, at + 90 * MS, 1, 0);
	fake_op(run, p->adam, at + 91 * MS, at + 97 * MS, 1, 1, 5000000);
	fake_range(run, p->optimizer, at + 90 * MS, at + 98 * MS, 1, 0);
}

static void add_routing(struct run *run, int64_t step, int64_t at)
{
	for (int32_t layer = 0; layer < 2; layer++) {
		int32_t slots[TOKENS * 2];
		uint32_t load[EXPERTS] = { 0 }, hist[3] = { 0, 0, TOKENS };

		for (int t = 0; t < TOKENS; t++) {
			/* Layer 0 spreads evenly; layer 1 leans to experts 0 and 1. */
			int a = layer ? (t * 7 + (int)step) % 5 % 3 : (t + (int)step) % EXPERTS;
			int b = layer ? 1 + (t + (int)step) % 6 : (a + 1 + t % 3) % EXPERTS;

			b = a == b ? (b + 1) % EXPERTS : b;
			slots[2 * t] = a;
			slots[2 * t + 1] = b;
			load[a]++;
			load[b]++;
		}
		fake_add_routing(run, 0,
				 &(struct row_routing){ .time_ns = at + 30 * MS,
							.step = step,
							.layer = layer,
							.phase = MOESCOPE_FORWARD,
							.k = 2,
							.tokens = TOKENS,
							.experts = EXPERTS,
							.k_slots = 3,
							.weighted_tokens = TOKENS,
							.confidence_sum = TOKENS * 0.75,
							.load = load,
							.k_hist = hist });
		fake_add_routed(run, 0,
				&(struct row_routed){ .step = step,
						      .layer = layer,
						      .phase = MOESCOPE_FORWARD,
						      .k = 2,
						      .slots = TOKENS * 2,
						      .expert = slots });
	}
}

static void add_memory(struct run *run, int64_t step, int64_t at)
{
	struct row_memory row = { .device = -1, .thread = 1 };

	row.use = MOESCOPE_MEMORY_ACTIVATIONS;
	row.site = fake_string(run, "activations");
	row.address = 0x10000;
	row.bytes = 6000000;
	row.time_ns = at + 5 * MS;
	fake_add_memory(run, 0, &row);
	row.event = 1;
	row.bytes = 0;
	row.time_ns = at + 90 * MS;
	fake_add_memory(run, 0, &row);
	row = (struct row_memory){ .time_ns = at + 95 * MS,
				   .address = 0x900000 + (uint64_t)step * 0x1000,
				   .bytes = 50000,
				   .device = -1,
				   .site = fake_string(run, "history"),
				   .thread = 1 };
	fake_add_memory(run, 0, &row);
}

static struct places make_places(struct run *run)
{
	struct places p = {
		.data = fake_site(run, "batch", -1, -1, MOESCOPE_DATA),
		.forward = fake_site(run, "forward", -1, -1, MOESCOPE_FORWARD),
		.backward = fake_site(run, "backward", -1, -1, MOESCOPE_BACKWARD),
		.optimizer = fake_site(run, "optimizer", -1, -1, MOESCOPE_OPTIMIZER),
		.worker = fake_site(run, "experts", -1, -1, MOESCOPE_FORWARD),
		.adam = fake_site(run, "adamw", -1, -1, MOESCOPE_OPTIMIZER),
		.shape = fake_string(run, "[64,64]x[64,256]"),
	};

	for (int l = 0; l < 2; l++) {
		p.attention[l] = fake_site(run, "attention", l, -1, MOESCOPE_FORWARD);
		p.matmul[l] = fake_site(run, "qkv projection", l, -1, MOESCOPE_FORWARD);
		p.expert[l] = fake_site(run, "expert gate and up projection", l, 3,
					MOESCOPE_FORWARD);
	}
	return p;
}

static void add_once(struct run *run)
{
	for (int32_t layer = 0; layer < 2; layer++)
		fake_add_moe_layer(run, 0,
				   &(struct row_moe_layer){ .layer = layer,
							    .experts = EXPERTS,
							    .k = 2,
							    .hidden = 64,
							    .inner = 128,
							    .matrices = 3,
							    .expert_bytes = 98304 });
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = 1 * MS,
					      .address = 0x1000,
					      .bytes = 4000000,
					      .device = -1,
					      .use = MOESCOPE_MEMORY_PARAMETERS,
					      .site = fake_string(run, "parameters"),
					      .thread = 1 });
	fake_add_thread(run, 0,
			&(struct row_thread){ .thread = 1, .name = fake_string(run, "main") });
	fake_add_thread(run, 0,
			&(struct row_thread){ .thread = 2, .name = fake_string(run, "worker") });
	fake_add_mark(run, 0,
		      &(struct row_mark){ .time_ns = 2 * MS,
					  .text = fake_string(run, "training \"begins\""),
					  .thread = 1 });
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, "model"),
					  .value = fake_string(run, "2 layers, 8 experts") });
	fake_add_cost(run, 0,
		      &(struct row_cost){ .time_ns = 1400 * MS,
					  .drain_cpu_ns = 3 * (uint64_t)MS,
					  .records = 400,
					  .bytes = 1500 });
}

static void add_requests(struct run *run)
{
	for (uint64_t request = 1; request <= 2; request++) {
		struct row_token row = { .time_ns = (1300 + (int64_t)request * 10) * MS,
					 .request = request,
					 .count = 16 };

		fake_add_token(run, 0, &row);
		for (int i = 0; i < 5; i++) {
			row.event = 1;
			row.count = 0;
			row.time_ns += (i ? 4 : 10) * MS;
			fake_add_token(run, 0, &row);
		}
		row.event = 2;
		fake_add_token(run, 0, &row);
	}
}

struct run *fake_training_run(void)
{
	struct run *run = fake_run_new();
	struct places p = make_places(run);
	uint32_t loss = fake_string(run, "loss");

	fake_span(run, 0, 1500 * MS);
	run->shards[0].file_bytes = 1500;
	add_once(run);
	for (int64_t step = 0; step < STEPS; step++) {
		int64_t at = 10 * MS + step * 100 * MS;

		add_work(run, &p, at);
		add_routing(run, step, at);
		add_memory(run, step, at);
		fake_add_counter(run, 0,
				 &(struct row_counter){ .time_ns = at + 46 * MS,
							.name = loss,
							.value = 5.5 - 0.25 * (double)step });
		fake_step(run, step, at, at + 100 * MS, TOKENS);
	}
	for (size_t i = 0; i < run->op.n; i++)
		run->op.shape[i] = run->op.site[i] == p.adam ? 0 : p.shape;
	add_requests(run);
	return run;
}

#define US INT64_C(1000)
#define LAUNCH "cudaLaunchKernel"
#define COPY_CALL "cudaMemcpyAsync"
#define ADD_KERNEL                                                                                 \
	"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "   \
	"std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"

/* A launch of 5 us at `at`; the kernel begins 20 us after it. */
static void launch(struct run *run, const char *name, int64_t at, int64_t duration, uint64_t id)
{
	fake_call(run, LAUNCH, at, at + 5 * US, id);
	fake_kernel(run, name, at + 20 * US, at + 20 * US + duration, id);
}

static void add_gpu_step(struct run *run, const uint32_t *sites, int64_t step)
{
	int64_t at = step * 10 * MS;
	uint64_t id = (uint64_t)step * 100;

	fake_call(run, COPY_CALL, at + 100 * US, at + 110 * US, id + 1);
	fake_copy(run, 1, 2, 1000000, at + 120 * US, at + 170 * US, id + 1);
	for (int l = 0; l < 2; l++) {
		int64_t t = at + MS + l * MS;

		launch(run, "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN", t + 100 * US,
		       300 * US, id + 10 + (uint64_t)l);
		launch(run, "flash_fwd_kernel", t + 450 * US, 200 * US, id + 20 + (uint64_t)l);
		fake_range(run, sites[1 + l], t, t + 900 * US, 1, 1);
	}
	fake_range(run, sites[0], at + 50 * US, at + 4 * MS, 1, 0);
	launch(run, ADD_KERNEL, at + 5 * MS, 100 * US, id + 30);
	fake_range(run, sites[3], at + 4 * MS, at + 6 * MS, 1, 0);
	launch(run, ADD_KERNEL, at + 7 * MS, 50 * US, id + 40); /* outside all ranges */
	/* Half of it beside the kernel above: 7.02 .. 7.07 ms. */
	fake_call(run, "cudaMemcpy", at + 7020 * US, at + 7200 * US, id + 50);
	fake_copy(run, 2, 1, 4000, at + 7045 * US, at + 7095 * US, id + 50);
	fake_step(run, step, at, at + 9 * MS, 64);
}

/* 8 MB on the device, of which 2 MB are freed; 1 MB pinned; a free of something older. */
static void add_device_memory(struct run *run)
{
	static const struct row_device_memory rows[] = {
		{ .time_ns = 1 * MS, .address = 0x1000, .bytes = 6000000, .memory = 3 },
		{ .time_ns = 2 * MS, .address = 0x9000, .bytes = 2000000, .memory = 3 },
		{ .time_ns = 3 * MS, .address = 0x5000, .bytes = 1000000, .memory = 2 },
		{ .time_ns = 4 * MS, .event = 1, .address = 0x9000, .bytes = 2000000 },
		{ .time_ns = 5 * MS, .event = 1, .address = 0x7777, .memory = 3 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		fake_add_device_memory(run, 0, &rows[i]);
	for (int i = 0; i < 3; i++)
		fake_add_sample(
			run, 0,
			&(struct row_sample){
				.time_ns = i * 10 * MS,
				.metric = fake_string(run, i ? "memory_used_bytes" : "power_w"),
				.value = i == 0	  ? 700
					 : i == 1 ? 9e9
						  : 7e9 });
}

struct run *fake_gpu_run(void)
{
	struct run *run = fake_run_new();
	uint32_t sites[] = {
		fake_site(run, "forward", -1, -1, MOESCOPE_FORWARD),
		fake_site(run, "block", 0, -1, 0),
		fake_site(run, "block", 1, -1, 0),
		fake_site(run, "backward", -1, -1, MOESCOPE_BACKWARD),
	};

	fake_span(run, 0, 30 * MS);
	for (int64_t step = 0; step < 3; step++)
		add_gpu_step(run, sites, step);
	add_device_memory(run);
	fake_add_set(run, 0,
		     &(struct row_set){ .start_ns = 29 * MS,
					.duration_ns = 2 * US,
					.bytes = 65536,
					.memory = 3,
					.stream = 7,
					.correlation = 900 });
	fake_kernel(run, ADD_KERNEL, 29 * MS + 10 * US, 29 * MS + 20 * US, 901); /* no call */
	fake_kernel(run, "flash_fwd_kernel", 29 * MS + 500 * US, -1, 902);	 /* untimed */
	fake_add_api(run, 0,
		     &(struct row_api){ .name = fake_string(run, "cuMemAlloc"),
					.start_ns = 9500 * US,
					.duration_ns = 40 * US,
					.thread = 1,
					.correlation = 999,
					.driver = 1,
					.status = 2 });
	return run;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Theoretical occupancy; see occupancy.h.
 *
 * The limits by compute capability are those of the table "Technical Specifications per Compute
 * Capability" of NVIDIA's CUDA C++ Programming Guide; the units of allocation and the arithmetic
 * are those of the CUDA occupancy calculator (cuda_occupancy.h): registers are given to warps in
 * units of 256, from four partitions of the register file; shared memory to blocks in units of 128
 * bytes, 1 KiB of it for the system, from compute capability 8.0 on; in units of 256 before.
 */
#include "subjects/shared/occupancy.h"

#include <errno.h>
#include <stdlib.h>

#define WARP 32
#define REGISTER_UNIT 256
#define PARTITIONS 4
#define KIB 1024

static const struct capability {
	uint32_t capability, threads, blocks, shared_bytes;
} capabilities[] = {
	{ 70, 2048, 32, 96 * KIB },   { 72, 2048, 32, 96 * KIB },   { 75, 1024, 16, 64 * KIB },
	{ 80, 2048, 32, 164 * KIB },  { 86, 1536, 16, 100 * KIB },  { 87, 1536, 16, 164 * KIB },
	{ 89, 1536, 24, 100 * KIB },  { 90, 2048, 32, 228 * KIB },  { 100, 2048, 32, 228 * KIB },
	{ 103, 2048, 32, 228 * KIB }, { 110, 1536, 24, 228 * KIB }, { 120, 1536, 24, 100 * KIB },
	{ 121, 1536, 24, 100 * KIB },
};

#define REGISTERS 65536 /* of a multiprocessor, of every capability above */

static const char *occupancy_limiter_name(enum occupancy_limiter limiter)
{
	static const char *const names[] = { "threads", "blocks", "registers", "shared memory" };

	return names[limiter];
}

static uint32_t round_up(uint32_t value, uint32_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* What the driver did not tell, by the capability. False: that is not known either. */
static bool complete(struct row_device *device)
{
	const struct capability *c = NULL;

	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++)
		if (capabilities[i].capability == device->capability)
			c = &capabilities[i];
	if (c && !device->threads_per_multiprocessor)
		device->threads_per_multiprocessor = c->threads;
	if (c && !device->blocks_per_multiprocessor)
		device->blocks_per_multiprocessor = c->blocks;
	if (c && !device->shared_bytes_per_multiprocessor)
		device->shared_bytes_per_multiprocessor = c->shared_bytes;
	if (c && !device->registers_per_multiprocessor)
		device->registers_per_multiprocessor = REGISTERS;
	/* The units of allocation are known from 7.0 on. */
	return device->capability >= 70 && device->threads_per_multiprocessor >= WARP &&
	       device->blocks_per_multiprocessor && device->shared_bytes_per_multiprocessor &&
	       device->registers_per_multiprocessor;
}

static uint32_t by_registers(const struct row_launch *launch, const struct row_device *device,
			     uint32_t warps)
{
	uint32_t per_warp = round_up(launch->registers * WARP, REGISTER_UNIT);
	uint32_t per_partition = device->registers_per_multiprocessor / PARTITIONS;

	return per_partition / per_warp * PARTITIONS / warps;
}

static uint32_t by_shared(const struct row_launch *launch, const struct row_device *device)
{
	bool ampere = device->capability >= 80;
	uint64_t bytes = (uint64_t)launch->static_shared_bytes + launch->dynamic_shared_bytes +
			 (ampere ? KIB : 0);
	uint32_t unit = ampere ? 128 : 256;

	bytes = (bytes + unit - 1) / unit * unit;
	return bytes ? (uint32_t)(device->shared_bytes_per_multiprocessor / bytes) : UINT32_MAX;
}

struct occupancy occupancy_of(const struct row_launch *launch, const struct row_device *given)
{
	uint64_t threads = (uint64_t)launch->block_x * launch->block_y * launch->block_z;
	struct row_device device = *given;
	uint32_t limits[OCCUPANCY_LIMITERS], warps, all;
	struct occupancy out = { .limiter = OCCUPANCY_THREADS };

	if (!complete(&device)) {
		out.pct = value_absent("the limits of the device are unknown");
		return out;
	}
	if (!threads || !launch->registers || launch->registers > 255 ||
	    threads > device.threads_per_multiprocessor) {
		out.pct = value_absent("the launch does not say its block size and registers");
		return out;
	}
	warps = (uint32_t)((threads + WARP - 1) / WARP);
	all = device.threads_per_multiprocessor / WARP;
	limits[OCCUPANCY_THREADS] = all / warps;
	limits[OCCUPANCY_BLOCKS] = device.blocks_per_multiprocessor;
	limits[OCCUPANCY_REGISTERS] = by_registers(launch, &device, warps);
	limits[OCCUPANCY_SHARED] = by_shared(launch, &device);
	for (unsigned int i = 1; i < OCCUPANCY_LIMITERS; i++)
		if (limits[i] < limits[out.limiter])
			out.limiter = (enum occupancy_limiter)i;
	out.blocks = limits[out.limiter];
	out.warps = out.blocks * warps;
	out.pct = out.blocks ? value_of(100.0 * out.warps / all)
			     : value_absent("a block of the launch does not fit the device");
	return out;
}

static bool same_limits(const struct row_device *a, const struct row_device *b)
{
	return a->capability == b->capability &&
	       a->threads_per_multiprocessor == b->threads_per_multiprocessor &&
	       a->registers_per_multiprocessor == b->registers_per_multiprocessor &&
	       a->shared_bytes_per_multiprocessor == b->shared_bytes_per_multiprocessor &&
	       a->blocks_per_multiprocessor == b->blocks_per_multiprocessor;
}

int occupancy_lookup_init(struct occupancy_lookup *lookup, const struct run *run)
{
	const struct table_device *t = &run->device;
	struct occupancy_lookup out = { .run = run };

	out.kinds = calloc(t->n ? t->n : 1, sizeof(*out.kinds));
	out.kind_of = calloc(t->n ? t->n : 1, sizeof(*out.kind_of));
	for (size_t i = 0; out.kinds && out.kind_of && i < t->n; i++) {
		struct row_device d = {
			.capability = t->capability[i],
			.threads_per_multiprocessor = t->threads_per_multiprocessor[i],
			.registers_per_multiprocessor = t->registers_per_multiprocessor[i],
			.shared_bytes_per_multiprocessor = t->shared_bytes_per_multiprocessor[i],
			.blocks_per_multiprocessor = t->blocks_per_multiprocessor[i],
		};
		size_t kind = 0;

		while (kind < out.n_kinds && !same_limits(&out.kinds[kind], &d))
			kind++;
		if (kind == out.n_kinds)
			out.kinds[out.n_kinds++] = d;
		out.kind_of[i] = kind;
	}
	for (size_t i = 0; i < run->kernel.n; i++)
		if (run->kernel.launch[i] >= out.n_launches)
			out.n_launches = (size_t)run->kernel.launch[i] + 1;
	out.found = calloc(out.n_kinds * out.n_launches + 1, sizeof(*out.found));
	out.is_found = calloc(out.n_kinds * out.n_launches + 1, sizeof(*out.is_found));
	if (!out.kinds || !out.kind_of || !out.found || !out.is_found) {
		occupancy_lookup_release(&out);
		return -ENOMEM;
	}
	*lookup = out;
	return 0;
}

void occupancy_lookup_release(struct occupancy_lookup *lookup)
{
	free(lookup->kinds);
	free(lookup->kind_of);
	free(lookup->found);
	free(lookup->is_found);
	*lookup = (struct occupancy_lookup){ 0 };
}

static bool is_device(const struct run *run, size_t row, size_t kernel)
{
	return run->device.shard[row] == run->kernel.shard[kernel] &&
	       run->device.device[row] == run->kernel.device[kernel];
}

const struct occupancy *occupancy_lookup_kernel(struct occupancy_lookup *lookup, size_t kernel)
{
	static const struct occupancy no_device = {
		.pct = { .reason = "the run does not say what the device is" }
	};
	const struct run *run = lookup->run;
	uint32_t launch = run->kernel.launch[kernel];
	size_t slot;

	if (lookup->last >= run->device.n || !is_device(run, lookup->last, kernel)) {
		lookup->last = 0;
		while (lookup->last < run->device.n && !is_device(run, lookup->last, kernel))
			lookup->last++;
	}
	if (lookup->last == run->device.n)
		return &no_device;
	slot = lookup->kind_of[lookup->last] * lookup->n_launches + launch;
	if (!lookup->is_found[slot]) {
		struct row_launch row = run_launch(run, launch);

		lookup->found[slot] = occupancy_of(&row,
						   &lookup->kinds[lookup->kind_of[lookup->last]]);
		lookup->is_found[slot] = true;
	}
	return &lookup->found[slot];
}

void occupancy_mean_add(struct occupancy_mean *mean, const struct occupancy *one, int64_t time_ns)
{
	if (!one->pct.known) {
		mean->reason = one->pct.reason;
		return;
	}
	mean->pct_ns += one->pct.v * (double)time_ns;
	mean->time_ns += time_ns;
	mean->by_limiter_ns[one->limiter] += time_ns;
}

struct value occupancy_mean_pct(const struct occupancy_mean *mean)
{
	if (mean->time_ns > 0)
		return value_of(mean->pct_ns / (double)mean->time_ns);
	return value_absent(mean->reason ? mean->reason : "no execution was timed");
}

const char *occupancy_mean_limiter(const struct occupancy_mean *mean)
{
	unsigned int most = 0;

	for (unsigned int i = 1; i < OCCUPANCY_LIMITERS; i++)
		if (mean->by_limiter_ns[i] > mean->by_limiter_ns[most])
			most = i;
	return mean->time_ns > 0 ? occupancy_limiter_name((enum occupancy_limiter)most) : NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded kernels to draw from; see samples.h.
 */
#include "samples.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct samples samples;
static size_t pool[SAMPLES_LAUNCHES][SAMPLES_KERNELS], pool_size[SAMPLES_LAUNCHES];
static uint64_t state = 88172645463325252u;

uint64_t samples_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static FILE *open_in(const char *dir, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return fopen(path, "re");
}

static int read_launches(const char *dir)
{
	FILE *f = open_in(dir, "h200-launches.csv");
	char line[512];

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f) && samples.n_launches < SAMPLES_LAUNCHES) {
		struct row_launch *l = &samples.launches[samples.n_launches];
		const char *comma = strchr(line, ',');

		if (line[0] == '#' || !comma)
			continue;
		if (sscanf(comma, ",%u,%u,%u,%u,%u,%u,%u,%u", &l->grid_x, &l->grid_y, &l->grid_z,
			   &l->block_x, &l->block_y, &l->block_z, &l->registers,
			   &l->dynamic_shared_bytes) == 8) {
			samples.names[samples.n_launches] = strndup(line, (size_t)(comma - line));
			if (!samples.names[samples.n_launches])
				break;
			l->name = (uint32_t)++samples.n_launches;
		}
	}
	fclose(f);
	return 0;
}

static int read_kernels(const char *dir)
{
	FILE *f = open_in(dir, "h200-kernels.csv");
	char line[512];

	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f) && samples.n < SAMPLES_KERNELS) {
		struct sample *s = &samples.kernels[samples.n];

		if (sscanf(line, "%u,%" SCNd64 ",%" SCNd64 ",%" SCNd64, &s->launch, &s->gap_ns,
			   &s->duration_ns, &s->correlation_step) == 4 &&
		    s->launch < samples.n_launches) {
			pool[s->launch][pool_size[s->launch]++] = samples.n;
			samples.n++;
		}
	}
	fclose(f);
	return samples.n ? 0 : -ENODATA;
}

int samples_read(const char *dir)
{
	int r = read_launches(dir);

	return r < 0 ? r : read_kernels(dir);
}

const struct sample *samples_alike(const struct sample *s)
{
	return &samples.kernels[pool[s->launch][samples_random() % pool_size[s->launch]]];
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * See proof.h.
 */
#include "device/driver/proof.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/files/cache.h"
#include "base/small_file.h"

void driver_version(char *version, size_t size)
{
	small_file_line("/sys/module/nvidia/version", version, size);
}

static bool parse_proof(const char *text, struct proof_line *line)
{
	unsigned long long window_bytes;
	unsigned int cupti;
	int graphs;

	if (sscanf(text,
		   "cupti %u driver %63s graphs %d launch_ns %lf node_ns %lf window_bytes %llu",
		   &cupti, line->driver, &graphs, &line->launch_ns, &line->node_ns,
		   &window_bytes) != 6)
		return false;
	line->cupti = cupti;
	line->graphs = graphs == 1;
	line->window_bytes = window_bytes;
	return line->launch_ns > 0 && line->launch_ns < 1e6 && line->node_ns > 0 &&
	       line->node_ns < 1e6 && window_bytes && window_bytes < UINT64_C(1) << 30;
}

bool proof_read(uint32_t cupti, const char *driver, struct proof_line *ret_line)
{
	char path[512], text[256];
	struct proof_line line;
	bool found = false;
	FILE *f;

	if (!*driver || cache_path("stress", path, sizeof(path)) < 0)
		return false;
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(text, sizeof(text), f)) {
		if (!parse_proof(text, &line) || line.cupti != cupti ||
		    strcmp(line.driver, driver) != 0)
			continue;
		*ret_line = line;
		found = true;
	}
	fclose(f);
	return found;
}

int proof_append(const struct proof_line *line, char *path, size_t size)
{
	int r = cache_path_made("stress", path, size);
	FILE *f;

	if (r < 0)
		return r;
	f = fopen(path, "ae");
	if (!f)
		return -errno;
	fprintf(f, "cupti %u driver %s graphs %d launch_ns %.0f node_ns %.0f window_bytes %llu\n",
		line->cupti, line->driver, line->graphs, line->launch_ns, line->node_ns,
		(unsigned long long)line->window_bytes);
	r = ferror(f) ? -EIO : 0;
	if (fclose(f) != 0 && r == 0)
		r = -errno;
	return r;
}

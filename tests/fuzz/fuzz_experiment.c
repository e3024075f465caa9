/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration of an experiment from an arbitrary file: what is taken from it can be saved and
 * loads as the same. The same bytes as config.json of a model: an estimate is a number.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "lab/estimate.h"

static void again(struct experiment *e)
{
	char path[] = "/tmp/fuzz-experiment-XXXXXX";
	struct err err = { "" };
	struct experiment back;
	int fd = mkstemp(path);

	if (fd < 0 || experiment_init(&back) < 0)
		abort();
	close(fd);
	if (experiment_save(e, path, &err) < 0 || experiment_load(&back, path, &err) < 0)
		abort();
	for (const struct parameter *p = parameters; p->key; p++) {
		char *a = experiment_get(e, p), *b = experiment_get(&back, p);

		if (!a || !b || strcmp(a, b) != 0)
			abort();
		free(a);
		free(b);
	}
	unlink(path);
	experiment_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("configuration", MFD_CLOEXEC);
	struct err err = { "" };
	struct estimate estimate;
	struct experiment e;
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || experiment_init(&e) < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (experiment_load(&e, path, &err) == 0)
		again(&e);
	else if (!err.message[0])
		abort();
	close(fd);
	err.message[0] = '\0';
	if (estimate_from("config.json", (const char *)data, size, &e, &estimate, &err) < 0) {
		if (!err.message[0])
			abort();
	} else if (!isfinite(estimate.total_bytes) || estimate.total_bytes < 0) {
		abort();
	}
	experiment_release(&e);
	return 0;
}

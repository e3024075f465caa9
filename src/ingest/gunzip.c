/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip files; see gunzip.h. What follows the last member and begins with a zero is padding.
 */
#include "ingest/gunzip.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "ingest/inflater.h"

#define INPUT_BYTES ((size_t)256 << 10)

struct gunzip {
	int fd;
	bool ended;  /* the member; at its end there may be another */
	bool at_end; /* of the file */
	int failed;  /* damaged data stays so, whatever a decompressor makes of what follows */
	struct inflater *inflater;
	uint8_t *next;
	size_t n_next;
	uint8_t input[INPUT_BYTES];
};

int gunzip_new(int fd, struct gunzip **ret_gunzip)
{
	struct gunzip *gunzip = malloc(sizeof(*gunzip));

	if (!gunzip)
		return -ENOMEM;
	gunzip->inflater = inflater_new();
	if (!gunzip->inflater) {
		free(gunzip);
		return -ENOMEM;
	}
	gunzip->fd = fd;
	gunzip->ended = gunzip->at_end = false;
	gunzip->n_next = 0;
	gunzip->failed = 0;
	*ret_gunzip = gunzip;
	return 0;
}

void gunzip_free(struct gunzip *gunzip)
{
	if (!gunzip)
		return;
	inflater_free(gunzip->inflater);
	free(gunzip);
}

/* 0, also at the end of the file. */
static int refill(struct gunzip *gunzip)
{
	ssize_t n;

	do {
		n = read(gunzip->fd, gunzip->input, sizeof(gunzip->input));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	gunzip->at_end = n == 0;
	gunzip->next = gunzip->input;
	gunzip->n_next = (size_t)n;
	return 0;
}

/* 1: go on; 0: there is no more; -errno. */
static int step(struct gunzip *gunzip, uint8_t **out, size_t *left)
{
	size_t before = *left;
	int r = gunzip->n_next || gunzip->at_end ? 0 : refill(gunzip);

	if (r < 0)
		return r;
	if (gunzip->ended) {
		if (gunzip->at_end || !gunzip->next[0])
			return 0;
		if (gunzip->next[0] != 0x1f)
			return -EBADMSG;
		inflater_reset(gunzip->inflater);
		gunzip->ended = false;
	}
	r = inflater_run(gunzip->inflater, &gunzip->next, &gunzip->n_next, out, left);
	if (r == INFLATED_ALL)
		gunzip->ended = true;
	else if (r == INFLATED_DAMAGED || (r == INFLATED_SOME && gunzip->at_end && *left == before))
		return -EBADMSG;
	return r < 0 ? r : 1;
}

ssize_t gunzip_read(struct gunzip *gunzip, char *to, size_t size)
{
	size_t most = size < INT_MAX ? size : INT_MAX, left = most;
	uint8_t *out = (uint8_t *)to;
	int r = 1;

	while (left && r > 0)
		r = gunzip->failed ? gunzip->failed : step(gunzip, &out, &left);
	if (r < 0)
		gunzip->failed = r;
	return left < most ? (ssize_t)(most - left) : r < 0 ? r : 0;
}

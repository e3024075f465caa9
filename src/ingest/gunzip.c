/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip files; see gunzip.h. What follows the last member and begins with a zero is padding.
 *
 * The decompressor is always given room for a whole chunk, whatever is asked for: how much of damaged
 * data it makes before it notices depends on the room that it has.
 */
#include "ingest/gunzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ingest/inflater.h"

#define INPUT_BYTES ((size_t)256 << 10)
#define CHUNK_BYTES ((size_t)64 << 10)

struct gunzip {
	int fd;
	bool ended;  /* the member; at its end there may be another */
	bool at_end; /* of the file */
	int failed;  /* damaged data stays so, whatever a decompressor makes of what follows */
	struct inflater *inflater;
	uint8_t *next;
	size_t n_next;
	size_t given, n_chunk; /* of the chunk: how much of it was read on, and its size */
	uint8_t input[INPUT_BYTES];
	uint8_t chunk[CHUNK_BYTES]; /* for those who ask for less */
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
	gunzip->n_next = gunzip->given = gunzip->n_chunk = 0;
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

/* The next chunk; what it has less than CHUNK_BYTES it has at the end, or before damage. */
static size_t next_chunk(struct gunzip *gunzip, uint8_t *to)
{
	size_t left = CHUNK_BYTES;
	int r = gunzip->failed ? gunzip->failed : 1;

	while (left && r > 0)
		r = step(gunzip, &to, &left);
	if (r < 0)
		gunzip->failed = r;
	return CHUNK_BYTES - left;
}

ssize_t gunzip_read(struct gunzip *gunzip, char *to, size_t size)
{
	size_t n, got = 0;

	if (gunzip->given == gunzip->n_chunk && size >= CHUNK_BYTES) {
		do {
			n = next_chunk(gunzip, (uint8_t *)to + got);
			got += n;
		} while (n == CHUNK_BYTES && size - got >= CHUNK_BYTES);
	} else {
		if (gunzip->given == gunzip->n_chunk) {
			gunzip->given = 0;
			gunzip->n_chunk = size ? next_chunk(gunzip, gunzip->chunk) : 0;
		}
		n = gunzip->n_chunk - gunzip->given;
		got = n < size ? n : size;
		memcpy(to, gunzip->chunk + gunzip->given, got);
		gunzip->given += got;
	}
	return got ? (ssize_t)got : size ? gunzip->failed : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip files; see gunzip.h. What follows the last member and begins with a zero is padding.
 *
 * ISA-L decompresses where the build has it, a chunk at a time. When it finds damage, the file is read
 * again from its beginning by zlib, up to the chunk where that was, and from there on: so what is read
 * of a damaged file is all that there is before the damage, and does not depend on how it is asked for.
 */
#include "ingest/shared/gunzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ingest/shared/inflater.h"

#define INPUT_BYTES ((size_t)256 << 10)
#define CHUNK_BYTES ((size_t)64 << 10)

struct gunzip {
	int fd;
	bool ended;  /* the member; at its end there may be another */
	bool at_end; /* of the file */
	int failed;  /* damaged data stays so, whatever a decompressor makes of what follows */
	struct inflater *inflater;
	bool exact; /* it is zlib */
	off_t begin;
	uint64_t n_chunks; /* whole ones that were made */
	uint8_t *next;
	size_t n_next;
	size_t given, n_chunk; /* of the chunk: how much of it was read on, and its size */
	uint8_t input[INPUT_BYTES];
	uint8_t chunk[CHUNK_BYTES]; /* for those who ask for less */
};

/* From the beginning. */
static int start_gunzip(struct gunzip *gunzip, bool exact)
{
#ifdef HAVE_ISAL
	gunzip->exact = exact;
	gunzip->inflater = exact ? inflater_zlib() : inflater_isal();
#else
	(void)exact;
	gunzip->exact = true;
	gunzip->inflater = inflater_zlib();
#endif
	gunzip->ended = gunzip->at_end = false;
	gunzip->n_next = 0;
	return gunzip->inflater ? 0 : -ENOMEM;
}

int gunzip_new(int fd, struct gunzip **ret_gunzip)
{
	struct gunzip *gunzip = malloc(sizeof(*gunzip));

	if (!gunzip)
		return -ENOMEM;
	if (start_gunzip(gunzip, false) < 0) {
		free(gunzip);
		return -ENOMEM;
	}
	gunzip->fd = fd;
	gunzip->begin = lseek(fd, 0, SEEK_CUR); /* -1: it cannot be read again */
	gunzip->n_chunks = 0;
	gunzip->given = gunzip->n_chunk = 0;
	gunzip->failed = 0;
	*ret_gunzip = gunzip;
	return 0;
}

void gunzip_free(struct gunzip *gunzip)
{
	if (!gunzip)
		return;
	if (gunzip->inflater)
		gunzip->inflater->free(gunzip->inflater);
	free(gunzip);
}

/* 0, also at the end of the file. */
static int refill_input(struct gunzip *gunzip)
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
static int gunzip_step(struct gunzip *gunzip, uint8_t **out, size_t *left)
{
	size_t before = *left;
	int r = gunzip->n_next || gunzip->at_end ? 0 : refill_input(gunzip);

	if (r < 0)
		return r;
	if (gunzip->ended) {
		if (gunzip->at_end || !gunzip->next[0])
			return 0;
		if (gunzip->next[0] != 0x1f)
			return -EBADMSG;
		gunzip->inflater->reset(gunzip->inflater);
		gunzip->ended = false;
	}
	r = gunzip->inflater->run(gunzip->inflater, &gunzip->next, &gunzip->n_next, out, left);
	if (r == INFLATED_ALL)
		gunzip->ended = true;
	else if (r == INFLATED_DAMAGED || (r == INFLATED_SOME && gunzip->at_end && *left == before))
		return -EBADMSG;
	return r < 0 ? r : 1;
}

/* 1: all of it; 0: the file ends before that; -errno. */
static int make_chunk(struct gunzip *gunzip, uint8_t *to, size_t *ret_size)
{
	size_t left = CHUNK_BYTES;
	int r = 1;

	while (left && r > 0)
		r = gunzip_step(gunzip, &to, &left);
	*ret_size = CHUNK_BYTES - left;
	return r;
}

/* The chunk in which there is damage, or so it seems, once more. */
static int make_again(struct gunzip *gunzip, uint8_t *to, size_t *ret_size)
{
	int r = 1;

	if (gunzip->begin < 0 || lseek(gunzip->fd, gunzip->begin, SEEK_SET) < 0)
		return -EBADMSG;
	gunzip->inflater->free(gunzip->inflater);
	r = start_gunzip(gunzip, true) < 0 ? -ENOMEM : 1;
	for (uint64_t i = 0; r > 0 && i < gunzip->n_chunks; i++)
		r = make_chunk(gunzip, to, ret_size);
	/* Less than was read before: that was wrong. */
	if (r <= 0) {
		*ret_size = 0;
		return r < 0 ? r : -EBADMSG;
	}
	return make_chunk(gunzip, to, ret_size);
}

/* What the next chunk has less than CHUNK_BYTES it has at the end, or before damage. */
static size_t next_chunk(struct gunzip *gunzip, uint8_t *to)
{
	size_t size = 0;
	int r = gunzip->failed ? gunzip->failed : make_chunk(gunzip, to, &size);

	if (r == -EBADMSG && !gunzip->failed && !gunzip->exact)
		r = make_again(gunzip, to, &size);
	if (r < 0)
		gunzip->failed = r;
	gunzip->n_chunks += r > 0;
	return size;
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

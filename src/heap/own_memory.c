/* SPDX-License-Identifier: Apache-2.0
 *
 * Powers of two out of mapped blocks; see own_memory.h. What is needed is a few growing arrays and small texts.
 */
#include "heap/own_memory.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK_BYTES ((size_t)256 << 10)
#define SMALLEST_BITS 5 /* with the head */
#define LARGEST_BITS 28

/* Before each piece; 16 bytes, so that pieces are aligned. */
struct head {
	struct head *next; /* of free ones */
	size_t bits;
};

static struct head *free_pieces[LARGEST_BITS + 1];
static char *block;
static size_t block_left;

/* By the system call: mmap itself may be the program's, or counted. */
static void *map(size_t size)
{
	long at = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0L);

	return at == -1 ? NULL : (void *)at; // NOLINT(performance-no-int-to-ptr)
}

void *own_malloc(size_t size)
{
	size_t bits = SMALLEST_BITS;
	struct head *head;

	while (bits <= LARGEST_BITS && ((size_t)1 << bits) - sizeof(*head) < size)
		bits++;
	if (bits > LARGEST_BITS)
		return NULL;
	head = free_pieces[bits];
	if (head) {
		free_pieces[bits] = head->next;
		return head + 1;
	}
	if (block_left < (size_t)1 << bits) {
		size_t bytes = (size_t)1 << bits > BLOCK_BYTES ? (size_t)1 << bits : BLOCK_BYTES;
		char *more = map(bytes);

		if (!more)
			return NULL;
		block = more;
		block_left = bytes;
	}
	head = (struct head *)(void *)block;
	block += (size_t)1 << bits;
	block_left -= (size_t)1 << bits;
	head->bits = bits;
	return head + 1;
}

void *own_calloc(size_t n, size_t size)
{
	void *p;

	if (size && n > SIZE_MAX / size)
		return NULL;
	p = own_malloc(n * size);
	if (p)
		memset(p, 0, n * size);
	return p;
}

void own_free(void *p)
{
	struct head *head = (struct head *)p - 1;

	if (!p)
		return;
	head->next = free_pieces[head->bits];
	free_pieces[head->bits] = head;
}

void *own_realloc(void *p, size_t size)
{
	size_t had = p ? ((size_t)1 << ((struct head *)p - 1)->bits) - sizeof(struct head) : 0;
	void *more;

	if (p && size <= had)
		return p;
	more = own_malloc(size);
	if (more && p)
		memcpy(more, p, had);
	if (more)
		own_free(p);
	return more;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed files in pieces of any size, of several members, cut off and damaged: what zlib wrote is
 * read, whichever decompressor is built in (this file is built with each).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "ingest/shared/gunzip.h"

#define LONG_BYTES 300000 /* beyond what a decompressor looks back on */

/* Text that repeats itself, near and far, and noise that does not. */
static char *make_text(size_t n)
{
	char *text = malloc(n + 1);
	uint32_t random = 1;

	for (size_t i = 0; i < n; i++) {
		random = random * 1664525 + 1013904223;
		text[i] = i % 5000 < 700   ? (char)(random >> 24)
			  : i % 5000 < 800 ? 'z'
					   : "{\"ph\":\"X\",\"ts\":1}"[i % 17];
	}
	text[n] = 0;
	return text;
}

/* fields: of its header. 0: none; 1: a name, a comment and more; 2: and a checksum. */
static void add_member(struct buf *file, const char *text, size_t n, int level, int fields)
{
	unsigned char extra[] = { 'A', 'B', 2, 0, 1, 2 };
	gz_header header = { .name = (unsigned char *)"trace.json",
			     .comment = (unsigned char *)"a comment",
			     .extra = extra,
			     .extra_len = sizeof(extra),
			     .hcrc = fields == 2 };
	size_t room = n + n / 100 + 1000;
	unsigned char *out = malloc(room);
	z_stream stream = { 0 };

	assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	if (fields)
		assert_int_equal(deflateSetHeader(&stream, &header), Z_OK);
	stream.next_in = (unsigned char *)text;
	stream.avail_in = (uInt)n;
	stream.next_out = out;
	stream.avail_out = (uInt)room;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	buf_append(file, out, room - stream.avail_out);
	deflateEnd(&stream);
	free(out);
}

/* Everything, `step` bytes at once. The last result: 0 or -errno. */
static int read_all(int fd, size_t step, struct buf *ret_text)
{
	char *piece = malloc(step);
	struct gunzip *gunzip;
	ssize_t n;

	*ret_text = (struct buf){ 0 };
	assert_int_equal(gunzip_new(fd, &gunzip), 0);
	while ((n = gunzip_read(gunzip, piece, step)) > 0)
		buf_append(ret_text, piece, (size_t)n);
	/* It stays so. */
	assert_int_equal(gunzip_read(gunzip, piece, step), n);
	gunzip_free(gunzip);
	free(piece);
	return (int)n;
}

static int fd_of(const void *bytes, size_t n)
{
	int fd = memfd_create("gzip", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), n);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static int read_bytes(const void *bytes, size_t n, size_t step, struct buf *ret_text)
{
	int fd = fd_of(bytes, n), r = read_all(fd, step, ret_text);

	close(fd);
	return r;
}

static void check_text(const struct buf *text, const char *wanted, size_t n)
{
	assert_int_equal(text->size, n);
	if (n)
		assert_memory_equal(text->data, wanted, n);
}

static void test_levels_and_steps(void **state)
{
	static const size_t steps[] = { 1, 7, 4096, 65536, 1000000 };
	char *text = make_text(LONG_BYTES);

	(void)state;
	for (int level = 0; level <= 9; level += 3)
		for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
			struct buf file = { 0 }, got;

			add_member(&file, text, LONG_BYTES, level, (int)s % 3);
			assert_int_equal(read_bytes(file.data, file.size, steps[s], &got), 0);
			check_text(&got, text, LONG_BYTES);
			buf_release(&got);
			buf_release(&file);
		}
	free(text);
}

/* An empty one among them, and padding behind the last. */
static struct buf three_members(const char *text, size_t n)
{
	struct buf file = { 0 };

	add_member(&file, text, n / 3, 6, 1);
	add_member(&file, "", 0, 6, 0);
	add_member(&file, text + n / 3, n - n / 3, 1, 1);
	return file;
}

/* Each read gives one byte, so that everything lies across the end of some input. */
static void test_every_boundary(void **state)
{
	enum { BYTES = 3000 };
	char *text = make_text(BYTES);
	struct buf file = three_members(text, BYTES), got;
	pid_t child;
	int ends[2], status;

	(void)state;
	buf_append(&file, "\0\0\0\0", 4);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[1]);
		for (size_t i = 0; i < file.size; i++)
			if (send(ends[0], file.data + i, 1, 0) != 1)
				_exit(1);
		_exit(0);
	}
	close(ends[0]);
	assert_int_equal(read_all(ends[1], 100, &got), 0);
	check_text(&got, text, BYTES);
	close(ends[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	buf_release(&got);
	buf_release(&file);
	free(text);
}

static void test_members(void **state)
{
	char *text = make_text(LONG_BYTES);
	struct buf file = three_members(text, LONG_BYTES), got;

	(void)state;
	assert_int_equal(read_bytes(file.data, file.size, 1000, &got), 0);
	check_text(&got, text, LONG_BYTES);
	buf_release(&got);
	buf_append(&file, "\0\0\0\0\0\0\0\0", 8);
	assert_int_equal(read_bytes(file.data, file.size, 1000, &got), 0);
	check_text(&got, text, LONG_BYTES);
	buf_release(&got);
	/* No padding: perhaps a member whose first byte is damaged. */
	file.data[file.size - 8] = 'x';
	assert_int_equal(read_bytes(file.data, file.size, 1000, &got), -EBADMSG);
	check_text(&got, text, LONG_BYTES);
	buf_release(&got);
	buf_release(&file);
	free(text);
}

/* Cut off anywhere: the bytes are the first ones of the text, and the end is told from that of a whole
 * file, but where a member ends. */
static void test_cuts(void **state)
{
	enum { BYTES = 6000 };
	char *text = make_text(BYTES);
	struct buf file = { 0 }, first = { 0 }, got;
	size_t most = 0;

	(void)state;
	add_member(&first, text, BYTES / 2, 6, 0);
	buf_append(&file, first.data, first.size);
	add_member(&file, text + BYTES / 2, BYTES - BYTES / 2, 6, 0);
	for (size_t n = 1; n < file.size; n++) {
		int r = read_bytes(file.data, n, 512, &got);

		assert_int_equal(r, n == first.size ? 0 : -EBADMSG);
		assert_true(got.size <= BYTES && got.size >= most);
		most = got.size;
		if (got.size)
			assert_memory_equal(got.data, text, got.size);
		buf_release(&got);
	}
	/* All but the checksum is there. */
	assert_int_equal(most, BYTES);
	buf_release(&file);
	buf_release(&first);
	free(text);
}

/* What zlib makes of one member, in one go. */
static struct buf by_zlib(const struct buf *file)
{
	size_t room = LONG_BYTES * 4;
	char *out = malloc(room);
	z_stream stream = { .next_in = (unsigned char *)file->data,
			    .avail_in = (uInt)file->size,
			    .next_out = (unsigned char *)out,
			    .avail_out = (uInt)room };
	struct buf text = { 0 };

	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	inflate(&stream, Z_FINISH);
	buf_append(&text, out, room - stream.avail_out);
	inflateEnd(&stream);
	free(out);
	return text;
}

/* What is made of damaged data is what zlib makes of it, however much is read at once. */
static void test_damage_and_steps(void **state)
{
	static const size_t steps[] = { 1, 33, 4096, 65536, 70000, 1000000 };
	char *text = make_text(LONG_BYTES);
	struct buf file = { 0 }, got, wanted;

	(void)state;
	add_member(&file, text, LONG_BYTES, 6, 0);
	for (size_t i = 20; i < file.size; i += 997) {
		file.data[i] = (char)(file.data[i] ^ 0x24);
		wanted = by_zlib(&file);
		for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
			assert_int_equal(read_bytes(file.data, file.size, steps[s], &got),
					 -EBADMSG);
			check_text(&got, wanted.data, wanted.size);
			buf_release(&got);
		}
		buf_release(&wanted);
		file.data[i] = (char)(file.data[i] ^ 0x24);
	}
	buf_release(&file);
	free(text);
}

/* No damage inside the data goes unnoticed. (A few bits mean nothing: those up to a whole byte.) */
static void test_flips(void **state)
{
	enum { BYTES = 6000 };
	char *text = make_text(BYTES);
	struct buf file = { 0 }, got;
	int unnoticed = 0, r;

	(void)state;
	add_member(&file, text, BYTES, 6, 0);
	for (size_t i = 10; i < file.size; i++)
		for (int bit = 0; bit < 8; bit += 3) {
			file.data[i] = (char)(file.data[i] ^ 1 << bit);
			r = read_bytes(file.data, file.size, 512, &got);
			if (r == 0)
				check_text(&got, text, BYTES);
			else
				assert_int_equal(r, -EBADMSG);
			unnoticed += r == 0;
			buf_release(&got);
			file.data[i] = (char)(file.data[i] ^ 1 << bit);
		}
	assert_in_range(unnoticed, 0, 7);
	assert_int_equal(read_bytes(file.data, file.size, 512, &got), 0);
	check_text(&got, text, BYTES);
	buf_release(&got);
	buf_release(&file);
	assert_int_equal(read_bytes("\x1f\x8b\x07\0\0\0\0\0\0\0\0\0", 12, 512, &got), -EBADMSG);
	buf_release(&got);
	free(text);
}

static void test_unreadable(void **state)
{
	struct gunzip *gunzip;
	char byte;

	(void)state;
	assert_int_equal(gunzip_new(-1, &gunzip), 0);
	assert_int_equal(gunzip_read(gunzip, &byte, 1), -EBADF);
	gunzip_free(gunzip);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels_and_steps), cmocka_unit_test(test_every_boundary),
		cmocka_unit_test(test_members),		 cmocka_unit_test(test_cuts),
		cmocka_unit_test(test_damage_and_steps), cmocka_unit_test(test_flips),
		cmocka_unit_test(test_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

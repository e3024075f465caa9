/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole files: read, replaced at once, and the small ones of the kernel.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files/input_file.h"
#include "base/files/whole_file.h"
#include "base/read_at.h"
#include "base/small_file.h"

static char folder[] = "/tmp/moescope-files-XXXXXX";

static int enter_folder(void **state)
{
	(void)state;
	umask(022);
	return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
	(void)state;
	return chdir("/") == 0 ? rmdir(folder) : -1; /* fails when something is left in it */
}

static void assert_content(const char *path, const char *expected)
{
	char *text = NULL;
	size_t length = 0;

	assert_int_equal(input_text(path, 1 << 20, &text, &length, NULL), 0);
	assert_int_equal(length, strlen(expected));
	assert_memory_equal(text, expected, length);
	free(text);
}

static void test_replaces(void **state)
{
	struct err err = { "" };
	struct stat st;

	(void)state;
	assert_int_equal(whole_file_text("a", "old", 3, &err), 0);
	assert_int_equal(whole_file_text("a", "newer", 5, &err), 0);
	assert_content("a", "newer");
	assert_int_equal(stat("a", &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	/* A link stays, and what it leads to is replaced. */
	assert_int_equal(symlink("a", "link"), 0);
	assert_int_equal(whole_file_text("link", "", 0, &err), 0);
	assert_content("a", "");
	assert_int_equal(lstat("link", &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	unlink("link");
	unlink("a");
}

static void test_fails_without_a_trace(void **state)
{
	struct err err = { "" };
	struct whole_file whole;

	(void)state;
	assert_int_equal(whole_file_text("missing/a", "x", 1, &err), -ENOENT);
	assert_string_equal(err.message, "cannot write 'missing/a': No such file or directory");
	assert_int_equal(whole_file_text("a", "old", 3, &err), 0);
	assert_int_equal(whole_file_open(&whole, "a"), 0);
	fputs("half", whole.file);
	assert_int_equal(whole_file_close(&whole, -EIO, &err), -EIO);
	assert_content("a", "old");
	unlink("a");
}

/* Names that others have taken are passed over, links too. */
static void test_beside(void **state)
{
	char *taken, *temporary;
	int fd;

	(void)state;
	assert_true(asprintf(&taken, "a.%d.tmp", (int)getpid()) > 0);
	assert_int_equal(symlink("target", taken), 0);
	fd = open_beside("a", 0600, &temporary);
	assert_true(fd >= 0);
	assert_string_not_equal(taken, temporary);
	assert_int_equal(access("target", F_OK), -1);
	close(fd);
	unlink(temporary);
	unlink(taken);
	free(temporary);
	free(taken);
}

static void test_input_text(void **state)
{
	struct err err = { "" };
	char *text = NULL, large[20000];
	size_t length = 0;

	(void)state;
	memset(large, 'x', sizeof(large));
	assert_int_equal(whole_file_text("a", large, sizeof(large), &err), 0);
	assert_int_equal(input_text("a", sizeof(large) - 1, &text, &length, &err), -EFBIG);
	assert_null(text);
	assert_int_equal(input_text("a", sizeof(large), &text, &length, &err), 0);
	assert_int_equal(length, sizeof(large));
	assert_memory_equal(text, large, length);
	free(text);
	unlink("a");
	assert_int_equal(input_text("a", 1, &text, &length, &err), -ENOENT);
	/* Files of the kernel have no size. */
	assert_int_equal(input_text("/proc/self/stat", 1 << 20, &text, &length, &err), 0);
	assert_true(length > 0);
	free(text);
}

static void test_small_files(void **state)
{
	static const char lines[] = "model\t: 1\nmodel name\t: a: b \nmodel name: c\nkey 7\n";
	struct err err = { "" };
	char text[16];

	(void)state;
	assert_int_equal(whole_file_text("a", lines, sizeof(lines) - 1, &err), 0);
	assert_int_equal(small_file_text("a", text, sizeof(text)), sizeof(text) - 1);
	assert_string_equal(text, "model\t: 1\nmodel");
	assert_true(small_file_line("a", text, sizeof(text)));
	assert_string_equal(text, "model\t: 1");
	assert_true(small_file_value("a", "model name", text, sizeof(text)));
	assert_string_equal(text, "a: b ");
	assert_true(small_file_value("a", "key", text, sizeof(text)));
	assert_string_equal(text, "7");
	assert_false(small_file_value("a", "ke", text, sizeof(text)));
	assert_string_equal(text, "");
	unlink("a");
	assert_int_equal(small_file_text("a", text, sizeof(text)), -ENOENT);
	assert_string_equal(text, "");
	assert_false(small_file_line("a", text, sizeof(text)));
	assert_false(small_file_value("a", "key", text, sizeof(text)));
}

static void test_read_at(void **state)
{
	struct err err = { "" };
	char text[8] = "";
	int fd;

	(void)state;
	assert_int_equal(whole_file_text("a", "0123456789", 10, &err), 0);
	fd = input_open("a", &err);
	assert_true(fd >= 0);
	assert_int_equal(read_at(fd, text, 4, 3), 4);
	assert_memory_equal(text, "3456", 4);
	assert_int_equal(read_at(fd, text, sizeof(text), 7), 3);
	assert_memory_equal(text, "789", 3);
	assert_int_equal(read_at(fd, text, sizeof(text), 10), 0);
	close(fd);
	assert_int_equal(read_at(fd, text, sizeof(text), 0), -EBADF);
	unlink("a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replaces),    cmocka_unit_test(test_fails_without_a_trace),
		cmocka_unit_test(test_beside),	    cmocka_unit_test(test_input_text),
		cmocka_unit_test(test_small_files), cmocka_unit_test(test_read_at),
	};

	return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}

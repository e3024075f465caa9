/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts against files in tests/golden, byte for byte. MOESCOPE_UPDATE_GOLDEN=1 writes the files
 * instead; look at the difference before keeping it. Include after cmocka.h.
 */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>

#ifndef MOESCOPE_GOLDEN_DIR
#define MOESCOPE_GOLDEN_DIR "tests/golden"
#endif

static inline char *golden_read(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text;
	long size;

	if (!file)
		fail_msg("cannot open %s; MOESCOPE_UPDATE_GOLDEN=1 makes it", path);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	size = ftell(file);
	rewind(file);
	text = calloc(1, (size_t)size + 1);
	assert_int_equal(fread(text, 1, (size_t)size, file), size);
	fclose(file);
	return text;
}

static inline void golden_compare(const char *name, const char *text)
{
	const char *dir = getenv("MOESCOPE_GOLDEN_DIR");
	char path[512];
	char *expected;

	snprintf(path, sizeof(path), "%s/%s", dir ? dir : MOESCOPE_GOLDEN_DIR, name);
	if (getenv("MOESCOPE_UPDATE_GOLDEN")) {
		FILE *file = fopen(path, "w");

		assert_non_null(file);
		assert_int_equal(fputs(text, file) < 0, 0);
		assert_int_equal(fclose(file), 0);
		return;
	}
	expected = golden_read(path);
	assert_string_equal(text, expected);
	free(expected);
}

#endif

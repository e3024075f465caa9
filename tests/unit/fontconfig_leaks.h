/* SPDX-License-Identifier: Apache-2.0
 *
 * For programs that draw texts, included once: fontconfig keeps what it has read about fonts until
 * the process ends, which the leak checker cannot know. Nothing of ours is left out.
 */
#ifndef TESTS_FONTCONFIG_LEAKS_H
#define TESTS_FONTCONFIG_LEAKS_H

const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:libfontconfig\n";
}

#endif

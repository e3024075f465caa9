/* SPDX-License-Identifier: Apache-2.0
 *
 * What is put into a program that is joined: the frame by which a thread finds back to where it was, and the code that
 * Python calls, which is really run.
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
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "host/join/landing.h"
#include "host/join/signal_frame.h"

#ifdef SIGNAL_FRAMES

/* ---- the landing, with functions of ours in place of Python's */

static int refs, runs, fails_at;
static char seen[64];

static void *some_dict(void)
{
	refs++;
	return fails_at == 1 ? NULL : &refs;
}

static void *run_string(const char *text, int begin, void *globals, void *locals)
{
	runs++;
	snprintf(seen, sizeof(seen), "%s", text);
	assert_int_equal(begin, 257); /* Py_file_input */
	assert_true(globals == &refs && locals == &refs);
	return fails_at == 2 ? NULL : &runs;
}

static void dec_ref(void *object)
{
	assert_true(object == &refs || object == &runs);
	refs--;
}

static int call_landing(int64_t *ret_left)
{
	unsigned char *at = mmap(NULL, LANDING_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct landing_uses uses = { (uintptr_t)some_dict, (uintptr_t)run_string,
					   (uintptr_t)dec_ref, (uintptr_t)clock_gettime };
	int (*landing)(void *), r;

	assert_true(at != MAP_FAILED);
	assert_true(landing_make(at, (uintptr_t)at, &uses, "a text"));
	memcpy(&landing, &at, sizeof(landing));
	refs = runs = 0;
	r = landing(NULL);
	memcpy(ret_left, at + LANDING_LEFT_AT, sizeof(*ret_left));
	munmap(at, LANDING_BYTES);
	return r;
}

static void landing_runs_its_text(void **state)
{
	int64_t left;

	(void)state;
	fails_at = 0;
	assert_int_equal(call_landing(&left), 0);
	assert_string_equal(seen, "a text");
	assert_int_equal(runs, 1);
	assert_int_equal(refs, -1); /* one dictionary made, it and the result given back */
	assert_true(left != 0);
}

static void landing_passes_failures_on(void **state)
{
	int64_t left;

	(void)state;
	fails_at = 1;
	assert_int_equal(call_landing(&left), -1);
	assert_int_equal(runs, 0);
	fails_at = 2;
	assert_int_equal(call_landing(&left), -1);
	assert_int_equal(refs, 0);
	assert_true(left == 0);
}

static void landing_has_limits(void **state)
{
	static unsigned char landing[LANDING_BYTES];
	static char text[LANDING_BYTES];
	const struct landing_uses uses = { 1, 2, 3, 4 };

	(void)state;
	memset(text, 'a', LANDING_BYTES - LANDING_TEXT_AT);
	assert_false(landing_make(landing, 0, &uses, text));
	text[LANDING_BYTES - LANDING_TEXT_AT - 1] = '\0';
	assert_true(landing_make(landing, 0, &uses, text));
}

/* ---- system calls that were interrupted */

static struct interrupted in_call(int64_t call, int64_t result)
{
	struct interrupted at = { 0 };

	at.registers.orig_rax = (uint64_t)call;
	at.registers.rax = (uint64_t)result;
	return at;
}

static void calls_are_repeated(void **state)
{
	struct interrupted at;

	(void)state;
	at = in_call(-1, -512);
	assert_int_equal(interrupted_repeats(&at), REPEAT_NONE); /* just a number */
	at = in_call(SYS_read, 5);
	assert_int_equal(interrupted_repeats(&at), REPEAT_NONE);
	at = in_call(SYS_read, -512);
	assert_int_equal(interrupted_repeats(&at), REPEAT_QUIET);
	at = in_call(SYS_clone, -513);
	assert_int_equal(interrupted_repeats(&at), REPEAT_ALWAYS);
	at = in_call(SYS_select, -514);
	assert_int_equal(interrupted_repeats(&at), REPEAT_QUIET);
	at = in_call(SYS_poll, -516);
	assert_int_equal(interrupted_repeats(&at), REPEAT_REST);
	at = in_call(SYS_epoll_wait, -EINTR);
	at.registers.r10 = 100;
	assert_int_equal(interrupted_repeats(&at), REPEAT_NONE);
	at.registers.r10 = (uint64_t)-1;
	assert_int_equal(interrupted_repeats(&at), REPEAT_QUIET);
}

static uint64_t word_at(const struct signal_frame *frame, size_t at)
{
	uint64_t word;

	memcpy(&word, frame->image + at, sizeof(word));
	return word;
}

static void frames_are_below_the_red_zone(void **state)
{
	static struct interrupted at;
	static struct signal_frame frame;

	(void)state;
	at = in_call(SYS_read, -512);
	at.registers.rsp = 0x7fff0000123;
	at.registers.rip = 0x4242;
	assert_false(signal_frame_make(&frame, &at, 0x1234)); /* without floating-point state */
	at.n_floats = 576;
	at.floats[464] = 3; /* x87 and SSE */
	assert_true(signal_frame_make(&frame, &at, 0x1234));
	assert_true(frame.at + frame.bytes <= at.registers.rsp - 128);
	assert_int_equal(frame.stack % 16, 8); /* as at the begin of any function */
	assert_int_equal(frame.end, frame.stack + 8);
	assert_int_equal(word_at(&frame, 0), 0x1234);
	assert_int_equal(word_at(&frame, frame.ip_at), 0x4240); /* the call again */
	assert_int_equal(word_at(&frame, frame.ax_at), SYS_read);
	signal_frame_ends_call(&frame, &at);
	assert_int_equal(word_at(&frame, frame.ip_at), 0x4242);
	assert_int_equal((int64_t)word_at(&frame, frame.ax_at), -EINTR);
}

#endif

int main(void)
{
#ifdef SIGNAL_FRAMES
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(landing_runs_its_text),
		cmocka_unit_test(landing_passes_failures_on),
		cmocka_unit_test(landing_has_limits),
		cmocka_unit_test(calls_are_repeated),
		cmocka_unit_test(frames_are_below_the_red_zone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	return 0;
#endif
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel leaves on the stack of a thread that a signal has interrupted: from it, rt_sigreturn puts back
 * every register, the floating-point state and the signal mask. A call that returns into it needs nobody to
 * clean up after it: the thread goes on where it was, even if whoever arranged the call has died. x86-64 only.
 */
#ifndef HOST_JOIN_SIGNAL_FRAME_H
#define HOST_JOIN_SIGNAL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define SIGNAL_FRAMES 1
#include <sys/user.h>

#define FLOATS_MOST 16384 /* bytes of floating-point state; AMX has 11 KiB */

struct interrupted {
	struct user_regs_struct registers;
	uint64_t mask; /* blocked signals */
	size_t n_floats;
	unsigned char floats[FLOATS_MOST]; /* as NT_X86_XSTATE has it */
};

/* Where the thread was inside a system call that the kernel would repeat (none: it goes on). */
enum repeat {
	REPEAT_NONE,
	REPEAT_ALWAYS, /* whatever happens */
	REPEAT_QUIET,  /* unless a handler has run meanwhile */
	REPEAT_REST    /* likewise, for the rest of its time, which only the kernel knows */
};
enum repeat interrupted_repeats(const struct interrupted *at);

struct signal_frame {
	uint64_t at; /* of the first byte */
	uint64_t
		stack; /* the stack pointer of a function that is called and returns into the frame */
	uint64_t end; /* the same after its return */
	size_t bytes;
	size_t ip_at, ax_at; /* in bytes[] of the image: where it goes on, and with what */
	unsigned char image[FLOATS_MOST + 1024];
};

/* To be written to the thread's memory at frame->at, below what it uses of its stack. restore: where
 * code calls rt_sigreturn. False: its floating-point state is of a kind that is not known here. */
bool signal_frame_make(struct signal_frame *frame, const struct interrupted *at, uint64_t restore);
/* The call ends with EINTR instead of being repeated, because a handler has run. */
void signal_frame_ends_call(struct signal_frame *frame, const struct interrupted *at);

#endif
#endif

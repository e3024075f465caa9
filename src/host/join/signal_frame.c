/* SPDX-License-Identifier: Apache-2.0
 *
 * A frame of rt_sigreturn; see signal_frame.h. Its layout is the kernel's (arch/x86/include/uapi/asm), of which
 * glibc's ucontext_t has the same beginning. Any thread.
 */
#include "host/join/signal_frame.h"

#ifdef SIGNAL_FRAMES

#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* The kernel's own, which it never lets a program see. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK = 516 };

#define RED_ZONE 128	/* below the stack pointer: functions may use it */
#define CALL_BYTES 2	/* of a system call's instruction */
#define KERNEL_MASK 8	/* bytes of a signal mask */
#define NO_STACK_MODE 3 /* not a valid one: the alternate signal stack stays as it is */
#define FRAME_FLAGS 7	/* floating-point state is extended; the stack segment is given, strictly */

/* Of the extended state: fields that software owns, then what is in it. */
#define SOFTWARE_AT 464
#define HEADER_AT 512
#define MAGIC_1 0x46505853u
#define MAGIC_2 0x46505845u
#define LEAST_FLOATS 576
#define TILES 18 /* AMX: the kernel makes room for them only when they are used */
#define FEATURES 63

struct software_bytes {
	uint32_t magic_1, all_bytes;
	uint64_t features;
	uint32_t bytes, padding[7];
};

static bool waits_without_limit(const struct user_regs_struct *r)
{
	switch (r->orig_rax) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int)r->r10 < 0;
	default:
		return false;
	}
}

enum repeat interrupted_repeats(const struct interrupted *at)
{
	const struct user_regs_struct *r = &at->registers;

	if ((int64_t)r->orig_rax < 0)
		return REPEAT_NONE;
	switch (-(int64_t)r->rax) {
	case ERESTARTNOINTR:
		return REPEAT_ALWAYS;
	case ERESTARTSYS:
	case ERESTARTNOHAND:
		return REPEAT_QUIET;
	case ERESTART_RESTARTBLOCK:
		return REPEAT_REST;
	case EINTR:
		/* epoll ends even where nobody has a handler: because of us. */
		return waits_without_limit(r) ? REPEAT_QUIET : REPEAT_NONE;
	default:
		return REPEAT_NONE;
	}
}

/* Bytes of the state with these features, in the layout that is the same for all programs. */
static size_t bytes_of_features(uint64_t features)
{
	size_t most = LEAST_FLOATS;

	for (unsigned int i = 2; i < FEATURES; i++) {
		unsigned int bytes, from, flags, d;

		if (!(features >> i & 1) || !__get_cpuid_count(0xd, i, &bytes, &from, &flags, &d))
			continue;
		if (from + bytes > most)
			most = from + bytes;
	}
	return most;
}

/* 0: no such thing. */
static size_t put_floats(unsigned char *to, const struct interrupted *at)
{
	struct software_bytes software = { .magic_1 = MAGIC_1 };
	uint64_t used;
	uint32_t magic_2 = MAGIC_2;

	if (at->n_floats < LEAST_FLOATS)
		return 0;
	memcpy(&software.features, at->floats + SOFTWARE_AT, 8);
	memcpy(&used, at->floats + HEADER_AT, 8);
	if (!(used >> TILES & 1))
		software.features &= ~(UINT64_C(1) << TILES);
	software.bytes = (uint32_t)bytes_of_features(software.features);
	software.all_bytes = software.bytes + (uint32_t)sizeof(magic_2);
	if (software.bytes > at->n_floats || software.all_bytes > FLOATS_MOST)
		return 0;
	memcpy(to, at->floats, software.bytes);
	memcpy(to + SOFTWARE_AT, &software, sizeof(software));
	memcpy(to + software.bytes, &magic_2, sizeof(magic_2));
	return software.all_bytes;
}

static void put_registers(ucontext_t *context, const struct user_regs_struct *r)
{
	const uint64_t values[] = {
		[REG_R8] = r->r8,
		[REG_R9] = r->r9,
		[REG_R10] = r->r10,
		[REG_R11] = r->r11,
		[REG_R12] = r->r12,
		[REG_R13] = r->r13,
		[REG_R14] = r->r14,
		[REG_R15] = r->r15,
		[REG_RDI] = r->rdi,
		[REG_RSI] = r->rsi,
		[REG_RBP] = r->rbp,
		[REG_RBX] = r->rbx,
		[REG_RDX] = r->rdx,
		[REG_RAX] = r->rax,
		[REG_RCX] = r->rcx,
		[REG_RSP] = r->rsp,
		[REG_RIP] = r->rip,
		[REG_EFL] = r->eflags,
		/* four of 16 bits: code, two that the kernel leaves out, stack */
		[REG_CSGSFS] = (r->cs & 0xffff) | (r->ss & 0xffff) << 48,
	};

	memcpy(context->uc_mcontext.gregs, values, sizeof(values));
}

bool signal_frame_make(struct signal_frame *frame, const struct interrupted *at, uint64_t restore)
{
	unsigned char floats[FLOATS_MOST];
	size_t n_floats = put_floats(floats, at);
	size_t context_bytes = offsetof(ucontext_t, uc_sigmask) + KERNEL_MASK;
	uint64_t floats_at = (at->registers.rsp - RED_ZONE - n_floats) & ~UINT64_C(63);
	uint64_t context_at = (floats_at - context_bytes) & ~UINT64_C(15);
	ucontext_t context = { .uc_flags = FRAME_FLAGS, .uc_stack.ss_flags = NO_STACK_MODE };
	size_t context_in = sizeof(restore);

	if (!n_floats)
		return false;
	put_registers(&context, &at->registers);
	if (interrupted_repeats(at) != REPEAT_NONE) {
		context.uc_mcontext.gregs[REG_RAX] = (greg_t)at->registers.orig_rax;
		context.uc_mcontext.gregs[REG_RIP] -= CALL_BYTES;
	}
	memcpy(&context.uc_mcontext.fpregs, &floats_at, sizeof(floats_at));
	memcpy(&context.uc_sigmask, &at->mask, sizeof(at->mask));
	*frame = (struct signal_frame){
		.at = context_at - context_in,
		.stack = context_at - context_in,
		.end = context_at,
		.bytes = floats_at + n_floats - context_at + context_in,
		.ip_at = context_in + offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
		.ax_at = context_in + offsetof(ucontext_t, uc_mcontext.gregs[REG_RAX]),
	};
	memcpy(frame->image, &restore, sizeof(restore));
	memcpy(frame->image + context_in, &context, context_bytes);
	memcpy(frame->image + (floats_at - frame->at), floats, n_floats);
	return true;
}

void signal_frame_ends_call(struct signal_frame *frame, const struct interrupted *at)
{
	int64_t ended = -EINTR;

	memcpy(frame->image + frame->ip_at, &at->registers.rip, 8);
	memcpy(frame->image + frame->ax_at, &ended, 8);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of Py_AddPendingCall in another process; see pending_call.h. A thread of its own makes it: when a
 * thread ends, the kernel lets go of what it has stopped, in whatever state that is.
 */
#include "host/join/pending_call.h"

#include <errno.h>

#include "host/join/signal_frame.h"

#ifdef SIGNAL_FRAMES

#include <elf.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "host/peer/peer.h"

#define TRIES 100
#define TRY_NS 300000		      /* between two */
#define STOP_NS INT64_C(1000000000)   /* until it stops */
#define RETURN_NS INT64_C(2000000000) /* until the call has returned */
#define STACK_WORDS 32		      /* that are looked at for the places to keep away from */
#define CALL_BYTES 2		      /* of the instruction */
#define DIRECTION 0x400		      /* a flag that is clear when a function is called */
#define FUTEX_COMMAND 0x7f	      /* without its flags */

/* What a try came to: done, or -errno, or: */
enum {
	TRY_AGAIN = 1, /* after it has gone on for a moment */
	TRY_HERE       /* it has been stopped again, at a handler of the program's */
};

struct tracer {
	struct pending_call *call;
	int result;
	uint64_t page; /* where the landing is, 0: not there yet */
	struct interrupted was;
	struct signal_frame frame;
	bool handled; /* a handler ran on top of the call */
};

static int set_registers(const struct tracer *t, struct user_regs_struct *registers)
{
	struct iovec part = { registers, sizeof(*registers) };

	return ptrace(PTRACE_SETREGSET, t->call->pid, NT_PRSTATUS, &part) < 0 ? -errno : 0;
}

static int get_registers(const struct tracer *t, struct user_regs_struct *registers)
{
	struct iovec part = { registers, sizeof(*registers) };

	return ptrace(PTRACE_GETREGSET, t->call->pid, NT_PRSTATUS, &part) < 0 ? -errno : 0;
}

static int read_thread(struct tracer *t)
{
	struct iovec floats = { t->was.floats, sizeof(t->was.floats) };

	if (get_registers(t, &t->was.registers) < 0 ||
	    ptrace(PTRACE_GETREGSET, t->call->pid, NT_X86_XSTATE, &floats) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, t->call->pid, sizeof(t->was.mask), &t->was.mask) < 0)
		return -errno;
	t->was.n_floats = floats.iov_len;
	return 0;
}

/* Its next stop: 0, -ETIMEDOUT, or -ESRCH: it has ended. */
static int wait_for_stop(const struct tracer *t, int64_t limit_ns, int *ret_status)
{
	const struct timespec moment = { .tv_nsec = 20000 };
	int64_t until_ns = clock_monotonic_ns() + limit_ns;

	for (int turn = 0;; turn++) {
		pid_t pid = waitpid(t->call->pid, ret_status, __WALL | WNOHANG);

		if (pid < 0)
			return -errno;
		if (pid > 0)
			return WIFSTOPPED(*ret_status) ? 0 : -ESRCH;
		if (clock_monotonic_ns() > until_ns)
			return -ETIMEDOUT;
		if (turn > 20)
			nanosleep(&moment, NULL);
	}
}

static bool is_event(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP;
}

static bool is_call(int status)
{
	return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* It has been told to stop. Signals that come first are delivered. */
static int wait_for_event(const struct tracer *t)
{
	int status = 0, r;

	while ((r = wait_for_stop(t, STOP_NS, &status)) == 0 && !is_event(status))
		ptrace(PTRACE_CONT, t->call->pid, 0, is_call(status) ? 0 : WSTOPSIG(status));
	if (r == 0 && WSTOPSIG(status) != SIGTRAP)
		r = -EALREADY; /* somebody has stopped the program */
	return r;
}

/* Stops it between two instructions or in a system call. */
static int stop_thread(const struct tracer *t)
{
	/* Never PTRACE_O_EXITKILL. */
	if (ptrace(PTRACE_SEIZE, t->call->pid, 0, PTRACE_O_TRACESYSGOOD) < 0 ||
	    ptrace(PTRACE_INTERRUPT, t->call->pid, 0, 0) < 0)
		return -errno;
	return wait_for_event(t);
}

static bool is_in(const struct pending_call *call, uint64_t address)
{
	for (size_t i = 0; i < call->n_not_in; i++)
		if (address >= call->not_in[i].start && address < call->not_in[i].end)
			return true;
	return false;
}

/* Whether it may hold the lock of Python's list, which the call takes. One that waits for something does
 * not. */
static bool may_hold_lock(const struct tracer *t)
{
	const struct user_regs_struct *r = &t->was.registers;
	uint64_t words[STACK_WORDS];
	int command = (int)r->rsi & FUTEX_COMMAND;

	if ((int64_t)r->orig_rax >= 0 &&
	    (r->orig_rax != SYS_futex || command == 0 /* wait */ || command == 9 /* likewise */))
		return false;
	if (is_in(t->call, r->rip) || !peer_read(t->call->pid, r->rsp, words, sizeof(words)))
		return true;
	for (size_t i = 0; i < STACK_WORDS; i++)
		if (is_in(t->call, words[i]))
			return true;
	return false;
}

/* Inside a sequence that the kernel begins anew when it is interrupted (rseq): it must see that. */
static bool in_restartable(const struct tracer *t)
{
#ifdef PT_GET_RSEQ_CONFIGURATION
	struct __ptrace_rseq_configuration at = { 0 };
	uint64_t sequence = 0;

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, t->call->pid, sizeof(at), &at) <= 0 ||
	    !at.rseq_abi_pointer)
		return false;
	return !peer_read(t->call->pid, at.rseq_abi_pointer + 8, &sequence, 8) || sequence;
#else
	(void)t;
	return false;
#endif
}

/* On the main thread's own stack, not on one for signals or of a coroutine, which may be short. */
static bool on_own_stack(const struct tracer *t)
{
	char name[32], line[512];
	bool found = false;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)t->call->pid);
	maps = fopen(name, "re");
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		uint64_t start, end;

		if (strstr(line, "[stack]") &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
			found = t->was.registers.rsp >= start && t->was.registers.rsp < end;
	}
	if (maps)
		fclose(maps);
	return found;
}

/* Before anything of the call has run: as if it had not been stopped, and then the signal. It stops again where that
 * leads to, or the next signal would come before the call once more. */
static int give_way(struct tracer *t, int signal)
{
	int r = set_registers(t, &t->was.registers);

	if (r == 0 && (ptrace(PTRACE_INTERRUPT, t->call->pid, 0, 0) < 0 ||
		       ptrace(PTRACE_CONT, t->call->pid, 0, signal) < 0))
		r = -errno;
	if (r == 0)
		r = wait_for_event(t);
	return r < 0 ? r : TRY_HERE;
}

static bool has_handler(const struct tracer *t, int signal)
{
	char name[32], line[256];
	uint64_t caught = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/status", (int)t->call->pid);
	f = fopen(name, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SigCgt: %" SCNx64, &caught) == 1)
			break;
	if (f)
		fclose(f);
	return caught >> (signal - 1) & 1;
}

/* Where it has to stop: about to make, or back from, the system call behind `ip`. */
struct target {
	uint64_t ip, stack;
	bool back;
	uint64_t untouched; /* an address at which nothing of the call has run yet; 0: none */
};

/* Runs it up to the target. TRY_HERE: a signal came first. */
static int run_to(struct tracer *t, const struct target *target, struct user_regs_struct *registers)
{
	int status = 0, signal = 0, r;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, t->call->pid, 0, signal) < 0)
			return -errno;
		r = wait_for_stop(t, RETURN_NS, &status);
		if (r == 0)
			r = get_registers(t, registers);
		if (r < 0)
			return r;
		signal = 0;
		if (is_call(status)) {
			bool back = (int64_t)registers->rax != -ENOSYS;

			if (registers->rip == target->ip && registers->rsp == target->stack &&
			    back == target->back)
				return 0;
		} else if (!is_event(status)) {
			signal = WSTOPSIG(status);
			if (target->untouched && registers->rip == target->untouched)
				return give_way(t, signal);
			t->handled |= has_handler(t, signal);
		}
	}
}

/* The call waits for a lock that nobody lets go of, the thread itself then: it must go back to that. */
static int abandon(struct tracer *t)
{
	struct iovec floats = { t->was.floats, t->was.n_floats };
	int r;

	if (ptrace(PTRACE_INTERRUPT, t->call->pid, 0, 0) < 0)
		return -errno;
	r = wait_for_event(t);
	if (r == 0 && ptrace(PTRACE_SETREGSET, t->call->pid, NT_X86_XSTATE, &floats) < 0)
		r = -errno;
	if (r == 0)
		r = set_registers(t, &t->was.registers);
	if (r == 0 && ptrace(PTRACE_DETACH, t->call->pid, 0, 0) < 0)
		r = -errno;
	return r < 0 ? r : -EDEADLK;
}

/* Memory for the landing. */
static int make_page(struct tracer *t)
{
	struct user_regs_struct r = t->was.registers;
	struct target call = { t->call->system_call + CALL_BYTES, t->frame.stack, false,
			       t->call->system_call },
		      back = { call.ip, call.stack, true, 0 };
	int result;

	r.rip = t->call->system_call;
	r.rsp = t->frame.stack;
	r.rax = SYS_mmap;
	r.orig_rax = (uint64_t)-1;
	r.rdi = 0;
	r.rsi = LANDING_BYTES;
	r.rdx = PROT_READ | PROT_WRITE | PROT_EXEC;
	r.r10 = MAP_PRIVATE | MAP_ANONYMOUS;
	r.r8 = (uint64_t)-1;
	r.r9 = 0;
	result = set_registers(t, &r);
	if (result == 0)
		result = run_to(t, &call, &r);
	if (result == 0)
		result = run_to(t, &back, &r);
	if (result != 0)
		return result;
	if ((int64_t)r.rax < 0 && (int64_t)r.rax > -4096)
		return (int)r.rax;
	t->page = r.rax;
	return 0;
}

static int write_landing(struct tracer *t)
{
	unsigned char landing[LANDING_BYTES];
	char digits[17];

	snprintf(digits, sizeof(digits), "%016" PRIx64, t->page);
	memcpy(t->call->page_digits, digits, 16);
	if (!landing_make(landing, t->page, &t->call->uses, t->call->text))
		return -E2BIG;
	return peer_write(t->call->pid, t->page, landing, sizeof(landing)) ? 0 : -EFAULT;
}

/* The thread is about to call rt_sigreturn. Where it had been in a system call that is to be repeated, that is
 * done at once instead: the kernel then knows the rest of its time, and of signals that come now. */
static int leave(struct tracer *t)
{
	struct iovec floats = { t->was.floats, t->was.n_floats };
	enum repeat repeat = interrupted_repeats(&t->was);
	struct user_regs_struct r = t->was.registers;
	int result = 0;

	if (t->handled && repeat > REPEAT_ALWAYS) {
		signal_frame_ends_call(&t->frame, &t->was);
		if (!peer_write(t->call->pid, t->frame.at, t->frame.image, t->frame.bytes))
			result = -EFAULT;
	} else if (repeat != REPEAT_NONE) {
		if (repeat == REPEAT_REST)
			r.orig_rax = SYS_restart_syscall;
		if (ptrace(PTRACE_SETREGSET, t->call->pid, NT_X86_XSTATE, &floats) < 0)
			result = -errno;
		if (result == 0)
			result = set_registers(t, &r);
	}
	if (ptrace(PTRACE_DETACH, t->call->pid, 0, 0) < 0 && result == 0)
		result = -errno;
	return result;
}

static int add_pending_call(struct tracer *t)
{
	struct target end = { t->call->sigreturn_end, t->frame.end, false,
			      t->call->add_pending_call };
	struct user_regs_struct r = t->was.registers;
	int result;

	r.rip = t->call->add_pending_call;
	r.rsp = t->frame.stack;
	r.rdi = t->page;
	r.rsi = 0;
	r.rax = 0;
	r.orig_rax = (uint64_t)-1;
	r.eflags &= ~(uint64_t)DIRECTION;
	result = set_registers(t, &r);
	if (result == 0)
		result = run_to(t, &end, &r);
	if (result == -ETIMEDOUT)
		return abandon(t);
	return result == 0 ? leave(t) : result;
}

/* It is stopped. If nothing gets into the list, the memory for it stays. */
static int call_stopped(struct tracer *t)
{
	int r = read_thread(t);

	if (r < 0)
		return r;
	if (!on_own_stack(t) || may_hold_lock(t) || in_restartable(t))
		return TRY_AGAIN;
	if (!signal_frame_make(&t->frame, &t->was, t->call->sigreturn))
		return -ENOTSUP;
	if (!peer_write(t->call->pid, t->frame.at, t->frame.image, t->frame.bytes))
		return -ENOMEM; /* the stack ends there */
	t->handled = false;
	if (!t->page)
		r = make_page(t);
	if (r == 0)
		r = write_landing(t);
	return r == 0 ? add_pending_call(t) : r;
}

static void *make_call(void *arg)
{
	const struct timespec moment = { .tv_nsec = TRY_NS };
	struct tracer *t = arg;

	for (int i = 0; i < TRIES; i++) {
		int64_t start_ns = clock_monotonic_ns();

		if (i)
			nanosleep(&moment, NULL);
		t->result = stop_thread(t);
		if (t->result == 0)
			do
				t->result = call_stopped(t);
			while (t->result == TRY_HERE && i++ < TRIES);
		if (t->result != 0)
			ptrace(PTRACE_DETACH, t->call->pid, 0, 0); /* if that has not been done */
		t->call->stopped_ns += clock_monotonic_ns() - start_ns;
		if (t->result != TRY_AGAIN && t->result != TRY_HERE)
			break;
	}
	return NULL;
}

static int explain(const struct tracer *t, struct err *err)
{
	int pid = (int)t->call->pid;

	switch (t->result) {
	case 0:
		return 0;
	case TRY_AGAIN:
	case TRY_HERE:
		return err_set(err, -EAGAIN,
			       "process %d was never at a place where it can be joined safely; try "
			       "again in a moment",
			       pid);
	case -EALREADY:
		return err_set(err, -EAGAIN, "process %d is stopped; let it go on (kill -CONT %d)",
			       pid, pid);
	case -ETIMEDOUT:
		return err_set(err, -EAGAIN,
			       "the main thread of process %d is inside the kernel and cannot be "
			       "stopped; try again in a moment",
			       pid);
	case -EDEADLK:
		return err_set(err, -EAGAIN,
			       "Python in process %d is adding a call of its own; try again in a "
			       "moment",
			       pid);
	case -EPERM:
		return err_set(err, t->result,
			       "process %d may not be stopped: another debugger has it, or run "
			       "moescope as its user, and see kernel.yama.ptrace_scope; in a "
			       "container it needs CAP_SYS_PTRACE",
			       pid);
	case -ESRCH:
	case -ECHILD:
		return err_set(err, -ESRCH, "process %d has ended", pid);
	default:
		return err_sys(err, t->result, "process %d cannot be joined", pid);
	}
}

int pending_call_make(struct pending_call *call, struct err *err)
{
	static struct tracer tracer; /* large */
	pthread_t thread;
	int r;

	if (strlen(call->text) >= LANDING_BYTES - LANDING_TEXT_AT)
		return err_set(err, -E2BIG, "the path of the run is too long to join process %d",
			       (int)call->pid);
	tracer = (struct tracer){ .call = call };
	call->stopped_ns = 0;
	r = -pthread_create(&thread, NULL, make_call, &tracer);
	if (r < 0)
		return err_sys(err, r, "cannot start a thread");
	pthread_join(thread, NULL);
	return explain(&tracer, err);
}

#else

int pending_call_make(struct pending_call *call, struct err *err)
{
	return err_set(
		err, -ENOTSUP,
		"process %d cannot be joined: on this kind of processor that is known for Python "
		"3.14 without handlers of signals only",
		(int)call->pid);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of the thread that allocates; see frames.h.
 */
#include "heap/frames.h"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "heap/log.h"
#include "heap/own_memory.h"
#include "host/stacks/python_stack.h"

#define NATIVE_MOST 64
#define NATIVE_OVER_PYTHON 8 /* innermost native functions that are shown above those of Python */
#define PYTHON_MOST 256
#define STACK_MOST ((uintptr_t)64 << 20) /* from frame to frame: larger is no frame */
#define PAGES 4				 /* of a stack, read at once */
#define PAGE 4096u
#define TURNS 200 /* to wait for another thread that reads Python's structures */

/* Of the Python in the program. */
static struct {
	struct python *python; /* NULL: there is none */
	void *(*state_here)(void);
	uintptr_t start, end; /* its code */
	uint64_t *texts;      /* in the log, by name; 0: not yet */
	size_t n_texts;
} py;

/* The stack of whoever has the turn: stacks may be too small for copies of them. */
static struct stack_part {
	uintptr_t start;
	size_t bytes;
	char copy[PAGES * PAGE];
	uint64_t ips[NATIVE_MOST];
	struct python_function functions[PYTHON_MOST];
} turn;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static bool read_part(struct stack_part *s, uintptr_t at)
{
	struct iovec here[PAGES], there[PAGES];
	ssize_t n;

	/* Whole pages: a call ends at the first that is none. */
	s->start = at & ~(uintptr_t)(PAGE - 1);
	for (int i = 0; i < PAGES; i++) {
		here[i] = (struct iovec){ s->copy + (size_t)i * PAGE, PAGE };
		// NOLINTNEXTLINE(performance-no-int-to-ptr)
		there[i] = (struct iovec){ (void *)(s->start + (uintptr_t)i * PAGE), PAGE };
	}
	n = process_vm_readv(getpid(), here, PAGES, there, PAGES, 0);
	s->bytes = n > 0 ? (size_t)n : 0;
	return at + 2 * sizeof(uintptr_t) <= s->start + s->bytes;
}

/* The caller's frame and where it goes on. */
static bool read_frame(struct stack_part *s, uintptr_t at, uintptr_t frame[2])
{
	if (at < s->start || at + 2 * sizeof(uintptr_t) > s->start + s->bytes)
		if (!read_part(s, at))
			return false;
	memcpy(frame, s->copy + (at - s->start), 2 * sizeof(uintptr_t));
	return true;
}

/* Innermost first. Code without frame pointers ends the chain, or lacks some of it. */
static size_t native_frames(const void *from, uint64_t *ips)
{
	uintptr_t at = (uintptr_t)from, frame[2];
	size_t n = 0;

	turn.bytes = 0;
	while (n < NATIVE_MOST && at % sizeof(at) == 0 && read_frame(&turn, at, frame)) {
		if (frame[1] < PAGE)
			break;
		ips[n++] = frame[1];
		if (frame[0] <= at || frame[0] - at > STACK_MOST)
			break;
		at = frame[0];
	}
	return n;
}

/* A name of Python's in the log; 0: there is no place. */
static uint64_t text_of(uint32_t name)
{
	if (name >= py.n_texts) {
		size_t n = name * 2 + 64;
		uint64_t *more = own_realloc(py.texts, n * sizeof(*more));

		if (!more)
			return 0;
		memset(more + py.n_texts, 0, (n - py.n_texts) * sizeof(*more));
		py.texts = more;
		py.n_texts = n;
	}
	if (!py.texts[name])
		py.texts[name] = log_text(python_name(py.python, name));
	return py.texts[name];
}

static bool take_turn(void)
{
	for (int i = 0; i < TURNS; i++) {
		if (!atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
			return true;
		sched_yield();
	}
	return false;
}

static uint32_t python_node(const void *state)
{
	struct python_thread here;
	uint32_t node = 0;
	uint64_t text = 0;
	size_t n = 0;

	if (!python_thread_here(py.python, (uintptr_t)state, &here) ||
	    python_stack(py.python, &here, turn.functions, PYTHON_MOST, &n) < 0)
		atomic_fetch_add_explicit(&heap_log->no_python, 1, memory_order_relaxed);
	for (size_t i = n; i-- > 0 && (text = text_of(turn.functions[i].name));)
		node = log_node(node, text);
	if (n && !text) /* no place for names */
		atomic_fetch_add_explicit(&heap_log->shortened, 1, memory_order_relaxed);
	return node;
}

static bool in_python(uint64_t ip)
{
	return ip >= py.start && ip < py.end;
}

/* A signal handler with a stack of its own has no room for us. */
static bool on_small_stack(void)
{
	stack_t stack;

	return sigaltstack(NULL, &stack) < 0 || stack.ss_flags & SS_ONSTACK;
}

uint32_t frames_node(const void *frame)
{
	const void *state;
	uint32_t node = 0;
	size_t n, above = 0;

	if (on_small_stack() || !take_turn()) {
		atomic_fetch_add_explicit(&heap_log->shortened, 1, memory_order_relaxed);
		return log_node(0, ((const uintptr_t *)frame)[1]);
	}
	state = py.python ? py.state_here() : NULL;
	n = native_frames(frame, turn.ips);
	if (!n) /* the kernel lets nobody read so, not even itself */
		turn.ips[n++] = ((const uintptr_t *)frame)[1];
	if (state) {
		node = python_node(state);
		/* What the interpreter itself does is its function's. */
		while (above < n && above < NATIVE_OVER_PYTHON && !in_python(turn.ips[above]))
			above++;
		/* Before its first function, as it starts, that is all there is. */
		n = node ? above : n;
	}
	while (n--)
		node = log_node(node, turn.ips[n]);
	atomic_flag_clear_explicit(&busy, memory_order_release);
	return node;
}

struct code_range {
	uintptr_t of, start, end;
};

static int find_range(struct dl_phdr_info *info, size_t size, void *arg)
{
	uintptr_t start = UINTPTR_MAX, end = 0;
	struct code_range *range = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + load->p_vaddr;

		if (load->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + load->p_memsz > end ? at + load->p_memsz : end;
	}
	if (range->of < start || range->of >= end)
		return 0;
	range->start = start;
	range->end = end;
	return 1;
}

void frames_prepare(void)
{
	struct python_here here = { .runtime = (uintptr_t)dlsym(RTLD_DEFAULT, "_PyRuntime"),
				    .code_type = (uintptr_t)dlsym(RTLD_DEFAULT, "PyCode_Type") };
	struct code_range range = { .of = here.code_type };
	const char *(*version)(void);
	unsigned int minor;

	*(void **)&py.state_here = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
	*(void **)&version = dlsym(RTLD_DEFAULT, "Py_GetVersion");
	if (!here.runtime || !here.code_type || !py.state_here || !version ||
	    sscanf(version(), "3.%u", &minor) != 1) // NOLINT(cert-err34-c)
		return;
	here.minor = (int)minor;
	dl_iterate_phdr(find_range, &range);
	py.start = range.start;
	py.end = range.end;
	if (python_open_here(&py.python, &here) < 0)
		py.python = NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python stacks of another process; see python_stack.h.
 *
 * Where things are differs from version to version. Up to 3.12 it is written down here, from CPython's
 * own headers; from 3.13 on the interpreter has a table of it.
 */
#include "host/stacks/python_stack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash_map.h"
#include "base/interned.h"
#include "host/peer/find_symbol.h"
#include "host/peer/peer.h"

#define STACK_MOST 1024	  /* functions */
#define THREADS_MOST 4096 /* a list in memory that changes may be a circle */
#define INTERPRETERS_MOST 1024
#define TRIES 30
#define TRIES_AT_ONCE 5
#define TEXT_MOST 512
#define NAME_MOST 400
#define BLOCK_BELOW 3072 /* of frames, read at once */
#define BLOCK_BYTES (BLOCK_BELOW + 1024)
#define FRAME_BYTES 80
#define STRING_BYTES 80 /* of a string, what says how long it is and what it is made of */
#define CHUNK_MOST (UINT64_C(1) << 20)
#define PAGE 4096 /* the smallest there is */

/* Bytes from the beginning of each structure. */
struct layout {
	uint16_t interpreters;	   /* of the runtime: the first */
	uint16_t next_interpreter; /* of an interpreter */
	uint16_t first_thread;
	uint16_t next_thread;	       /* of a thread's state */
	uint16_t thread_id, native_id; /* native_id 0: not there */
	uint16_t frame;		       /* the innermost, or what leads to it: */
	int16_t frame_in_c_frame;      /* -1: nothing does */
	uint16_t chunk;		       /* where frames lie one after the other; 0: nowhere */
	uint16_t previous, code;       /* of a frame */
	uint16_t
		mark; /* likewise: 3.11: whether C has entered it, later: whose it is; 0: not there */
	uint16_t file, name, first_line;	/* of a code object */
	uint16_t state, length, ascii, compact; /* of a string: two fields, and where its text is */
	uint16_t gil;  /* the lock in the runtime; from 3.12 on its address, in an interpreter */
	uint16_t type; /* of an object */
	uint8_t kind;  /* bits before it in a string's state */
};

/* clang-format off */
static const struct layout layouts[] = {
	[9] = { 32, 0, 8, 8, 176, 0, 24, -1, 0, 24, 32, 0, 104, 112, 40, 32, 16, 48, 72, 352, 8, 2 },
	[10] = { 32, 0, 8, 8, 176, 0, 24, -1, 0, 24, 32, 0, 104, 112, 40, 32, 16, 48, 72, 352, 8, 2 },
	[11] = { 40, 0, 16, 8, 152, 160, 56, 8, 296, 48, 32, 68, 112, 128, 72, 32, 16, 48, 72, 360, 8, 2 },
	[12] = { 40, 0, 72, 8, 136, 144, 56, 0, 232, 8, 0, 70, 112, 128, 68, 32, 16, 40, 56, 384, 8, 2 },
};
/* clang-format on */

/* Where the interpreter's own table has these, by its 64-bit words. It begins alike in all. */
enum { OWN_VERSION = 1, OWN_FREE_THREADED = 2, OWN_WORDS = 95 };
struct own_words {
	uint8_t interpreters, next_interpreter, first_thread, gil;
	uint8_t next_thread, frame, thread_id, native_id, chunk;
	uint8_t previous, code, owner;
	uint8_t file, name, first_line;
	uint8_t state, length, ascii;
	uint8_t type;
};

static const struct own_words own_words[] = {
	[13] = { 5, 8, 9, 14, 21, 23, 24, 25, 26, 29, 30, 33, 35, 37, 39, 68, 69, 70, 45 },
	[14] = { 5, 8, 9, 15, 24, 26, 27, 28, 29, 32, 33, 36, 40, 42, 44, 78, 79, 80, 51 },
};

/* Likewise what a script takes that another process has it run (PEP 768), from 3.14 on. */
enum {
	OWN_RUNTIME_BYTES = 3,
	OWN_FINALIZING = 4,
	OWN_INTERPRETER_BYTES = 6,
	OWN_INTERPRETER_ID = 7,
	OWN_THREAD_BYTES = 22,
	OWN_BREAKER = 89,
	OWN_SUPPORT = 90,
	OWN_ENABLED = 91,
	OWN_PENDING = 92,
	OWN_PATH = 93,
	OWN_PATH_BYTES = 94,
};
#define OWN_LAST 14
#define OWN_COOKIE "xdebugpy"

/* A frame between C and Python, without a function, from 3.12 on; 3.14 has two kinds. */
enum { OWNED_BY_C_STACK = 3 };

/* A code object as it was when it was named. Its memory may be another's by now: each is compared once a look. */
struct code {
	uint64_t at, file, name;
	int64_t looked_ns;
	int32_t first_line;
	uint32_t label;
};
#define CODE_BYTES 256 /* of it, up to what names it */
#define CODES_AT_ONCE 64

/* What a frame says; code 0: nothing of Python's. */
struct frame {
	uint64_t at, previous, code;
	uint8_t mark;
};

/* Memory around frames that was read twice in a row. From 3.11 on those of a thread lie one after the other. */
struct block {
	uint64_t start;
	size_t bytes;
	char copies[2][BLOCK_BYTES];
};

/* Too large for the stack of a thread that is not ours. */
struct scratch {
	struct frame frames[STACK_MOST];
	struct block block;
	char codes[CODES_AT_ONCE][CODE_BYTES];
};

struct python {
	pid_t pid;
	struct scratch *scratch;
	int minor, tries;
	bool free_threaded; /* no global lock, unless it is switched on */
	struct layout at;
	uint64_t runtime, code_type;
	/* When its threads were listed; interpreter 0: there were several. */
	uint64_t interpreter, first_thread;
	int64_t now_ns; /* of the stack that is being read */
	struct code *codes;
	size_t n_codes, codes_capacity;
	struct hash_map by_address;
	struct interned labels;
};

static bool read_word(const struct python *p, uint64_t from, uint64_t *ret)
{
	return peer_read(p->pid, from, ret, sizeof(*ret));
}

/* Whether what is copied of a thing has all that is looked for in it. */
static bool layout_fits(const struct layout *at)
{
	return at->previous <= FRAME_BYTES - 8 && at->code <= FRAME_BYTES - 8 &&
	       at->mark < FRAME_BYTES && at->file <= CODE_BYTES - 8 && at->name <= CODE_BYTES - 8 &&
	       at->first_line <= CODE_BYTES - 4 && at->length <= STRING_BYTES - 8 &&
	       at->state <= STRING_BYTES - 4;
}

static int take_own_table(struct python *p, char *why, size_t size)
{
	const struct own_words *at;
	uint64_t own[OWN_WORDS];

	if (!peer_read(p->pid, p->runtime, own, sizeof(own)))
		return -ESRCH;
	if (memcmp(own, OWN_COOKIE, 8) != 0)
		return -ENOENT; /* not set up yet */
	p->minor = (int)(own[OWN_VERSION] >> 16 & 0xff);
	if (own[OWN_VERSION] >> 24 != 3 || p->minor < 13 || p->minor > OWN_LAST) {
		snprintf(why, size, "stacks of Python 3.%d are not known to this moescope",
			 p->minor);
		return -ENOTSUP;
	}
	p->free_threaded = own[OWN_FREE_THREADED];
	at = &own_words[p->minor];
	p->at = (struct layout){
		.interpreters = (uint16_t)own[at->interpreters],
		.next_interpreter = (uint16_t)own[at->next_interpreter],
		.first_thread = (uint16_t)own[at->first_thread],
		.next_thread = (uint16_t)own[at->next_thread],
		.thread_id = (uint16_t)own[at->thread_id],
		.native_id = (uint16_t)own[at->native_id],
		.frame = (uint16_t)own[at->frame],
		.frame_in_c_frame = -1,
		.chunk = (uint16_t)own[at->chunk],
		.previous = (uint16_t)own[at->previous],
		.code = (uint16_t)own[at->code],
		.mark = (uint16_t)own[at->owner],
		.file = (uint16_t)own[at->file],
		.name = (uint16_t)own[at->name],
		.first_line = (uint16_t)own[at->first_line],
		.state = (uint16_t)own[at->state],
		.length = (uint16_t)own[at->length],
		.ascii = (uint16_t)own[at->ascii],
		.compact = (uint16_t)(own[at->ascii] + 16),
		.gil = (uint16_t)own[at->gil],
		.type = (uint16_t)own[at->type],
		.kind = p->free_threaded && p->minor >= 14 ? 8 : 2,
	};
	if (layout_fits(&p->at))
		return 0;
	snprintf(why, size, "this Python 3.%d has its stacks in places not known to this moescope",
		 p->minor);
	return -ENOTSUP;
}

/* By the interpreter's own word, which 3.11 and later have, or by the name of its file. */
static int find_version(const struct python *p, uint64_t at, const char *file)
{
	uint64_t version = 0;

	if (at && read_word(p, at, &version) && version >> 24 == 3)
		return (int)(version >> 16 & 0xff);
	file = strstr(file, "python3.");
	return file ? (int)strtol(file + strlen("python3."), NULL, 10) : -1;
}

/* Of a Python whose version and places are known. */
static int take_layout(struct python *p, char *why, size_t size)
{
	if (p->minor >= 13)
		return take_own_table(p, why, size);
	if (p->minor < 9) {
		snprintf(why, size, "stacks of Python 3.%d are not known to this moescope",
			 p->minor);
		return -ENOTSUP;
	}
	p->at = layouts[p->minor];
	return 0;
}

static int find_layout(struct python *p, char *why, size_t size)
{
	struct found_symbol symbols[] = { { .name = "_PyRuntime" },
					  { .name = "PyCode_Type" },
					  { .name = "Py_Version" } };
	char file[512];
	int r = find_symbols(p->pid, "python", symbols, 3, file, sizeof(file));

	if (r < 0)
		return r;
	p->runtime = symbols[0].at;
	p->code_type = symbols[1].at;
	p->minor = find_version(p, symbols[2].at, file);
	return take_layout(p, why, size);
}

static struct python *python_new(pid_t pid, int tries)
{
	struct python *p = calloc(1, sizeof(*p));
	struct scratch *scratch = calloc(1, sizeof(*scratch));

	if (!p || !scratch) {
		free(p);
		free(scratch);
		return NULL;
	}
	*p = (struct python){ .pid = pid, .tries = tries, .scratch = scratch };
	return p;
}

/* Whether it has become one: else it is gone. */
static int python_opened(struct python *p, int r, struct python **ret_python)
{
	if (r == 0)
		*ret_python = p;
	else
		python_close(p);
	return r;
}

int python_open(struct python **ret_python, pid_t pid, char *why, size_t size)
{
	struct python *p = python_new(pid, TRIES);

	why[0] = '\0';
	return p ? python_opened(p, find_layout(p, why, size), ret_python) : -ENOMEM;
}

int python_open_here(struct python **ret_python, const struct python_here *here)
{
	struct python *p = python_new(getpid(), 1);
	char why[100];

	if (!p)
		return -ENOMEM;
	p->minor = here->minor;
	p->runtime = here->runtime;
	p->code_type = here->code_type;
	return python_opened(p, take_layout(p, why, sizeof(why)), ret_python);
}

void python_close(struct python *p)
{
	if (!p)
		return;
	free(p->scratch);
	free(p->codes);
	hash_map_release(&p->by_address);
	interned_release(&p->labels);
	free(p);
}

int python_minor(const struct python *p)
{
	return p->minor;
}

bool python_is_free_threaded(const struct python *p)
{
	return p->free_threaded;
}

/* The kernel's number of a thread of which only the C library's is known: it is in what that points to. */
static pid_t native_thread(const struct python *p, uint64_t thread_id)
{
#if defined(__x86_64__)
	enum { ID_IN_THREAD = 720 };
#else
	enum { ID_IN_THREAD = 208 };
#endif
	int32_t id = 0;

	return peer_read(p->pid, thread_id + ID_IN_THREAD, &id, sizeof(id)) ? id : 0;
}

/* The lock of an interpreter, if what is there looks like one: how long a thread keeps it, who has it, and
 * whether anybody has (-1: not set up yet). */
static uint64_t find_gil(const struct python *p, uint64_t interpreter)
{
	struct {
		uint64_t interval_us, holder;
		int32_t locked;
	} lock;
	uint64_t at = p->runtime + p->at.gil, enabled = 1;

	if (p->minor >= 12 && !read_word(p, interpreter + p->at.gil, &at))
		return 0;
	if (!at || at % 8)
		return 0;
	/* Whether it is used then comes before it. */
	if (p->free_threaded && (!read_word(p, at, &enabled) || !(uint32_t)enabled))
		return 0;
	if (!peer_read(p->pid, at + (p->free_threaded ? 8 : 0), &lock, 20) || !lock.interval_us ||
	    lock.interval_us > UINT32_MAX || lock.locked < -1 || lock.locked > 1)
		return 0;
	return at;
}

/* What tells the states of threads apart: the kernel's number or the C library's. */
static uint16_t word_in_state(const struct python *p)
{
	return p->at.native_id ? p->at.native_id : p->at.thread_id;
}

bool python_thread_here(const struct python *p, uint64_t state, struct python_thread *ret_thread)
{
	*ret_thread = (struct python_thread){ .state = state };
	return read_word(p, state + word_in_state(p), &ret_thread->word);
}

int python_threads(struct python *p, struct python_thread *threads, size_t most)
{
	uint64_t interpreter, state, id, gil;
	int n = 0;

	if (!read_word(p, p->runtime + p->at.interpreters, &interpreter))
		return -ESRCH;
	p->interpreter = interpreter;
	for (int i = 0; interpreter && i < INTERPRETERS_MOST && n < THREADS_MOST; i++) {
		if (!read_word(p, interpreter + p->at.first_thread, &state))
			return n;
		if (i == 0)
			p->first_thread = state;
		else
			p->interpreter = 0;
		gil = find_gil(p, interpreter);
		for (; state && n < THREADS_MOST; n++) {
			uint64_t next;
			const struct peer_part parts[] = { { state + word_in_state(p), &id, 8 },
							   { state + p->at.next_thread, &next,
							     8 } };

			if (!peer_read_parts(p->pid, parts, 2))
				return n;
			if ((size_t)n < most)
				threads[n] = (struct python_thread){
					.id = p->at.native_id ? (pid_t)id : native_thread(p, id),
					.state = state,
					.word = id,
					.gil = gil
				};
			state = next;
		}
		if (!read_word(p, interpreter + p->at.next_interpreter, &interpreter))
			return n;
	}
	return n;
}

/* The main interpreter: the list may begin with others, but it is the one inside the runtime. */
static uint64_t main_interpreter(const struct python *p, const uint64_t *own)
{
	uint64_t at, id;

	if (!read_word(p, p->runtime + p->at.interpreters, &at))
		return 0;
	for (int i = 0; at && i < THREADS_MOST; i++) {
		if (!read_word(p, at + own[OWN_INTERPRETER_ID], &id))
			return 0;
		if (id == 0)
			return at > p->runtime && at + own[OWN_INTERPRETER_BYTES] <=
							  p->runtime + own[OWN_RUNTIME_BYTES]
				       ? at
				       : 0;
		if (!read_word(p, at + p->at.next_interpreter, &at))
			return 0;
	}
	return 0;
}

/* The state of the process's main thread in it, if it is the one inside the interpreter: others are freed. */
static uint64_t main_state(const struct python *p, const uint64_t *own, uint64_t interpreter)
{
	uint64_t state, id;

	if (!read_word(p, interpreter + p->at.first_thread, &state))
		return 0;
	for (int i = 0; state && i < THREADS_MOST; i++) {
		if (!read_word(p, state + p->at.native_id, &id))
			return 0;
		if (id == (uint64_t)p->pid && state > interpreter &&
		    state + own[OWN_THREAD_BYTES] <= interpreter + own[OWN_INTERPRETER_BYTES])
			return state;
		if (!read_word(p, state + p->at.next_thread, &state))
			return 0;
	}
	return 0;
}

/* What is to be written lies in the state. */
static bool fits_state(const uint64_t *own)
{
	uint64_t bytes = own[OWN_THREAD_BYTES], support = own[OWN_SUPPORT];

	return bytes <= UINT16_MAX && support < bytes && own[OWN_BREAKER] < bytes &&
	       own[OWN_PENDING] < bytes - support - 4 && own[OWN_PATH] < bytes - support &&
	       own[OWN_PATH_BYTES] <= bytes - support - own[OWN_PATH] &&
	       own[OWN_ENABLED] < own[OWN_INTERPRETER_BYTES];
}

int python_script_place(const struct python *p, struct python_script_place *ret_place)
{
	uint64_t own[OWN_WORDS], interpreter, state, finalizing;
	int32_t enabled;

	if (p->minor != OWN_LAST)
		return -ENOTSUP;
	if (!peer_read(p->pid, p->runtime, own, sizeof(own)))
		return -ESRCH;
	if (!fits_state(own))
		return -ENOTSUP;
	if (!read_word(p, p->runtime + own[OWN_FINALIZING], &finalizing) || finalizing)
		return -ESRCH;
	interpreter = main_interpreter(p, own);
	state = interpreter ? main_state(p, own, interpreter) : 0;
	if (!state || !peer_read(p->pid, interpreter + own[OWN_ENABLED], &enabled, sizeof(enabled)))
		return -ESRCH;
	*ret_place = (struct python_script_place){
		.off = enabled != 1,
		.free_threaded = p->free_threaded,
		.flag = state + own[OWN_SUPPORT] + own[OWN_PENDING],
		.path = state + own[OWN_SUPPORT] + own[OWN_PATH],
		.path_bytes = own[OWN_PATH_BYTES],
		.breaker = state + own[OWN_BREAKER],
	};
	return 0;
}

bool python_has_new_threads(const struct python *p)
{
	uint64_t interpreter, state;
	const struct peer_part parts[] = {
		{ p->runtime + p->at.interpreters, &interpreter, 8 },
		{ p->interpreter + p->at.first_thread, &state, 8 },
	};

	return !p->interpreter || !peer_read_parts(p->pid, parts, 2) ||
	       interpreter != p->interpreter || state != p->first_thread;
}

/* UTF-8 of a string object, cut to fit; false: it is none. */
static bool read_text(const struct python *p, uint64_t at, char *out, size_t size)
{
	char object[TEXT_MOST + STRING_BYTES];
	uint64_t length;
	uint32_t state;
	size_t from, n = 0, out_n = 0, kind;

	if (!at || !peer_read(p->pid, at, object, STRING_BYTES))
		return false;
	memcpy(&length, object + p->at.length, 8);
	memcpy(&state, object + p->at.state, 4);
	/* kind: 3 bits, compact, ascii */
	state >>= p->at.kind;
	kind = state & 7;
	if (!(state >> 3 & 1) || (kind != 1 && kind != 2 && kind != 4) || length > 1 << 20)
		return false;
	from = state >> 4 & 1 ? p->at.ascii : p->at.compact;
	n = length < TEXT_MOST / kind ? length : TEXT_MOST / kind;
	if (!peer_read(p->pid, at + from, object, n * kind))
		return false;
	for (size_t i = 0; i < n && out_n + 5 < size; i++) {
		uint32_t c = 0;

		memcpy(&c, object + i * kind, kind);
		if (c < 0x80) {
			out[out_n++] = (char)(c < ' ' || c == 0x7f ? '?' : c);
		} else if (c < 0x800) {
			out[out_n++] = (char)(0xc0 | c >> 6);
			out[out_n++] = (char)(0x80 | (c & 0x3f));
		} else if (c < 0x10000) {
			out[out_n++] = (char)(0xe0 | c >> 12);
			out[out_n++] = (char)(0x80 | (c >> 6 & 0x3f));
			out[out_n++] = (char)(0x80 | (c & 0x3f));
		} else if (c < 0x110000) {
			out[out_n++] = (char)(0xf0 | c >> 18);
			out[out_n++] = (char)(0x80 | (c >> 12 & 0x3f));
			out[out_n++] = (char)(0x80 | (c >> 6 & 0x3f));
			out[out_n++] = (char)(0x80 | (c & 0x3f));
		}
	}
	out[out_n] = '\0';
	return true;
}

/* The end of a path that says enough: "torch/nn/modules/linear.py". */
static const char *shortened(const char *path)
{
	static const char *const roots[] = { "/site-packages/", "/dist-packages/",
					     "/lib/python3." };
	const char *slash;

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		const char *found = strstr(path, roots[i]);

		if (!found)
			continue;
		found += strlen(roots[i]);
		slash = i == 2 ? strchr(found, '/') : NULL;
		return slash ? slash + 1 : found;
	}
	slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static uint32_t label(struct python *p, const struct code *code)
{
	char name[NAME_MOST], file[TEXT_MOST], text[NAME_MOST + TEXT_MOST + 16];

	if (!read_text(p, code->name, name, sizeof(name)) ||
	    !read_text(p, code->file, file, sizeof(file)))
		return 0;
	snprintf(text, sizeof(text), "%s (%s:%d)", name, shortened(file), (int)code->first_line);
	return interned_id(&p->labels, text, strlen(text));
}

static struct code *find_code(struct python *p, uint64_t at)
{
	struct hash_walk walk = hash_map_walk(&p->by_address, hash_word(at));
	uint32_t i;

	while ((i = hash_map_next(&p->by_address, &walk)))
		if (p->codes[i - 1].at == at)
			return &p->codes[i - 1];
	return NULL;
}

/* The name of the function that a code object is of; 0: it is none. */
static uint32_t name_of(struct python *p, uint64_t at)
{
	struct code now = { .at = at, .looked_ns = p->now_ns }, *known = find_code(p, at);
	uint64_t type;
	const struct peer_part parts[] = { { at + p->at.type, &type, 8 },
					   { at + p->at.file, &now.file, 8 },
					   { at + p->at.name, &now.name, 8 },
					   { at + p->at.first_line, &now.first_line, 4 } };

	if (known && known->looked_ns == p->now_ns)
		return known->label;
	if (!at || !peer_read_parts(p->pid, parts, 4) || type != p->code_type)
		return 0;
	now.label = label(p, &now);
	if (known)
		*known = now;
	else if (now.label &&
		 array_grow(&p->codes, &p->codes_capacity, p->n_codes + 1, sizeof(*p->codes)) ==
			 0 &&
		 hash_map_add(&p->by_address, hash_word(at), (uint32_t)p->n_codes + 1) == 0)
		p->codes[p->n_codes++] = now;
	return now.label;
}

/* From 3.14 on the lowest bits say whose reference it is. */
static uint64_t code_of(const struct python *p, const struct frame *f)
{
	return p->minor >= 14 ? f->code & ~UINT64_C(3) : f->code;
}

/* Between C and Python, without a function. */
static bool is_border(const struct python *p, const struct frame *f)
{
	return p->minor >= 12 && f->mark >= OWNED_BY_C_STACK;
}

/* Whether C has entered the function of frame i; up to 3.10 it has entered all. */
static bool is_entry(const struct python *p, const struct frame *frames, size_t n, size_t i)
{
	if (p->minor < 11)
		return true;
	return p->minor == 11 ? frames[i].mark : i + 1 < n && is_border(p, &frames[i + 1]);
}

static size_t frame_parts(const struct python *p, struct frame *f, struct peer_part *parts)
{
	parts[0] = (struct peer_part){ f->at + p->at.previous, &f->previous, 8 };
	parts[1] = (struct peer_part){ f->at + p->at.code, &f->code, 8 };
	if (!p->at.mark)
		return 2;
	parts[2] = (struct peer_part){ f->at + p->at.mark, &f->mark, 1 };
	return 3;
}

static int innermost(const struct python *p, const struct python_thread *t,
		     struct python_place *place)
{
	uint64_t word;
	const struct peer_part parts[] = { { t->state + p->at.frame, &place->frame, 8 },
					   { t->state + word_in_state(p), &word, 8 } };

	if (!peer_read_parts(p->pid, parts, 2))
		return -ESRCH;
	if (word != t->word)
		return -ESTALE;
	place->c_frame = place->frame;
	if (p->at.frame_in_c_frame >= 0 && place->frame &&
	    !read_word(p, place->c_frame + (uint64_t)p->at.frame_in_c_frame, &place->frame))
		return -ESRCH;
	return 0;
}

static bool in_block(const struct block *block, uint64_t at)
{
	return block->bytes >= FRAME_BYTES && at - block->start <= block->bytes - FRAME_BYTES;
}

static void frame_in_copy(const struct python *p, const struct block *block, int copy,
			  struct frame *f)
{
	const char *at = block->copies[copy] + (f->at - block->start);

	memcpy(&f->previous, at + p->at.previous, 8);
	memcpy(&f->code, at + p->at.code, 8);
	f->mark = (uint8_t)at[p->at.mark];
}

static bool read_frame(const struct python *p, const struct block *block, struct frame *f)
{
	struct peer_part parts[3];

	if (!in_block(block, f->at))
		return peer_read_parts(p->pid, parts, frame_parts(p, f, parts));
	frame_in_copy(p, block, 0, f);
	return true;
}

/* Only where there is memory for certain: from the chunk on, up to the end of the page. A frame of a generator is
 * in no chunk. */
static void place_block(struct block *block, const struct python_place *place)
{
	uint64_t near = place->frame;
	uint64_t from = near - place->chunk < CHUNK_MOST ? place->chunk
							 : near & ~(uint64_t)(PAGE - 1);
	uint64_t to = ((near + FRAME_BYTES - 1) | (PAGE - 1)) + 1;

	block->start = near - from > BLOCK_BELOW ? near - BLOCK_BELOW : from;
	block->bytes = to - block->start < BLOCK_BYTES ? to - block->start : BLOCK_BYTES;
}

/* A block around the innermost frame in one call, which takes a microsecond or two: in most programs no
 * function begins or ends meanwhile. True: the frame is the same before and after, and in the block. */
static bool read_block(const struct python *p, const struct python_thread *t,
		       struct python_place *place, struct block *block)
{
	uint64_t state = t->state, word, slot[2], in_c_frame[2] = { 0, 0 }, before = place->c_frame;
	bool indirect = p->at.frame_in_c_frame >= 0;
	struct peer_part parts[8];
	size_t n = 0;

	place_block(block, place);
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			parts[n++] = (struct peer_part){ state + p->at.frame, &slot[0], 8 };
		if (indirect)
			parts[n++] = (struct peer_part){ before + (uint64_t)p->at.frame_in_c_frame,
							 &in_c_frame[i], 8 };
		parts[n++] = (struct peer_part){ block->start, block->copies[i], block->bytes };
	}
	parts[n++] = (struct peer_part){ state + p->at.frame, &slot[1], 8 };
	parts[n++] = (struct peer_part){ state + p->at.chunk, &place->chunk, 8 };
	parts[n++] = (struct peer_part){ state + word_in_state(p), &word, 8 };
	if (!peer_read_parts(p->pid, parts, n)) {
		block->bytes = 0;
		return false;
	}
	place->c_frame = indirect ? slot[1] : 0;
	place->frame = indirect ? in_c_frame[1] : slot[1];
	return word == t->word && slot[0] == slot[1] && in_c_frame[0] == in_c_frame[1] &&
	       (!indirect || slot[0] == before) && in_block(block, place->frame);
}

/* The frames from the innermost outwards. false: they make no sense, as they are changing. */
static bool walk(const struct python *p, uint64_t at, const struct block *block,
		 struct frame *frames, size_t *ret_n)
{
	size_t n = 0;

	for (; at && n < STACK_MOST; at = frames[n++].previous) {
		frames[n] = (struct frame){ .at = at };
		if (at % 8 || !read_frame(p, block, &frames[n]) || !code_of(p, &frames[n]) ||
		    code_of(p, &frames[n]) % 8)
			return false;
	}
	/* A generator that is being entered or left has lost its callers for a moment: C is always outermost. */
	if (n && !at && !is_border(p, &frames[n - 1]) && p->minor >= 12)
		return false;
	*ret_n = n;
	return true;
}

/* How many of the innermost frames have changed since they were read. */
static size_t count_changed(const struct python *p, const struct block *block,
			    const struct frame *frames, size_t n)
{
	struct frame now[PEER_PARTS / 3];
	struct peer_part parts[PEER_PARTS];
	size_t n_parts = 0, changed = 0;

	if (n > PEER_PARTS / 3)
		n = PEER_PARTS / 3;
	for (size_t i = 0; i < n; i++) {
		now[i] = (struct frame){ .at = frames[i].at };
		if (in_block(block, now[i].at))
			frame_in_copy(p, block, 1, &now[i]);
		else
			n_parts += frame_parts(p, &now[i], parts + n_parts);
	}
	if (n_parts && !peer_read_parts(p->pid, parts, n_parts))
		return n;
	for (size_t i = 0; i < n; i++)
		if (now[i].previous != frames[i].previous || now[i].code != frames[i].code)
			changed = i + 1;
	return changed;
}

/* One try. True: nothing has changed while it was read; otherwise *ret_changed of the innermost have. */
static bool read_stack(const struct python *p, const struct python_thread *t,
		       struct python_place *place, struct frame *frames, size_t *ret_n,
		       size_t *ret_changed)
{
	struct block *block = &p->scratch->block;
	uint64_t now;
	bool same, whole = false;

	block->bytes = 0;
	*ret_n = *ret_changed = 0;
	/* The place may be that of the last look: a second block costs less than frame after frame. */
	for (int i = 0; i < 2 && p->at.chunk && !whole; i++) {
		if (i && (innermost(p, t, place) < 0 || !place->frame))
			return false;
		whole = read_block(p, t, place, block);
	}
	if (!whole) {
		block->bytes = 0;
		if (innermost(p, t, place) < 0)
			return false;
	}
	if (!walk(p, place->frame, block, frames, ret_n))
		return false;
	*ret_changed = count_changed(p, block, frames, *ret_n);
	same = *ret_changed == 0;
	/* Frames outside the block are outer ones: they last longer than those inside. */
	now = place->frame;
	if (same && !whole)
		same = innermost(p, t, place) == 0 && place->frame == now;
	*ret_changed += !same && !*ret_changed && *ret_n;
	return same;
}

/* Whether the memory of known code objects still has them. Those that it has not are read again by name_of. */
static void compare_codes(struct python *p, struct code *const *codes, size_t n)
{
	struct peer_part parts[CODES_AT_ONCE];
	char(*copies)[CODE_BYTES] = p->scratch->codes;
	uint16_t last = p->at.name > p->at.file ? p->at.name : p->at.file;
	bool readable;

	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct peer_part){ codes[i]->at, copies[i], last + 8 };
	readable = peer_read_parts(p->pid, parts, n);
	for (size_t i = 0; i < n; i++) {
		struct code now = { 0 };
		uint64_t type = 0;

		if (readable) {
			memcpy(&type, copies[i] + p->at.type, 8);
			memcpy(&now.file, copies[i] + p->at.file, 8);
			memcpy(&now.name, copies[i] + p->at.name, 8);
			memcpy(&now.first_line, copies[i] + p->at.first_line, 4);
		}
		if (type != p->code_type || now.file != codes[i]->file ||
		    now.name != codes[i]->name || now.first_line != codes[i]->first_line)
			codes[i]->looked_ns = 0;
	}
}

/* In as few calls as can be: a stack has many functions. */
static void check_codes(struct python *p, const struct frame *frames, size_t n)
{
	struct code *codes[CODES_AT_ONCE];
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct code *code = find_code(p, code_of(p, &frames[i]));

		if (!code || code->looked_ns == p->now_ns)
			continue;
		code->looked_ns = p->now_ns;
		codes[kept++] = code;
		if (kept == CODES_AT_ONCE) {
			compare_codes(p, codes, kept);
			kept = 0;
		}
	}
	compare_codes(p, codes, kept);
}

/* False: one of them is no function's; *ret_n are those before. */
static bool name_frames(struct python *p, const struct frame *frames, size_t n,
			struct python_function *functions, size_t most, size_t *ret_n)
{
	*ret_n = 0;
	check_codes(p, frames, n);
	for (size_t i = 0; i < n && *ret_n < most; i++) {
		struct python_function function = { .entry = is_entry(p, frames, n, i) };

		if (is_border(p, &frames[i]))
			continue;
		function.name = name_of(p, code_of(p, &frames[i]));
		if (!function.name)
			return false;
		functions[(*ret_n)++] = function;
	}
	return true;
}

int python_stack(struct python *p, struct python_thread *thread, struct python_function *functions,
		 size_t most, size_t *ret_n)
{
	const struct timespec moment = { .tv_nsec = 20000 };
	struct frame *frames = p->scratch->frames;
	size_t n = 0, changed = 0;
	struct python_place *place = &thread->place;
	bool same = false;

	*ret_n = 0;
	p->now_ns = clock_monotonic_ns();
	for (int i = 0; i < p->tries && !same; i++) {
		/* It may be waiting for the processor that this runs on, in the middle of a call. */
		if (i && i % TRIES_AT_ONCE == 0)
			nanosleep(&moment, NULL);
		if (i || !place->frame) {
			int r = innermost(p, thread, place);

			if (r < 0)
				return r;
		}
		if (!place->frame)
			return 0;
		same = read_stack(p, thread, place, frames, &n, &changed) &&
		       name_frames(p, frames, n, functions, most, ret_n);
	}
	/* What had not changed in the last try. */
	if (!same && !name_frames(p, frames + changed, n - changed, functions, most, ret_n))
		*ret_n = 0;
	return same ? 0 : -EAGAIN;
}

const char *python_name(const struct python *p, uint32_t name)
{
	return interned_key(&p->labels, name);
}

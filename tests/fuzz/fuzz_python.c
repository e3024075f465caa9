/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's structures in a process whose memory is the input, at BASE, with its runtime at the beginning. So that
 * reads can be answered from there, the source itself is included. An input:
 *   1 byte    minor version - 9; and TORN: the second half of the memory's bytes is the same memory at another time
 *   8 bytes   which of the reads, counted modulo 64, see that other time
 *   the memory
 * Called with the environment variable MOESCOPE_SEED_FILE set, it writes that file for each version, "-9" and so on
 * behind its name.
 */
#define peer_read peer_read_fuzzed
#define peer_read_parts peer_read_parts_fuzzed
#include "host/stacks/python_stack.c" /* NOLINT(bugprone-suspicious-include) */

#include "fuzz.h"

#define BASE UINT64_C(0x10000)
#define CODE_TYPE (BASE + 0x400)
#define TORN 8u
#define HEADER_BYTES 9
#define MEMORY_MOST 8192
#define THREADS 16

static struct {
	const uint8_t *bytes[2];
	size_t size;
	uint64_t pattern, reads;
} memory;

bool peer_read_parts_fuzzed(pid_t pid, const struct peer_part *parts, size_t n)
{
	(void)pid;
	if (n > PEER_PARTS)
		abort();
	for (size_t i = 0; i < n; i++) {
		uint64_t at = parts[i].from - BASE;
		unsigned int time = memory.pattern >> memory.reads++ % 64 & 1;

		if (at > memory.size || parts[i].bytes > memory.size - at)
			return false;
		memcpy(parts[i].to, memory.bytes[time] + at, parts[i].bytes);
	}
	return true;
}

bool peer_read_fuzzed(pid_t pid, uint64_t from, void *to, size_t bytes)
{
	return peer_read_parts_fuzzed(pid, &(struct peer_part){ from, to, bytes }, 1);
}

/* ---- a seed */

/* Where things are in it. */
enum {
	LOCK = 0x420,
	INTERPRETER = 0x500,
	STATES = 0x700,
	STATE_BYTES = 0x140,
	C_FRAME = 0x980,
	CHUNK = 0x9a0,
	FRAMES = 0xa00,
	FRAME_STEP = 0x60,
	CODES = 0xc00,
	CODE_STEP = 0x90,
	TEXTS = 0xe00,
	TEXT_STEP = 0x60,
	SEED_BYTES = 0x1100
};

static void put(char *image, size_t at, uint64_t value, size_t bytes)
{
	memcpy(image + at, &value, bytes);
}

static void put_own_table(char *image, int minor, const struct layout *at)
{
	const struct own_words *words = &own_words[minor];

	memcpy(image, OWN_COOKIE, 8);
	put(image, OWN_VERSION * 8, UINT64_C(3) << 24 | (uint64_t)minor << 16, 8);
#define WORD(field) put(image, words->field * 8u, at->field, 8)
	WORD(interpreters);
	WORD(next_interpreter);
	WORD(first_thread);
	WORD(gil);
	WORD(next_thread);
	WORD(frame);
	WORD(thread_id);
	WORD(native_id);
	WORD(chunk);
	WORD(previous);
	WORD(code);
	WORD(file);
	WORD(name);
	WORD(first_line);
	WORD(state);
	WORD(length);
	WORD(ascii);
#undef WORD
	put(image, words->owner * 8u, at->mark, 8);
}

/* A text of each width, and one that is short. */
static void put_texts(char *image, const struct layout *at)
{
	static const struct {
		unsigned int kind, ascii;
	} kinds[] = { { 1, 1 }, { 2, 0 }, { 4, 0 }, { 1, 0 } };

	for (unsigned int i = 0; i < 4; i++) {
		size_t text = TEXTS + i * TEXT_STEP;
		size_t from = text + (kinds[i].ascii ? at->ascii : at->compact);

		put(image, text + at->length, 5, 8);
		put(image, text + at->state, kinds[i].kind << 2 | 1u << 5 | kinds[i].ascii << 6, 4);
		for (size_t c = 0; c < 5; c++)
			put(image, from + c * kinds[i].kind,
			    (i == 1   ? 0x20ac
			     : i == 2 ? 0x1f600
			     : i == 3 ? 0xe9
				      : 'a') +
				    c,
			    kinds[i].kind);
	}
}

static void put_threads(char *image, const struct layout *at)
{
	for (unsigned int i = 0; i < 2; i++) {
		size_t state = STATES + i * STATE_BYTES;

		put(image, state + at->next_thread, i ? 0 : BASE + state + STATE_BYTES, 8);
		put(image, state + at->thread_id, BASE + CODES + 8 * i, 8);
		if (at->native_id)
			put(image, state + at->native_id, 11 + i, 8);
		put(image, state + at->frame, BASE + (at->frame_in_c_frame >= 0 ? C_FRAME : FRAMES),
		    8);
		if (at->chunk)
			put(image, state + at->chunk, BASE + CHUNK, 8);
	}
	if (at->frame_in_c_frame >= 0)
		put(image, C_FRAME + (size_t)at->frame_in_c_frame, BASE + FRAMES, 8);
}

static size_t make_seed(int minor, char *image)
{
	struct layout at = layouts[minor < 13 ? minor : 12];

	if (minor >= 13) {
		at.interpreters = 656;
		at.frame_in_c_frame = -1;
		put_own_table(image, minor, &at);
	}
	put(image, at.interpreters, BASE + INTERPRETER, 8);
	put(image, INTERPRETER + at.first_thread, BASE + STATES, 8);
	if (minor >= 12)
		put(image, INTERPRETER + at.gil, BASE + LOCK, 8);
	put(image, minor >= 12 ? LOCK : at.gil, 5000, 8);
	put_threads(image, &at);
	for (unsigned int i = 0; i < 4; i++) {
		size_t frame = FRAMES + i * FRAME_STEP;
		bool last = i == 3;

		put(image, frame + at.previous, last ? 0 : BASE + frame + FRAME_STEP, 8);
		put(image, frame + at.code, BASE + CODES + i % 3 * CODE_STEP, 8);
		if (at.mark)
			put(image, frame + at.mark, last ? OWNED_BY_C_STACK : 0, 1);
	}
	for (unsigned int i = 0; i < 3; i++) {
		size_t code = CODES + i * CODE_STEP;

		put(image, code + 8, CODE_TYPE, 8);
		put(image, code + at.file, BASE + TEXTS, 8);
		put(image, code + at.name, BASE + TEXTS + (i + 1) * TEXT_STEP, 8);
		put(image, code + at.first_line, 7 + i, 4);
	}
	put_texts(image, &at);
	return SEED_BYTES;
}

static void write_seeds(const char *path)
{
	for (int minor = 9; minor <= OWN_LAST; minor++) {
		char image[HEADER_BYTES + MEMORY_MOST] = { (char)(minor - 9) }, name[512];
		size_t size = HEADER_BYTES + make_seed(minor, image + HEADER_BYTES);
		FILE *f;

		snprintf(name, sizeof(name), "%s-%d", path, minor);
		f = fopen(name, "wb");
		if (!f || fwrite(image, 1, size, f) != size)
			abort();
		fclose(f);
	}
}

/* ---- */

static void look(struct python *p)
{
	struct python_function functions[STACK_MOST];
	struct python_thread threads[THREADS], here;
	int n = python_threads(p, threads, THREADS);

	(void)python_has_new_threads(p);
	for (int i = 0; i < n && i < THREADS; i++) {
		for (int look = 0; look < 2; look++) {
			size_t found = 0;

			python_stack(p, &threads[i], functions, STACK_MOST, &found);
			for (size_t f = 0; f < found; f++)
				if (!python_name(p, functions[f].name))
					abort();
		}
		(void)python_thread_here(p, threads[i].state, &here);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct python_here here = { .runtime = BASE, .code_type = CODE_TYPE };
	struct python *p;

	if (getenv("MOESCOPE_SEED_FILE"))
		write_seeds(getenv("MOESCOPE_SEED_FILE"));
	if (size < HEADER_BYTES)
		return 0;
	here.minor = 9 + data[0] % TORN;
	memcpy(&memory.pattern, data + 1, 8);
	memory.reads = 0;
	memory.size = size - HEADER_BYTES;
	memory.bytes[0] = memory.bytes[1] = data + HEADER_BYTES;
	if (data[0] & TORN) {
		memory.size /= 2;
		memory.bytes[1] += memory.size;
	}
	if (python_open_here(&p, &here) < 0)
		return 0;
	p->tries = 3;
	look(p);
	python_close(p);
	return 0;
}

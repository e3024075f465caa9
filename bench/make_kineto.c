/* SPDX-License-Identifier: Apache-2.0
 *
 * A PyTorch (Kineto) trace of any size: a recorded training step, again and again. Events keep every
 * byte of the recording but the times, which go on, the ids, which go on as well, and the durations
 * of kernels, which differ from step to step. As in a real trace the operations of all steps come
 * first, then the Python functions, then calls, kernels and flows.
 *
 *   bench-make-kineto DATA_DIR OUT.json BYTES [STYLE]
 *
 * STYLE: torch2 (default) as torch 2.11 writes it, without Python functions; stacks: with them;
 *        compact: torch2 without a blank between things; old: categories of 2021 and whole
 *        microseconds
 *
 * Prints what was written: kernels, their total time, steps and bytes; OUT.json may be /dev/stdout,
 * this goes to standard error then.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "samples.h"

#define BUFFER_BYTES ((size_t)4 << 20)
#define GAP_NS 100000

/* What follows the bytes of a piece. */
enum field {
	FIELD_NONE,
	FIELD_TS,
	FIELD_DUR,	  /* stays */
	FIELD_KERNEL_DUR, /* differs */
	FIELD_SPAN,	  /* a time or duration that ends with the last step */
	FIELD_STEP,
	FIELD_IDS, /* from here on: counters, each with its own stride */
	FIELD_CORRELATION = FIELD_IDS,
	FIELD_EXTERNAL,
	FIELD_FLOW,
	FIELD_INDEX,
	FIELD_SEQUENCE,
	FIELD_PYTHON,
	FIELDS
};

static const struct {
	const char *key;
	enum field field;
} KEYS[] = {
	{ "ts", FIELD_TS },
	{ "dur", FIELD_DUR },
	{ "correlation", FIELD_CORRELATION },
	{ "External id", FIELD_EXTERNAL },
	{ "id", FIELD_FLOW },
	{ "Ev Idx", FIELD_INDEX },
	{ "Sequence number", FIELD_SEQUENCE },
	{ "Python id", FIELD_PYTHON },
	{ "Python parent id", FIELD_PYTHON },
};

static const struct {
	const char *now, *then;
} OLD_NAMES[] = {
	{ "cpu_op", "Operator" },     { "user_annotation", "Operator" },
	{ "kernel", "Kernel" },	      { "cuda_runtime", "Runtime" },
	{ "cuda_driver", "Runtime" }, { "gpu_memcpy", "Memcpy" },
	{ "gpu_memset", "Memset" },   { "ac2g", "async" },
};

enum class { CLASS_HOST, CLASS_PYTHON, CLASS_DEVICE, CLASS_ONCE, CLASSES };

struct piece {
	size_t at, length; /* in the text of its class */
	enum field field;
	int64_t value;
};

struct text {
	char *bytes;
	size_t n, most;
	struct piece *pieces;
	size_t n_pieces, most_pieces;
	size_t piece_start, number_bytes;
};

static struct {
	bool python, compact, old;
	struct text texts[CLASSES];
	int64_t period_ns, strides[FIELDS];
	int fd;
	char *buffer;
	size_t used;
	bool any_event;
	uint64_t bytes, kernels, kernel_ns, steps;
} maker;

static void die(const char *what, int error)
{
	fprintf(stderr, "make_kineto: %s: %s\n", what, strerror(error));
	exit(1);
}

static char *read_seed(const char *dir, size_t *ret_bytes)
{
	char path[4096];
	FILE *f;
	char *packed, *text;
	size_t packed_bytes, most = 1 << 20;
	unsigned long long bytes;

	snprintf(path, sizeof(path), "%s/h200-step.json.zst", dir);
	f = fopen(path, "re");
	packed = malloc(most);
	if (!f || !packed)
		die(path, errno);
	packed_bytes = fread(packed, 1, most, f);
	fclose(f);
	bytes = ZSTD_getFrameContentSize(packed, packed_bytes);
	if (packed_bytes == most || bytes == ZSTD_CONTENTSIZE_ERROR ||
	    bytes == ZSTD_CONTENTSIZE_UNKNOWN)
		die(path, EINVAL);
	text = malloc(bytes + 1);
	if (!text)
		die(path, ENOMEM);
	if (ZSTD_decompress(text, bytes, packed, packed_bytes) != bytes)
		die(path, EINVAL);
	text[bytes] = '\0';
	free(packed);
	*ret_bytes = bytes;
	return text;
}

static void text_add(struct text *text, const char *bytes, size_t n)
{
	if (text->n + n > text->most) {
		text->most = (text->n + n) * 2;
		text->bytes = realloc(text->bytes, text->most);
		if (!text->bytes)
			die("text", ENOMEM);
	}
	memcpy(text->bytes + text->n, bytes, n);
	text->n += n;
}

static void piece_end(struct text *text, enum field field, int64_t value)
{
	if (text->n_pieces == text->most_pieces) {
		text->most_pieces = text->most_pieces ? text->most_pieces * 2 : 4096;
		text->pieces = realloc(text->pieces, text->most_pieces * sizeof(*text->pieces));
		if (!text->pieces)
			die("pieces", ENOMEM);
	}
	text->pieces[text->n_pieces++] = (struct piece){
		.at = text->piece_start,
		.length = text->n - text->piece_start,
		.field = field,
		.value = value,
	};
	text->piece_start = text->n;
}

/* The byte after a string that begins at p, its quote. */
static const char *string_end(const char *p)
{
	for (p++; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	return *p ? p + 1 : p;
}

/* Microseconds with decimals as nanoseconds; other numbers as they are. */
static int64_t number(const char **p, bool time)
{
	int64_t value = 0;
	int decimals = 0;

	while (**p >= '0' && **p <= '9')
		value = value * 10 + (*(*p)++ - '0');
	if (!time)
		return value;
	if (**p == '.')
		for ((*p)++; **p >= '0' && **p <= '9'; (*p)++, decimals++)
			if (decimals < 3)
				value = value * 10 + (**p - '0');
	for (; decimals < 3; decimals++)
		value *= 10;
	return value;
}

static bool has(const char *event, const char *end, const char *words)
{
	return memmem(event, (size_t)(end - event), words, strlen(words)) != NULL;
}

static enum field field_of(const char *key, size_t length, const char *event, const char *end)
{
	for (size_t i = 0; i < sizeof(KEYS) / sizeof(KEYS[0]); i++) {
		if (strlen(KEYS[i].key) != length || memcmp(KEYS[i].key, key, length) != 0)
			continue;
		if (KEYS[i].field == FIELD_DUR && has(event, end, "\"cat\": \"kernel\""))
			return FIELD_KERNEL_DUR;
		if (KEYS[i].field == FIELD_FLOW && has(event, end, "\"ac2g\""))
			return FIELD_CORRELATION;
		return KEYS[i].field;
	}
	return FIELD_NONE;
}

static void add_string(struct text *text, const char *string, const char *end)
{
	for (size_t i = 0; maker.old && i < sizeof(OLD_NAMES) / sizeof(OLD_NAMES[0]); i++) {
		size_t length = strlen(OLD_NAMES[i].now);

		if ((size_t)(end - string) == length + 2 &&
		    memcmp(string + 1, OLD_NAMES[i].now, length) == 0) {
			text_add(text, "\"", 1);
			text_add(text, OLD_NAMES[i].then, strlen(OLD_NAMES[i].then));
			text_add(text, "\"", 1);
			return;
		}
	}
	text_add(text, string, (size_t)(end - string));
}

/* One event, from its opening brace to past its closing one, as pieces. */
static void add_event(struct text *text, const char *event, const char *end)
{
	static const char STEP[] = "\"ProfilerStep#";
	bool once = text == &maker.texts[CLASS_ONCE];

	for (const char *p = event; p < end;) {
		const char *string = p, *after;
		enum field field;
		int64_t value;

		if (*p != '"') {
			if (!maker.compact || (*p != ' ' && *p != '\n'))
				text_add(text, p, 1);
			p++;
			continue;
		}
		p = string_end(p);
		if (strncmp(string, STEP, strlen(STEP)) == 0) {
			text_add(text, STEP, strlen(STEP));
			piece_end(text, FIELD_STEP, strtoll(string + strlen(STEP), NULL, 10));
			text_add(text, "\"", 1);
			continue;
		}
		add_string(text, string, p);
		field = field_of(string + 1, (size_t)(p - string) - 2, event, end);
		for (after = p; *after == ' ' || *after == ':'; after++)
			;
		if (field == FIELD_NONE || after == p || *after < '0' || *after > '9')
			continue;
		text_add(text, ": ", maker.compact ? 1 : 2);
		p = after;
		value = number(&p, field < FIELD_IDS);
		if (field >= FIELD_IDS && value >= maker.strides[field])
			maker.strides[field] = value + 1;
		if (once && (field == FIELD_DUR || has(event, end, "\"Record Window End\"")))
			field = FIELD_SPAN;
		text->number_bytes += (size_t)(p - after);
		piece_end(text, field, value);
	}
	/* Whoever writes the next one adds the comma. */
	piece_end(text, FIELD_NONE, 0);
}

static enum class class_of(const char *event, const char *end) {
	static const char *const DEVICE[] = { "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime",
					      "cuda_driver", "ac2g", "gpu_user_annotation" };
	char cat[64];

	if (has(event, end, "\"ph\": \"M\"") || has(event, end, "\"cat\": \"Trace\"") ||
	    has(event, end, "\"s\": \"g\"")) return CLASS_ONCE;
	if (has(event, end, "\"cat\": \"python_function\"")) return CLASS_PYTHON;
	for (size_t i = 0; i < sizeof(DEVICE) / sizeof(DEVICE[0]);
	     i++){ snprintf(cat, sizeof(cat), "\"cat\": \"%s\"", DEVICE[i]);
		   if (has(event, end, cat)) return CLASS_DEVICE; }
return CLASS_HOST;
}

/* The text between events; the caller handles what is before and after them. */
static const char *take_events(const char *p)
{
	while (*p) {
		const char *event;
		int depth = 0;

		while (*p == ' ' || *p == '\n' || *p == ',')
			p++;
		if (*p != '{')
			return p;
		event = p;
		do {
			if (*p == '"') {
				p = string_end(p);
				continue;
			}
			depth += *p == '{';
			depth -= *p == '}';
			p++;
		} while (*p && depth);
		add_event(&maker.texts[class_of(event, p)], event, p);
		if (has(event, p, "\"ProfilerStep#") && has(event, p, "\"user_annotation\"")) {
			const char *dur = memmem(event, (size_t)(p - event), "\"dur\": ", 7);

			if (!dur)
				die("the seed has a step without a duration", EINVAL);
			dur += 7;
			maker.period_ns = number(&dur, true) + GAP_NS;
		}
	}
	return p;
}

static void flush(void)
{
	for (size_t done = 0; done < maker.used;) {
		ssize_t n = write(maker.fd, maker.buffer + done, maker.used - done);

		if (n < 0)
			die("cannot write", errno);
		done += (size_t)n;
	}
	maker.bytes += maker.used;
	maker.used = 0;
}

static void put(const char *bytes, size_t n)
{
	memcpy(maker.buffer + maker.used, bytes, n);
	maker.used += n;
}

static void put_number(uint64_t value)
{
	char digits[20];
	size_t n = sizeof(digits);

	do
		digits[--n] = (char)('0' + value % 10);
	while (value /= 10);
	put(digits + n, sizeof(digits) - n);
}

static void put_time(int64_t ns)
{
	char decimals[4] = { '.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
			     (char)('0' + ns % 10) };

	put_number((uint64_t)ns / 1000);
	if (!maker.old)
		put(decimals, sizeof(decimals));
}

/* Shortens a duration a little, so that it never reaches into the next kernel. */
static int64_t kernel_ns(int64_t recorded_ns)
{
	int64_t ns = recorded_ns - (int64_t)(samples_random() % 8) * (recorded_ns / 64);

	if (maker.old)
		ns = ns / 1000 * 1000;
	maker.kernels++;
	maker.kernel_ns += (uint64_t)ns;
	return ns;
}

static void put_field(const struct piece *piece, int64_t step)
{
	switch (piece->field) {
	case FIELD_NONE:
		break;
	case FIELD_TS:
		put_time(piece->value + step * maker.period_ns);
		break;
	case FIELD_DUR:
		put_time(piece->value);
		break;
	case FIELD_KERNEL_DUR:
		put_time(kernel_ns(piece->value));
		break;
	case FIELD_SPAN:
		put_time(piece->value + (int64_t)(maker.steps - 1) * maker.period_ns);
		break;
	case FIELD_STEP:
		put_number((uint64_t)(piece->value + step));
		break;
	default:
		put_number((uint64_t)(piece->value + step * maker.strides[piece->field]));
	}
}

static void put_events(const struct text *text, int64_t step)
{
	bool open = false;

	for (size_t i = 0; i < text->n_pieces; i++) {
		const struct piece *piece = &text->pieces[i];

		if (maker.used + piece->length + 64 > BUFFER_BYTES)
			flush();
		if (!open && maker.any_event)
			put(maker.compact ? "," : ",\n  ", maker.compact ? 1 : 4);
		else if (!open && !maker.compact)
			put("  ", 2);
		open = true;
		put(text->bytes + piece->at, piece->length);
		put_field(piece, step);
		if (piece->field == FIELD_NONE) {
			maker.any_event = true;
			open = false;
		}
	}
}

static void put_all(uint64_t bytes)
{
	static const enum class ORDER[] = { CLASS_HOST, CLASS_PYTHON, CLASS_DEVICE };
	uint64_t step_bytes = 0;

	/* Numbers do not become shorter, except for the decimals of the old style. */
	for (size_t c = 0; c < CLASS_ONCE; c++)
		if (c != CLASS_PYTHON || maker.python)
			step_bytes += maker.texts[c].n + maker.texts[c].number_bytes;
	maker.steps = (bytes + step_bytes - 1) / step_bytes;
	for (size_t c = 0; c < sizeof(ORDER) / sizeof(ORDER[0]); c++)
		for (uint64_t step = 0; step < maker.steps; step++)
			if (ORDER[c] != CLASS_PYTHON || maker.python)
				put_events(&maker.texts[ORDER[c]], (int64_t)step);
	put_events(&maker.texts[CLASS_ONCE], 0);
}

int main(int argc, char **argv)
{
	static const char EVENTS[] = "\"traceEvents\": [\n";
	const char *style = argc > 4 ? argv[4] : "torch2";
	uint64_t bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	char *seed;
	const char *events, *tail;
	size_t seed_bytes;

	maker.python = strcmp(style, "stacks") == 0;
	maker.compact = strcmp(style, "compact") == 0;
	maker.old = strcmp(style, "old") == 0;
	if (!bytes ||
	    (strcmp(style, "torch2") != 0 && !maker.python && !maker.compact && !maker.old)) {
		fprintf(stderr, "usage: bench-make-kineto DATA_DIR OUT.json BYTES "
				"[torch2|stacks|compact|old]\n");
		return 2;
	}
	seed = read_seed(argv[1], &seed_bytes);
	events = strstr(seed, EVENTS);
	if (!events)
		die("the seed has no events", EINVAL);
	events += strlen(EVENTS);
	tail = take_events(events);
	maker.buffer = malloc(BUFFER_BYTES);
	maker.fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (!maker.buffer || maker.fd < 0)
		die(argv[2], errno);
	put(seed, (size_t)(events - seed));
	put_all(bytes);
	put("\n  ", 3);
	put(tail, seed_bytes - (size_t)(tail - seed));
	flush();
	if (close(maker.fd) < 0)
		die(argv[2], errno);
	fprintf(strcmp(argv[2], "/dev/stdout") == 0 ? stderr : stdout,
		"kernels %" PRIu64 " kernel_ns %" PRIu64 " steps %" PRIu64 " bytes %" PRIu64 "\n",
		maker.kernels, maker.kernel_ns, maker.steps, maker.bytes);
	for (size_t c = 0; c < CLASSES; c++) {
		free(maker.texts[c].bytes);
		free(maker.texts[c].pieces);
	}
	free(maker.buffer);
	free(seed);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * One event of a Kineto trace, in one pass over its bytes. Keys come in any order. As soon as its phase
 * and category tell that it is of no use, the rest is skipped without a look at it, which is what makes
 * a summary of kernels fast: most events are not.
 *
 * What is skipped is not checked, with one exception: a quote too many would turn inside and outside of
 * strings round and hide the events after it. Such a skip runs on far, or over a line's end inside of
 * what it takes for a string; then the event is read again with care.
 */
#include "ingest/kineto/kineto_inside.h"

#include <errno.h>
#include <string.h>

#define SKIP_TRUSTED 8192 /* bytes; events of traces with stacks have about a thousand */

static const struct {
	const char *name;
	enum event_class class;
} categories[] = {
	{ "kernel", CLASS_KERNEL },
	{ "Kernel", CLASS_KERNEL },
	{ "gpu_memcpy", CLASS_COPY },
	{ "Memcpy", CLASS_COPY },
	{ "gpu_memset", CLASS_SET },
	{ "Memset", CLASS_SET },
	{ "cuda_runtime", CLASS_RUNTIME },
	{ "Runtime", CLASS_RUNTIME },
	{ "cuda_driver", CLASS_DRIVER },
	{ "cpu_op", CLASS_OP },
	{ "Operator", CLASS_OLD_OP },
	{ "user_annotation", CLASS_ANNOTATION },
	{ "gpu_user_annotation", CLASS_GPU_ANNOTATION },
	{ "python_function", CLASS_FRAME },
	{ "cpu_instant_event", CLASS_INSTANT },
	{ "cuda_sync", CLASS_SYNC },
	{ "overhead", CLASS_OVERHEAD },
	{ "fwdbwd", CLASS_ARROW },
	{ "forward_backward", CLASS_ARROW },
	{ "ac2g", CLASS_LINK },
	{ "async", CLASS_LINK },
	{ "async_cpu_to_gpu", CLASS_LINK },
	{ "async_gpu", CLASS_LINK },
	{ "moescope", CLASS_RECORD },
	{ "Trace", CLASS_WHOLE },
};

static enum event_class event_class_of(const char *category, size_t length)
{
	for (size_t i = 0; i < sizeof(categories) / sizeof(categories[0]); i++)
		if (strlen(categories[i].name) == length &&
		    !memcmp(categories[i].name, category, length))
			return categories[i].class;
	return CLASS_UNKNOWN;
}

/* The eight bytes of a text, those behind it zero. */
ALWAYS_INLINE uint64_t first_word(const char *p, size_t length)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return length >= 8 ? word : word & ((UINT64_C(1) << 8 * length) - 1);
}

/* Most events are of the few categories that are asked for first. */
static enum event_class classify(struct text category)
{
	const char *p = category.at;

	switch (category.length) {
	case 4:
		if (!memcmp(p, "ac2g", 4))
			return CLASS_LINK;
		break;
	case 6:
		if (!memcmp(p, "kernel", 6))
			return CLASS_KERNEL;
		if (!memcmp(p, "cpu_op", 6))
			return CLASS_OP;
		break;
	case 12:
		if (!memcmp(p, "cuda_runtime", 12))
			return CLASS_RUNTIME;
		break;
	case 15:
		if (!memcmp(p, "python_function", 15))
			return CLASS_FRAME;
		break;
	default:
		break;
	}
	return event_class_of(p, category.length);
}

/* Whether what is known of the event is enough to say that it is of no use. */
static bool useless(const struct reader *r, const struct event *e)
{
	switch (e->phase) {
	case 'X':
	case 'i':
	case 'I':
		return e->class != CLASS_NONE && !r->wanted[e->class];
	case 's':
	case 't':
	case 'f':
		return !r->wanted[CLASS_ARROW] ||
		       (e->class != CLASS_NONE && e->class != CLASS_ARROW &&
			e->class != CLASS_RECORD);
	case 'C':
		return !r->wants_counter && e->class != CLASS_NONE && e->class != CLASS_RECORD;
	default:
		return false;
	}
}

/* p: in the event, after a value. */
static const char *skip_rest(struct reader *r, const struct event *e, const char *p)
{
	const char *limit = r->end - p > SKIP_TRUSTED ? p + SKIP_TRUSTED : r->end;
	bool control = false;
	const char *end = r->scan->object_end(p, limit, 1, &control);

	if (end && !control)
		return end;
	if (!end && limit == r->end) {
		r->why = NULL;
		return NULL;
	}
	return value_skip(r, e->begin);
}

/* A key of an event, by its first bytes with the quote that ends it. */
#define KEY2(a, b) ((uint64_t)(a) | (uint64_t)(b) << 8)
#define KEY3(a, b, c) (KEY2(a, b) | (uint64_t)(c) << 16)
#define KEY4(a, b, c, d) (KEY3(a, b, c) | (uint64_t)(d) << 24)

static const char *read_member(struct reader *r, struct event *e, struct text key, const char *p,
			       struct args *args, bool *args_read_already)
{
	bool known;

	switch (key.length > 4 ? 0 : first_word(key.at, key.length)) {
	case KEY2('p', 'h'): {
		struct text phase;

		p = value_short(r, p, &phase);
		if (p)
			e->phase = phase.length == 1 ? phase.at[0] : 0;
		return p;
	}
	case KEY3('c', 'a', 't'):
		p = value_short(r, p, &e->category);
		if (p)
			e->class = (uint8_t)classify(e->category);
		return p;
	case KEY4('n', 'a', 'm', 'e'):
		return value_text(r, p, &e->name);
	case KEY3('p', 'i', 'd'):
		p = value_label(r, p, &e->process, &known);
		e->has |= known ? EVENT_PROCESS : 0;
		return p;
	case KEY3('t', 'i', 'd'):
		p = value_label(r, p, &e->thread, &known);
		e->has |= known ? EVENT_THREAD : 0;
		return p;
	case KEY2('t', 's'):
		e->has |= EVENT_TIME;
		return value_time(r, p, &e->time_ns);
	case KEY3('d', 'u', 'r'):
		e->has |= EVENT_DURATION;
		return value_time(r, p, &e->duration_ns);
	case KEY2('i', 'd'):
		if (*p == '"') { /* "0x1f" and the like: of no use here */
			e->has &= (uint8_t)~EVENT_ID;
			return value_skip(r, p);
		}
		e->has |= EVENT_ID;
		return value_whole(r, p, &e->id);
	case KEY4('a', 'r', 'g', 's'):
		e->args.at = p;
		if (*p == '{' && e->class != CLASS_NONE && e->class != CLASS_RECORD &&
		    e->phase != 'C') {
			*args_read_already = true;
			p = args_read(r, p, args);
		} else {
			p = value_skip(r, p);
		}
		e->args.end = p;
		return p;
	default:
		return value_skip(r, p);
	}
}

static bool in_range(const struct event *e)
{
	if (e->has & EVENT_TIME && (e->time_ns > TIME_MOST_NS || e->time_ns < -TIME_MOST_NS))
		return false;
	return !(e->has & EVENT_DURATION) || e->duration_ns <= DURATION_MOST_NS;
}

static void take_kineto_event(struct reader *r, struct event *e, const char *end,
			      const struct args *args)
{
	if (r->n_lanes > 1)
		lane_choose_for(r, e);
	if (e->class == CLASS_RECORD) {
		if (kineto_record(r->part, e->begin, (size_t)(end - e->begin)) == -EBADMSG)
			part_damaged(r->part, r->offset + (uint64_t)(e->begin - r->begin),
				     "a record of moescope that cannot be read");
	} else if (e->phase != 'M' && !in_range(e)) {
		part_damaged(r->part, r->offset + (uint64_t)(e->begin - r->begin),
			     "a time that is out of range");
	} else if (e->phase == 'C') {
		rows_add_counters(r, e);
	} else {
		rows_add(r, e, args);
	}
}

const char *event_read(struct reader *r, const char *p)
{
	static const char usual[] = "\"ph\": \"X\", \"cat\": \"";
	struct event e = { .begin = p };
	struct args args;
	bool args_done = false;

	args.has = 0;
	p = skip_blanks(p + 1);
	if (*p == '}')
		return p + 1;
	/* As Kineto begins nearly all of them; the rest is the same for all. */
	if (!memcmp(p, usual, sizeof(usual) - 1)) {
		e.phase = 'X';
		p += sizeof("\"ph\": \"X\", ") - 1;
	}
	for (;;) {
		struct text key;

		p = value_short(r, p, &key);
		if (!p)
			return NULL;
		p = skip_blanks(p);
		if (*p != ':')
			return value_bad(r, p, "no colon after a key");
		p = read_member(r, &e, key, skip_blanks(p + 1), &args, &args_done);
		if (!p)
			return NULL;
		/* Only these two keys tell; they are the only ones of such first letters. */
		if ((key.at[0] == 'p' || key.at[0] == 'c') && useless(r, &e)) {
			p = skip_rest(r, &e, p);
			/* A counter is one whatever its category. */
			if (p && e.class == CLASS_UNKNOWN && e.phase != 'C')
				rows_add_unknown(r, &e);
			return p;
		}
		p = skip_blanks(p);
		if (*p == '}')
			break;
		if (*p != ',')
			return value_bad(r, p, "no comma between two members");
		p = skip_blanks(p + 1);
	}
	p++;
	if (!args_done && e.args.at && *e.args.at == '{' && e.class != CLASS_RECORD &&
	    e.phase != 'C' && !args_read(r, e.args.at, &args))
		return NULL;
	take_kineto_event(r, &e, p, &args);
	return p;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine that a pickle is a program for: a stack, marks in it, and a memo; see pickle.h.
 *
 * Every opcode costs a bounded amount of memory, but for the growth of arrays, which at least
 * doubles them; no function calls itself. So a pickle costs memory and time in proportion to its
 * bytes, however deep it nests and however often it shares.
 */
#include "ingest/torch_memory/pickle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "ingest/torch_memory/pickle_inside.h"

/* Memo places come one after the other from every pickler that is known; this much further is
 * damage, and would cost memory out of proportion. */
#define MEMO_SLACK 1024

struct machine {
	const unsigned char *bytes;
	size_t size, at;
	size_t opcode_at;
	struct pickle_arena *arena;
	struct pickle_value *stack;
	size_t n_stack, stack_capacity;
	size_t *marks; /* how many values lay below each */
	size_t n_marks, marks_capacity;
	struct pickle_value *memo;
	size_t n_memo, memo_capacity; /* n_memo: the largest place that is filled, and one */
	size_t n_filled;
	const char *damage;
	bool no_memory, stopped, code;
};

struct argument {
	uint64_t number;
	const char *text;
	size_t length;
};

static void fail_pickle(struct machine *m, const char *damage)
{
	if (damage == pickle_no_memory)
		m->no_memory = true;
	if (!m->damage)
		m->damage = damage;
}

static void push_value(struct machine *m, struct pickle_value value)
{
	if (array_grow(&m->stack, &m->stack_capacity, m->n_stack + 1, sizeof(*m->stack)) < 0) {
		fail_pickle(m, pickle_no_memory);
		return;
	}
	m->stack[m->n_stack++] = value;
}

/* How many values lie above the last mark, or in all. */
static size_t above_mark(const struct machine *m)
{
	return m->n_stack - (m->n_marks ? m->marks[m->n_marks - 1] : 0);
}

/* The n last values, without them on the stack. They stay where they are until the next push. */
static struct pickle_value *pop_values(struct machine *m, size_t n)
{
	if (above_mark(m) < n) {
		fail_pickle(m, "too few values for an opcode");
		return NULL;
	}
	m->n_stack -= n;
	return m->stack + m->n_stack;
}

static struct pickle_value *pop_to_mark(struct machine *m, size_t *ret_n)
{
	size_t n = above_mark(m);

	if (!m->n_marks) {
		fail_pickle(m, "no mark for an opcode that needs one");
		return NULL;
	}
	m->n_marks--;
	m->n_stack -= n;
	*ret_n = n;
	return m->stack + m->n_stack;
}

static struct pickle_value *top_value(struct machine *m)
{
	if (!above_mark(m)) {
		fail_pickle(m, "too few values for an opcode");
		return NULL;
	}
	return &m->stack[m->n_stack - 1];
}

static void box_add(struct machine *m, struct pickle_box *box, const struct pickle_value *items,
		    size_t n)
{
	if (box->capacity - box->n < n) {
		size_t capacity = box->capacity ? box->capacity + n : n;
		struct pickle_value *grown;

		if (box->capacity && capacity < 2 * box->capacity)
			capacity = 2 * box->capacity;
		grown = pickle_memory(m->arena, capacity * sizeof(*grown));
		if (!grown) {
			fail_pickle(m, pickle_no_memory);
			return;
		}
		if (box->n)
			memcpy(grown, box->items, box->n * sizeof(*grown));
		box->items = grown;
		box->capacity = capacity;
	}
	if (n)
		memcpy(box->items + box->n, items, n * sizeof(*items));
	box->n += n;
}

/* items may be NULL when n is 0. */
static void push_box(struct machine *m, enum pickle_type type, const struct pickle_value *items,
		     size_t n)
{
	struct pickle_box *box;

	if (type == PICKLE_DICT && n % 2) {
		fail_pickle(m, "a key without its value");
		return;
	}
	box = pickle_memory(m->arena, sizeof(*box));
	if (!box) {
		fail_pickle(m, pickle_no_memory);
		return;
	}
	*box = (struct pickle_box){ .offset = m->opcode_at };
	box_add(m, box, items, n);
	push_value(m, (struct pickle_value){ .type = (uint8_t)type, .box = box });
}

static void push_marked(struct machine *m, enum pickle_type type)
{
	size_t n = 0;
	struct pickle_value *items = pop_to_mark(m, &n);

	if (items)
		push_box(m, type, items, n);
}

static void push_popped(struct machine *m, enum pickle_type type, size_t n)
{
	struct pickle_value *items = pop_values(m, n);

	if (items)
		push_box(m, type, items, n);
}

/* items lie above the box on the stack. */
static void extend_box(struct machine *m, enum pickle_type type, const struct pickle_value *items,
		       size_t n)
{
	struct pickle_value *into = m->damage ? NULL : top_value(m);

	if (!into)
		return;
	if (into->type != type)
		fail_pickle(m, "an item for something that takes none");
	else if (type == PICKLE_DICT && n % 2)
		fail_pickle(m, "a key without its value");
	else
		box_add(m, into->box, items, n);
}

static void extend_marked(struct machine *m, enum pickle_type type)
{
	size_t n = 0;
	struct pickle_value *items = pop_to_mark(m, &n);

	extend_box(m, type, items, n);
}

static void extend_popped(struct machine *m, enum pickle_type type, size_t n)
{
	struct pickle_value *items = pop_values(m, n);

	extend_box(m, type, items, n);
}

static void memo_put(struct machine *m, uint64_t place)
{
	const struct pickle_value *value = top_value(m);
	size_t had = m->memo_capacity;

	if (!value)
		return;
	if (place > 2 * (uint64_t)m->n_memo + MEMO_SLACK) {
		fail_pickle(m, "a place in the memo that is far beyond the others");
		return;
	}
	if (array_grow(&m->memo, &m->memo_capacity, (size_t)place + 1, sizeof(*m->memo)) < 0) {
		fail_pickle(m, pickle_no_memory);
		return;
	}
	if (m->memo_capacity > had)
		memset(m->memo + had, 0, (m->memo_capacity - had) * sizeof(*m->memo));
	m->n_filled += m->memo[place].type == PICKLE_ABSENT;
	m->memo[place] = *value;
	if (place >= m->n_memo)
		m->n_memo = (size_t)place + 1;
}

static void memo_get(struct machine *m, uint64_t place)
{
	if (place >= m->n_memo || m->memo[place].type == PICKLE_ABSENT)
		fail_pickle(m, "a place in the memo that was never filled");
	else
		push_value(m, m->memo[place]);
}

static uint64_t little_endian(const unsigned char *bytes, size_t n)
{
	uint64_t number = 0;

	while (n-- > 0)
		number = number << 8 | bytes[n];
	return number;
}

static bool take_bytes(struct machine *m, size_t n, const unsigned char **ret_bytes)
{
	if (m->size - m->at < n) {
		fail_pickle(m, "the file ends inside a value");
		return false;
	}
	*ret_bytes = m->bytes + m->at;
	m->at += n;
	return true;
}

/* Length of the number of each form. */
static const uint8_t form_bytes[] = {
	[FORM_U1] = 1,	     [FORM_U2] = 2,	  [FORM_I4] = 4,
	[FORM_U4] = 4,	     [FORM_U8] = 8,	  [FORM_F8] = 8,
	[FORM_COUNTED1] = 1, [FORM_COUNTED4] = 4, [FORM_COUNTED4_SIGNED] = 4,
	[FORM_COUNTED8] = 8, [FORM_NONE] = 0,	  [FORM_LINE] = 0,
};

static bool read_pickle_line(struct machine *m, struct argument *a)
{
	const unsigned char *from = m->bytes + m->at;
	const unsigned char *end = memchr(from, '\n', m->size - m->at);

	if (!end) {
		fail_pickle(m, "the file ends inside a line");
		return false;
	}
	a->text = (const char *)from;
	a->length = (size_t)(end - from);
	m->at += a->length + 1;
	return true;
}

static bool read_argument(struct machine *m, unsigned int form, struct argument *ret_argument)
{
	struct argument a = { 0 };
	const unsigned char *bytes;

	if (form == FORM_LINE && !read_pickle_line(m, &a))
		return false;
	if (!take_bytes(m, form_bytes[form], &bytes))
		return false;
	a.number = little_endian(bytes, form_bytes[form]);
	if (form == FORM_F8)
		a.number = __builtin_bswap64(a.number);
	if (form == FORM_I4 || form == FORM_COUNTED4_SIGNED)
		a.number = (uint64_t)(int64_t)(int32_t)(uint32_t)a.number;
	if (form >= FORM_COUNTED1) {
		if (a.number > UINT32_MAX) {
			fail_pickle(m, "a length that is negative or beyond 4 GiB");
			return false;
		}
		a.length = (size_t)a.number;
		if (!take_bytes(m, a.length, &bytes))
			return false;
		a.text = (const char *)bytes;
	}
	*ret_argument = a;
	return true;
}

static void push_text(struct machine *m, enum pickle_type type, const struct argument *a)
{
	push_value(m, (struct pickle_value){ .type = (uint8_t)type,
					     .length = (uint32_t)a->length,
					     .text = a->text });
}

/* The bits of an integer or a real number. */
static void push_number(struct machine *m, enum pickle_type type, uint64_t bits)
{
	push_value(m, (struct pickle_value){ .type = (uint8_t)type, .natural = bits });
}

static void push_long(struct machine *m, const struct argument *a)
{
	struct pickle_value value;

	pickle_long((const unsigned char *)a->text, a->length, &value);
	push_value(m, value);
}

static void push_line(struct machine *m, unsigned int opcode, const struct argument *a)
{
	struct pickle_value value;
	const char *damage;

	if (opcode == 'F')
		damage = pickle_line_real(a->text, a->length, &value);
	else if (opcode == 'S')
		damage = pickle_line_quoted(m->arena, a->text, a->length, &value);
	else if (opcode == 'V')
		damage = pickle_line_unicode(m->arena, a->text, a->length, &value);
	else
		damage = pickle_line_integer(a->text, a->length, &value);
	if (damage)
		fail_pickle(m, damage);
	else
		push_value(m, value);
}

static void memo_line(struct machine *m, unsigned int opcode, const struct argument *a)
{
	uint64_t place;
	const char *damage = pickle_line_index(a->text, a->length, &place);

	if (damage)
		fail_pickle(m, damage);
	else if (opcode == 'p')
		memo_put(m, place);
	else
		memo_get(m, place);
}

static void push_mark(struct machine *m)
{
	if (array_grow(&m->marks, &m->marks_capacity, m->n_marks + 1, sizeof(*m->marks)) < 0)
		fail_pickle(m, pickle_no_memory);
	else
		m->marks[m->n_marks++] = m->n_stack;
}

/* POP on a mark takes the mark. */
static void pop_one(struct machine *m)
{
	if (m->n_marks && !above_mark(m))
		m->n_marks--;
	else
		pop_values(m, 1);
}

static void duplicate_top(struct machine *m)
{
	const struct pickle_value *value = top_value(m);

	if (value)
		push_value(m, *value);
}

static void execute_code(struct machine *m, unsigned int code, const struct argument *a)
{
	const struct pickle_opcode *opcode = &pickle_opcodes[code];
	enum pickle_type type = opcode->type;
	size_t n;

	switch ((enum pickle_action)opcode->action) {
	case DO_PROTOCOL:
		if (a->number > PICKLE_PROTOCOL)
			fail_pickle(m, "a protocol beyond 5");
		break;
	case DO_STOP:
		m->stopped = true;
		break;
	case DO_MARK:
		push_mark(m);
		break;
	case DO_POP:
		pop_one(m);
		break;
	case DO_POP_MARK:
		pop_to_mark(m, &n);
		break;
	case DO_DUPLICATE:
		duplicate_top(m);
		break;
	case DO_LINE:
		push_line(m, code, a);
		break;
	case DO_NUMBER:
		push_number(m, type, a->number);
		break;
	case DO_TRUE:
		push_number(m, type, 1);
		break;
	case DO_LONG:
		push_long(m, a);
		break;
	case DO_TEXT:
		push_text(m, type, a);
		break;
	case DO_EMPTY:
		push_box(m, type, NULL, 0);
		break;
	case DO_MARKED:
		push_marked(m, type);
		break;
	case DO_TUPLE:
		push_popped(m, type, code - 0x84); /* TUPLE1, TUPLE2, TUPLE3 */
		break;
	case DO_ADD:
		extend_popped(m, type, type == PICKLE_DICT ? 2 : 1);
		break;
	case DO_ADD_MARKED:
		extend_marked(m, type);
		break;
	case DO_GET:
		memo_get(m, a->number);
		break;
	case DO_PUT:
		memo_put(m, a->number);
		break;
	case DO_MEMOIZE:
		memo_put(m, m->n_filled);
		break;
	case DO_MEMO_LINE:
		memo_line(m, code, a);
		break;
	case DO_NOTHING:
	case DO_REFUSE:
		break;
	}
}

static void run_machine(struct machine *m)
{
	while (!m->stopped && !m->damage) {
		const struct pickle_opcode *opcode;
		struct argument argument;

		m->opcode_at = m->at;
		if (m->at == m->size) {
			fail_pickle(m, "the file ends before the pickle does");
			return;
		}
		opcode = &pickle_opcodes[m->bytes[m->at++]];
		m->code = opcode->action == DO_REFUSE;
		if (m->code)
			return;
		if (!opcode->name)
			fail_pickle(m, "a byte that is not an opcode");
		else if (read_argument(m, opcode->form, &argument))
			execute_code(m, m->bytes[m->opcode_at], &argument);
	}
}

/* values[0..n) belong into the innermost box of a chain of such that each lie in the one before, in
 * pickles that add one item at a time: list, item or dict, key, value. */
static void close_chain(struct machine *m, struct pickle_value into,
			const struct pickle_value *values, size_t n)
{
	while (n) {
		size_t takes = into.type == PICKLE_LIST ? 1 : 2;

		if (takes > n ||
		    (takes == 2 && (into.type != PICKLE_DICT || values[0].type != PICKLE_TEXT)))
			return;
		box_add(m, into.box, values, takes);
		into.box->open = true;
		into = values[takes - 1];
		if (into.type != PICKLE_LIST && into.type != PICKLE_DICT)
			return;
		values += takes;
		n -= takes;
	}
}

/* values[0..n) were above the mark that belongs to the box. */
static void close_marked(struct machine *m, struct pickle_value into,
			 const struct pickle_value *values, size_t n)
{
	size_t pairs = 0;

	into.box->open = true;
	if (into.type == PICKLE_LIST) {
		box_add(m, into.box, values, n);
		return;
	}
	while (2 * pairs + 1 < n && values[2 * pairs].type == PICKLE_TEXT)
		pairs++;
	box_add(m, into.box, values, 2 * pairs);
	/* A text is the next key. */
	if (pairs && 2 * pairs < n && values[2 * pairs].type != PICKLE_TEXT &&
	    pickle_is_box(values[2 * pairs - 1]))
		close_chain(m, values[2 * pairs - 1], values + 2 * pairs, n - 2 * pairs);
}

/* What the stack holds when a pickle ends early, as if it had been completed there. */
static struct pickle_value close_all(struct machine *m)
{
	while (m->n_marks && !m->no_memory) {
		size_t below = m->marks[--m->n_marks];
		struct pickle_value into = below ? m->stack[below - 1] : (struct pickle_value){ 0 };

		if (into.type == PICKLE_LIST || into.type == PICKLE_DICT)
			close_marked(m, into, m->stack + below, m->n_stack - below);
		m->n_stack = below;
	}
	if (!m->n_stack)
		return (struct pickle_value){ 0 };
	if (pickle_is_box(m->stack[0]))
		close_chain(m, m->stack[0], m->stack + 1, m->n_stack - 1);
	return m->stack[0];
}

static void machine_release(struct machine *m)
{
	free(m->stack);
	free(m->marks);
	free(m->memo);
}

int pickle_read(const char *name, const void *bytes, size_t size, struct pickle *ret_pickle,
		struct err *err)
{
	struct pickle pickle = { .arena = pickle_arena_new() };
	struct machine m = { .bytes = bytes, .size = size, .arena = pickle.arena };
	int r = 0;

	if (!pickle.arena)
		return err_set(err, -ENOMEM, "%s: no memory", name);
	/* There is a stack even before the first value: places in it are computed. */
	if (array_grow(&m.stack, &m.stack_capacity, 1, sizeof(*m.stack)) < 0)
		fail_pickle(&m, pickle_no_memory);
	else
		run_machine(&m);
	if (m.stopped && !m.damage && !m.code && (m.n_marks || m.n_stack != 1))
		fail_pickle(&m, "the pickle ends with values left over");
	if (!m.no_memory && !m.code)
		pickle.root = m.damage ? close_all(&m) : m.stack[0];
	pickle.damage = m.damage;
	pickle.damage_offset = m.opcode_at;
	if (m.code)
		r = err_set(err, -EPERM,
			    "%s: contains code (opcode %s at byte %zu); refused: a memory snapshot "
			    "has none",
			    name, pickle_opcodes[m.bytes[m.opcode_at]].name, m.opcode_at);
	else if (m.no_memory)
		r = err_set(err, -ENOMEM, "%s: no memory", name);
	machine_release(&m);
	if (r < 0)
		pickle_release(&pickle);
	else
		*ret_pickle = pickle;
	return r;
}

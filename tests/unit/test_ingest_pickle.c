/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of pickles: each opcode, what it refuses, and pickles that are cut, damaged or made to
 * cost too much. The pickles of tests/fuzz/corpus were written by Python.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <errno.h>

#include "base/buf.h"
#include "failing_alloc.h"
#include "ingest/torch_memory/pickle.h"

#define BYTES(text) text, sizeof(text) - 1
#define DEPTH 8 /* what is written of values; a pickle may lie in itself */

static void write_value(struct buf *out, struct pickle_value v, unsigned int depth)
{
	static const char *const begins[] = { "[", "(", "set(", "{" };
	static const char *const ends[] = { "]", ")", ")", "}" };

	switch ((enum pickle_type)v.type) {
	case PICKLE_ABSENT:
		buf_printf(out, "absent");
		return;
	case PICKLE_NONE:
		buf_printf(out, "None");
		return;
	case PICKLE_BOOL:
		buf_printf(out, v.integer ? "True" : "False");
		return;
	case PICKLE_INT:
		buf_printf(out, "%lld", (long long)v.integer);
		return;
	case PICKLE_UINT:
		buf_printf(out, "%lluu", (unsigned long long)v.natural);
		return;
	case PICKLE_HUGE:
		buf_printf(out, "huge");
		return;
	case PICKLE_FLOAT:
		buf_printf(out, "%.17gf", v.real);
		return;
	case PICKLE_TEXT:
	case PICKLE_BYTES:
		buf_printf(out, v.type == PICKLE_TEXT ? "'" : "b'");
		buf_append(out, v.text, v.length);
		buf_printf(out, "'");
		return;
	default:
		break;
	}
	buf_printf(out, "%s", begins[v.type - PICKLE_LIST]);
	for (size_t i = 0; depth && i < v.box->n; i++) {
		buf_printf(out, "%s", !i ? "" : v.type == PICKLE_DICT && i % 2 ? ":" : ",");
		write_value(out, v.box->items[i], depth - 1);
	}
	buf_printf(out, "%s", ends[v.type - PICKLE_LIST]);
}

static char *words(struct pickle_value v)
{
	struct buf out = { 0 };

	write_value(&out, v, DEPTH);
	buf_append(&out, "", 1);
	assert_false(out.failed);
	return out.data;
}

/* A copy of exactly that length, so that a byte too far is seen by a sanitizer. */
static char *exact(const char *bytes, size_t n)
{
	char *copy = malloc(n ? n : 1);

	assert_non_null(copy);
	memcpy(copy, bytes, n);
	return copy;
}

static void expect(const char *bytes, size_t n, const char *value, const char *damage,
		   uint64_t offset)
{
	char *copy = exact(bytes, n), *found;
	struct pickle pickle;
	struct err err = { "" };

	assert_int_equal(pickle_read("x.pkl", copy, n, &pickle, &err), 0);
	found = words(pickle.root);
	assert_string_equal(found, value);
	if (damage) {
		assert_non_null(pickle.damage);
		assert_string_equal(pickle.damage, damage);
		assert_int_equal(pickle.damage_offset, offset);
	} else if (pickle.damage) {
		fail_msg("%s at %llu: %s", pickle.damage, (unsigned long long)pickle.damage_offset,
			 value);
	}
	free(found);
	pickle_release(&pickle);
	free(copy);
}

static void every_opcode_of_data(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *value;
	} cases[] = {
		{ BYTES("\x80\x02K\x07."), "7" },
		{ BYTES("\x80\x04\x95\x03\0\0\0\0\0\0\0K\x07."), "7" },
		{ BYTES("N."), "None" },
		{ BYTES("\x88."), "True" },
		{ BYTES("\x89."), "False" },
		{ BYTES("I01\n."), "True" },
		{ BYTES("I00\n."), "False" },
		{ BYTES("I1\n."), "1" },
		{ BYTES("I-12\n."), "-12" },
		{ BYTES("L12L\n."), "12" },
		{ BYTES("L9223372036854775807L\n."), "9223372036854775807" },
		{ BYTES("L-9223372036854775808L\n."), "-9223372036854775808" },
		{ BYTES("L9223372036854775808L\n."), "9223372036854775808u" },
		{ BYTES("L18446744073709551615L\n."), "18446744073709551615u" },
		{ BYTES("L18446744073709551616L\n."), "huge" },
		{ BYTES("L-9223372036854775809L\n."), "huge" },
		{ BYTES("J\xff\xff\xff\xff."), "-1" },
		{ BYTES("J\x00\x00\x00\x80."), "-2147483648" },
		{ BYTES("J\x01\x02\x03\x04."), "67305985" },
		{ BYTES("K\xff."), "255" },
		{ BYTES("M\xff\xff."), "65535" },
		{ BYTES("\x8a\x00."), "0" },
		{ BYTES("\x8a\x01\xff."), "-1" },
		{ BYTES("\x8a\x02\xff\x00."), "255" },
		{ BYTES("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), "9223372036854775807" },
		{ BYTES("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), "-9223372036854775808" },
		{ BYTES("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."), "9223372036854775808u" },
		{ BYTES("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."), "huge" },
		{ BYTES("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f\xff."), "huge" },
		{ BYTES("\x8a\x0a\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00."), "7" },
		{ BYTES("\x8b\x02\x00\x00\x00\x00\x01."), "256" },
		{ BYTES("F1.5\n."), "1.5f" },
		{ BYTES("G\xbf\xf8\x00\x00\x00\x00\x00\x00."), "-1.5f" },
		{ BYTES("S'a\\n\\x41\\101\\\\\\''\n."), "'a\nAA\\''" },
		{ BYTES("S\"it's\"\n."), "'it's'" },
		{ BYTES("T\x02\x00\x00\x00hi."), "'hi'" },
		{ BYTES("U\x02hi."), "'hi'" },
		{ BYTES("Va\xe9\\u20ac\\U0001f600\\n\n."), "'aé€😀\\n'" },
		{ BYTES("X\x03\x00\x00\x00\xe2\x82\xac."), "'€'" },
		{ BYTES("\x8c\x02hi."), "'hi'" },
		{ BYTES("\x8d\x02\0\0\0\0\0\0\0hi."), "'hi'" },
		{ BYTES("B\x02\0\0\0hi."), "b'hi'" },
		{ BYTES("C\x02hi."), "b'hi'" },
		{ BYTES("\x8e\x02\0\0\0\0\0\0\0hi."), "b'hi'" },
		{ BYTES("\x96\x02\0\0\0\0\0\0\0hi."), "b'hi'" },
		{ BYTES("]."), "[]" },
		{ BYTES("(l."), "[]" },
		{ BYTES("(K\x01K\x02l."), "[1,2]" },
		{ BYTES("]K\x01"
			"aK\x02"
			"a."),
		  "[1,2]" },
		{ BYTES("](K\x01K\x02"
			"e."),
		  "[1,2]" },
		{ BYTES("](e."), "[]" },
		{ BYTES(")."), "()" },
		{ BYTES("(K\x01K\x02K\x03K\x04t."), "(1,2,3,4)" },
		{ BYTES("K\x01\x85."), "(1)" },
		{ BYTES("K\x01K\x02\x86."), "(1,2)" },
		{ BYTES("K\x01K\x02K\x03\x87."), "(1,2,3)" },
		{ BYTES("}."), "{}" },
		{ BYTES("(U\x01kK\x01"
			"d."),
		  "{'k':1}" },
		{ BYTES("}U\x01kK\x01s."), "{'k':1}" },
		{ BYTES("}(U\x01kK\x01K\x02Nu."), "{'k':1,2:None}" },
		{ BYTES("\x8f(K\x01K\x02\x90."), "set(1,2)" },
		{ BYTES("(K\x01\x91."), "set(1)" },
		{ BYTES("K\x01K\x02"
			"0."),
		  "1" },
		{ BYTES("K\x01(0."), "1" },
		{ BYTES("K\x01(K\x02K\x03"
			"1."),
		  "1" },
		{ BYTES("K\x01"
			"2\x86."),
		  "(1,1)" },
		{ BYTES("K\x05p0\n0g0\n."), "5" },
		{ BYTES("K\x05q\x03"
			"0h\x03."),
		  "5" },
		{ BYTES("K\x05r\x03\0\0\0"
			"0j\x03\0\0\0."),
		  "5" },
		{ BYTES("K\x05\x94K\x06\x94h\x00h\x01\x86\x86\x86."), "(5,(6,(5,6)))" },
		{ BYTES("K\x07.behind it"), "7" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect(cases[i].bytes, cases[i].n, cases[i].value, NULL, 0);
	(void)state;
}

static void refuse(const char *bytes, size_t n, const char *opcode, size_t offset)
{
	char *copy = exact(bytes, n), sentence[256];
	struct pickle pickle = { 0 };
	struct err err = { "" };

	snprintf(
		sentence, sizeof(sentence),
		"x.pkl: contains code (opcode %s at byte %zu); refused: a memory snapshot has none",
		opcode, offset);
	assert_int_equal(pickle_read("x.pkl", copy, n, &pickle, &err), -EPERM);
	assert_string_equal(err.message, sentence);
	assert_null(pickle.arena);
	free(copy);
}

static void code_is_refused(void **state)
{
	refuse(BYTES("cos\nsystem\n(S'true'\ntR."), "GLOBAL", 0);
	refuse(BYTES("(S'true'\nios\nsystem\n."), "INST", 9);
	refuse(BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."), "STACK_GLOBAL", 14);
	/* The callable comes in from elsewhere, as far as a reader can tell. */
	refuse(BYTES("K\x01)R."), "REDUCE", 3);
	refuse(BYTES("K\x01}b."), "BUILD", 3);
	refuse(BYTES("(K\x01o."), "OBJ", 3);
	refuse(BYTES("K\x01)\x81."), "NEWOBJ", 3);
	refuse(BYTES("K\x01)}\x92."), "NEWOBJ_EX", 4);
	refuse(BYTES("\x82\x01."), "EXT1", 0);
	refuse(BYTES("\x83\x01\x00."), "EXT2", 0);
	refuse(BYTES("\x84\x01\0\0\0."), "EXT4", 0);
	refuse(BYTES("P12\n."), "PERSID", 0);
	refuse(BYTES("K\x01Q."), "BINPERSID", 2);
	refuse(BYTES("\x97."), "NEXT_BUFFER", 0);
	refuse(BYTES("N\x98."), "READONLY_BUFFER", 1);
	/* Deep inside data, from the memo, and thrown away again. */
	refuse(BYTES("}(U\x08segments](N]K\x01)\x81"
		     "eu."),
	       "NEWOBJ", 19);
	refuse(BYTES("K\x01q\x00"
		     "0}U\x01xh\x00)R"
		     "0s."),
	       "REDUCE", 12);
	(void)state;
}

static void damage_keeps_what_stands_before_it(void **state)
{
	static const char ends[] = "the file ends before the pickle does";
	static const char inside[] = "the file ends inside a value";

	expect(BYTES(""), "absent", ends, 0);
	expect(BYTES("K\x01"), "1", ends, 2);
	expect(BYTES("]K\x01"
		     "aK"),
	       "[1]", inside, 4);
	/* Boxes that are open: by marks, or one item at a time. */
	expect(BYTES("}(U\x01"
		     "a](K\x01K\x02"),
	       "{'a':[1,2]}", ends, 11);
	expect(BYTES("}(U\x01"
		     "a](K\x01K\x02"
		     "eU\x01"
		     "b"),
	       "{'a':[1,2]}", ends, 15);
	expect(BYTES("}(U\x01"
		     "a]]K\x01"),
	       "{'a':[[1]]}", ends, 9);
	expect(BYTES("}U\x01"
		     "a]}U\x01"
		     "bK\x01"),
	       "{'a':[{'b':1}]}", ends, 11);
	expect(BYTES("](K\x01(K\x02K\x03"), "[1]", ends, 9);
	expect(BYTES("](N}(U\x01kK\x01"), "[None,{'k':1}]", ends, 10);
	expect(BYTES("\xff"), "absent", "a byte that is not an opcode", 0);
	expect(BYTES("](K\x01\xff"), "[1]", "a byte that is not an opcode", 4);
	expect(BYTES("a."), "absent", "too few values for an opcode", 0);
	expect(BYTES("](a."), "[]", "too few values for an opcode", 2);
	expect(BYTES("K\x01"
		     "e."),
	       "1", "no mark for an opcode that needs one", 2);
	expect(BYTES("K\x01K\x02"
		     "a."),
	       "1", "an item for something that takes none", 4);
	expect(BYTES("}(K\x01u."), "{}", "a key without its value", 4);
	expect(BYTES("(K\x01"
		     "d."),
	       "absent", "a key without its value", 3);
	expect(BYTES("K\x01K\x02."), "1", "the pickle ends with values left over", 4);
	expect(BYTES("."), "absent", "the pickle ends with values left over", 0);
	expect(BYTES("\x80\x06N."), "absent", "a protocol beyond 5", 0);
	expect(BYTES("h\x00."), "absent", "a place in the memo that was never filled", 0);
	expect(BYTES("Nq\x03h\x02."), "None", "a place in the memo that was never filled", 3);
	expect(BYTES("gx\n."), "absent", "no number where the place in the memo should be", 0);
	expect(BYTES("Nr\xff\xff\xff\xff."), "None",
	       "a place in the memo that is far beyond the others", 1);
	expect(BYTES("Ix\n."), "absent", "no integer", 0);
	expect(BYTES("I1"), "absent", "the file ends inside a line", 0);
	expect(BYTES("F\n."), "absent", "no number", 0);
	expect(BYTES("Sx\n."), "absent", "no quoted text", 0);
	expect(BYTES("S'\\x4'\n."), "absent", "no quoted text", 0);
	expect(BYTES("V\\u12\n."), "absent", "no Unicode text", 0);
	expect(BYTES("X\xff\xff\xff\xffx."), "absent", inside, 0);
	expect(BYTES("T\xff\xff\xff\xffx."), "absent", "a length that is negative or beyond 4 GiB",
	       0);
	expect(BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xffx."), "absent",
	       "a length that is negative or beyond 4 GiB", 0);
	(void)state;
}

static void lists_in_themselves_and_laughs(void **state)
{
	char laughs[2 + 64 * 8], *deep;
	size_t n = 0, levels = 64, depth = 1 << 20;
	struct pickle pickle;
	struct pickle_value v;

	expect(BYTES("]q\x00h\x00"
		     "a."),
	       "[[[[[[[[[]]]]]]]]]", NULL, 0);
	/* 64 lists of twice the one before: 2^64 values to who would copy them. */
	laughs[n++] = ']';
	for (size_t i = 0; i < levels; i++) {
		laughs[n++] = 'q';
		laughs[n++] = (char)i;
		laughs[n++] = '0';
		laughs[n++] = 'h';
		laughs[n++] = (char)i;
		laughs[n++] = 'h';
		laughs[n++] = (char)i;
		laughs[n++] = (char)0x86;
	}
	laughs[n++] = '.';
	assert_int_equal(pickle_read("x", laughs, n, &pickle, NULL), 0);
	v = pickle.root;
	for (size_t i = 0; i < levels; i++) {
		assert_int_equal(v.type, PICKLE_TUPLE);
		assert_ptr_equal(v.box->items[0].box, v.box->items[1].box);
		v = v.box->items[0];
	}
	assert_int_equal(v.box->n, 0);
	pickle_release(&pickle);
	/* A million lists, each in the one before, complete and not. */
	deep = malloc(2 * depth + 1);
	assert_non_null(deep);
	memset(deep, ']', depth);
	memset(deep + depth, 'a', depth - 1);
	deep[2 * depth - 1] = '.';
	assert_int_equal(pickle_read("x", deep, 2 * depth, &pickle, NULL), 0);
	assert_null(pickle.damage);
	for (v = pickle.root, n = 1; v.box->n; n++)
		v = v.box->items[0];
	assert_int_equal(n, depth);
	pickle_release(&pickle);
	assert_int_equal(pickle_read("x", deep, depth, &pickle, NULL), 0);
	for (v = pickle.root, n = 1; v.box->n; n++)
		v = v.box->items[0];
	assert_int_equal(n, depth);
	assert_true(pickle.root.box->open);
	pickle_release(&pickle);
	free(deep);
	(void)state;
}

static char *read_seed(const char *name, size_t *ret_n)
{
	char path[4096], *bytes = malloc(1 << 16);
	FILE *f;

	snprintf(path, sizeof(path), "%s/../fuzz/corpus/pickle/%s", MOESCOPE_GOLDEN_DIR, name);
	f = fopen(path, "rb");
	assert_non_null(f);
	assert_non_null(bytes);
	*ret_n = fread(bytes, 1, 1 << 16, f);
	fclose(f);
	return bytes;
}

static char *seed_words(const char *name)
{
	size_t n;
	char *bytes = read_seed(name, &n), *found;
	struct pickle pickle;

	assert_int_equal(pickle_read(name, bytes, n, &pickle, NULL), 0);
	assert_null(pickle.damage);
	found = words(pickle.root);
	pickle_release(&pickle);
	free(bytes);
	return found;
}

static void all_protocols_say_the_same(void **state)
{
	char *first = seed_words("snapshot-0"), name[32];

	assert_non_null(strstr(first, "'device_traces':[[{'action':'free_requested','addr':5120,"
				      "'size':700,'stream':0,'time_us':1700000000000000,"
				      "'frames':[]},"));
	assert_non_null(strstr(first, "'garbage_collection_threshold':0.5f"));
	for (int p = 1; p <= 5; p++) {
		char *other;

		snprintf(name, sizeof(name), "snapshot-%d", p);
		other = seed_words(name);
		assert_string_equal(other, first);
		free(other);
	}
	free(first);
	first = seed_words("values");
	assert_string_equal(first,
			    "[None,True,False,0,-1,255,65535,-2147483648,2147483648,"
			    "9223372036854775807,9223372036854775808u,huge,-9223372036854775808,"
			    "huge,1.5f,'téxt',b'bytes',b'ba',(),(1),(1,2),(1,2,3),(1,2,3,4),"
			    "set('b','a'),set(1),{},{'k':{'k':[]}}]");
	free(first);
	(void)state;
}

static size_t events_in(const struct pickle *pickle)
{
	struct pickle_value traces = pickle_get(pickle->root, "device_traces");

	return traces.type == PICKLE_LIST && traces.box->n &&
			       traces.box->items[0].type == PICKLE_LIST
		       ? traces.box->items[0].box->n
		       : 0;
}

/* However short: no failure, never less than with fewer bytes, and it says that it ended early. */
static void cut_at_every_byte(void **state)
{
	for (int p = 0; p <= 5; p++) {
		size_t n, before = 0;
		char name[32], *bytes;

		snprintf(name, sizeof(name), "snapshot-%d", p);
		bytes = read_seed(name, &n);
		for (size_t length = 0; length <= n; length++) {
			char *copy = exact(bytes, length);
			struct pickle pickle;

			assert_int_equal(pickle_read(name, copy, length, &pickle, NULL), 0);
			assert_int_equal(pickle.damage == NULL, length == n);
			assert_true(events_in(&pickle) >= before);
			before = events_in(&pickle);
			pickle_release(&pickle);
			free(copy);
		}
		assert_int_equal(before, 5);
		free(bytes);
	}
	(void)state;
}

static void looking_things_up(void **state)
{
	static const char twice[] = "}(U\x01kK\x01U\x01kK\x02K\x03K\x04U\x01zI-1\nu.";
	struct pickle pickle;
	uint64_t number = 99;

	assert_int_equal(pickle_read("x", twice, sizeof(twice) - 1, &pickle, NULL), 0);
	assert_int_equal(pickle_get(pickle.root, "k").integer, 2);
	assert_int_equal(pickle_get(pickle.root, "kk").type, PICKLE_ABSENT);
	assert_int_equal(pickle_get(pickle_get(pickle.root, "k"), "k").type, PICKLE_ABSENT);
	assert_false(pickle_natural(pickle_get(pickle.root, "z"), &number));
	assert_false(pickle_natural(pickle.root, &number));
	assert_int_equal(number, 99);
	assert_true(pickle_natural(pickle_get(pickle.root, "k"), &number));
	assert_int_equal(number, 2);
	pickle_release(&pickle);
	(void)state;
}

static void what_looks_like_a_pickle(void **state)
{
	assert_true(pickle_looks_like(BYTES("\x80\x04\x95")));
	assert_true(pickle_looks_like(BYTES("\x80\x02}q")));
	assert_true(pickle_looks_like(BYTES("(dp0\n")));
	assert_true(pickle_looks_like(BYTES("}q\x00")));
	assert_true(pickle_looks_like(BYTES("cos\nsystem\n(S")));
	assert_false(pickle_looks_like(BYTES("")));
	assert_false(pickle_looks_like(BYTES("\x80")));
	assert_false(pickle_looks_like(BYTES("\x80\x06\x95")));
	assert_false(pickle_looks_like(BYTES("\x80\x04\xff")));
	assert_false(pickle_looks_like(BYTES("{\"traceEvents\": []}")));
	assert_false(pickle_looks_like(BYTES("clocks.gr [MHz], x\n1, 2\n3, 4\n")));
	assert_false(pickle_looks_like(BYTES("PK\x03\x04")));
	(void)state;
}

static void failing_allocations(void **state)
{
	size_t n;
	char *bytes = read_seed("snapshot-0", &n);
	long failures = 0;
	int r;

	do {
		struct pickle pickle = { 0 };
		struct err err = { "" };

		countdown = failures;
		r = pickle_read("x", bytes, n, &pickle, &err);
		countdown = -1;
		if (r < 0) {
			assert_int_equal(r, -ENOMEM);
			assert_string_equal(err.message, "x: no memory");
			assert_null(pickle.arena);
			failures++;
		}
		pickle_release(&pickle);
	} while (r < 0);
	assert_true(failures >= 4); /* arena, chunk, stack, memo */
	free(bytes);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_opcode_of_data),
		cmocka_unit_test(code_is_refused),
		cmocka_unit_test(damage_keeps_what_stands_before_it),
		cmocka_unit_test(lists_in_themselves_and_laughs),
		cmocka_unit_test(all_protocols_say_the_same),
		cmocka_unit_test(cut_at_every_byte),
		cmocka_unit_test(looking_things_up),
		cmocka_unit_test(what_looks_like_a_pickle),
		cmocka_unit_test(failing_allocations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

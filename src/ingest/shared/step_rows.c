/* SPDX-License-Identifier: Apache-2.0
 *
 * See step_rows.h.
 *
 * Marks lie inside each other: ProfilerStep#7 around vLLM's execute_*, SGLang's execute_* around its
 * step[...]. One of them is the step. The outer one is, with what the inner ones tell of its batch;
 * only a ProfilerStep that holds several iterations of an engine is the profiler's window and no step.
 */
#include "ingest/shared/step_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"

struct scan {
	const char *at, *end;
};

static bool take_literal(struct scan *s, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0)
		return false;
	s->at += length;
	return true;
}

/* Up to 18 digits, so that sums fit. */
static bool take_number(struct scan *s, uint64_t *ret)
{
	const char *from = s->at;
	uint64_t value = 0;

	while (s->at < s->end && *s->at >= '0' && *s->at <= '9' && s->at - from < 18)
		value = value * 10 + (uint64_t)(*s->at++ - '0');
	if (s->at == from || (s->at < s->end && *s->at >= '0' && *s->at <= '9'))
		return false;
	*ret = value;
	return true;
}

/* " key=12" anywhere behind, as in "[DECODE bs=16 toks=5]". */
static bool find_number(struct scan s, const char *key, uint64_t *ret)
{
	size_t length = strlen(key);

	for (; s.at + length < s.end; s.at++)
		if ((*s.at == ' ' || *s.at == '[') && !memcmp(s.at + 1, key, length)) {
			s.at += 1 + length;
			return take_number(&s, ret);
		}
	return false;
}

static void set_batch(struct row_step *row, uint64_t requests)
{
	row->batch = requests <= UINT16_MAX ? (uint16_t)requests : 0;
}

static void set_tokens(struct row_step *row, uint64_t tokens)
{
	row->tokens = tokens;
	row->tokens_known = 1;
}

static uint8_t stage_of(uint64_t context, uint64_t generation)
{
	if (context && generation)
		return STEP_MIXED;
	return context ? STEP_PREFILL : generation ? STEP_DECODE : STEP_STAGE_UNKNOWN;
}

static bool profiler_step(struct scan s, struct row_step *row)
{
	uint64_t number;

	if (!take_literal(&s, "ProfilerStep#") || !take_number(&s, &number) || s.at != s.end)
		return false;
	row->step = (int64_t)number;
	row->source = STEP_TOLD;
	return true;
}

/* "9(sq8155sk8430sqsq7475785)", "3(1024)", "1(888_788544)": requests, and tokens of them. */
static bool take_group(struct scan *s, uint64_t *requests, uint64_t *tokens)
{
	const char *close;

	if (!take_number(s, requests) || !take_literal(s, "("))
		return false;
	take_literal(s, "sq");
	if (!take_number(s, tokens))
		return false;
	close = memchr(s->at, ')', (size_t)(s->end - s->at));
	if (!close)
		return false;
	s->at = close + 1;
	return true;
}

static bool vllm_step(struct scan s, struct row_step *row)
{
	uint64_t a, b, context_tokens, generation_tokens;
	struct scan t;

	if (!take_literal(&s, "execute_"))
		return false;
	t = s;
	if (take_literal(&t, "new_") && take_number(&t, &a) && take_literal(&t, "_cached_") &&
	    take_number(&t, &b) && t.at == t.end) {
		/* Cached requests may still be in their prompt: of those nothing is told. */
		row->stage = a && !b ? STEP_PREFILL : STEP_STAGE_UNKNOWN;
		set_batch(row, a + b);
		return true;
	}
	t = s;
	if (take_literal(&t, "diffusion_") && take_number(&t, &a) && take_literal(&t, "_")) {
		set_batch(row, a);
		return true;
	}
	t = s;
	if (take_number(&t, &a) && !take_literal(&t, "_"))
		return false;
	if (!take_literal(&t, "context_") || !take_group(&t, &a, &context_tokens) ||
	    !take_literal(&t, "_generation_") || !take_group(&t, &b, &generation_tokens) ||
	    t.at != t.end)
		return false;
	row->stage = stage_of(a, b);
	set_batch(row, a + b);
	set_tokens(row, context_tokens + generation_tokens);
	return true;
}

static bool sglang_step(struct scan s, struct row_step *row)
{
	static const struct {
		const char *mode;
		enum step_stage stage;
	} modes[] = {
		{ "EXTEND", STEP_PREFILL },
		{ "SPLIT_PREFILL", STEP_PREFILL },
		{ "DECODE", STEP_DECODE },
		{ "TARGET_VERIFY", STEP_DECODE },
		{ "VERIFY", STEP_DECODE },
		{ "MIXED", STEP_MIXED },
		{ "IDLE", STEP_STAGE_UNKNOWN },
		{ "DRAFT_EXTEND", STEP_STAGE_UNKNOWN },
		{ "DRAFT_EXTEND_V2", STEP_STAGE_UNKNOWN },
		{ "DLLM_EXTEND", STEP_STAGE_UNKNOWN },
		{ "PREBUILT", STEP_STAGE_UNKNOWN },
	};
	uint64_t batch, tokens, more;
	struct scan rest;
	size_t m = 0;

	if (!take_literal(&s, "step[") || s.at == s.end || s.end[-1] != ']')
		return false;
	for (; m < sizeof(modes) / sizeof(modes[0]); m++) {
		rest = s;
		if (take_literal(&rest, modes[m].mode) && rest.at < rest.end && *rest.at == ' ')
			break;
	}
	if (m == sizeof(modes) / sizeof(modes[0]) || !find_number(rest, "bs=", &batch))
		return false;
	row->stage = (uint8_t)modes[m].stage;
	set_batch(row, batch);
	if (find_number(rest, "toks=", &tokens))
		set_tokens(row, tokens);
	else if (find_number(rest, "c_sq=", &tokens) && find_number(rest, "g_sq=", &more))
		set_tokens(row, tokens + more);
	else if (!strncmp(modes[m].mode, "DECODE", 6) || !strncmp(modes[m].mode, "IDLE", 4))
		set_tokens(row, batch); /* one a request */
	return true;
}

static bool atom_step(struct scan s, struct row_step *row)
{
	bool prefill = take_literal(&s, "prefill");
	uint64_t n;

	if (!prefill && !take_literal(&s, "eager_decode") && !take_literal(&s, "decode"))
		return false;
	if (s.at == s.end || *s.at != '[' || s.end[-1] != ']' || !find_number(s, "bs=", &n))
		return false;
	set_batch(row, n);
	if (find_number(s, "tok=", &n))
		set_tokens(row, n);
	row->stage = prefill			     ? STEP_PREFILL
		     : find_number(s, "p=", &n) && n ? STEP_MIXED
						     : STEP_DECODE;
	return true;
}

bool step_of_name(const char *name, size_t length, struct row_step *row)
{
	struct scan s;

	if (!length || !strchr("Pesdp", name[0]))
		return false;
	s = (struct scan){ name, name + length };
	if (profiler_step(s, row))
		return true;
	if (!vllm_step(s, row) && !sglang_step(s, row) && !atom_step(s, row))
		return false;
	row->step = STEP_NOT_NUMBERED;
	row->source = STEP_BY_NAME;
	return true;
}

static int64_t end_of_step(const struct row_step *step)
{
	return (int64_t)((uint64_t)step->start_ns + (uint64_t)step->duration_ns);
}

/* Outer before inner. */
static int steps_by_start(const void *a, const void *b)
{
	const struct row_step *x = a, *y = b;

	return CMP(x->start_ns, y->start_ns) ?: CMP(y->duration_ns, x->duration_ns) ?:
	       CMP(x->step, y->step);
}

static bool is_numbered(const struct row_step *step)
{
	return step->step != STEP_NOT_NUMBERED;
}

/* The device's side of ranges counts where the host's is not there. */
static size_t drop_device(struct row_step *steps, size_t n)
{
	size_t kept = 0;
	bool host = false;

	for (size_t i = 0; i < n; i++)
		host = host || steps[i].source != STEP_ON_DEVICE;
	for (size_t i = 0; i < n; i++)
		if (!host || steps[i].source != STEP_ON_DEVICE)
			steps[kept++] = steps[i];
	return kept;
}

/* Numbered steps that are no steps, since engines' iterations inside tell them apart. */
static size_t drop_windows(struct row_step *steps, size_t n)
{
	size_t numbered = 0, inside = 0, kept = 0;
	const struct row_step *outer = NULL, *window = NULL;

	for (size_t i = 0; i < n; i++) {
		if (is_numbered(&steps[i])) {
			window = &steps[i];
			numbered++;
			continue;
		}
		if (outer && end_of_step(&steps[i]) <= end_of_step(outer))
			continue; /* in another one */
		outer = &steps[i];
		inside += window && end_of_step(outer) <= end_of_step(window);
	}
	if (inside < 2 * numbered)
		return n;
	for (size_t i = 0; i < n; i++)
		if (!is_numbered(&steps[i]))
			steps[kept++] = steps[i];
	return kept;
}

static void take_details(struct row_step *to, const struct row_step *from)
{
	if (!to->stage)
		to->stage = from->stage;
	if (!to->batch)
		to->batch = from->batch;
	if (!to->tokens_known && from->tokens_known)
		set_tokens(to, from->tokens);
}

/* One range on several streams is one step from the first to the last of them. */
static bool is_same_on_device(const struct row_step *a, const struct row_step *b)
{
	return a->source == STEP_ON_DEVICE && b->source == STEP_ON_DEVICE && a->step == b->step &&
	       a->stage == b->stage && a->batch == b->batch && a->tokens == b->tokens &&
	       end_of_step(b) > end_of_step(a);
}

size_t steps_settle(struct row_step *steps, size_t n, size_t *ret_again)
{
	size_t kept = 0;
	int64_t number = 0;

	*ret_again = 0;
	n = drop_device(steps, n);
	if (n)
		qsort(steps, n, sizeof(*steps), steps_by_start);
	n = drop_windows(steps, n);
	for (size_t i = 0; i < n; i++) {
		struct row_step *last = kept ? &steps[kept - 1] : NULL;
		bool overlaps = last && steps[i].start_ns < end_of_step(last);

		if (overlaps && !is_numbered(&steps[i]) &&
		    end_of_step(&steps[i]) <= end_of_step(last)) {
			take_details(last, &steps[i]);
		} else if (overlaps && is_same_on_device(last, &steps[i])) {
			last->duration_ns = end_of_step(&steps[i]) - last->start_ns;
		} else if (overlaps && last->step == steps[i].step) {
			++*ret_again;
			if (steps[i].duration_ns > last->duration_ns)
				*last = steps[i];
		} else {
			steps[kept++] = steps[i];
		}
	}
	for (size_t i = 0; i < kept; i++)
		if (!is_numbered(&steps[i]))
			steps[i].step = number++;
	return kept;
}

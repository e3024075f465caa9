/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads of the program did: steps, ranges (Kineto's user annotations), operations, frames of
 * its own functions, arrows between operations. Within a thread outer events come before inner ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exports/chrome/chrome_inside.h"
#include "subjects/numbers/nesting.h"

static void put_site(struct trace *t, const struct site *site)
{
	if (site->layer >= 0) {
		EXTRA(t, "layer");
		emit_int(&t->out, site->layer);
	}
	if (site->expert >= 0) {
		EXTRA(t, "expert");
		emit_int(&t->out, site->expert);
	}
	if (site->phase) {
		EXTRA(t, "phase");
		emit_uint(&t->out, site->phase);
		EXTRA(t, "phase_name");
		emit_string(&t->out, phase_name(site->phase));
	}
}

static void put_steps(struct trace *t)
{
	const struct table_step *step = &t->run->step;

	for (size_t i = 0; i < step->n; i++) {
		char name[40];

		if (!is_on(t, step->shard[i]))
			continue;
		snprintf(name, sizeof(name), "ProfilerStep#%" PRId64, step->step[i]);
		event_begin(t, "X", "user_annotation");
		event_name(t, name);
		event_place(t, t->process[step->shard[i]].pid, STEP_TRACK);
		event_time(t, step->start_ns[i]);
		event_duration(t, step->duration_ns[i]);
		args_begin(t);
		if (step->tokens_known[i]) {
			EXTRA(t, "tokens");
			emit_uint(&t->out, step->tokens[i]);
			EXTRA(t, "tokens_known");
			EMIT(&t->out, "1");
		}
		EXTRA(t, "recorded");
		emit_uint(&t->out, step->recorded[i]);
		if (step->probe[i]) {
			EXTRA(t, "probe");
			emit_uint(&t->out, step->probe[i]);
		}
		if (step->unfinished[i]) {
			EXTRA(t, "unfinished");
			emit_uint(&t->out, step->unfinished[i]);
		}
		if (step->source[i]) {
			EXTRA(t, "source");
			emit_uint(&t->out, step->source[i]);
		}
		if (step->stage[i]) {
			EXTRA(t, "stage");
			emit_uint(&t->out, step->stage[i]);
		}
		if (step->batch[i]) {
			EXTRA(t, "batch");
			emit_uint(&t->out, step->batch[i]);
		}
		args_end(t);
	}
}

/* "[64,64]x[64,256]" as [[64,64],[64,256]]; other texts as they are. */
static void make_shape(struct buf *buf, const char *text)
{
	size_t depth = 0;

	for (const char *p = text; *p; p++) {
		bool digit = *p >= '0' && *p <= '9';

		if (depth == 0 && *p == '[' && (p == text || p[-1] == 'x'))
			depth = 1;
		else if (depth == 1 && *p == ']')
			depth = 0;
		else if (!(depth == 1 && (digit || (*p == ',' && p[-1] != '[' && p[-1] != ',' &&
						    p[1] >= '0' && p[1] <= '9'))) &&
			 !(depth == 0 && *p == 'x' && p > text && p[-1] == ']' && p[1] == '['))
			goto other;
		/* No number of JSON begins with a zero but 0 itself. */
		if (*p == '0' && !(p[-1] >= '0' && p[-1] <= '9') && p[1] >= '0' && p[1] <= '9')
			goto other;
	}
	if (depth || !*text)
		goto other;
	buf_append(buf, "[", 1);
	for (const char *p = text; *p; p++)
		buf_append(buf, *p == 'x' ? "," : p, 1);
	buf_append(buf, "]", 1);
	return;
other:
	buf_escaped(buf, text);
}

/* Ours begins with the outermost call, Kineto's with the innermost. */
static void make_stack(struct buf *buf, const char *text)
{
	size_t length = strlen(text), end = length, n = 0;
	char *turned = malloc(length + 1);

	if (!turned) {
		buf->failed = true;
		return;
	}
	for (size_t at = length + 1; at-- > 0;) {
		if (at && text[at - 1] != ';')
			continue;
		memcpy(turned + n, text + at, end - at);
		n += end - at;
		if (at) {
			turned[n++] = ';';
			end = at - 1;
		}
	}
	turned[n] = '\0';
	buf_escaped(buf, turned);
	free(turned);
}

static void put_made(struct trace *t, struct pieces *pieces, uint32_t id,
		     void (*make)(struct buf *buf, const char *text))
{
	const struct piece *piece = piece_find(pieces, id);

	if (!piece) {
		size_t from = pieces->text.size;

		make(&pieces->text, run_string(t->run, id));
		piece = piece_make(t, pieces, id, from);
	}
	put_piece(t, pieces, piece);
}

static void put_op_args(struct trace *t, size_t i)
{
	const struct table_op *op = &t->run->op;
	/* What a reader of Kineto's traces would take it for. */
	uint8_t usual = OP_BYTES_UNKNOWN | (op->unknown[i] & OP_FLOPS_UNKNOWN);

	if (op->shape[i]) {
		ARG(t, "Input Dims");
		put_made(t, &t->shapes, op->shape[i], make_shape);
	}
	if (op->stack[i]) {
		ARG(t, "Call stack");
		put_made(t, &t->stacks, op->stack[i], make_stack);
	}
	if (!(op->unknown[i] & OP_FLOPS_UNKNOWN)) {
		ARG(t, "flops");
		emit_uint(&t->out, op->flops[i]);
	}
	if (op->unknown[i] != usual) {
		EXTRA(t, "unknown");
		emit_uint(&t->out, op->unknown[i]);
	}
	if (!(op->unknown[i] & OP_BYTES_UNKNOWN)) {
		EXTRA(t, "bytes");
		emit_uint(&t->out, op->bytes[i]);
	}
}

static void put_nested(struct trace *t)
{
	for (size_t i = 0; i < t->at.n_ranges; i++) {
		const struct nested *item = &t->at.ranges[i];
		uint32_t id = item->is_op ? t->run->op.site[item->row]
					  : t->run->range.site[item->row];
		uint8_t unfinished = item->is_op ? t->run->op.unfinished[item->row]
						 : t->run->range.unfinished[item->row];
		struct site site = run_site(t->run, id);

		if (!is_on(t, item->shard))
			continue;
		event_begin(t, "X", item->is_op ? "cpu_op" : "user_annotation");
		if (site.name)
			event_name_id(t, site.name);
		else
			event_name(t, "(no name)");
		event_place(t, t->process[item->shard].pid, item->thread);
		event_time(t, item->start_ns);
		event_duration(t, item->end_ns - item->start_ns);
		args_begin(t);
		ARG(t, "External id");
		emit_uint(&t->out, i + 1);
		if (item->is_op)
			put_op_args(t, item->row);
		put_site(t, &site);
		if (unfinished) {
			EXTRA(t, "unfinished");
			emit_uint(&t->out, unfinished);
		}
		args_end(t);
	}
}

struct framed {
	int64_t start_ns, end_ns;
	size_t row;
	uint32_t thread;
	uint16_t shard;
};

static int compare_framed(const void *a, const void *b)
{
	const struct framed *x = a, *y = b;

#define BY(field, sign)                                                                            \
	if (x->field != y->field)                                                                  \
		return x->field < y->field ? -(sign) : (sign);
	BY(shard, 1)
	BY(thread, 1)
	BY(start_ns, 1)
	BY(end_ns, -1)
	BY(row, 1)
#undef BY
	return 0;
}

/* Numbered from 1 in the order that they are written in; the parent is the frame that is open. */
static int put_frames(struct trace *t)
{
	const struct table_frame *frame = &t->run->frame;
	struct framed *list = frame->n ? malloc(frame->n * sizeof(*list)) : NULL;
	size_t *open = frame->n ? malloc(frame->n * sizeof(*open)) : NULL;
	size_t n = 0, depth = 0;

	if (frame->n && (!list || !open)) {
		free(list);
		free(open);
		return -ENOMEM;
	}
	for (size_t i = 0; i < frame->n; i++)
		if (is_on(t, frame->shard[i]))
			list[n++] = (struct framed){ frame->start_ns[i],
						     frame->start_ns[i] + frame->duration_ns[i], i,
						     frame->thread[i], frame->shard[i] };
	if (n)
		qsort(list, n, sizeof(*list), compare_framed);
	for (size_t i = 0; i < n; i++) {
		const struct framed *item = &list[i];

		while (depth && (list[open[depth - 1]].shard != item->shard ||
				 list[open[depth - 1]].thread != item->thread ||
				 list[open[depth - 1]].end_ns < item->end_ns))
			depth--;
		event_begin(t, "X", "python_function");
		event_name_id(t, frame->name[item->row]);
		event_place(t, t->process[item->shard].pid, item->thread);
		event_time(t, item->start_ns);
		event_duration(t, item->end_ns - item->start_ns);
		args_begin(t);
		ARG(t, "Python parent id");
		if (depth)
			emit_uint(&t->out, open[depth - 1] + 1);
		else
			EMIT(&t->out, "null");
		ARG(t, "Python id");
		emit_uint(&t->out, i + 1);
		args_end(t);
		open[depth++] = i;
	}
	free(list);
	free(open);
	return 0;
}

/* Kineto's own arrows are read back as they are; of others the beginning is a record. */
static void put_arrows(struct trace *t)
{
	const struct table_flow *flow = &t->run->flow;

	for (size_t i = 0; i < flow->n; i++) {
		bool kineto = !strcmp(run_string(t->run, flow->name[i]), "fwdbwd");
		uint64_t id = flow->id[i] + (t->n_on > 1 ? flow->shard[i] * FLOWS : 0);
		uint64_t pid;

		if (!is_on(t, flow->shard[i]))
			continue;
		pid = t->process[flow->shard[i]].pid;
		for (int end = 0; end < 2; end++) {
			event_begin(t, end ? "f" : "s", kineto ? "fwdbwd" : "moescope");
			event_name_id(t, flow->name[i]);
			EMIT(&t->out, ",\"id\":");
			emit_uint(&t->out, id);
			event_place(t, pid, end ? flow->end_thread[i] : flow->thread[i]);
			event_time(t, flow->start_ns[i] + (end ? flow->duration_ns[i] : 0));
			if (end) {
				EMIT(&t->out, ",\"bp\":\"e\"}");
			} else if (kineto) {
				EMIT(&t->out, "}");
			} else {
				put_columns(t, RECORD_FLOW, i, true);
				args_end(t);
			}
		}
	}
}

int put_host(struct trace *t)
{
	int r;

	put_steps(t);
	put_nested(t);
	r = put_frames(t);
	if (r < 0)
		return r;
	put_arrows(t);
	return 0;
}

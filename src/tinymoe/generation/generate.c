/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from the decoder: sampling, the window of tokens, and output. Main thread.
 */
#include "tinymoe/generation/decoder.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tinymoe/system/failure.h"
#include "tinymoe/system/notes.h"
#include "tinymoe/system/rng.h"

static uint8_t most_probable(const real *logits)
{
	int best = 0;

	for (int i = 1; i < VOCABULARY; i++)
		if (logits[i] > logits[best])
			best = i;
	return (uint8_t)best;
}

static uint8_t sample(const real *logits, double temperature, struct rng *rng)
{
	double most = logits[most_probable(logits)], sum = 0, at;
	double weight[VOCABULARY];

	if (!(temperature > 0))
		return most_probable(logits);
	for (int i = 0; i < VOCABULARY; i++) {
		weight[i] = exp((logits[i] - most) / temperature);
		sum += weight[i];
	}
	at = rng_uniform(rng) * sum;
	for (int i = 0; i < VOCABULARY; i++) {
		at -= weight[i];
		if (at < 0)
			return (uint8_t)i;
	}
	/* Rounding left a little over: the most probable byte is as good as any. */
	return most_probable(logits);
}

/* Feeds the next token, restarting from the later half of the window when it is full. */
static void feed_next(struct decoder *decoder, uint8_t *window, uint8_t token)
{
	size_t context = (size_t)decoder->model->config.context;
	size_t filled = decoder->filled, kept = context > 1 ? context / 2 : 1;

	if (filled < context) {
		window[filled] = token;
		decoder_feed(decoder, &token, 1, MOESCOPE_DECODE);
		return;
	}
	memmove(window, window + context - (kept - 1), kept - 1);
	window[kept - 1] = token;
	decoder_clear(decoder);
	decoder_feed(decoder, window, kept, MOESCOPE_PREFILL);
}

/* One text being generated. */
struct sequence {
	struct decoder *decoder;
	struct rng rng;
	uint8_t *window; /* [context] */
	uint8_t *made;	 /* [tokens] */
	int64_t *made_ns;
	uint64_t request;
};

/* Everything for one call; release also handles a partial one. */
struct batch {
	const struct generation *generation;
	const char *prompt;
	size_t length, fed; /* of the prompt; the end of it that fits the context */
	struct sequence *sequences;
	size_t n;
	uint64_t requests; /* begun */
	FILE *out;	   /* takes the first text; NULL: it is done */
};

static void batch_release(struct batch *batch)
{
	for (size_t i = 0; batch->sequences && i < batch->n; i++) {
		decoder_free(batch->sequences[i].decoder);
		free(batch->sequences[i].window);
		free(batch->sequences[i].made);
		free(batch->sequences[i].made_ns);
	}
	free(batch->sequences);
}

static int batch_init(struct batch *batch, const struct model *model,
		      const struct generation *generation, struct failure *failure)
{
	size_t context = (size_t)model->config.context;

	*batch = (struct batch){ .generation = generation, .n = generation->sequences };
	/* The model continues something; without a prompt, the start of a line. */
	batch->prompt = generation->prompt[0] ? generation->prompt : "\n";
	batch->length = strlen(batch->prompt);
	batch->fed = batch->length < context ? batch->length : context;
	batch->sequences = calloc(batch->n, sizeof(*batch->sequences));
	for (size_t i = 0; batch->sequences && i < batch->n; i++) {
		struct sequence *sequence = &batch->sequences[i];
		int error = decoder_new(model, &sequence->decoder, failure);

		if (error) {
			batch_release(batch);
			return error;
		}
		sequence->window = malloc(context);
		sequence->made = malloc(generation->tokens);
		sequence->made_ns = calloc(generation->tokens, sizeof(*sequence->made_ns));
		if (!sequence->window || !sequence->made || !sequence->made_ns)
			break;
		if (i + 1 == batch->n)
			return 0;
	}
	batch_release(batch);
	failure_set(failure, ENOMEM, "there is not enough memory to generate");
	return -ENOMEM;
}

static void sequence_begin(struct batch *batch, size_t index)
{
	struct sequence *sequence = &batch->sequences[index];

	sequence->request = ++batch->requests;
	/* The first sequence is what it would be alone; the others differ. */
	rng_init(&sequence->rng, batch->generation->seed + index, RNG_SAMPLING);
	memcpy(sequence->window, batch->prompt + batch->length - batch->fed, batch->fed);
	decoder_clear(sequence->decoder);
	moescope_request_begin(sequence->request, batch->fed);
	decoder_feed(sequence->decoder, sequence->window, batch->fed, MOESCOPE_PREFILL);
}

static void sequence_token(struct batch *batch, size_t index, size_t at)
{
	const struct generation *generation = batch->generation;
	struct sequence *sequence = &batch->sequences[index];
	uint8_t token = sample(sequence->decoder->logits, generation->temperature, &sequence->rng);

	moescope_token(sequence->request);
	sequence->made[at] = token;
	sequence->made_ns[at] = notes_now_ns();
	if (index == 0 && batch->out)
		put_byte(token, batch->out);
	if (at + 1 < generation->tokens)
		feed_next(sequence->decoder, sequence->window, token);
	else
		moescope_request_end(sequence->request);
}

/* All sequences once: they start one after the other, then each gets a token in turn. */
static void repeat(struct batch *batch, int warmup)
{
	const struct generation *generation = batch->generation;
	struct note note = {
		.sent_ns = notes_now_ns(),
		.warmup = warmup,
		.prompt_tokens = batch->fed,
		.output_tokens = generation->tokens,
	};

	for (size_t i = 0; i < batch->n; i++) {
		sequence_begin(batch, i);
		sequence_token(batch, i, 0);
	}
	for (size_t at = 1; at < generation->tokens; at++)
		for (size_t i = 0; i < batch->n; i++)
			sequence_token(batch, i, at);
	for (size_t i = 0; generation->notes && i < batch->n; i++) {
		note.pieces_ns = batch->sequences[i].made_ns;
		note.end_ns = note.pieces_ns[generation->tokens - 1];
		notes_add(generation->notes, &note);
	}
}

int generate(const struct model *model, const struct generation *generation, FILE *out,
	     struct failure *failure)
{
	struct batch batch;
	int error = batch_init(&batch, model, generation, failure);

	if (error)
		return error;
	batch.out = out;
	for (size_t i = 0; i < batch.length; i++)
		putc(batch.prompt[i], out);
	for (size_t i = 0; i < generation->warmup + generation->repeats; i++) {
		repeat(&batch, i < generation->warmup);
		batch.out = NULL;
	}
	putc('\n', out);
	if (generation->notes)
		notes_text(generation->notes, batch.sequences[0].made, generation->tokens);
	batch_release(&batch);
	return 0;
}

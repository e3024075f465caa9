/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from the decoder: sampling, the window of tokens, and output. Main thread.
 */
#include "decoder.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "rng.h"

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

/* Control bytes of a model that has not learned better would disturb a terminal. */
static void put_byte(uint8_t byte, FILE *out)
{
	if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 127)
		fprintf(out, "\\x%02x", byte);
	else
		putc(byte, out);
}

/* Feeds the next token, starting again from the later half of the window when it is full. */
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

int generate(const struct model *model, const struct generation *generation, FILE *out,
	     struct failure *failure)
{
	/* The model continues something; without a prompt, the start of a line. */
	const char *prompt = generation->prompt[0] ? generation->prompt : "\n";
	size_t context = (size_t)model->config.context, length = strlen(prompt);
	size_t fed = length < context ? length : context;
	uint8_t *window = malloc(context);
	const uint64_t request = 1;
	struct decoder *decoder;
	struct rng rng;
	int error;

	if (!window)
		return failure_set(failure, ENOMEM, "there is not enough memory to generate");
	error = decoder_new(model, &decoder, failure);
	if (error) {
		free(window);
		return error;
	}
	rng_init(&rng, generation->seed, RNG_SAMPLING);
	for (size_t i = 0; i < length; i++)
		putc(prompt[i], out);
	memcpy(window, prompt + length - fed, fed);
	moescope_request_begin(request, fed);
	decoder_feed(decoder, window, fed, MOESCOPE_PREFILL);
	for (size_t i = 0; i < generation->tokens; i++) {
		uint8_t token = sample(decoder->logits, generation->temperature, &rng);

		moescope_token(request);
		put_byte(token, out);
		if (i + 1 < generation->tokens)
			feed_next(decoder, window, token);
	}
	moescope_request_end(request);
	putc('\n', out);
	decoder_free(decoder);
	free(window);
	return 0;
}

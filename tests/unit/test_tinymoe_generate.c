/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation of tinymoe: the logits of the decoder with its cache equal those of the whole forward
 * pass at every position, however the tokens are fed; sampled text depends on the seed and on
 * nothing else; command-line options and configurations that cannot work are refused.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tinymoe/generation/decoder.h"
#include "tinymoe/options.h"
#include "tinymoe/system/failure.h"
#include "tinymoe/system/rng.h"

enum { CONTEXT = 20 };

static struct config small_config(void)
{
	struct config config = config_default();

	config.layers = 3;
	config.width = 16;
	config.heads = 4;
	config.experts = 6;
	config.top_k = 3;
	config.expert_width = 10;
	config.context = CONTEXT;
	config.batch = 1;
	config.dynamic_k = 0.12;
	return config;
}

static struct model *new_model(const struct config *config, int threads)
{
	struct failure failure;
	struct model *model;
	struct rng rng;

	assert_int_equal(model_new(config, threads, true, &model, &failure), 0);
	rng_init(&rng, 21, RNG_PARAMETERS);
	for (size_t i = 0; i < model->layout.total; i++)
		model->params[i] += 0.2 * rng_normal(&rng);
	return model;
}

/* logits[CONTEXT][256] of the whole sequence; the forward pass itself keeps probabilities. */
static void full_logits(struct model *model, const uint8_t *tokens, real *logits)
{
	const real *head = model_param(model, PARAM_HEAD, 0);
	size_t width = (size_t)model->config.width;
	struct losses losses;

	model_forward(model, tokens, tokens, &losses);
	for (size_t t = 0; t < CONTEXT; t++)
		for (size_t v = 0; v < VOCABULARY; v++) {
			real sum = 0;

			for (size_t i = 0; i < width; i++)
				sum += model->edge.normed[t * width + i] * head[v * width + i];
			logits[t * VOCABULARY + v] = sum;
		}
	model_discard(model);
}

static double largest_difference(const real *a, const real *b)
{
	double largest = 0;

	for (int i = 0; i < VOCABULARY; i++)
		largest = fmax(largest, fabs(a[i] - b[i]));
	return largest;
}

static void test_cache_equals_full(void **state)
{
	/* How many tokens are fed first; the rest comes one by one. */
	static const size_t prefills[] = { 1, 2, 7, CONTEXT - 1, CONTEXT };
	static real logits[CONTEXT * VOCABULARY];
	struct config config = small_config();
	struct model *model = new_model(&config, 2);
	struct failure failure;
	struct decoder *decoder;
	uint8_t tokens[CONTEXT];
	double worst = 0;

	(void)state;
	for (size_t i = 0; i < CONTEXT; i++)
		tokens[i] = (uint8_t)(i * 37 + 5);
	full_logits(model, tokens, logits);
	assert_int_equal(decoder_new(model, &decoder, &failure), 0);
	for (size_t i = 0; i < sizeof(prefills) / sizeof(prefills[0]); i++) {
		size_t at = prefills[i];

		decoder_clear(decoder);
		decoder_feed(decoder, tokens, at, MOESCOPE_PREFILL);
		for (;;) {
			const real *expected = logits + (at - 1) * VOCABULARY;

			worst = fmax(worst, largest_difference(decoder->logits, expected));
			if (at == CONTEXT)
				break;
			decoder_feed(decoder, tokens + at, 1, MOESCOPE_DECODE);
			at++;
		}
	}
	print_message("  largest difference of a logit %.2e\n", worst);
	assert_true(worst < 1e-9);
	decoder_free(decoder);
	model_free(model);
}

static char *text_of(struct model *model, const struct generation *generation)
{
	struct failure failure;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(generate(model, generation, out, &failure), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

/* Three windows long, so that the cache is filled and started again. */
static void test_text_depends_on_seed_only(void **state)
{
	struct generation generation = {
		.prompt = "The river",
		.tokens = 3 * CONTEXT,
		.temperature = 0.9,
		.seed = 4,
		.sequences = 1,
		.repeats = 1,
	};
	struct config config = small_config();
	struct model *one = new_model(&config, 1), *three = new_model(&config, 3);
	char *text = text_of(one, &generation), *same = text_of(three, &generation), *other;

	(void)state;
	assert_string_equal(text, same);
	assert_memory_equal(text, generation.prompt, strlen(generation.prompt));
	free(same);
	/* Others beside it, and once more, change nothing. */
	generation.sequences = 3;
	generation.repeats = 2;
	same = text_of(one, &generation);
	assert_string_equal(text, same);
	generation.seed = 5;
	other = text_of(one, &generation);
	assert_string_not_equal(text, other);
	free(same);
	free(other);

	generation.temperature = 0;
	same = text_of(one, &generation);
	generation.seed = 4;
	other = text_of(three, &generation);
	assert_string_equal(same, other);
	free(text);
	free(same);
	free(other);
	model_free(one);
	model_free(three);
}

static void test_long_and_empty_prompts(void **state)
{
	static const char *const prompts[] = {
		"", "a prompt that is a good deal longer than the context of this model"
	};
	struct config config = small_config();
	struct model *model;

	(void)state;
	for (int32_t context = 1; context <= 3; context++) {
		config.context = context;
		model = new_model(&config, 1);
		for (int i = 0; i < 2; i++) {
			struct generation generation = {
				.prompt = prompts[i], .tokens = 9, .sequences = 1, .repeats = 1
			};
			char *text = text_of(model, &generation);

			assert_true(strlen(text) >= strlen(prompts[i]) + 10);
			free(text);
		}
		model_free(model);
	}
}

static void assert_usage(const char *says, int argc, char **argv)
{
	struct settings settings;
	struct failure failure = { 0 };
	int error = options_parse(argc, argv, &settings, &failure);

	if (!error)
		error = config_check(&settings.config, CONFIG_TRAINS, UINT64_C(1) << 34, &failure);
	assert_true(error < 0);
	if (!strstr(failure.text, says))
		fail_msg("'%s' does not say '%s'", failure.text, says);
}

static void test_impossible_options(void **state)
{
	static const struct {
		const char *says, *option, *value;
	} cases[] = {
		{ "--layers", "--layers", "0" },
		{ "--layers", "--layers", "x" },
		{ "--layers", "--layers", "" },
		{ "--width", "--width", "99999999999999999999" },
		{ "--batch", "--batch", "-4" },
		{ "--batch", "--batch", "1000000" },
		{ "--heads 5 does not divide --width", "--heads", "5" },
		{ "--top-k 9 is more than --experts 8", "--top-k", "9" },
		{ "GiB", "--width", "1000000" },
		{ "GiB", "--context", "1000000" },
		{ "GiB", "--experts", "65535" },
		{ "--lr", "--lr", "nan" },
		{ "--lr", "--lr", "-1" },
		{ "--dynamic-k", "--dynamic-k", "1.5" },
		{ "--seed", "--seed", "-1" },
		{ "no option", "--nonsense", "1" },
		{ "not an option", "nonsense", "1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *argv[] = { "tinymoe", (char *)cases[i].option, (char *)cases[i].value };

		assert_usage(cases[i].says, 3, argv);
	}
	assert_usage("needs a value", 2, (char *[]){ "tinymoe", "--width" });
	assert_usage("takes no value", 2, (char *[]){ "tinymoe", "--quiet=1" });
}

/* A configuration that fits when it only holds parameters may not fit what it is used for. */
static void test_memory_by_use(void **state)
{
	struct config config = config_default();
	const uint64_t memory = UINT64_C(1) << 30;
	struct failure failure;

	(void)state;
	config.context = 30000;
	assert_int_equal(config_check(&config, 0, memory, &failure), 0);
	assert_true(config_check(&config, CONFIG_GENERATES, memory, &failure) < 0);
	assert_non_null(strstr(failure.text, "--context"));
	assert_true(config_check(&config, CONFIG_TRAINS, memory, &failure) < 0);
	assert_non_null(strstr(failure.text, "--batch"));
	assert_int_equal(config_check(&config, 0, 1 << 20, &failure), -EINVAL);
	assert_non_null(strstr(failure.text, "--width"));
}

static void test_merge_with_checkpoint(void **state)
{
	char *argv[] = { "tinymoe", "--load", "x", "--lr=0.5", "--width", "32" };
	struct config stored = small_config();
	struct settings settings;
	struct failure failure;

	(void)state;
	assert_int_equal(options_parse(4, argv, &settings, &failure), 0);
	assert_int_equal(options_merge(&settings, &stored, &failure), 0);
	assert_int_equal(settings.config.width, stored.width);
	assert_true(settings.config.learning_rate == 0.5);
	assert_true(settings.config.dynamic_k == stored.dynamic_k);
	assert_int_equal(options_parse(6, argv, &settings, &failure), 0);
	assert_true(options_merge(&settings, &stored, &failure) < 0);
	assert_non_null(strstr(failure.text, "--width 32"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cache_equals_full),
		cmocka_unit_test(test_text_depends_on_seed_only),
		cmocka_unit_test(test_long_and_empty_prompts),
		cmocka_unit_test(test_impossible_options),
		cmocka_unit_test(test_memory_by_use),
		cmocka_unit_test(test_merge_with_checkpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of published models from their configurations, and the bytes that follow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "lab/estimate.h"

static struct estimate estimate(const char *text, const char *const *values)
{
	struct estimate result = { 0 };
	struct err err = { "" };
	struct experiment e;

	assert_int_equal(experiment_init(&e), 0);
	for (; values && *values; values += 2)
		assert_int_equal(experiment_set(&e, values[0], values[1], &err), 0);
	if (estimate_from("config.json", text, strlen(text), &e, &result, &err) < 0)
		fail_msg("%s", err.message);
	experiment_release(&e);
	return result;
}

/* The fields of each model's config.json that count, and its parameters as its weights have them. */
static const struct {
	const char *name, *config;
	double parameters;
} models[] = {
	{ "Llama-3-8B",
	  "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	  "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
	  "\"vocab_size\": 128256, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}",
	  8030261248 },
	{ "Mixtral-8x7B",
	  "{\"model_type\": \"mixtral\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, "
	  "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"intermediate_size\": 14336, "
	  "\"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"vocab_size\": 32000, "
	  "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}",
	  46702792704 },
	{ "Qwen3-30B-A3B",
	  "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, \"num_hidden_layers\": 48, "
	  "\"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"head_dim\": 128, "
	  "\"intermediate_size\": 6144, \"moe_intermediate_size\": 768, \"num_experts\": 128, "
	  "\"num_experts_per_tok\": 8, \"decoder_sparse_step\": 1, \"mlp_only_layers\": [], "
	  "\"vocab_size\": 151936, \"tie_word_embeddings\": false, "
	  "\"torch_dtype\": \"bfloat16\"}",
	  30532122624 },
	{ "DeepSeek-V3",
	  "{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, \"num_hidden_layers\": 61, "
	  "\"num_attention_heads\": 128, \"num_key_value_heads\": 128, "
	  "\"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "
	  "\"n_routed_experts\": 256, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, "
	  "\"first_k_dense_replace\": 3, \"moe_layer_freq\": 1, \"q_lora_rank\": 1536, "
	  "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "
	  "\"v_head_dim\": 128, \"vocab_size\": 129280, \"tie_word_embeddings\": false, "
	  "\"topk_method\": \"noaux_tc\", \"num_nextn_predict_layers\": 1, "
	  "\"torch_dtype\": \"bfloat16\", \"quantization_config\": {\"quant_method\": \"fp8\"}}",
	  671026419200 },
	{ "Qwen2.5-72B",
	  "{\"model_type\": \"qwen2\", \"hidden_size\": 8192, \"num_hidden_layers\": 80, "
	  "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"intermediate_size\": 29568, "
	  "\"vocab_size\": 152064, \"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\"}",
	  72706203648 },
};

static void test_published_counts(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
		double got = estimate(models[i].config, NULL).parameters;

		print_message("  %-14s %.0f, published %.0f\n", models[i].name, got,
			      models[i].parameters);
		assert_true(got == models[i].parameters);
	}
}

/* Llama-3-8B, by hand: 32 layers, 8 heads of 128 for keys and values, 2 bytes each. */
static void test_bytes(void **state)
{
	static const char *const values[] = { "prompt",	    "0123456789", "max_tokens", "90",
					      "batch_size", "4",	  NULL };
	static const char *const cut[] = { "prompt",	 "0123456789", "max_tokens",	       "90",
					   "batch_size", "4",	       "tensor_parallel_size", "16",
					   NULL };
	static const char *const dealt[] = { "prompt",
					     "0123456789",
					     "max_tokens",
					     "90",
					     "batch_size",
					     "4",
					     "pipeline_parallel_size",
					     "3",
					     "data_parallel_size",
					     "3",
					     NULL };
	struct estimate e = estimate(models[0].config, values);

	(void)state;
	assert_true(e.weights_bytes == 2 * 8030261248.0);
	assert_true(e.cache_bytes == 4.0 * 100 * 32 * 2 * 8 * 128 * 2);
	assert_true(e.training_bytes == 0);
	assert_true(e.total_bytes == e.weights_bytes + e.cache_bytes + e.activation_bytes);
	e = estimate(models[0].config, cut);
	assert_true(e.weights_bytes == 2 * 8030261248.0 / 16);
	/* There are 8 heads to spread. */
	assert_true(e.cache_bytes == 4.0 * 100 * 32 * 2 * 8 * 128 * 2 / 8);
	/* 32 layers in 3 parts, the longest of 11; 4 sequences on 3 copies, 2 on one of them. */
	e = estimate(models[0].config, dealt);
	assert_true(e.weights_bytes == 2 * 8030261248.0 / 3);
	assert_true(e.cache_bytes == 2.0 * 100 * 11 * 2 * 8 * 128 * 2);
}

/* DeepSeek-V3: a byte a weight, 512 + 64 values a token and layer. */
static void test_latent_cache(void **state)
{
	static const char *const values[] = { "prompt", "0123456789",		"max_tokens",
					      "90",	"tensor_parallel_size", "8",
					      NULL };
	struct estimate e = estimate(models[3].config, values);

	(void)state;
	assert_true(e.weights_bytes == 671026419200.0 / 8);
	assert_true(e.cache_bytes == 100.0 * 61 * 576 * 2);
}

static void test_training(void **state)
{
	static const char *const values[] = { "task", "training", NULL };
	struct estimate e = estimate(models[0].config, values);

	(void)state;
	assert_true(e.training_bytes == 8030261248.0 * (2 + 8));
	assert_true(e.cache_bytes == 0);
}

static void test_bad_configurations(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "{}", "no usable \"hidden_size\"" },
		{ "{\"hidden_size\": -4}", "no usable \"hidden_size\"" },
		{ "{\"hidden_size\": 8, \"num_hidden_layers\": 1e11, \"num_attention_heads\": 1, "
		  "\"vocab_size\": 9, \"intermediate_size\": 4}",
		  "impossible sizes" },
		{ "{\"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 1, "
		  "\"vocab_size\": 9}",
		  "impossible sizes" },
		{ "[", "config.json" },
	};
	struct experiment e;

	(void)state;
	assert_int_equal(experiment_init(&e), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct estimate result;
		struct err err = { "" };

		assert_true(estimate_from("config.json", cases[i].text, strlen(cases[i].text), &e,
					  &result, &err) < 0);
		if (!strstr(err.message, cases[i].says))
			fail_msg("'%s' is not in: %s", cases[i].says, err.message);
	}
	experiment_release(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published_counts),   cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_latent_cache),	   cmocka_unit_test(test_training),
		cmocka_unit_test(test_bad_configurations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters and bytes from the sizes in a configuration; see estimate.h. All counts are doubles:
 * sizes come from files, and their products must not overflow.
 */
#include "lab/estimate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"

/* Sizes, by the names that each model family uses. */
struct sizes {
	double hidden, layers, heads, kv_heads, head, inner, vocabulary;
	double experts, expert_inner, shared_inner, dense_layers, sparse_step;
	double q_rank, kv_rank, nope, rope, v_head; /* latent attention; kv_rank 0: not */
	double positions;			    /* learned ones; 0: none */
	double weight_bytes, value_bytes;	    /* of one weight, of one value of a layer */
	bool tied, qkv_bias, head_norms, shared_gate, router_bias;
};

static double config_number(const struct json_node *config, const char *key, double otherwise)
{
	const struct json_node *node = json_get(config, key);
	double value;

	if (!node || node->type != JSON_NUMBER)
		return otherwise;
	value = strtod(node->text, NULL);
	return value >= 0 && value < 1e12 ? value : otherwise;
}

/* The first of several names that exists. */
static double first_of(const struct json_node *config, const char *const *keys, double otherwise)
{
	for (; *keys; keys++)
		if (config_number(config, *keys, -1) >= 0)
			return config_number(config, *keys, otherwise);
	return otherwise;
}

static bool config_flag(const struct json_node *config, const char *key, bool otherwise)
{
	const struct json_node *node = json_get(config, key);

	if (!node || (node->type != JSON_TRUE && node->type != JSON_FALSE))
		return otherwise;
	return node->type == JSON_TRUE;
}

static double dtype_bytes(const char *name)
{
	static const struct {
		const char *name;
		double bytes;
	} types[] = { { "float64", 8 },	      { "float32", 4 },	      { "float16", 2 },
		      { "bfloat16", 2 },      { "float8_e4m3fn", 1 }, { "float8_e5m2", 1 },
		      { "torch.float32", 4 }, { "torch.float16", 2 }, { "torch.bfloat16", 2 } };

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strcmp(types[i].name, name) == 0)
			return types[i].bytes;
	return 2;
}

static void read_types(const struct json_node *config, struct sizes *s)
{
	const struct json_node *packed = json_get(config, "quantization_config");
	const char *type = json_get_string(config, "dtype",
					   json_get_string(config, "torch_dtype", "bfloat16"));
	double bits = config_number(packed, "bits", 0);

	s->value_bytes = s->weight_bytes = dtype_bytes(type);
	if (strcmp(json_get_string(packed, "quant_method", ""), "fp8") == 0)
		s->weight_bytes = 1;
	else if (bits >= 1 && bits <= 16)
		s->weight_bytes = bits / 8;
}

static void read_experts(const struct json_node *config, const char *type, struct sizes *s)
{
	static const char *const counts[] = { "num_local_experts", "num_experts",
					      "n_routed_experts", NULL };

	s->experts = first_of(config, counts, 0);
	s->expert_inner = config_number(config, "moe_intermediate_size", s->inner);
	s->shared_inner =
		config_number(config, "shared_expert_intermediate_size",
			      config_number(config, "n_shared_experts", 0) * s->expert_inner);
	s->shared_gate = json_get(config, "shared_expert_intermediate_size") != NULL;
	s->dense_layers = s->experts > 0 ? config_number(config, "first_k_dense_replace", 0)
					 : s->layers;
	s->sparse_step = config_number(config, "decoder_sparse_step", 1);
	s->router_bias = strcmp(json_get_string(config, "topk_method", ""), "noaux_tc") == 0;
	s->head_norms = strncmp(type, "qwen3", 5) == 0;
	s->qkv_bias = strncmp(type, "qwen2", 5) == 0;
}

static int read_sizes(const char *what, const struct json_node *config, struct sizes *s,
		      struct err *err)
{
	static const char *const needed[] = { "hidden_size", "num_hidden_layers",
					      "num_attention_heads", "vocab_size", NULL };
	const char *type = json_get_string(config, "model_type", "");

	for (size_t i = 0; needed[i]; i++)
		if (!(config_number(config, needed[i], 0) > 0))
			return err_set(err, -EINVAL,
				       "%s has no usable \"%s\", so memory cannot be estimated.",
				       what, needed[i]);
	*s = (struct sizes){
		.hidden = config_number(config, "hidden_size", 0),
		.layers = config_number(config, "num_hidden_layers", 0),
		.heads = config_number(config, "num_attention_heads", 0),
		.vocabulary = config_number(config, "vocab_size", 0),
		.inner = config_number(config, "intermediate_size", 0),
		.q_rank = config_number(config, "q_lora_rank", 0),
		.kv_rank = config_number(config, "kv_lora_rank", 0),
		.nope = config_number(config, "qk_nope_head_dim", 0),
		.rope = config_number(config, "qk_rope_head_dim", 0),
		.v_head = config_number(config, "v_head_dim", 0),
		.tied = config_flag(config, "tie_word_embeddings", strncmp(type, "gemma", 5) == 0),
	};
	s->kv_heads = config_number(config, "num_key_value_heads", s->heads);
	s->head = config_number(config, "head_dim", s->hidden / s->heads);
	if (strcmp(type, "tinymoe") == 0)
		s->positions = config_number(config, "max_position_embeddings", 0);
	read_experts(config, type, s);
	read_types(config, s);
	if (s->layers > 1e5 || !(s->inner > 0 || s->expert_inner > 0) || s->kv_heads < 1)
		return err_set(err, -EINVAL,
			       "%s has impossible sizes, so memory cannot be estimated.", what);
	return 0;
}

static double attention_parameters(const struct sizes *s)
{
	double queries;

	if (s->kv_rank > 0) {
		queries = s->heads * (s->nope + s->rope);
		queries = s->q_rank > 0 ? s->q_rank * (s->hidden + 1 + queries)
					: s->hidden * queries;
		return queries + s->hidden * (s->kv_rank + s->rope) + s->kv_rank +
		       s->kv_rank * s->heads * (s->nope + s->v_head) +
		       s->heads * s->v_head * s->hidden;
	}
	queries = s->heads * s->head;
	return 2 * s->hidden * queries + 2 * s->hidden * s->kv_heads * s->head +
	       (s->qkv_bias ? queries + 2 * s->kv_heads * s->head : 0) +
	       (s->head_norms ? 2 * s->head : 0);
}

static bool is_sparse(const struct sizes *s, double layer)
{
	long long step = s->sparse_step > 1 ? (long long)s->sparse_step : 1;

	return s->experts > 0 && layer >= s->dense_layers && ((long long)layer + 1) % step == 0;
}

static double count_parameters(const struct sizes *s)
{
	double dense = 3 * s->hidden * s->inner;
	double sparse = s->experts * (3 * s->hidden * s->expert_inner + s->hidden) +
			3 * s->hidden * s->shared_inner + (s->shared_gate ? s->hidden : 0) +
			(s->router_bias ? s->experts : 0);
	double sum = s->hidden * (s->vocabulary * (s->tied ? 1 : 2) + s->positions + 1);

	for (double layer = 0; layer < s->layers; layer++)
		sum += attention_parameters(s) + 2 * s->hidden +
		       (is_sparse(s, layer) ? sparse : dense);
	return sum;
}

/* Sequences per copy of the model. */
static double batch_of(const struct experiment *e)
{
	return ceil((double)e->batch_size / (double)e->data_parallel_size);
}

/* Layers in the longest pipeline stage. */
static double layers_of(const struct sizes *s, const struct experiment *e)
{
	return ceil(s->layers / (double)e->pipeline_parallel_size);
}

/* tinymoe allocates a cache for the whole context of each sequence at the start. */
static double cache_bytes(const struct sizes *s, const struct experiment *e, double prompt)
{
	double tokens = s->positions > 0 ? s->positions : prompt + (double)e->max_tokens;
	double parts = (double)e->tensor_parallel_size;
	double values = 2 * s->kv_heads * s->head;

	/* Latent attention keeps one vector for all heads, on each GPU. */
	if (s->kv_rank > 0) {
		values = s->kv_rank + s->rope;
		parts = 1;
	} else if (parts > s->kv_heads) {
		parts = s->kv_heads;
	}
	return batch_of(e) * tokens * layers_of(s, e) * values * s->value_bytes / parts;
}

/* Training keeps every layer for the backward pass, and predicts a token at every position. */
static double activation_bytes(const struct sizes *s, const struct experiment *e, double prompt)
{
	bool trains = e->task == TASK_TRAINING;
	double batch = batch_of(e);
	double widest = s->inner > s->hidden ? s->inner : s->hidden;
	double tokens = trains && s->positions > 0 ? s->positions : prompt;
	double layer = batch * tokens * (6 * s->hidden + 3 * widest) * s->value_bytes;

	return layer * (trains ? layers_of(s, e) : 1) +
	       batch * (trains ? tokens : 1) * s->vocabulary * 4;
}

int estimate_from(const char *what, const char *text, size_t length, const struct experiment *e,
		  struct estimate *ret_estimate, struct err *err)
{
	/* A token is at least one byte of the prompt. */
	double prompt = e->prompt ? (double)strlen(e->prompt) : 1, parts;
	struct json_node *root;
	const struct json_node *config;
	struct sizes s = { 0 };
	int r = json_parse(what, text, length, &root, err);

	if (r < 0)
		return r;
	config = json_get(root, "text_config");
	r = read_sizes(what, config ? config : root, &s, err);
	json_node_free(root);
	if (r < 0)
		return r;
	if (s.positions > 0 && prompt > s.positions)
		prompt = s.positions;
	*ret_estimate = (struct estimate){
		.parameters = count_parameters(&s),
		.cache_bytes = e->task == TASK_TRAINING ? 0 : cache_bytes(&s, e, prompt),
		.activation_bytes = activation_bytes(&s, e, prompt),
	};
	parts = (double)e->tensor_parallel_size * (double)e->pipeline_parallel_size;
	ret_estimate->weights_bytes = ret_estimate->parameters * s.weight_bytes / parts;
	if (e->task == TASK_TRAINING)
		ret_estimate->training_bytes = ret_estimate->parameters * (s.value_bytes + 8) /
					       parts;
	ret_estimate->total_bytes = ret_estimate->weights_bytes + ret_estimate->cache_bytes +
				    ret_estimate->activation_bytes + ret_estimate->training_bytes;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The hand-written backward pass of tinymoe against central finite differences of its forward
 * pass, in double, for every parameter group: plain routing, capacity drops, dynamic k, both, one
 * expert per token, and sizes that leave odd tiles. A difference in which the routing itself moves
 * is not a derivative, so each probe also checks that no slot changed.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tinymoe/model/model.h"
#include "tinymoe/system/failure.h"
#include "tinymoe/system/rng.h"

#define PROBE_STEP 1e-5
#define TOLERANCE 1e-3

/* Values probed in each parameter of each layer. */
enum { PROBES = 40 };

struct fixture {
	struct model *model;
	uint8_t *tokens, *targets;
	int32_t *slots; /* reported slots of all layers at the point of the gradient */
	size_t layer_slots;
};

static struct config small_config(void)
{
	struct config config = config_default();

	config.layers = 2;
	config.width = 12;
	config.heads = 3;
	config.experts = 5;
	config.top_k = 2;
	config.expert_width = 7;
	config.context = 9;
	config.batch = 3;
	config.balance = 0.3;
	config.z_loss = 0.2;
	config.seed = 11;
	return config;
}

static void fixture_init(struct fixture *f, const struct config *config)
{
	struct failure failure;
	size_t tokens = config_tokens(config);
	struct rng rng;

	assert_int_equal(model_new(config, 2, true, &f->model, &failure), 0);
	f->tokens = malloc(tokens);
	f->targets = malloc(tokens);
	f->layer_slots = tokens * (size_t)config->top_k;
	f->slots = malloc((size_t)config->layers * f->layer_slots * sizeof(*f->slots));
	assert_non_null(f->tokens);
	assert_non_null(f->targets);
	assert_non_null(f->slots);

	rng_init(&rng, 5, RNG_BATCHES);
	/* Few different bytes, so that their embeddings collect from several places. */
	for (size_t i = 0; i < tokens; i++) {
		f->tokens[i] = (uint8_t)rng_below(&rng, 6);
		f->targets[i] = (uint8_t)rng_below(&rng, VOCABULARY);
	}
	/* Larger than real initial values: every path then has a gradient worth comparing. */
	for (size_t i = 0; i < f->model->layout.total; i++)
		f->model->params[i] += 0.3 * rng_normal(&rng);
}

static void fixture_release(struct fixture *f)
{
	model_free(f->model);
	free(f->tokens);
	free(f->targets);
	free(f->slots);
}

static double total_loss(struct fixture *f, bool keep_slots)
{
	struct losses losses;

	model_forward(f->model, f->tokens, f->targets, &losses);
	for (int32_t layer = 0; layer < f->model->config.layers; layer++) {
		const int32_t *now = f->model->layers[layer].route.reported;
		int32_t *then = f->slots + (size_t)layer * f->layer_slots;

		if (keep_slots)
			memcpy(then, now, f->layer_slots * sizeof(*now));
		else
			assert_memory_equal(then, now, f->layer_slots * sizeof(*now));
	}
	model_discard(f->model);
	return losses.total;
}

/* |a - b| against their size, with a floor under which both are rounding of the difference. */
static double relative_error(double analytic, double numeric)
{
	double size = fmax(fabs(analytic), fabs(numeric));

	return fabs(analytic - numeric) / fmax(size, 1e-6);
}

static double probe(struct fixture *f, size_t at)
{
	real *value = &f->model->params[at];
	real kept = *value;
	double above, below;

	*value = kept + PROBE_STEP;
	above = total_loss(f, false);
	*value = kept - PROBE_STEP;
	below = total_loss(f, false);
	*value = kept;
	return relative_error(f->model->grads[at], (above - below) / (2 * PROBE_STEP));
}

static void check_param(struct fixture *f, enum param param, struct rng *rng)
{
	const struct param_layout *layout = &f->model->layout;
	int32_t copies = param_in_layers(param) ? f->model->config.layers : 1;
	double worst = 0, largest = 0;

	for (int32_t layer = 0; layer < copies; layer++) {
		size_t first = param_at(layout, param, layer);

		for (size_t i = 0; i < layout->size[param]; i++)
			largest = fmax(largest, fabs(f->model->grads[first + i]));
		for (int i = 0; i < PROBES; i++) {
			/* Of the embedding, the rows that occur. */
			size_t span = param == PARAM_EMBEDDING ? 6 * (size_t)f->model->config.width
							       : layout->size[param];

			worst = fmax(worst, probe(f, first + rng_below(rng, span)));
		}
	}
	print_message("  %-15s max relative error %.2e, largest gradient %.2e\n", param_name(param),
		      worst, largest);
	assert_true(largest > 1e-4);
	assert_true(worst < TOLERANCE);
}

static size_t slots_marked(const struct fixture *f, int32_t mark)
{
	size_t count = 0;

	for (size_t i = 0; i < (size_t)f->model->config.layers * f->layer_slots; i++)
		count += f->slots[i] == mark;
	return count;
}

/* Leaves the fixture's slots filled, for the caller to look at. */
static void check_gradients(struct fixture *f)
{
	struct losses losses;
	struct rng rng;

	total_loss(f, true);
	model_forward(f->model, f->tokens, f->targets, &losses);
	model_backward(f->model);
	rng_init(&rng, 3, RNG_SAMPLING);
	for (int param = 0; param < PARAM_COUNT; param++)
		check_param(f, (enum param)param, &rng);
}

static void test_plain(void **state)
{
	struct config config = small_config();
	struct fixture f;

	(void)state;
	fixture_init(&f, &config);
	check_gradients(&f);
	assert_int_equal(slots_marked(&f, MOESCOPE_SLOT_DROPPED), 0);
	assert_int_equal(slots_marked(&f, MOESCOPE_SLOT_UNUSED), 0);
	fixture_release(&f);
}

static void test_capacity(void **state)
{
	struct config config = small_config();
	struct fixture f;

	(void)state;
	config.capacity_factor = 0.8;
	fixture_init(&f, &config);
	check_gradients(&f);
	assert_true(slots_marked(&f, MOESCOPE_SLOT_DROPPED) > 0);
	fixture_release(&f);
}

static void test_dynamic_k(void **state)
{
	struct config config = small_config();
	struct fixture f;

	(void)state;
	config.top_k = 3;
	config.dynamic_k = 0.15;
	fixture_init(&f, &config);
	check_gradients(&f);
	assert_true(slots_marked(&f, MOESCOPE_SLOT_UNUSED) > 0);
	fixture_release(&f);
}

static void test_capacity_and_dynamic_k(void **state)
{
	struct config config = small_config();
	struct fixture f;

	(void)state;
	config.top_k = 3;
	config.dynamic_k = 0.15;
	config.capacity_factor = 0.7;
	fixture_init(&f, &config);
	check_gradients(&f);
	assert_true(slots_marked(&f, MOESCOPE_SLOT_UNUSED) > 0);
	assert_true(slots_marked(&f, MOESCOPE_SLOT_DROPPED) > 0);
	fixture_release(&f);
}

static void test_one_expert_per_token(void **state)
{
	struct config config = small_config();
	struct fixture f;

	(void)state;
	config.top_k = 1;
	fixture_init(&f, &config);
	check_gradients(&f);
	fixture_release(&f);
}

static void test_collapsed(void **state)
{
	struct config config = small_config();
	struct fixture f;

	(void)state;
	config.collapse = 1;
	fixture_init(&f, &config);
	check_gradients(&f);
	fixture_release(&f);
}

/* More tokens than a tile, and not a multiple of one: sums over tiles take part. */
static void test_several_tiles(void **state)
{
	struct config config = small_config();
	struct fixture f;

	(void)state;
	config.layers = 1;
	config.batch = 17;
	config.context = 11;
	config.width = 36;
	config.heads = 2;
	fixture_init(&f, &config);
	check_gradients(&f);
	fixture_release(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_capacity),
		cmocka_unit_test(test_dynamic_k),
		cmocka_unit_test(test_capacity_and_dynamic_k),
		cmocka_unit_test(test_one_expert_per_token),
		cmocka_unit_test(test_collapsed),
		cmocka_unit_test(test_several_tiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates a model: parameters, gradients, and the memory for a step's activations.
 */
#include "tinymoe/model/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tinymoe/math/gemm.h"
#include "tinymoe/model/backward.h"
#include "tinymoe/model/forward.h"
#include "tinymoe/system/failure.h"
#include "tinymoe/system/rng.h"

static int take_memory(struct model *model, bool training)
{
	size_t bytes = model->layout.total * sizeof(real);

	model->params = memory_new(bytes, MOESCOPE_MEMORY_PARAMETERS, "parameters");
	model->layers = calloc((size_t)model->config.layers, sizeof(*model->layers));
	model->executed = calloc((size_t)model->config.layers * (size_t)model->config.experts,
				 sizeof(*model->executed));
	if (!model->params || !model->layers || !model->executed)
		return -ENOMEM;
	if (!training)
		return 0;
	model->grads = memory_new(bytes, MOESCOPE_MEMORY_GRADIENTS, "gradients");
	if (!model->grads)
		return -ENOMEM;
	if (arena_init(&model->activations, forward_bytes(&model->config),
		       MOESCOPE_MEMORY_ACTIVATIONS, "activations") < 0 ||
	    arena_init(&model->scratch, backward_bytes(&model->config), MOESCOPE_MEMORY_ACTIVATIONS,
		       "backward scratch") < 0)
		return -ENOMEM;
	return report_init(&model->report, &model->config, config_tokens(&model->config), 1);
}

int model_new(const struct config *config, int threads, bool training, struct model **ret_model,
	      struct failure *failure)
{
	struct model *model = calloc(1, sizeof(*model));
	struct rng rng;
	int error;

	if (!model)
		return failure_set(failure, ENOMEM, "there is not enough memory for the model");
	model->config = *config;
	param_layout_init(&model->layout, config);
	gemm_init();
	error = pool_new(threads, &model->pool);
	if (error < 0) {
		model_free(model);
		return failure_set(failure, -error, "cannot start %d threads: %s; lower --threads",
				   threads, strerror(-error));
	}
	if (take_memory(model, training) < 0) {
		model_free(model);
		return failure_set(failure, ENOMEM,
				   "there is not enough memory for the model: lower --batch, "
				   "--width or --experts");
	}
	rng_init(&rng, config->seed, RNG_PARAMETERS);
	params_randomize(&model->layout, config, &rng, model->params);
	*ret_model = model;
	return 0;
}

void model_free(struct model *model)
{
	if (!model)
		return;
	pool_free(model->pool);
	report_release(&model->report);
	arena_release(&model->scratch);
	arena_release(&model->activations);
	memory_free(model->grads);
	memory_free(model->params);
	free(model->executed);
	free(model->layers);
	free(model);
}

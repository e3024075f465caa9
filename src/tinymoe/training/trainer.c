/* SPDX-License-Identifier: Apache-2.0
 *
 * Training steps and their checkpoints. Main thread.
 */
#include "tinymoe/training/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tinymoe/system/failure.h"

int trainer_new(const struct config *config, int threads, const struct corpus *corpus,
		struct trainer **ret_trainer, struct failure *failure)
{
	struct trainer *trainer = calloc(1, sizeof(*trainer));
	int error;

	if (!trainer)
		return failure_set(failure, ENOMEM, "there is not enough memory for the model");
	error = model_new(config, threads, true, &trainer->model, failure);
	if (error) {
		trainer_free(trainer);
		return error;
	}
	trainer->corpus = corpus;
	trainer->tokens = malloc(config_tokens(config));
	trainer->targets = malloc(config_tokens(config));
	error = optimizer_init(&trainer->optimizer, trainer->model);
	if (error || !trainer->tokens || !trainer->targets) {
		trainer_free(trainer);
		return failure_set(failure, ENOMEM,
				   "there is not enough memory for the optimizer: lower --width or "
				   "--experts");
	}
	rng_init(&trainer->batches, config->seed, RNG_BATCHES);
	*ret_trainer = trainer;
	return 0;
}

void trainer_free(struct trainer *trainer)
{
	if (!trainer)
		return;
	optimizer_release(&trainer->optimizer);
	model_free(trainer->model);
	free(trainer->targets);
	free(trainer->tokens);
	free(trainer);
}

int trainer_step(struct trainer *trainer, struct step_result *ret_result, struct failure *failure)
{
	struct model *model = trainer->model;
	struct step_result result;

	moescope_step_begin(trainer->step);
	report_range(&model->report, RANGE_BATCH, -1, -1, MOESCOPE_DATA);
	corpus_batch(trainer->corpus, &model->config, &trainer->batches, trainer->tokens,
		     trainer->targets);
	report_range_end();
	model_forward(model, trainer->tokens, trainer->targets, &result.losses);
	moescope_counter("loss", result.losses.cross_entropy);
	if (!isfinite(result.losses.total)) {
		model_discard(model);
		moescope_step_end(config_tokens(&model->config));
		return failure_set(failure, EDOM,
				   "the loss is not a number any more at step %lld: lower --lr",
				   (long long)trainer->step);
	}
	model_backward(model);
	result.learning_rate = optimizer_rate(&model->config, trainer->step);
	result.gradient_norm = optimizer_step(&trainer->optimizer, model, trainer->step);
	moescope_counter("learning rate", result.learning_rate);
	moescope_counter("gradient norm", result.gradient_norm);
	moescope_step_end(config_tokens(&model->config));
	trainer->step++;
	*ret_result = result;
	return 0;
}

int trainer_save(const struct trainer *trainer, const char *path, struct failure *failure)
{
	struct checkpoint checkpoint = {
		.config = trainer->model->config,
		.step = trainer->step,
		.batches = trainer->batches,
		.parameters = trainer->model->layout.total,
	};

	return checkpoint_write(path, &checkpoint, trainer->model->params, trainer->optimizer.mean,
				trainer->optimizer.square, failure);
}

int trainer_load(struct trainer *trainer, struct checkpoint_reader *reader, struct failure *failure)
{
	int error = checkpoint_read(reader, trainer->model->params, trainer->optimizer.mean,
				    trainer->optimizer.square, failure);

	if (error)
		return error;
	trainer->step = reader->header.step;
	trainer->batches = reader->header.batches;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Training of tinymoe: the first loss, that it learns, that the number of threads changes no bit,
 * that the experts compute exactly the rows that were dispatched, and that a checkpoint resumes
 * exactly or is refused with a sentence.
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
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tinymoe/system/failure.h"
#include "tinymoe/training/trainer.h"

static char directory[64];
static char checkpoint_path[96];

static const char text[] =
	"A scale tells the truth to anyone who asks it twice. The first answer may be the wind, "
	"the second is the weight, and the third is only there to be sure. So the old baker "
	"weighed the flour, emptied the bowl, and weighed it again, and nobody ever found a bad "
	"loaf.\n";

static struct corpus corpus = { .text = (uint8_t *)text, .bytes = sizeof(text) - 1 };

static struct config small_config(void)
{
	struct config config = config_default();

	config.layers = 2;
	config.width = 16;
	config.heads = 2;
	config.experts = 4;
	config.top_k = 2;
	config.expert_width = 12;
	config.context = 24;
	config.batch = 11; /* 264 tokens: two whole tiles and a rest */
	config.capacity_factor = 1.1;
	config.dynamic_k = 0.1;
	config.schedule = 40;
	return config;
}

static struct trainer *new_trainer(const struct config *config, int threads)
{
	struct trainer *trainer;
	struct failure failure;

	assert_int_equal(trainer_new(config, threads, &corpus, &trainer, &failure), 0);
	return trainer;
}

static double train(struct trainer *trainer, int steps)
{
	struct step_result result = { 0 };
	struct failure failure;

	for (int i = 0; i < steps; i++)
		assert_int_equal(trainer_step(trainer, &result, &failure), 0);
	return result.losses.cross_entropy;
}

static void assert_same_state(const struct trainer *a, const struct trainer *b)
{
	size_t bytes = a->model->layout.total * sizeof(real);

	assert_int_equal(a->step, b->step);
	assert_memory_equal(&a->batches, &b->batches, sizeof(a->batches));
	assert_memory_equal(a->model->params, b->model->params, bytes);
	assert_memory_equal(a->optimizer.mean, b->optimizer.mean, bytes);
	assert_memory_equal(a->optimizer.square, b->optimizer.square, bytes);
}

static void test_first_loss(void **state)
{
	struct config config = config_default();
	struct trainer *trainer;
	double loss;

	(void)state;
	config.batch = 2;
	trainer = new_trainer(&config, 2);
	loss = train(trainer, 1);
	print_message("  first loss %.4f, ln 256 = %.4f\n", loss, log(256));
	assert_true(fabs(loss - log(256)) < 0.1);
	trainer_free(trainer);
}

static void test_learns(void **state)
{
	struct config config = small_config();
	struct trainer *trainer;
	double loss;

	(void)state;
	config.learning_rate = 0.02;
	config.schedule = 150;
	trainer = new_trainer(&config, 2);
	loss = train(trainer, 150);
	print_message("  loss %.4f after 150 steps\n", loss);
	assert_true(loss < 2);
	trainer_free(trainer);
}

static void test_threads_change_nothing(void **state)
{
	static const int threads[] = { 2, 3, 8 };
	struct config config = small_config();
	struct trainer *one = new_trainer(&config, 1);
	double loss = train(one, 12);

	(void)state;
	for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
		struct trainer *many = new_trainer(&config, threads[i]);
		double other = train(many, 12);

		assert_memory_equal(&loss, &other, sizeof(loss));
		assert_same_state(one, many);
		trainer_free(many);
	}
	trainer_free(one);
}

/* What the experts executed, recounted from the router's choice alone. */
static void check_layer_counts(const struct model *model, int32_t layer)
{
	const struct route *route = &model->layers[layer].route;
	const int64_t *executed = model->executed + layer * model->config.experts;
	int32_t capacity = router_capacity(&model->config, route->tokens);
	int64_t expected[8] = { 0 };
	size_t slots = route->tokens * route->top_k;

	for (size_t slot = 0; slot < slots; slot++) {
		int32_t expert = route->chosen[slot];
		int32_t reported = route->reported[slot];

		if (expert == SLOT_UNUSED) {
			assert_true(slot % route->top_k > 0);
			assert_int_equal(reported, MOESCOPE_SLOT_UNUSED);
		} else if (expected[expert] < capacity) {
			/* In order: rows of an expert are its slots, the earliest first. */
			assert_int_equal(reported, expert);
			assert_int_equal(route->row_of[slot],
					 route->first[expert] + expected[expert]);
			assert_int_equal(route->slot_of[route->row_of[slot]], slot);
			expected[expert]++;
		} else {
			assert_int_equal(reported, MOESCOPE_SLOT_DROPPED);
		}
	}
	for (int32_t e = 0; e < model->config.experts; e++)
		assert_int_equal(executed[e], expected[e]);
}

static void test_counts(void **state)
{
	struct config config = small_config();
	struct trainer *trainer = new_trainer(&config, 3);
	struct model *model = trainer->model;
	struct losses losses;
	size_t dropped = 0, unused = 0;

	(void)state;
	train(trainer, 30);
	/* Just over the uniform probability: some second experts reach it and some do not. */
	model->config.dynamic_k = 1.02 / config.experts;
	model_forward(model, trainer->tokens, trainer->targets, &losses);
	for (int32_t layer = 0; layer < config.layers; layer++) {
		const struct route *route = &model->layers[layer].route;

		check_layer_counts(model, layer);
		for (size_t slot = 0; slot < route->tokens * route->top_k; slot++) {
			dropped += route->reported[slot] == MOESCOPE_SLOT_DROPPED;
			unused += route->reported[slot] == MOESCOPE_SLOT_UNUSED;
		}
	}
	model_discard(model);
	/* Otherwise the test has not tested them. */
	assert_true(dropped > 0);
	assert_true(unused > 0);
	trainer_free(trainer);
}

static void test_collapse(void **state)
{
	struct config config = small_config();
	struct trainer *trainer;

	(void)state;
	config.experts = 8;
	config.capacity_factor = 0;
	config.dynamic_k = 0;
	config.collapse = 1;
	config.balance = config.z_loss = 0;
	trainer = new_trainer(&config, 2);
	train(trainer, 5);
	for (int32_t layer = 0; layer < config.layers; layer++) {
		const int64_t *executed = trainer->model->executed + layer * config.experts;
		int64_t favoured = executed[layer] + executed[layer + 1];

		assert_true(favoured > (int64_t)(config_tokens(&config) * 3 / 2));
	}
	trainer_free(trainer);
}

/* Routing by what is not a number must stay in bounds, and the step must say what is wrong. */
static void test_not_a_number(void **state)
{
	struct config config = small_config();
	struct trainer *trainer = new_trainer(&config, 2);
	struct step_result result;
	struct failure failure;

	(void)state;
	for (size_t i = 0; i < (size_t)VOCABULARY * (size_t)config.width; i++)
		trainer->model->params[i] = NAN;
	assert_int_equal(trainer_step(trainer, &result, &failure), -EDOM);
	assert_non_null(strstr(failure.text, "--lr"));
	assert_int_equal(trainer->step, 0);
	trainer_free(trainer);
}

/* The figures reported to the profiler against the definitions of the metrics: 6*H*I per expert
 * row and 2*H*E + 5*E per routed token, 2*m*n*k for every product, twice that backward. */
static void test_costs(void **state)
{
	struct config config = small_config();
	uint64_t width = (uint64_t)config.width, inner = (uint64_t)config.expert_width;
	uint64_t experts = (uint64_t)config.experts, value = sizeof(real);
	const struct report_cost *cost;
	struct report report;

	(void)state;
	assert_int_equal(report_init(&report, &config, config_tokens(&config), 1), 0);
	cost = report.cost;
	assert_int_equal(cost[OP_EXPERT_GATE].row_flops + cost[OP_EXPERT_UP].row_flops +
				 cost[OP_EXPERT_DOWN].row_flops,
			 6 * width * inner);
	assert_int_equal(cost[OP_EXPERT_DOWN_BACKWARD].row_flops, 4 * width * inner);
	assert_int_equal(cost[OP_ROUTER].row_flops, 2 * width * experts + 5 * experts);
	assert_int_equal(cost[OP_QKV].row_flops, 6 * width * width);
	assert_int_equal(cost[OP_QKV_BACKWARD].row_flops, 12 * width * width);
	assert_int_equal(cost[OP_HEAD].row_flops, 2 * width * 256);
	/* One query and one key of every head: a dot product of the whole width. */
	assert_int_equal(cost[OP_SCORES].pair_flops, 2 * width);
	assert_int_equal(cost[OP_VALUES].pair_flops, 2 * width);
	assert_int_equal(cost[OP_EXPERT_UP].fixed_bytes, width * inner * value);
	assert_int_equal(cost[OP_EXPERT_UP].row_bytes, (width + inner) * value);
	for (int op = 0; op < OP_COUNT; op++)
		assert_true(cost[op].row_bytes + cost[op].pair_bytes > 0);
	report_release(&report);
}

static struct trainer *load(const char *path, int threads, int *ret_error, struct failure *failure)
{
	struct checkpoint_reader reader;
	struct trainer *trainer;

	*ret_error = checkpoint_open(&reader, path, failure);
	if (*ret_error)
		return NULL;
	trainer = new_trainer(&reader.header.config, threads);
	*ret_error = trainer_load(trainer, &reader, failure);
	checkpoint_close(&reader);
	if (*ret_error) {
		trainer_free(trainer);
		return NULL;
	}
	return trainer;
}

static void test_resume(void **state)
{
	struct config config = small_config();
	struct trainer *straight = new_trainer(&config, 2), *first = new_trainer(&config, 1);
	struct trainer *second;
	struct failure failure;
	double whole, resumed;
	int error;

	(void)state;
	whole = train(straight, 25);
	train(first, 14);
	assert_int_equal(trainer_save(first, checkpoint_path, &failure), 0);
	second = load(checkpoint_path, 3, &error, &failure);
	assert_int_equal(error, 0);
	assert_same_state(first, second);
	assert_memory_equal(&second->model->config, &config, sizeof(config));
	resumed = train(second, 11);
	assert_memory_equal(&whole, &resumed, sizeof(whole));
	assert_same_state(straight, second);
	trainer_free(straight);
	trainer_free(first);
	trainer_free(second);
}

struct image {
	unsigned char *data;
	size_t bytes;
};

static struct image read_image(void)
{
	FILE *stream = fopen(checkpoint_path, "re");
	struct image image = { 0 };
	struct stat status;

	assert_non_null(stream);
	assert_int_equal(fstat(fileno(stream), &status), 0);
	image.bytes = (size_t)status.st_size;
	image.data = malloc(image.bytes);
	assert_non_null(image.data);
	assert_int_equal(fread(image.data, 1, image.bytes, stream), image.bytes);
	fclose(stream);
	return image;
}

static void write_image(const struct image *image, size_t bytes)
{
	FILE *stream = fopen(checkpoint_path, "we");

	assert_non_null(stream);
	assert_int_equal(fwrite(image->data, 1, bytes, stream), bytes);
	assert_int_equal(fclose(stream), 0);
}

/* Refused, with one line that names the file. */
static void assert_refused(const char *what)
{
	struct failure failure = { 0 };
	int error;

	assert_null(load(checkpoint_path, 1, &error, &failure));
	assert_true(error < 0);
	assert_non_null(strstr(failure.text, checkpoint_path));
	assert_null(strchr(failure.text, '\n'));
	if (what && !strstr(failure.text, what))
		fail_msg("'%s' does not say '%s'", failure.text, what);
}

static struct image saved_image(void)
{
	struct config config = small_config();
	struct trainer *trainer;
	struct failure failure;

	config.width = 4;
	config.expert_width = 3;
	config.layers = 1;
	trainer = new_trainer(&config, 1);
	train(trainer, 1);
	assert_int_equal(trainer_save(trainer, checkpoint_path, &failure), 0);
	trainer_free(trainer);
	return read_image();
}

static void test_cut_checkpoint(void **state)
{
	struct image image = saved_image();

	(void)state;
	for (size_t bytes = 0; bytes < image.bytes;
	     bytes += bytes < CHECKPOINT_HEADER_BYTES + 16 ? 1 : 501) {
		write_image(&image, bytes);
		assert_refused(bytes < 8 ? "not a tinymoe checkpoint" : "cut short");
	}
	write_image(&image, image.bytes - 1);
	assert_refused("cut short");
	free(image.data);
}

static void test_flipped_checkpoint(void **state)
{
	struct image image = saved_image();

	(void)state;
	for (size_t at = 0; at < image.bytes; at += at < CHECKPOINT_HEADER_BYTES ? 1 : 211) {
		image.data[at] ^= (unsigned char)(1 << at % 8);
		write_image(&image, image.bytes);
		assert_refused(at >= CHECKPOINT_HEADER_BYTES ? "checksum" : NULL);
		image.data[at] ^= (unsigned char)(1 << at % 8);
	}
	for (size_t at = image.bytes - 8; at < image.bytes; at++) {
		image.data[at] ^= 1;
		write_image(&image, image.bytes);
		assert_refused("checksum");
		image.data[at] ^= 1;
	}
	free(image.data);
}

static void test_foreign_checkpoint(void **state)
{
	struct image image = saved_image();
	unsigned char first = image.data[0];

	(void)state;
	image.data[0] = 'T';
	write_image(&image, image.bytes);
	assert_refused("not a tinymoe checkpoint");
	image.data[0] = first;
	image.data[8] = CHECKPOINT_VERSION + 1;
	write_image(&image, image.bytes);
	assert_refused("newer");
	image.data[8] = CHECKPOINT_VERSION;
	image.data = realloc(image.data, image.bytes + 1);
	assert_non_null(image.data);
	image.data[image.bytes] = 0;
	write_image(&image, image.bytes + 1);
	assert_refused("after its end");
	unlink(checkpoint_path);
	assert_refused("No such file");
	free(image.data);
}

static void test_save_where_nothing_can_be(void **state)
{
	struct config config = small_config();
	struct trainer *trainer = new_trainer(&config, 1);
	struct failure failure;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/no/such/place", directory);
	assert_int_equal(trainer_save(trainer, path, &failure), -ENOENT);
	assert_non_null(strstr(failure.text, path));
	/* Onto a directory: the temporary file is made and must go again. */
	snprintf(path, sizeof(path), "%s/taken", directory);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(trainer_save(trainer, path, &failure) < 0);
	snprintf(path, sizeof(path), "%s/taken.tmp.%ld", directory, (long)getpid());
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s/taken", directory);
	rmdir(path);
	trainer_free(trainer);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/test_tinymoe_XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(checkpoint_path, sizeof(checkpoint_path), "%s/model.ckpt", directory);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(checkpoint_path);
	/* Fails when a test has left something behind. */
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_loss),
		cmocka_unit_test(test_learns),
		cmocka_unit_test(test_threads_change_nothing),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_collapse),
		cmocka_unit_test(test_not_a_number),
		cmocka_unit_test(test_costs),
		cmocka_unit_test(test_resume),
		cmocka_unit_test(test_cut_checkpoint),
		cmocka_unit_test(test_flipped_checkpoint),
		cmocka_unit_test(test_foreign_checkpoint),
		cmocka_unit_test(test_save_where_nothing_can_be),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

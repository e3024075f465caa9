/* SPDX-License-Identifier: Apache-2.0
 *
 * tinymoe: trains a small MoE language model on the CPU, saves it, generates from it. The only
 * file here that prints messages and decides the exit status: 0, 1 (failed), 2 (usage).
 */
#include <errno.h>
#include <moescope.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tinymoe/generation/decoder.h"
#include "tinymoe/options.h"
#include "tinymoe/parameters/checkpoint.h"
#include "tinymoe/system/failure.h"
#include "tinymoe/system/notes.h"
#include "tinymoe/system/outfile.h"
#include "tinymoe/training/corpus.h"
#include "tinymoe/training/trainer.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, FINAL_STEPS = 20 };

/* Set by SIGINT and SIGTERM: the current step finishes, files are cleaned up. */
static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	interrupted = number;
}

/* Everything a run may hold; program_release also handles a partial one. */
struct program {
	struct settings settings;
	struct checkpoint_reader reader;
	struct corpus corpus;
	struct outfile counts;
	struct notes notes;
	struct trainer *trainer;
	struct model *generator; /* without a trainer */
};

static double now_s(void)
{
	return (double)notes_now_ns() * 1e-9;
}

static void write_counts(FILE *out, const struct model *model, int64_t step)
{
	const struct config *c = &model->config;

	for (int32_t layer = 0; layer < c->layers; layer++)
		for (int32_t expert = 0; expert < c->experts; expert++)
			fprintf(out, "%lld,%d,%d,%lld\n", (long long)step, layer, expert,
				(long long)model->executed[layer * c->experts + expert]);
}

/* The steps of this run and what the progress lines say about them. */
struct progress {
	double start_s, line_s, last[FINAL_STEPS];
	int32_t done, line_done;
};

static void print_step(struct progress *progress, const struct settings *settings, int64_t step,
		       double loss)
{
	double now = now_s();
	double tokens = (double)config_tokens(&settings->config);
	int last = progress->done == settings->steps;

	if (settings->quiet || (step % settings->log_every && !last))
		return;
	printf("step %lld  loss %.4f  tokens/s %.0f\n", (long long)step, loss,
	       tokens * (progress->done - progress->line_done) / (now - progress->line_s));
	fflush(stdout);
	progress->line_s = now;
	progress->line_done = progress->done;
}

static void print_summary(const struct progress *progress, const struct settings *settings)
{
	int32_t count = progress->done < FINAL_STEPS ? progress->done : FINAL_STEPS;
	double sum = 0;

	for (int32_t i = 0; i < count; i++)
		sum += progress->last[i];
	if (!settings->quiet)
		printf("trained %d steps in %.1f s, loss %.4f (mean of the last %d steps)\n",
		       progress->done, now_s() - progress->start_s, sum / count, count);
}

static int train(struct program *program, struct failure *failure)
{
	const struct settings *settings = &program->settings;
	struct trainer *trainer = program->trainer;
	struct progress progress = { .start_s = now_s() };

	progress.line_s = progress.start_s;
	if (program->counts.stream)
		fputs("step,layer,expert,count\n", program->counts.stream);
	while (progress.done < settings->steps && !interrupted) {
		int64_t step = trainer->step;
		struct step_result result;
		struct note note = {
			.sent_ns = notes_now_ns(),
			.warmup = progress.done < settings->warmup,
			.prompt_tokens = config_tokens(&settings->config),
		};
		int error = trainer_step(trainer, &result, failure);

		if (error)
			return error;
		note.end_ns = notes_now_ns();
		notes_add(&program->notes, &note);
		progress.last[progress.done++ % FINAL_STEPS] = result.losses.cross_entropy;
		if (program->counts.stream)
			write_counts(program->counts.stream, trainer->model, step);
		print_step(&progress, settings, step, result.losses.cross_entropy);
	}
	if (interrupted)
		return failure_set(failure, EINTR, "stopped by a signal after %d of %d steps",
				   progress.done, settings->steps);
	print_summary(&progress, settings);
	return 0;
}

/* Training needs gradients and moments; so does saving, even after no step. */
static int needs_trainer(const struct settings *settings)
{
	return settings->steps > 0 || settings->save;
}

/* Checks the settings against the checkpoint and the machine: errors here are usage errors. */
static int check(struct program *program, struct failure *failure)
{
	struct settings *settings = &program->settings;
	int uses = (needs_trainer(settings) ? CONFIG_TRAINS : 0) |
		   (settings->generate > 0 ? CONFIG_GENERATES : 0);

	if (settings->load) {
		int error = options_merge(settings, &program->reader.header.config, failure);

		if (error)
			return error;
	}
	return config_check(&settings->config, uses, config_machine_bytes(), failure);
}

static int prepare_program(struct program *program, struct failure *failure)
{
	struct settings *settings = &program->settings;
	int64_t start_ns = notes_now_ns();
	struct model *model;
	int error = 0;

	if (settings->steps > 0)
		error = corpus_load(&program->corpus, settings->corpus, settings->config.context,
				    failure);
	if (!error && settings->save)
		error = outfile_probe(settings->save, failure);
	if (!error && settings->counts)
		error = outfile_open(&program->counts, settings->counts, failure);
	if (error)
		return error;
	if (needs_trainer(settings)) {
		error = trainer_new(&settings->config, settings->threads, &program->corpus,
				    &program->trainer, failure);
		if (!error && settings->load)
			error = trainer_load(program->trainer, &program->reader, failure);
	} else {
		error = model_new(&settings->config, settings->threads, false, &program->generator,
				  failure);
		if (!error && settings->load)
			error = checkpoint_read(&program->reader, program->generator->params, NULL,
						NULL, failure);
	}
	if (error)
		return error;
	model = program->trainer ? program->trainer->model : program->generator;
	report_model(&settings->config, settings->threads, model->layout.total);
	if (program->corpus.path)
		moescope_info("corpus", program->corpus.path);
	if (settings->requests)
		error = notes_open(&program->notes, settings->requests, notes_now_ns() - start_ns,
				   failure);
	return error;
}

static int run(struct program *program, struct failure *failure)
{
	const struct settings *settings = &program->settings;
	struct generation generation = {
		.prompt = settings->prompt,
		.tokens = (size_t)settings->generate,
		.temperature = settings->temperature,
		.seed = settings->config.seed,
		.sequences = (size_t)settings->sequences,
		.repeats = (size_t)settings->repeats,
		.warmup = (size_t)settings->warmup,
		.notes = settings->steps > 0 ? NULL : &program->notes,
	};
	int error = 0;

	if (settings->steps > 0)
		error = train(program, failure);
	if (!error && settings->save)
		error = trainer_save(program->trainer, settings->save, failure);
	if (!error && program->counts.stream)
		error = outfile_commit(&program->counts, failure);
	/* Nothing is left to clean up: from here on a signal may end the program. */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	if (!error && settings->generate > 0)
		error = generate(program->trainer ? program->trainer->model : program->generator,
				 &generation, stdout, failure);
	if (!error)
		error = notes_close(&program->notes, failure);
	if (!error && (fflush(stdout) || ferror(stdout)))
		error = failure_set(failure, errno, "cannot write to standard output: %s",
				    strerror(errno));
	return error;
}

/* The keys of Hugging Face configurations. */
static void print_config(const struct config *c)
{
	printf("{\"model_type\": \"tinymoe\", \"hidden_size\": %d, \"num_hidden_layers\": %d, "
	       "\"num_attention_heads\": %d, \"num_local_experts\": %d, "
	       "\"num_experts_per_tok\": %d, \"intermediate_size\": %d, \"vocab_size\": %d, "
	       "\"max_position_embeddings\": %d, \"tie_word_embeddings\": false, "
	       "\"dtype\": \"%s\"}\n",
	       c->width, c->layers, c->heads, c->experts, c->top_k, c->expert_width, VOCABULARY,
	       c->context, sizeof(real) == sizeof(float) ? "float32" : "float64");
}

static void program_release(struct program *program)
{
	struct failure unused; /* for a file that is incomplete anyway */

	trainer_free(program->trainer);
	model_free(program->generator);
	outfile_abandon(&program->counts);
	notes_close(&program->notes, &unused);
	corpus_release(&program->corpus);
	checkpoint_close(&program->reader);
}

static int complain(const struct failure *failure, int status)
{
	fprintf(stderr, "tinymoe: %s\n", failure->text);
	return status;
}

int main(int argc, char **argv)
{
	struct program program = { 0 };
	struct settings *settings = &program.settings;
	/* Once: a second signal ends the program immediately. */
	const struct sigaction on_signal = { .sa_handler = interrupt, .sa_flags = SA_RESETHAND };
	struct failure failure;
	int status = 0;

	if (options_parse(argc, argv, settings, &failure) < 0)
		return complain(&failure, EXIT_USAGE);
	if (settings->help) {
		options_help(stdout);
		return 0;
	}
	sigaction(SIGINT, &on_signal, NULL);
	sigaction(SIGTERM, &on_signal, NULL);
	if (settings->load && checkpoint_open(&program.reader, settings->load, &failure) < 0)
		return complain(&failure, EXIT_FAILED);
	if (check(&program, &failure) < 0)
		status = complain(&failure, EXIT_USAGE);
	else if (settings->describe)
		print_config(&settings->config);
	else if (prepare_program(&program, &failure) < 0 || run(&program, &failure) < 0)
		status = complain(&failure, EXIT_FAILED);
	program_release(&program);
	/* The parent should see the signal itself, as from any program. */
	if (interrupted) {
		signal(interrupted, SIG_DFL);
		raise(interrupted);
	}
	return status;
}

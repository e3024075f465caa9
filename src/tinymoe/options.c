/* SPDX-License-Identifier: Apache-2.0
 *
 * The option table, and what is derived from it. Main thread.
 */
#include "tinymoe/options.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tinymoe/system/failure.h"

enum kind { KIND_FLAG, KIND_INT, KIND_SEED, KIND_REAL, KIND_TEXT };

/* Who owns the value: the program, or a part of the configuration that a checkpoint holds. */
enum owner { OWNER_PROGRAM, OWNER_ARCHITECTURE, OWNER_TRAINING };

#define AT(field) offsetof(struct settings, field)
#define ANY 1e300

static const struct option {
	const char *name, *argument;
	enum kind kind;
	enum owner owner;
	size_t at;
	double least, most;
	const char *help;
} options[] = {
	{ "layers", "N", KIND_INT, OWNER_ARCHITECTURE, AT(config.layers), 1, CONFIG_MAX_LAYERS,
	  "layers, each with attention and experts" },
	{ "width", "N", KIND_INT, OWNER_ARCHITECTURE, AT(config.width), 1, CONFIG_MAX_SIZE,
	  "width of the residual stream" },
	{ "heads", "N", KIND_INT, OWNER_ARCHITECTURE, AT(config.heads), 1, CONFIG_MAX_SIZE,
	  "attention heads; divides --width" },
	{ "experts", "N", KIND_INT, OWNER_ARCHITECTURE, AT(config.experts), 1, CONFIG_MAX_EXPERTS,
	  "experts per layer" },
	{ "top-k", "N", KIND_INT, OWNER_ARCHITECTURE, AT(config.top_k), 1, CONFIG_MAX_TOP_K,
	  "experts per token" },
	{ "expert-width", "N", KIND_INT, OWNER_ARCHITECTURE, AT(config.expert_width), 1,
	  CONFIG_MAX_SIZE, "inner width of an expert" },
	{ "context", "N", KIND_INT, OWNER_ARCHITECTURE, AT(config.context), 1, CONFIG_MAX_SIZE,
	  "tokens (bytes) that the model sees at once" },
	{ "batch", "N", KIND_INT, OWNER_TRAINING, AT(config.batch), 1, CONFIG_MAX_SIZE,
	  "sequences per step" },
	{ "steps", "N", KIND_INT, OWNER_PROGRAM, AT(steps), 0, INT32_MAX,
	  "training steps to make now; 0: only generate" },
	{ "lr", "X", KIND_REAL, OWNER_TRAINING, AT(config.learning_rate), 0, ANY,
	  "highest learning rate" },
	{ "schedule", "N", KIND_INT, OWNER_TRAINING, AT(config.schedule), 1, INT32_MAX,
	  "steps over which the learning rate falls to a tenth" },
	{ "balance", "X", KIND_REAL, OWNER_TRAINING, AT(config.balance), 0, ANY,
	  "coefficient of the load-balancing loss" },
	{ "z-loss", "X", KIND_REAL, OWNER_TRAINING, AT(config.z_loss), 0, ANY,
	  "coefficient of the router z-loss" },
	{ "capacity-factor", "X", KIND_REAL, OWNER_TRAINING, AT(config.capacity_factor), 0, ANY,
	  "an expert takes X times its fair share of tokens; 0: no limit" },
	{ "dynamic-k", "P", KIND_REAL, OWNER_TRAINING, AT(config.dynamic_k), 0, 1,
	  "more experts only above this probability; 0: always --top-k" },
	{ "collapse", NULL, KIND_FLAG, OWNER_TRAINING, AT(config.collapse), 0, 1,
	  "a router gone wrong: tokens go to two experts, no balancing" },
	{ "seed", "N", KIND_SEED, OWNER_TRAINING, AT(config.seed), 0, ANY,
	  "seed for all random numbers; with --load only for generation" },
	{ "threads", "N", KIND_INT, OWNER_PROGRAM, AT(threads), 1, 1024,
	  "threads to compute with; the results do not depend on it" },
	{ "corpus", "FILE", KIND_TEXT, OWNER_PROGRAM, AT(corpus), 0, 0,
	  "text to learn; a handbook comes with the program" },
	{ "load", "FILE", KIND_TEXT, OWNER_PROGRAM, AT(load), 0, 0,
	  "continue from this checkpoint, with its sizes and settings" },
	{ "save", "FILE", KIND_TEXT, OWNER_PROGRAM, AT(save), 0, 0,
	  "write a checkpoint after the last step" },
	{ "counts", "FILE", KIND_TEXT, OWNER_PROGRAM, AT(counts), 0, 0,
	  "write what each expert computed: step,layer,expert,count" },
	{ "generate", "N", KIND_INT, OWNER_PROGRAM, AT(generate), 0, INT32_MAX,
	  "bytes to generate after training" },
	{ "prompt", "TEXT", KIND_TEXT, OWNER_PROGRAM, AT(prompt), 0, 0,
	  "text that generation continues" },
	{ "temperature", "X", KIND_REAL, OWNER_PROGRAM, AT(temperature), 0, ANY,
	  "sampling temperature; 0: always the most probable byte" },
	{ "sequences", "N", KIND_INT, OWNER_PROGRAM, AT(sequences), 1, CONFIG_MAX_SIZE,
	  "texts to generate at once, a byte of each in turn; the first is shown" },
	{ "repeats", "N", KIND_INT, OWNER_PROGRAM, AT(repeats), 1, INT32_MAX,
	  "times to generate them" },
	{ "warmup", "N", KIND_INT, OWNER_PROGRAM, AT(warmup), 0, INT32_MAX,
	  "unmeasured times before that, or the first of --steps" },
	{ "requests", "FILE", KIND_TEXT, OWNER_PROGRAM, AT(requests), 0, 0,
	  "write the times of texts and bytes, or of steps, for a benchmark; else to "
	  "$MOESCOPE_BENCH_REQUESTS" },
	{ "log-every", "N", KIND_INT, OWNER_PROGRAM, AT(log_every), 1, INT32_MAX,
	  "steps between progress lines" },
	{ "quiet", NULL, KIND_FLAG, OWNER_PROGRAM, AT(quiet), 0, 1, "no progress lines" },
	{ "describe", NULL, KIND_FLAG, OWNER_PROGRAM, AT(describe), 0, 1,
	  "print the sizes of the model as JSON, and run nothing" },
	{ "help", NULL, KIND_FLAG, OWNER_PROGRAM, AT(help), 0, 1, "this text" },
};

enum { OPTION_COUNT = sizeof(options) / sizeof(options[0]) };
_Static_assert(OPTION_COUNT <= 64, "settings.given has one bit per option");

static struct settings defaults(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct settings settings = {
		.config = config_default(),
		.threads = processors < 1   ? 1
			   : processors > 8 ? 8
					    : (int32_t)processors,
		.temperature = 0.8,
		.log_every = 10,
		.sequences = 1,
		.repeats = 1,
		.prompt = "The ",
		/* Whatever starts an experiment sets it, for each process its own. */
		.requests = getenv("MOESCOPE_BENCH_REQUESTS"),
	};

	settings.steps = settings.config.schedule;
	return settings;
}

static void *field_of(const struct option *option, struct settings *settings)
{
	return (char *)settings + option->at;
}

static bool is_given(const struct settings *settings, const struct option *option)
{
	return settings->given >> (option - options) & 1;
}

static const struct option *option_named(const char *name, size_t length)
{
	for (int i = 0; i < OPTION_COUNT; i++)
		if (strlen(options[i].name) == length && !memcmp(options[i].name, name, length))
			return &options[i];
	return NULL;
}

static int parse_seed(const char *text, uint64_t *ret_seed, struct failure *failure)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	/* strtoull accepts "-1"; requiring a digit first excludes that. */
	if (text[0] < '0' || text[0] > '9' || *end || errno)
		return failure_set(failure, EINVAL,
				   "--seed takes a whole number from 0 to 18446744073709551615, "
				   "not '%s'",
				   text);
	*ret_seed = value;
	return 0;
}

static int parse_int(const struct option *option, const char *text, int32_t *ret_value,
		     struct failure *failure)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno || (double)value < option->least ||
	    (double)value > option->most)
		return failure_set(failure, EINVAL,
				   "--%s takes a whole number from %.0f to %.0f, not '%s'",
				   option->name, option->least, option->most, text);
	*ret_value = (int32_t)value;
	return 0;
}

static int parse_real(const struct option *option, const char *text, double *ret_value,
		      struct failure *failure)
{
	char *end;
	double value = strtod(text, &end);

	if (end != text && !*end && value >= option->least && value <= option->most) {
		*ret_value = value;
		return 0;
	}
	if (option->most < ANY)
		return failure_set(failure, EINVAL, "--%s takes a number from %g to %g, not '%s'",
				   option->name, option->least, option->most, text);
	return failure_set(failure, EINVAL, "--%s takes a number of at least %g, not '%s'",
			   option->name, option->least, text);
}

static int parse_value(const struct option *option, const char *text, struct settings *settings,
		       struct failure *failure)
{
	void *field = field_of(option, settings);

	switch (option->kind) {
	case KIND_FLAG:
		*(int32_t *)field = 1;
		return 0;
	case KIND_INT:
		return parse_int(option, text, field, failure);
	case KIND_SEED:
		return parse_seed(text, field, failure);
	case KIND_REAL:
		return parse_real(option, text, field, failure);
	case KIND_TEXT:
		*(const char **)field = text;
		return 0;
	}
	return -EINVAL;
}

/* Parses the option at argv[*at] and moves *at to the last word it took. */
static int parse_option(int argc, char **argv, int *at, struct settings *settings,
			struct failure *failure)
{
	const char *word = argv[*at], *name = word + 2;
	size_t length = strcspn(name, "=");
	const char *value = name[length] ? name + length + 1 : NULL;
	const struct option *option = option_named(name, length);

	if (!option)
		return failure_set(failure, EINVAL, "there is no option %s; see tinymoe --help",
				   word);
	if (option->kind == KIND_FLAG && value)
		return failure_set(failure, EINVAL, "--%s takes no value", option->name);
	if (option->kind != KIND_FLAG && !value) {
		if (*at + 1 >= argc)
			return failure_set(failure, EINVAL, "--%s needs a value (%s)", option->name,
					   option->argument);
		value = argv[++*at];
	}
	settings->given |= UINT64_C(1) << (option - options);
	return parse_value(option, value, settings, failure);
}

int options_parse(int argc, char **argv, struct settings *ret_settings, struct failure *failure)
{
	struct settings settings = defaults();

	for (int i = 1; i < argc; i++) {
		int error;

		if (!strcmp(argv[i], "-h")) {
			settings.help = 1;
			continue;
		}
		if (strncmp(argv[i], "--", 2) != 0)
			return failure_set(failure, EINVAL,
					   "'%s' is not an option; see tinymoe --help", argv[i]);
		error = parse_option(argc, argv, &i, &settings, failure);
		if (error)
			return error;
	}
	if (settings.config.collapse) {
		if (!is_given(&settings, option_named("balance", 7)))
			settings.config.balance = 0;
		if (!is_given(&settings, option_named("z-loss", 6)))
			settings.config.z_loss = 0;
	}
	*ret_settings = settings;
	return 0;
}

static size_t kind_bytes(enum kind kind)
{
	return kind == KIND_SEED || kind == KIND_REAL ? sizeof(uint64_t) : sizeof(int32_t);
}

int options_merge(struct settings *settings, const struct config *checkpoint,
		  struct failure *failure)
{
	struct settings stored = { .config = *checkpoint };

	for (int i = 0; i < OPTION_COUNT; i++) {
		const struct option *option = &options[i];
		void *wanted = field_of(option, settings), *found = field_of(option, &stored);

		if (option->owner == OWNER_PROGRAM)
			continue;
		if (!is_given(settings, option)) {
			memcpy(wanted, found, kind_bytes(option->kind));
		} else if (option->owner == OWNER_ARCHITECTURE &&
			   memcmp(wanted, found, sizeof(int32_t)) != 0) {
			return failure_set(failure, EINVAL,
					   "--%s %d contradicts the checkpoint %s, which has %d: "
					   "leave the option out",
					   option->name, *(int32_t *)wanted, settings->load,
					   *(int32_t *)found);
		}
	}
	return 0;
}

static void print_default(const struct option *option, struct settings *settings, FILE *out)
{
	const void *field = field_of(option, settings);

	switch (option->kind) {
	case KIND_INT:
		fprintf(out, " (%d)", *(const int32_t *)field);
		break;
	case KIND_REAL:
		fprintf(out, " (%g)", *(const double *)field);
		break;
	case KIND_SEED:
		fprintf(out, " (%llu)", (unsigned long long)*(const uint64_t *)field);
		break;
	case KIND_TEXT:
		if (*(const char *const *)field)
			fprintf(out, " (\"%s\")", *(const char *const *)field);
		break;
	case KIND_FLAG:
		break;
	}
}

void options_help(FILE *out)
{
	struct settings settings = defaults();

	fputs("Usage: tinymoe [OPTION]...\n"
	      "Trains a small mixture-of-experts language model on the CPU and generates text.\n"
	      "It reports itself to the profiler: try `moescope run -- tinymoe`.\n\n"
	      "Options (defaults in parentheses):\n",
	      out);
	for (int i = 0; i < OPTION_COUNT; i++) {
		char word[40];

		snprintf(word, sizeof(word), "--%s%s%s", options[i].name,
			 options[i].argument ? " " : "",
			 options[i].argument ? options[i].argument : "");
		fprintf(out, "  %-20s  %s", word, options[i].help);
		print_default(&options[i], &settings, out);
		putc('\n', out);
	}
	fputs("\nExamples:\n"
	      "  tinymoe --save model.ckpt                      train and keep the model\n"
	      "  tinymoe --load model.ckpt --steps 100          train it for 100 more steps\n"
	      "  tinymoe --load model.ckpt --steps 0 --generate 300 --prompt 'The river '\n"
	      "  tinymoe --collapse --counts counts.csv         a router that has collapsed\n",
	      out);
}

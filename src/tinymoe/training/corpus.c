/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding, reading and sampling the corpus. Main thread.
 */
#include "tinymoe/training/corpus.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tinymoe/system/failure.h"

/* The build sets where the text is in the source tree and where it is installed. */
static const char *const built_in_paths[] = {
#ifdef TINYMOE_CORPUS
	TINYMOE_CORPUS,
#endif
#ifdef TINYMOE_DATADIR
	TINYMOE_DATADIR "/corpus.txt",
#endif
	NULL,
};

/* Relative to the program's directory, for relocated trees. */
static const char *const beside_program[] = { "corpus.txt", "../share/moescope/corpus.txt", NULL };

static char *program_directory(void)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	if (length < 0)
		return NULL;
	path[length] = 0;
	slash = strrchr(path, '/');
	if (!slash)
		return NULL;
	*slash = 0;
	return strdup(path);
}

/* A path to free, or NULL. */
static char *find_default(void)
{
	char *directory = program_directory();
	char *found = NULL;

	for (int i = 0; !found && built_in_paths[i]; i++)
		if (access(built_in_paths[i], R_OK) == 0)
			found = strdup(built_in_paths[i]);
	for (int i = 0; !found && directory && beside_program[i]; i++) {
		if (asprintf(&found, "%s/%s", directory, beside_program[i]) < 0) {
			found = NULL;
		} else if (access(found, R_OK) != 0) {
			free(found);
			found = NULL;
		}
	}
	free(directory);
	return found;
}

static int read_text(struct corpus *corpus, struct failure *failure)
{
	FILE *stream = fopen(corpus->path, "re");
	size_t room = 0;
	int error;

	if (!stream)
		return failure_set(failure, errno,
				   "cannot read the corpus %s: %s; name a text file with --corpus",
				   corpus->path, strerror(errno));
	for (;;) {
		if (corpus->bytes == room) {
			uint8_t *larger;

			room = room ? 2 * room : 1 << 16;
			larger = realloc(corpus->text, room);
			if (!larger) {
				fclose(stream);
				return failure_set(failure, ENOMEM,
						   "the corpus %s does not fit into memory",
						   corpus->path);
			}
			corpus->text = larger;
		}

		size_t got = fread(corpus->text + corpus->bytes, 1, room - corpus->bytes, stream);

		corpus->bytes += got;
		if (!got)
			break;
	}
	error = ferror(stream) ? errno : 0;
	fclose(stream);
	if (error)
		return failure_set(failure, error, "cannot read the corpus %s: %s", corpus->path,
				   strerror(error));
	return 0;
}

int corpus_load(struct corpus *corpus, const char *path, int32_t context, struct failure *failure)
{
	size_t needed = (size_t)context + 1;
	int error;

	*corpus = (struct corpus){ .path = path ? strdup(path) : find_default() };
	if (!corpus->path)
		return failure_set(failure, ENOENT,
				   "the text that comes with the program (corpus.txt) is not where "
				   "it was installed; name a text file with --corpus");
	error = read_text(corpus, failure);
	if (!error && corpus->bytes < needed)
		error = failure_set(failure, EINVAL,
				    "the corpus %s has %zu bytes and --context %d needs at least "
				    "%zu: give a longer text or a smaller --context",
				    corpus->path, corpus->bytes, context, needed);
	if (error)
		corpus_release(corpus);
	return error;
}

void corpus_release(struct corpus *corpus)
{
	free(corpus->text);
	free(corpus->path);
	*corpus = (struct corpus){ 0 };
}

void corpus_batch(const struct corpus *corpus, const struct config *config, struct rng *rng,
		  uint8_t *tokens, uint8_t *targets)
{
	size_t context = (size_t)config->context;

	for (int32_t i = 0; i < config->batch; i++) {
		const uint8_t *window = corpus->text + rng_below(rng, corpus->bytes - context);

		memcpy(tokens + (size_t)i * context, window, context);
		memcpy(targets + (size_t)i * context, window + 1, context);
	}
}

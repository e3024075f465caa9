/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing checkpoints. Main thread.
 */
#include "tinymoe/parameters/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tinymoe/parameters/params.h"
#include "tinymoe/system/failure.h"
#include "tinymoe/system/outfile.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are little-endian: this machine needs a conversion in checkpoint.c"
#endif

static const char magic[8] = { 't', 'i', 'n', 'y', 'm', 'o', 'e', '\n' };

#define SUM_START UINT64_C(0xcbf29ce484222325)

static uint64_t sum_of(uint64_t sum, const void *data, size_t bytes)
{
	const unsigned char *byte = data;

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ byte[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/* A cursor over the header; the same walk writes and reads, so the two cannot disagree. */
struct walk {
	unsigned char *at;
	int writing;
};

static void walk_bytes(struct walk *walk, void *value, size_t bytes)
{
	if (walk->writing)
		memcpy(walk->at, value, bytes);
	else
		memcpy(value, walk->at, bytes);
	walk->at += bytes;
}

/* Magic, version and value size come first in every version, so any version can be recognised. */
struct prefix {
	char magic[8];
	uint32_t version, value_bytes;
};

static void walk_header(struct walk *walk, struct prefix *prefix, struct checkpoint *c)
{
	int32_t *sizes[] = { &c->config.layers,	 &c->config.width, &c->config.heads,
			     &c->config.experts, &c->config.top_k, &c->config.expert_width,
			     &c->config.context, &c->config.batch, &c->config.schedule,
			     &c->config.collapse };
	double *values[] = { &c->config.learning_rate, &c->config.capacity_factor,
			     &c->config.dynamic_k, &c->config.balance, &c->config.z_loss };

	walk_bytes(walk, prefix->magic, sizeof(prefix->magic));
	walk_bytes(walk, &prefix->version, sizeof(prefix->version));
	walk_bytes(walk, &prefix->value_bytes, sizeof(prefix->value_bytes));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		walk_bytes(walk, sizes[i], sizeof(*sizes[i]));
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		walk_bytes(walk, values[i], sizeof(*values[i]));
	walk_bytes(walk, &c->config.seed, sizeof(c->config.seed));
	walk_bytes(walk, &c->step, sizeof(c->step));
	walk_bytes(walk, c->batches.state, sizeof(c->batches.state));
	walk_bytes(walk, &c->parameters, sizeof(c->parameters));
}

/* The checksum takes the last eight bytes of the header. */
enum { HEADER_SUM_AT = CHECKPOINT_HEADER_BYTES - 8 };

int checkpoint_write(const char *path, const struct checkpoint *checkpoint, const real *params,
		     const real *mean, const real *square, struct failure *failure)
{
	const real *arrays[] = { params, mean, square };
	unsigned char header[CHECKPOINT_HEADER_BYTES] = { 0 };
	struct walk walk = { .at = header, .writing = 1 };
	struct prefix prefix = { .version = CHECKPOINT_VERSION, .value_bytes = sizeof(real) };
	struct checkpoint copy = *checkpoint;
	size_t bytes = checkpoint->parameters * sizeof(real);
	struct outfile file;
	uint64_t sum;
	int error;

	memcpy(prefix.magic, magic, sizeof(magic));
	walk_header(&walk, &prefix, &copy);
	sum = sum_of(SUM_START, header, HEADER_SUM_AT);
	memcpy(header + HEADER_SUM_AT, &sum, sizeof(sum));

	error = outfile_open(&file, path, failure);
	if (error)
		return error;
	/* Failed writes stay in the stream's error flag, which the commit checks. */
	fwrite(header, 1, sizeof(header), file.stream);
	sum = sum_of(SUM_START, header, sizeof(header));
	for (int i = 0; i < 3; i++) {
		fwrite(arrays[i], 1, bytes, file.stream);
		sum = sum_of(sum, arrays[i], bytes);
	}
	fwrite(&sum, 1, sizeof(sum), file.stream);
	return outfile_commit(&file, failure);
}

static int check_prefix(const char *path, const struct prefix *prefix, struct failure *failure)
{
	if (memcmp(prefix->magic, magic, sizeof(magic)) != 0)
		return failure_set(failure, EINVAL, "%s is not a tinymoe checkpoint", path);
	if (prefix->version > CHECKPOINT_VERSION)
		return failure_set(failure, EINVAL,
				   "%s was written by a newer tinymoe (checkpoint version %u, this "
				   "program reads up to %d): update the program",
				   path, prefix->version, CHECKPOINT_VERSION);
	if (prefix->version == 0)
		return failure_set(failure, EINVAL, "%s is damaged: version 0 does not exist",
				   path);
	if (prefix->value_bytes != sizeof(real))
		return failure_set(failure, EINVAL,
				   "%s holds values of %u bytes and this program was built for %zu",
				   path, prefix->value_bytes, sizeof(real));
	return 0;
}

static int check_length(const struct checkpoint_reader *reader, struct failure *failure)
{
	uint64_t expected = CHECKPOINT_HEADER_BYTES + 3 * reader->header.parameters * sizeof(real) +
			    sizeof(uint64_t);
	struct stat status;

	if (fstat(fileno(reader->stream), &status))
		return failure_set(failure, errno, "cannot read %s: %s", reader->path,
				   strerror(errno));
	if ((uint64_t)status.st_size < expected)
		return failure_set(failure, EINVAL,
				   "%s is cut short: it has %lld of %llu bytes; use another copy",
				   reader->path, (long long)status.st_size,
				   (unsigned long long)expected);
	if ((uint64_t)status.st_size > expected)
		return failure_set(failure, EINVAL,
				   "%s is damaged: it has %lld bytes after its end at %llu",
				   reader->path, (long long)status.st_size - (long long)expected,
				   (unsigned long long)expected);
	return 0;
}

static int read_checkpoint_header(struct checkpoint_reader *reader, struct failure *failure)
{
	unsigned char header[CHECKPOINT_HEADER_BYTES];
	size_t got = fread(header, 1, sizeof(header), reader->stream);
	struct walk walk = { .at = header };
	struct param_layout layout;
	struct prefix prefix;
	uint64_t sum;
	int error;

	if (ferror(reader->stream))
		return failure_set(failure, errno, "cannot read %s: %s", reader->path,
				   strerror(errno));
	if (got < sizeof(magic) || memcmp(header, magic, sizeof(magic)) != 0)
		return failure_set(failure, EINVAL, "%s is not a tinymoe checkpoint", reader->path);
	if (got < sizeof(header))
		return failure_set(failure, EINVAL,
				   "%s is cut short: it has %zu bytes, less than its header; use "
				   "another copy",
				   reader->path, got);
	walk_header(&walk, &prefix, &reader->header);
	error = check_prefix(reader->path, &prefix, failure);
	if (error)
		return error;
	memcpy(&sum, header + HEADER_SUM_AT, sizeof(sum));
	if (sum != sum_of(SUM_START, header, HEADER_SUM_AT) ||
	    !config_in_range(&reader->header.config) || reader->header.step < 0)
		return failure_set(failure, EINVAL,
				   "%s is damaged: its header does not match its checksum; use "
				   "another copy",
				   reader->path);
	error = config_check(&reader->header.config, 0, config_machine_bytes(), failure);
	if (error)
		return error;
	param_layout_init(&layout, &reader->header.config);
	if (layout.total != reader->header.parameters)
		return failure_set(failure, EINVAL,
				   "%s is damaged: its sizes make %zu parameters and it says %llu",
				   reader->path, layout.total,
				   (unsigned long long)reader->header.parameters);
	reader->sum = sum_of(SUM_START, header, sizeof(header));
	return check_length(reader, failure);
}

int checkpoint_open(struct checkpoint_reader *reader, const char *path, struct failure *failure)
{
	int error;

	*reader = (struct checkpoint_reader){ .path = strdup(path) };
	if (!reader->path)
		return failure_set(failure, ENOMEM, "there is not enough memory to read %s", path);
	reader->stream = fopen(path, "re");
	if (reader->stream)
		error = read_checkpoint_header(reader, failure);
	else
		error = failure_set(failure, errno, "cannot read the checkpoint %s: %s", path,
				    strerror(errno));
	if (error)
		checkpoint_close(reader);
	return error;
}

static int read_bytes(struct checkpoint_reader *reader, void *to, size_t bytes,
		      struct failure *failure)
{
	if (fread(to, 1, bytes, reader->stream) == bytes)
		return 0;
	if (ferror(reader->stream))
		return failure_set(failure, errno, "cannot read %s: %s", reader->path,
				   strerror(errno));
	return failure_set(failure, EINVAL, "%s became shorter while it was read", reader->path);
}

/* An unwanted array is still part of the checksum. */
static int read_array(struct checkpoint_reader *reader, real *to, struct failure *failure)
{
	size_t left = reader->header.parameters * sizeof(real), at = 0;
	unsigned char skipped[4096];

	while (left > 0) {
		size_t bytes = left < sizeof(skipped) ? left : sizeof(skipped);
		void *target = to ? (unsigned char *)to + at : skipped;
		int error = read_bytes(reader, target, bytes, failure);

		if (error)
			return error;
		reader->sum = sum_of(reader->sum, target, bytes);
		at += bytes;
		left -= bytes;
	}
	return 0;
}

int checkpoint_read(struct checkpoint_reader *reader, real *params, real *mean, real *square,
		    struct failure *failure)
{
	real *arrays[] = { params, mean, square };
	uint64_t sum;
	int error = 0;

	for (int i = 0; i < 3 && !error; i++)
		error = read_array(reader, arrays[i], failure);
	if (!error)
		error = read_bytes(reader, &sum, sizeof(sum), failure);
	if (!error && sum != reader->sum)
		error = failure_set(failure, EINVAL,
				    "%s is damaged: its content does not match its checksum; use "
				    "another copy",
				    reader->path);
	return error;
}

void checkpoint_close(struct checkpoint_reader *reader)
{
	if (reader->stream)
		fclose(reader->stream);
	free(reader->path);
	*reader = (struct checkpoint_reader){ 0 };
}

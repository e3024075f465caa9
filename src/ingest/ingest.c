/* SPDX-License-Identifier: Apache-2.0
 *
 * Telling what a file is, and reading it or a directory of such files; see ingest.h.
 */
#include "ingest/ingest.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "ingest/head.h"
#include "ingest/importers.h"
#include "ingest/shared/intake.h"

/* The first that recognises a file reads it. */
/* clang-format off */
const struct importer *const ingest_importers[] = {
	&kineto_importer,
	&ncu_importer,
	&nsight_importer,
	&smi_importer,
	&torch_memory_importer,
	NULL,
};
/* clang-format on */

static const struct importer *importer_of(const struct ingest_file *file)
{
	for (size_t i = 0; ingest_importers[i]; i++)
		if (ingest_importers[i]->recognise(file))
			return ingest_importers[i];
	return NULL;
}

/* What a directory holds of one format. */
struct members {
	char **paths;
	size_t n, capacity;
	const struct importer *importer;
};

static void members_release(struct members *members)
{
	for (size_t i = 0; i < members->n; i++)
		free(members->paths[i]);
	free(members->paths);
}

static int by_file_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_files(const char *directory, struct members *members)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir))) {
		struct stat st;
		char *path;

		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&path, "%s/%s", directory, entry->d_name) < 0) {
			r = -ENOMEM;
			break;
		}
		if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
			free(path);
			continue;
		}
		r = array_grow(&members->paths, &members->capacity, members->n + 1, sizeof(path));
		if (r < 0)
			free(path);
		else
			members->paths[members->n++] = path;
	}
	closedir(dir);
	if (members->n)
		qsort(members->paths, members->n, sizeof(*members->paths), by_file_name);
	return r;
}

/* Keeps the files of the format that the first recognised one has. others: how many were left out. */
static int keep_one_format(struct members *members, size_t *ret_others, struct err *err)
{
	size_t kept = 0, others = 0;
	int r = 0;

	for (size_t i = 0; i < members->n; i++) {
		char *path = members->paths[i];
		const struct importer *importer = NULL;
		struct ingest_head head;

		members->paths[i] = NULL;
		if (r == 0)
			r = head_read(path, &head, err);
		if (r == 0) {
			importer = importer_of(&head.file);
			head_release(&head);
		}
		if (importer && !members->importer)
			members->importer = importer;
		if (importer && importer == members->importer) {
			members->paths[kept++] = path;
		} else {
			others++;
			free(path);
		}
	}
	members->n = kept;
	*ret_others = others;
	return r;
}

static int look_into(const char *directory, struct members *ret, size_t *ret_others,
		     struct err *err)
{
	int r = list_files(directory, ret);

	if (r < 0)
		err_sys(err, r, "%s: cannot read the directory", directory);
	else
		r = keep_one_format(ret, ret_others, err);
	if (r < 0)
		members_release(ret);
	return r;
}

int ingest_recognise(const char *path, const struct importer **ret_importer, struct err *err)
{
	struct ingest_head head;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_sys(err, -errno, "%s: cannot open", path);
	*ret_importer = NULL;
	if (S_ISDIR(st.st_mode)) {
		struct members members = { 0 };
		size_t others;

		r = look_into(path, &members, &others, err);
		if (r < 0)
			return r;
		*ret_importer = members.importer;
		members_release(&members);
	} else {
		r = head_read(path, &head, err);
		if (r < 0)
			return r;
		*ret_importer = importer_of(&head.file);
		head_release(&head);
	}
	return *ret_importer != NULL;
}

/* "…rank-3…", "…rank_03…", "…rank3…": 3. Else `otherwise`. */
static uint32_t rank_of_name(const char *path, uint32_t otherwise)
{
	const char *name = strrchr(path, '/'), *at = name ? name + 1 : path;

	for (; (at = strcasestr(at, "rank")); at += 4) {
		const char *digits = at + 4;
		char *end;
		unsigned long rank;

		digits += *digits == '-' || *digits == '_' || *digits == '.' || *digits == '=';
		if (!isdigit((unsigned char)*digits))
			continue;
		rank = strtoul(digits, &end, 10);
		if (end - digits < 10)
			return (uint32_t)rank;
	}
	return otherwise;
}

static int read_one_file(const char *path, uint32_t place, struct intake *intake, struct err *err)
{
	const struct importer *importer;
	struct ingest_head head;
	int r = head_read(path, &head, err);

	if (r < 0)
		return r;
	head.file.rank_hint = rank_of_name(path, place);
	importer = importer_of(&head.file);
	r = importer ? importer->read(&head.file, intake, err)
		     : err_set(err, -EBADMSG, "%s: changed while it was read", path);
	head_release(&head);
	return r;
}

/* A file of a directory that cannot be read is a loss, not the end. */
static int read_directory(const char *path, struct intake *intake, struct err *err)
{
	struct members members = { 0 };
	size_t others, read = 0;
	int r = look_into(path, &members, &others, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < members.n; i++) {
		struct err trouble = { "" };

		r = intake_next_file(intake, members.paths[i]);
		if (r == 0)
			r = read_one_file(members.paths[i], (uint32_t)i, intake, &trouble);
		else
			err_sys(&trouble, r, "%s", members.paths[i]);
		if (r == -ENOMEM) {
			if (err)
				*err = trouble;
			break;
		}
		if (r < 0) {
			intake_drop_file(intake);
			intake_note(intake, "%s", trouble.message);
		}
		read += r == 0;
	}
	if (r != -ENOMEM) {
		r = read ? 0 : err_set(err, -EBADMSG, "%s: none of its files could be read", path);
		if (others)
			intake_note(intake, "%s: %zu other files were left out.", path, others);
	}
	members_release(&members);
	return r;
}

int ingest_run(const char *path, uint64_t kinds, const char *run_path, struct err *err)
{
	struct intake *intake;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_sys(err, -errno, "%s: cannot open", path);
	/* Collectives say how the clocks of ranks differ: times are the same whatever is asked for. */
	if (S_ISDIR(st.st_mode))
		kinds |= UINT64_C(1) << RECORD_COLLECTIVE;
	r = intake_new(kinds, &intake);
	if (r < 0)
		return err_sys(err, r, "%s: cannot import", path);
	r = S_ISDIR(st.st_mode) ? read_directory(path, intake, err)
				: read_one_file(path, 0, intake, err);
	if (r == 0)
		r = intake_write(intake, path, run_path, err);
	intake_free(intake);
	return r;
}

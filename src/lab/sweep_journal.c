/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a sweep, its locks and its journal. One thread, one process at a time.
 *
 * The journal is one file of lines, each on disk (fsync) before anything that depends on it
 * happens: a line torn by a kill is the last one and is removed. It is one file, not one per point,
 * because the order of events matters (a retry comes after the death of a node) and because a line
 * is one write to one place, whereas files for points would also require syncing their folder.
 *
 * The journal's first line is written when everything else exists, so a directory with one is
 * complete. Resuming reads the state of each point from it; a point in flight counts as done if its
 * summary.json says success, because that file appears whole or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/input_file.h"
#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "lab/point.h"
#include "lab/sweep.h"

#define JOURNAL "journal.jsonl"
#define JOURNAL_MAX ((size_t)256 << 20)
#define CHILDREN_WAIT_S 60
#define POINTS_FD_MIN 100

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "no memory.");
}

/* One line, on disk. */
static int append_line(struct sweep *sweep, struct json *json, struct err *err)
{
	char *text;
	int r = json_finish(json, &text);
	size_t length, done = 0;

	if (r < 0)
		return no_memory(err);
	length = strlen(text);
	text[length] = '\n'; /* replaces the NUL */
	while (done <= length) {
		ssize_t n = write(sweep->journal_fd, text + done, length + 1 - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			r = -errno;
			break;
		}
		done += (size_t)n;
	}
	free(text);
	if (r == 0 && fdatasync(sweep->journal_fd) < 0)
		r = -errno;
	return r < 0 ? err_sys(err, r, "%s/" JOURNAL ": cannot write", sweep->directory) : 0;
}

static void put_time(struct json *json)
{
	struct timespec now;
	struct tm tm;
	char text[64];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_key(json, "time");
	json_string(json, text);
}

/* pairs: key, value, ... NULL. */
static int note_event(struct sweep *sweep, const char *event, size_t point,
		      const char *const *pairs, struct err *err)
{
	struct json json;

	json_init_buffer(&json, 0);
	json_object(&json);
	put_time(&json);
	json_key(&json, "event");
	json_string(&json, event);
	json_key(&json, "point");
	json_uint(&json, point + 1);
	for (; *pairs; pairs += 2) {
		json_key(&json, pairs[0]);
		json_string(&json, pairs[1]);
	}
	json_object_end(&json);
	return append_line(sweep, &json, err);
}

static int replace_string(char **text, const char *with, struct err *err)
{
	char *copy = with ? strdup(with) : NULL;

	if (with && !copy)
		return no_memory(err);
	free(*text);
	*text = copy;
	return 0;
}

int sweep_started(struct sweep *sweep, size_t point, struct err *err)
{
	int r = note_event(sweep, "start", point, (const char *[]){ NULL }, err);

	if (r == 0) {
		sweep->points[point].state = SWEEP_UNDER_WAY;
		sweep->points[point].start_ns = clock_monotonic_ns();
	}
	return r;
}

int sweep_submitted(struct sweep *sweep, size_t point, const char *job, struct err *err)
{
	int r = note_event(sweep, "submit", point, (const char *[]){ "job", job, NULL }, err);

	if (r == 0) {
		sweep->points[point].state = SWEEP_UNDER_WAY;
		sweep->points[point].start_ns = clock_monotonic_ns();
		snprintf(sweep->points[point].job, sizeof(sweep->points[point].job), "%s", job);
	}
	return r;
}

int sweep_node_died(struct sweep *sweep, size_t point, const char *node, struct err *err)
{
	struct sweep_point *p = &sweep->points[point];
	char why[300];
	int r;

	if (p->dead_node) {
		snprintf(why, sizeof(why), "The nodes of both attempts died: %s, then %s.",
			 p->dead_node, node);
		return sweep_ended(sweep, point, SWEEP_FAILED, why, err);
	}
	r = note_event(sweep, "node died", point, (const char *[]){ "node", node, NULL }, err);
	if (r == 0)
		r = replace_string(&p->dead_node, node, err);
	if (r == 0)
		r = sweep_point_set_aside(sweep, point, err);
	snprintf(why, sizeof(why), "Node %s died in the first attempt; this is the second.", node);
	if (r == 0)
		r = sweep_point_note(sweep, point, why, err);
	if (r == 0)
		p->state = SWEEP_WAITING;
	return r;
}

int sweep_ended(struct sweep *sweep, size_t point, enum sweep_state state, const char *why,
		struct err *err)
{
	struct sweep_point *p = &sweep->points[point];
	char *said = NULL;
	enum sweep_state found = sweep_point_result(sweep, point, &said, &p->duration_s);
	int r = 0;

	if (found == SWEEP_WAITING) {
		found = state == SWEEP_TIMEOUT ? state : SWEEP_FAILED;
		r = sweep_point_write_failure(sweep, point, found, why, err);
		if (r == 0)
			r = replace_string(&said, why, err);
	}
	if (r == 0)
		r = note_event(sweep, "end", point,
			       (const char *[]){ "status", sweep_state_names[found],
						 said ? "error" : NULL, said, NULL },
			       err);
	if (r == 0) {
		p->state = found;
		free(p->error);
		p->error = said;
		said = NULL;
	}
	free(said);
	return r;
}

int sweep_recover(struct sweep *sweep, size_t point, struct err *err)
{
	char *error = NULL;
	double duration;
	enum sweep_state found = sweep_point_result(sweep, point, &error, &duration);
	int r;

	free(error);
	if (found == SWEEP_SUCCESS)
		return sweep_ended(sweep, point, found, NULL, err);
	r = sweep_point_set_aside(sweep, point, err);
	if (r == 0)
		sweep->points[point].state = SWEEP_WAITING;
	return r;
}

int sweep_retry_failed(struct sweep *sweep, struct err *err)
{
	int n = 0;

	for (size_t i = 0; i < sweep->n; i++) {
		struct sweep_point *p = &sweep->points[i];
		int r;

		if (p->state != SWEEP_FAILED && p->state != SWEEP_TIMEOUT)
			continue;
		/* The folder first: a kill between the two leaves a failed point without one, which
		 * the next --retry-failed finds. */
		r = sweep_point_set_aside(sweep, i, err);
		if (r == 0)
			r = sweep_point_note(sweep, i, NULL, err);
		if (r == 0)
			r = note_event(sweep, "again", i, (const char *[]){ NULL }, err);
		if (r < 0)
			return r;
		p->state = SWEEP_WAITING;
		free(p->error);
		free(p->dead_node);
		p->error = p->dead_node = NULL;
		n++;
	}
	return n;
}

static int take_lock(const struct sweep *sweep, const char *name, int operation, int *ret_fd,
		     struct err *err)
{
	char *path = sweep_path(sweep, "%s", name);
	int fd, r = 0;

	if (!path)
		return no_memory(err);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		r = err_sys(err, -errno, "%s: cannot open", path);
	else if (flock(fd, operation | LOCK_NB) < 0 && errno != EWOULDBLOCK)
		r = err_sys(err, -errno, "%s: cannot lock", path);
	else if (flock(fd, operation | LOCK_NB) < 0)
		r = -EBUSY;
	if (r < 0 && fd >= 0)
		close(fd);
	else if (r == 0)
		*ret_fd = fd;
	free(path);
	return r;
}

/* Programs inherit it from here on, under a number that is not in their way. The lock belongs to
 * the open file, so it lasts until the last of them has ended. */
static int share_points_lock(struct sweep *sweep, struct err *err)
{
	int fd = fcntl(sweep->points_fd, F_DUPFD, POINTS_FD_MIN);

	if (fd < 0 || flock(fd, LOCK_SH) < 0)
		return err_sys(err, -errno, "%s/points.lock: cannot lock", sweep->directory);
	close(sweep->points_fd);
	sweep->points_fd = fd;
	return 0;
}

/* First exclusive, so that no point of the last attempt lives; then shared with those to come. */
static int take_points_lock(struct sweep *sweep, void (*waiting)(void), struct err *err)
{
	int64_t until = clock_monotonic_ns() + CHILDREN_WAIT_S * INT64_C(1000000000);
	int r;

	while ((r = take_lock(sweep, "points.lock", LOCK_EX, &sweep->points_fd, err)) == -EBUSY) {
		if (waiting)
			waiting();
		waiting = NULL;
		if (clock_monotonic_ns() > until)
			return err_set(err, -EBUSY,
				       "%s: a program of the last attempt is still running; end it "
				       "('fuser -v %s/points.lock' names it) and resume again.",
				       sweep->directory, sweep->directory);
		nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
	}
	return r < 0 ? r : share_points_lock(sweep, err);
}

static int take_directory(struct sweep *sweep, void (*waiting)(void), struct err *err)
{
	int r = take_lock(sweep, "sweep.lock", LOCK_EX, &sweep->lock_fd, err);

	if (r == -EBUSY)
		return err_set(err, r,
			       "%s: another process is working on this sweep; wait until it ends.",
			       sweep->directory);
	return r < 0 ? r : take_points_lock(sweep, waiting, err);
}

static int make_folder(const char *path, struct err *err)
{
	return mkdir(path, 0777) < 0 ? err_sys(err, -errno, "%s: cannot create this folder", path)
				     : 0;
}

static int sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = fsync(fd) < 0 ? -errno : 0;
	close(fd);
	return r;
}

/* The first of NAME, NAME_2, ... that does not exist; a name chosen by the user must not exist. */
static int make_directory(struct sweep *sweep, const char *name, struct err *err)
{
	const char *parent = sweep->base.output_dir ? sweep->base.output_dir : ".";
	bool chosen = sweep->base.experiment_name;
	char *path = NULL;
	int r = -EEXIST;

	for (int i = 1; r == -EEXIST && i < (chosen ? 2 : 10000); i++) {
		free(path);
		if (asprintf(&path, i > 1 ? "%s/%s_%d" : "%s/%s", parent, name, i) < 0)
			return no_memory(err);
		r = mkdir(path, 0777) < 0 ? -errno : 0;
	}
	if (r == -EEXIST)
		err_set(err, r,
			"%s already exists; continue it with 'moescope sweep --resume %s', or give "
			"another experiment_name.",
			path, path);
	else if (r < 0)
		err_sys(err, r, "%s: cannot create this folder", path);
	else if (!(sweep->directory = realpath(path, NULL)))
		r = err_sys(err, -errno, "%s", path);
	free(path);
	return r;
}

/* "MODEL_MODE_sweep_STAMP", unless there is a name. */
static int choose_directory(struct sweep *sweep, struct err *err)
{
	const struct experiment *base = &sweep->base;
	struct experiment named;
	char name[256];
	int r = experiment_copy(&named, base);

	if (r == 0)
		r = experiment_complete(&named);
	if (r < 0)
		return no_memory(err);
	if (base->experiment_name)
		snprintf(name, sizeof(name), "%s", base->experiment_name);
	else
		point_default_name(&named, "sweep_", name, sizeof(name) - 16);
	r = make_directories(base->output_dir ? base->output_dir : ".", err);
	experiment_release(&named);
	return r < 0 ? r : make_directory(sweep, name, err);
}

static int write_queue(struct sweep *sweep, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sweep->n; i++) {
		char *path = sweep_path(sweep, "queue/%zu.yaml", i + 1);
		struct experiment experiment;

		if (!path)
			return no_memory(err);
		r = sweep_experiment(sweep, i, &experiment, err);
		if (r == 0) {
			r = experiment_save(&experiment, path, err);
			experiment_release(&experiment);
		}
		free(path);
	}
	return r;
}

static int open_journal(struct sweep *sweep, int flags, struct err *err)
{
	char *path = sweep_path(sweep, JOURNAL);
	int r = 0;

	if (!path)
		return no_memory(err);
	sweep->journal_fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | flags, 0644);
	if (sweep->journal_fd < 0)
		r = err_sys(err, -errno, "%s: cannot open", path);
	free(path);
	return r;
}

static int begin_journal(struct sweep *sweep, struct err *err)
{
	uint64_t random = 0;
	struct json json;
	int r;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint64_t)clock_realtime_ns() ^ (uint64_t)getpid();
	snprintf(sweep->id, sizeof(sweep->id), "%016llx", (unsigned long long)random);
	r = open_journal(sweep, O_CREAT | O_EXCL, err);
	if (r < 0)
		return r;
	json_init_buffer(&json, 0);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, SWEEP_SCHEMA);
	put_time(&json);
	json_key(&json, "id");
	json_string(&json, sweep->id);
	json_key(&json, "points");
	json_uint(&json, sweep->n);
	json_key(&json, "cwd");
	json_string(&json, sweep->cwd);
	json_object_end(&json);
	r = append_line(sweep, &json, err);
	if (r == 0 && (r = sync_folder(sweep->directory)) < 0)
		err_sys(err, r, "%s", sweep->directory);
	return r;
}

int sweep_create(struct sweep *sweep, struct err *err)
{
	static const char *const folders[] = { "queue", "points" };
	char *path;
	int r = choose_directory(sweep, err);

	if (r == 0 && !(sweep->cwd = getcwd(NULL, 0)))
		r = err_sys(err, -errno, "the current folder");
	if (r == 0)
		r = take_directory(sweep, NULL, err);
	for (size_t i = 0; r == 0 && i < sizeof(folders) / sizeof(*folders); i++) {
		path = sweep_path(sweep, "%s", folders[i]);
		r = path ? make_folder(path, err) : no_memory(err);
		free(path);
	}
	if (r == 0)
		r = write_queue(sweep, err);
	if (r == 0) {
		path = sweep_path(sweep, "sweep.yaml");
		r = path ? experiment_save(&sweep->base, path, err) : no_memory(err);
		free(path);
	}
	return r < 0 ? r : begin_journal(sweep, err);
}

static int take_header(struct sweep *sweep, const struct json_node *line, struct err *err)
{
	const char *cwd = json_get_string(line, "cwd", NULL);
	const char *id = json_get_string(line, "id", NULL);

	if (strcmp(json_get_string(line, "schema", ""), SWEEP_SCHEMA) != 0 || !cwd || !id)
		return err_set(err, -EINVAL,
			       "%s/" JOURNAL
			       " line 1: this is not the journal of a sweep (schema " SWEEP_SCHEMA
			       ").",
			       sweep->directory);
	if (json_get_int(line, "points", -1) != (int64_t)sweep->n)
		return err_set(err, -EINVAL,
			       "%s: the journal is of %lld points, but sweep.yaml has %zu; it was "
			       "changed after the start.",
			       sweep->directory, (long long)json_get_int(line, "points", -1),
			       sweep->n);
	snprintf(sweep->id, sizeof(sweep->id), "%s", id);
	return replace_string(&sweep->cwd, cwd, err);
}

static int take_end(struct sweep_point *point, const struct json_node *line, struct err *err)
{
	const char *status = json_get_string(line, "status", "");

	for (int state = SWEEP_SUCCESS; state < SWEEP_STATES; state++) {
		if (strcmp(status, sweep_state_names[state]) == 0) {
			point->state = (enum sweep_state)state;
			return replace_string(&point->error, json_get_string(line, "error", NULL),
					      err);
		}
	}
	return -EINVAL;
}

static int take_event(struct sweep *sweep, const struct json_node *line, struct err *err)
{
	const char *event = json_get_string(line, "event", "");
	int64_t number = json_get_int(line, "point", 0);
	struct sweep_point *point;

	if (number < 1 || number > (int64_t)sweep->n)
		return -EINVAL;
	point = &sweep->points[number - 1];
	if (strcmp(event, "end") == 0)
		return take_end(point, line, err);
	if (strcmp(event, "start") == 0 || strcmp(event, "submit") == 0) {
		point->state = SWEEP_UNDER_WAY;
		snprintf(point->job, sizeof(point->job), "%s", json_get_string(line, "job", ""));
		return 0;
	}
	/* The next event was not written: the folder may not be set aside yet. */
	if (strcmp(event, "node died") == 0) {
		point->state = SWEEP_UNDER_WAY;
		point->job[0] = '\0';
		return replace_string(&point->dead_node, json_get_string(line, "node", "?"), err);
	}
	if (strcmp(event, "again") == 0) {
		point->state = SWEEP_WAITING;
		replace_string(&point->dead_node, NULL, err);
		return replace_string(&point->error, NULL, err);
	}
	return -EINVAL;
}

/* The text ends with its last whole line. */
static int take_lines(struct sweep *sweep, const char *text, size_t length, struct err *err)
{
	size_t at = 0;

	for (unsigned int number = 1; at < length; number++) {
		const char *end = memchr(text + at, '\n', length - at);
		struct json_node *line = NULL;
		char what[600];
		int r;

		snprintf(what, sizeof(what), "%.500s/" JOURNAL " line %u", sweep->directory,
			 number);
		r = json_parse(what, text + at, (size_t)(end - text) - at, &line, err);
		if (r == 0)
			r = number == 1 ? take_header(sweep, line, err)
					: take_event(sweep, line, err);
		json_node_free(line);
		if (r < 0 && !err->message[0])
			return err_set(err, r,
				       "%s: unknown event; a later moescope may have written it.",
				       what);
		if (r < 0)
			return r;
		at = (size_t)(end - text) + 1;
	}
	return 0;
}

static int read_journal(struct sweep *sweep, struct err *err)
{
	char *path = sweep_path(sweep, JOURNAL), *text = NULL;
	size_t length = 0, whole;
	int r;

	if (!path)
		return no_memory(err);
	r = input_text(path, JOURNAL_MAX, &text, &length, err);
	free(path);
	if (r == -ENOENT)
		return err_set(err, r,
			       "%s: this sweep ended before its first point; start it again.",
			       sweep->directory);
	if (r < 0)
		return r;
	for (whole = length; whole > 0 && text[whole - 1] != '\n'; whole--)
		;
	err->message[0] = '\0';
	r = whole ? take_lines(sweep, text, whole, err)
		  : err_set(err, -EINVAL,
			    "%s: this sweep ended before its first point; start it again.",
			    sweep->directory);
	free(text);
	if (r == 0)
		r = open_journal(sweep, 0, err);
	if (r == 0 && whole < length && ftruncate(sweep->journal_fd, (off_t)whole) < 0)
		r = err_sys(err, -errno, "%s/" JOURNAL ": cannot cut off the torn last line",
			    sweep->directory);
	return r;
}

static int load_plan(struct sweep *sweep, const char *directory, struct err *err)
{
	struct experiment base;
	char *path;
	int r;

	if (asprintf(&path, "%s/sweep.yaml", directory) < 0)
		return no_memory(err);
	if (access(path, F_OK) < 0) {
		r = err_set(err, -ENOENT, "%s is not a sweep directory: it has no sweep.yaml.",
			    directory);
		free(path);
		return r;
	}
	r = experiment_init(&base);
	if (r < 0)
		no_memory(err);
	else if ((r = experiment_load(&base, path, err)) == 0)
		r = sweep_plan(sweep, &base, err);
	experiment_release(&base);
	free(path);
	return r;
}

int sweep_open(struct sweep *ret_sweep, const char *directory, void (*waiting)(void),
	       struct err *err)
{
	struct sweep sweep;
	int r = load_plan(&sweep, directory, err);

	if (r < 0)
		return r;
	sweep.directory = realpath(directory, NULL);
	r = sweep.directory ? take_directory(&sweep, waiting, err) : no_memory(err);
	if (r == 0)
		r = read_journal(&sweep, err);
	if (r < 0)
		sweep_release(&sweep);
	else
		*ret_sweep = sweep;
	return r;
}

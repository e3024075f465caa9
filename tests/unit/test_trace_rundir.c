/* SPDX-License-Identifier: Apache-2.0
 *
 * Run directories and run.json: what goes in comes out, and failures leave nothing behind.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <locale.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/clock.h"
#include "table_rows.h"
#include "trace/run_lock.h"
#include "trace/rundir.h"

static char *directory;

static int set_up(void **state)
{
	(void)state;
	directory = temporary_directory();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_directory(directory);
	return 0;
}

static size_t entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

static char *make_run(const char *name, const struct rundir_meta *meta)
{
	char *path = path_in(directory, name), *made = NULL;
	struct err err = { "" };

	if (rundir_create(path, meta, &made, &err) < 0)
		fail_msg("%s", err.message);
	free(path);
	return made;
}

static void test_round_trip(void **state)
{
	char *const argv[] = { "python", "train.py",	 "a b",		 "it's",
			       "",	 "$HOME;*?\"\\", "\xc3\xa9\n\t", "x=1,y:2" };
	struct rundir_meta meta = { .argc = 8,
				    .argv = argv,
				    .level = "full",
				    .schedule = "wait=1,active=2",
				    .notes = "one\ntwo" };
	struct rundir_end end = { .exited = true,
				  .exit_status = 7,
				  .duration_ns = INT64_C(1) << 61,
				  .notes = "three \"quoted\"" };
	struct rundir_info info;
	struct err err = { "" };
	int64_t now = clock_realtime_ns();
	char *path = make_run("r.mscope", &meta);

	(void)state;
	assert_int_equal(path[0], '/');
	assert_int_equal(entries(path), 1);
	assert_int_equal(rundir_read(path, &info, &err), 0);
	assert_string_equal(
		info.command,
		"python train.py 'a b' 'it'\\''s' '' '$HOME;*?\"\\' '\xc3\xa9\n\t' x=1,y:2");
	assert_string_equal(info.status, "running");
	assert_string_equal(info.level, "full");
	assert_string_equal(info.schedule, "wait=1,active=2");
	assert_string_equal(info.notes, "one\ntwo");
	assert_true(info.host[0] && info.cpu[0] && info.version[0] && info.cpus > 0);
	assert_true(info.started_realtime_ns >= now &&
		    info.started_realtime_ns < now + 60000000000);
	assert_false(info.duration_known);
	rundir_info_release(&info);
	assert_int_equal(rundir_finish(path, &end, &err), 0);
	assert_int_equal(rundir_read(path, &info, &err), 0);
	assert_string_equal(info.status, "exited");
	assert_int_equal(info.exit_status, 7);
	assert_true(info.duration_known);
	assert_int_equal(info.duration_ns, INT64_C(1) << 61);
	assert_string_equal(info.notes, "one\ntwo\nthree \"quoted\"");
	rundir_info_release(&info);
	assert_int_equal(entries(path), 1);
	free(path);
}

static struct rundir_info info_of(const char *path)
{
	struct rundir_info info;
	struct err err = { "" };

	if (rundir_read(path, &info, &err) < 0)
		fail_msg("%s", err.message);
	return info;
}

/* A run.json that readers refuse for its size would take the run with it. */
static void test_long_commands_are_cut(void **state)
{
	enum { WORDS = 3000, BYTES = 1024 };
	static char word[BYTES + 1], worst[100 << 10], *argv[WORDS];
	struct rundir_meta meta = { .argc = WORDS, .argv = argv };
	struct rundir_end end = { .exited = true };
	struct rundir_info info;
	struct err err = { "" };
	char *path;

	(void)state;
	/* Control characters take the most room in JSON. */
	memset(word, 1, BYTES);
	for (int i = 0; i < WORDS; i++)
		argv[i] = word;
	path = make_run("long", &meta);
	assert_int_equal(rundir_finish(path, &end, &err), 0);
	info = info_of(path);
	assert_string_equal(info.status, "exited");
	assert_memory_equal(info.command, "'\x01\x01", 3);
	assert_non_null(strstr(info.command, "' (and 2937 arguments more, 3007488 bytes)"));
	rundir_info_release(&info);
	free(path);
	/* One that is too long by itself, and the words before it. */
	memset(worst, 'x', sizeof(worst) - 1);
	meta = (struct rundir_meta){ .argc = 3, .argv = (char *[]){ "sh", "-c", worst } };
	path = make_run("one", &meta);
	info = info_of(path);
	assert_string_equal(info.command, "sh -c (and 1 argument more, 102399 bytes)");
	rundir_info_release(&info);
	free(path);
}

/* A budget survives the end of the run, whatever the locale; off is not the same as none. */
static void test_budget(void **state)
{
	static const struct {
		bool known;
		double pct;
		const char *text;
	} cases[] = { { true, 0.5, "\"budget_pct\": 0.5" },
		      { true, 0, "\"budget_pct\": null" },
		      { false, 0, NULL } };
	char *const argv[] = { "x" };
	struct rundir_end end = { .exited = true };

	(void)state;
	setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* where it is installed */
	for (size_t i = 0; i < 3; i++) {
		struct rundir_meta meta = { .argc = 1,
					    .argv = argv,
					    .budget_known = cases[i].known,
					    .budget_pct = cases[i].pct,
					    .kernel = i ? NULL : "a|b",
					    .ranks = i ? NULL : "0,2-3" };
		char name[16], *path;
		struct rundir_info info;
		struct err err = { "" };

		snprintf(name, sizeof(name), "%zu.mscope", i);
		path = make_run(name, &meta);
		for (int ended = 0; ended < 2; ended++) {
			info = info_of(path);
			assert_int_equal(info.budget_known, cases[i].known);
			assert_true(info.budget_pct == cases[i].pct);
			assert_string_equal(info.kernel, i ? "" : "a|b");
			assert_string_equal(info.ranks, i ? "" : "0,2-3");
			rundir_info_release(&info);
			assert_int_equal(rundir_finish(path, &end, &err), 0);
		}
		free(path);
	}
	setlocale(LC_NUMERIC, "C");
}

static void test_wrong_budgets(void **state)
{
	static const char *const wrong[] = { "\"1\"", "-1", "0", "1e999", "true", "[1]" };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		char *file = path_in(directory, "run.json");
		FILE *f = fopen(file, "w");
		struct rundir_info info;

		assert_non_null(f);
		fprintf(f, "{\"format\": 1, \"budget_pct\": %s}", wrong[i]);
		fclose(f);
		free(file);
		info = info_of(directory);
		assert_false(info.budget_known);
		assert_true(info.budget_pct == 0);
		rundir_info_release(&info);
	}
}

static void test_rank_lists(void **state)
{
	static const char *const wrong[] = { "",   ",",	  "1,",	   ",1", "1,,2", "-",	      "1-",
					     "-1", "3-2", "1-2-3", "x",	 "1 ",	 "4294967296" };

	(void)state;
	assert_int_equal(rank_in_list(0, "0"), 1);
	assert_int_equal(rank_in_list(1, "0"), 0);
	assert_int_equal(rank_in_list(2, "0,2-3"), 1);
	assert_int_equal(rank_in_list(3, "0,2-3"), 1);
	assert_int_equal(rank_in_list(4, "0,2-3"), 0);
	assert_int_equal(rank_in_list(1, "0,2-3"), 0);
	assert_int_equal(rank_in_list(7, "7-7,1"), 1);
	assert_int_equal(rank_in_list(12, "1,2"), 0);
	assert_int_equal(rank_in_list(UINT32_MAX, "0-4294967295"), 1);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (rank_in_list(1, wrong[i]) != -EINVAL)
			fail_msg("'%s' is not a list", wrong[i]);
}

/* The shell reads the command back as the words it was made of. */
static void test_quoting_by_a_shell(void **state)
{
	char *const argv[] = {
		"printf", "%s|", "a b", "'", "\"x\"", "$(echo no)", "`no`", "\\n", ""
	};
	struct rundir_meta meta = { .argc = 9, .argv = argv };
	char *path = make_run("q", &meta), out[200] = "";
	struct rundir_info info;
	FILE *f;

	(void)state;
	assert_int_equal(rundir_read(path, &info, NULL), 0);
	f = popen(info.command, "r");
	assert_non_null(f);
	assert_true(fread(out, 1, sizeof(out) - 1, f) > 0);
	pclose(f);
	assert_string_equal(out, "a b|'|\"x\"|$(echo no)|`no`|\\n||");
	rundir_info_release(&info);
	free(path);
}

static void test_killed(void **state)
{
	char *const argv[] = { "x" };
	struct rundir_meta meta = { .argc = 1, .argv = argv };
	struct rundir_end end = { .signal = SIGSEGV, .duration_ns = 0 };
	char *path = make_run("k", &meta);
	struct rundir_info info;

	(void)state;
	assert_int_equal(rundir_finish(path, &end, NULL), 0);
	assert_int_equal(rundir_read(path, &info, NULL), 0);
	assert_string_equal(info.status, "killed");
	assert_int_equal(info.signal, SIGSEGV);
	assert_true(info.duration_known); /* zero is a measurement */
	assert_int_equal(info.duration_ns, 0);
	rundir_info_release(&info);
	free(path);
}

static void assert_create_fails(const char *path, int code, const char *words)
{
	char *const argv[] = { "x" };
	struct rundir_meta meta = { .argc = 1, .argv = argv };
	struct err err = { "" };
	char *made = NULL;

	assert_int_equal(rundir_create(path, &meta, &made, &err), code);
	assert_null(made);
	assert_non_null(strstr(err.message, words));
	assert_non_null(strstr(err.message, path));
}

static void test_existing_directories(void **state)
{
	char *path = path_in(directory, "e"), *file = path_in(directory, "e/file"), *made;
	struct rundir_meta meta = { .argc = 0 };

	(void)state;
	assert_int_equal(mkdir(path, 0755), 0);
	made = make_run("e", &meta); /* an empty one is taken */
	free(made);
	assert_create_fails(path, -EEXIST, "choose another name");
	assert_int_equal(entries(path), 1);
	file_write(file, "x", 1);
	assert_create_fails(file, -EEXIST, "not an empty directory");
	free(path);
	free(file);
}

static void test_failures_leave_nothing(void **state)
{
	char *path = path_in(directory, "n/run"), *full = path_in(directory, "full");
	struct rlimit before, none;

	(void)state;
	assert_create_fails(path, -ENOENT, "cannot make the run directory");
	assert_int_equal(entries(directory), 0);
	/* The directory can be made, run.json cannot be written. */
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	none = before;
	none.rlim_cur = 10;
	setrlimit(RLIMIT_FSIZE, &none);
	assert_create_fails(full, -EFBIG, "run.json: cannot write");
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(entries(directory), 0);
	free(path);
	free(full);
}

/* A finish that cannot be written leaves the run.json that was there. */
static void test_finish_keeps_the_old_file(void **state)
{
	struct rundir_meta meta = { .argc = 0, .notes = "kept" };
	struct rundir_end end = { .exited = true };
	char *path = make_run("f", &meta);
	struct rundir_info info;
	struct rlimit before, none;
	struct err err = { "" };

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &before);
	none = before;
	none.rlim_cur = 10;
	setrlimit(RLIMIT_FSIZE, &none);
	assert_int_equal(rundir_finish(path, &end, &err), -EFBIG);
	setrlimit(RLIMIT_FSIZE, &before);
	assert_int_equal(entries(path), 1);
	assert_int_equal(rundir_read(path, &info, &err), 0);
	assert_string_equal(info.status, "running");
	assert_string_equal(info.notes, "kept");
	rundir_info_release(&info);
	free(path);
}

/* What lies where a run.json would be written first is another's: left over, or put there so that
 * something else is overwritten. */
static void test_temporary_files_are_new(void **state)
{
	struct rundir_meta meta = { .argc = 0 };
	struct rundir_end end = { .exited = true };
	char *path = make_run("t", &meta), *target = path_in(directory, "dear"), *temporary;
	struct rundir_info info;
	struct err err = { "" };
	char text[16] = "";
	struct stat st;
	FILE *f;

	(void)state;
	file_write(target, "content", 7);
	assert_true(asprintf(&temporary, "%s/run.json.%d.tmp", path, (int)getpid()) > 0);
	assert_int_equal(symlink(target, temporary), 0);
	assert_int_equal(rundir_finish(path, &end, &err), 0);
	f = fopen(target, "r");
	assert_int_equal(fread(text, 1, sizeof(text), f), 7);
	fclose(f);
	assert_string_equal(text, "content");
	assert_int_equal(lstat(temporary, &st), 0);
	info = info_of(path);
	assert_string_equal(info.status, "exited");
	rundir_info_release(&info);
	assert_int_equal(entries(path), 2);
	free(temporary);
	free(target);
	free(path);
}

static void assert_status(const char *path, const char *status)
{
	struct rundir_info info = info_of(path);

	assert_string_equal(info.status, status);
	rundir_info_release(&info);
}

static void test_a_lock_tells_who_writes(void **state)
{
	struct rundir_meta meta = { .argc = 0 };
	struct rundir_end end = { .exited = true };
	char *path = make_run("l", &meta), *lock = path_in(path, RUN_LOCK_FILE);
	char *target = path_in(directory, "dear");
	struct err err = { "" };
	int fd, other;

	(void)state;
	assert_status(path, "running"); /* nobody can tell */
	assert_int_equal(run_lock_take(path, &fd), 0);
	assert_status(path, "running");
	assert_int_equal(run_writer(path), RUN_WRITER_HELD);
	assert_int_equal(run_lock_take(path, &other), -EBUSY);
	run_lock_release(path, fd, false);
	assert_status(path, "abandoned");
	assert_int_equal(run_lock_take(path, &fd), 0);
	assert_int_equal(rundir_finish(path, &end, &err), 0);
	run_lock_release(path, fd, true);
	assert_status(path, "exited");
	assert_int_equal(entries(path), 1);
	assert_int_equal(run_writer(path), RUN_WRITER_UNKNOWN);
	/* Others may have put anything in its place: nothing waits for it, or writes through it. */
	assert_int_equal(mkfifo(lock, 0600), 0);
	assert_int_equal(run_writer(path), RUN_WRITER_UNKNOWN);
	unlink(lock);
	assert_int_equal(symlink(target, lock), 0);
	assert_int_equal(run_writer(path), RUN_WRITER_UNKNOWN);
	assert_int_equal(run_lock_take(path, &fd), -ELOOP);
	assert_int_equal(access(target, F_OK), -1);
	free(target);
	free(lock);
	free(path);
}

static void test_read_refuses(void **state)
{
	static const struct {
		const char *text;
		int code;
		const char *words;
	} cases[] = {
		{ "{\"format\": 2, \"version\": \"9.9\"}", -EPROTONOSUPPORT,
		  "newer moescope (9.9)" },
		{ "{\"format\": ", -EBADMSG, "not valid JSON at byte" },
		{ "", -EBADMSG, "not valid JSON at byte 0" },
		{ "\xff\xfe", -EBADMSG, "not valid JSON" },
	};
	static const char defaults[] = "{\"format\":1,\"command\":5,\"cpus\":\"x\"}";
	char *file = path_in(directory, "run.json");
	struct rundir_info info;
	struct run *run;
	struct err err = { "" };

	(void)state;
	assert_int_equal(rundir_read(directory, &info, &err), -ENOENT);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		file_write(file, cases[i].text, strlen(cases[i].text));
		err.message[0] = 0;
		assert_int_equal(rundir_read(directory, &info, &err), cases[i].code);
		assert_non_null(strstr(err.message, cases[i].words));
		assert_non_null(strstr(err.message, file));
		assert_int_equal(run_load(directory, NULL, &run, &err), cases[i].code);
	}
	/* Whatever is missing or of another type has its default. */
	file_write(file, defaults, strlen(defaults));
	assert_int_equal(rundir_read(directory, &info, &err), 0);
	assert_string_equal(info.command, "");
	assert_string_equal(info.status, "unknown");
	assert_false(info.duration_known);
	rundir_info_release(&info);
	free(file);
}

static void test_shards_are_listed(void **state)
{
	static const char *const names[] = { "1-7.mst",	 "0-9.mst", "0-9.ring",
					     "run.json", ".mst",    "x.mst.tmp" };
	char **paths;
	size_t n;
	struct shard_writer *writer;
	char *own, *expected;
	struct err err = { "" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char *path = path_in(directory, names[i]);

		file_write(path, "", 0);
		free(path);
	}
	assert_int_equal(rundir_shards(directory, &paths, &n, &err), 0);
	assert_int_equal(n, 2);
	assert_non_null(strstr(paths[0], "/0-9.mst"));
	assert_non_null(strstr(paths[1], "/1-7.mst"));
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	free(paths);
	assert_int_equal(rundir_shards("/nonexistent", &paths, &n, &err), -ENOENT);
	unsetenv("MOESCOPE_RANK");
	setenv("RANK", "12", 1);
	assert_int_equal(rundir_new_shard(directory, 0, &own, &writer), 0);
	assert_int_equal(writer->header.rank, 12);
	shard_abandon(writer);
	assert_true(asprintf(&expected, "%s/12-%d.mst", directory, (int)getpid()) > 0);
	assert_string_equal(own, expected);
	/* A second session of the process, or a program after an exec, has a file of its own. */
	free(own);
	free(expected);
	assert_int_equal(rundir_new_shard(directory, 0, &own, &writer), 0);
	shard_abandon(writer);
	assert_true(asprintf(&expected, "%s/12-%d-2.mst", directory, (int)getpid()) > 0);
	assert_string_equal(own, expected);
	unsetenv("RANK");
	free(own);
	free(expected);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_round_trip),
		TEST(test_long_commands_are_cut),
		TEST(test_budget),
		TEST(test_wrong_budgets),
		cmocka_unit_test(test_rank_lists),
		TEST(test_quoting_by_a_shell),
		TEST(test_killed),
		TEST(test_existing_directories),
		TEST(test_failures_leave_nothing),
		TEST(test_finish_keeps_the_old_file),
		TEST(test_temporary_files_are_new),
		TEST(test_a_lock_tells_who_writes),
		TEST(test_read_refuses),
		TEST(test_shards_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

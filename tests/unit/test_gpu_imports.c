/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over loaded modules: what it changes, that it changes nothing else, and that it puts
 * everything back. Each test in a process of its own, since libraries stay loaded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_cupti_clients.h"
#include "probe/gpu/clients/imports.h"
#include "second_client.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void assert_in_child(void (*scenario)(void))
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(600);
		scenario();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int redirected_calls;
static __typeof__(cuptiActivityDisable) *real_disable;

static CUptiResult CUPTIAPI my_disable(CUpti_ActivityKind kind)
{
	redirected_calls++;
	return real_disable(kind);
}

static CUptiResult CUPTIAPI my_enable(CUpti_ActivityKind kind)
{
	(void)kind;
	redirected_calls++;
	return CUPTI_SUCCESS;
}

static void *open_library(const char *path)
{
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(library);
	return library;
}

static const struct second_client *open_client(const char *path)
{
	const struct second_client *client = dlsym(open_library(path), "second_client");

	CHECK(client);
	return client;
}

static struct import table[2];

/* The table for the two functions, from the library's own addresses. */
static void *open_cupti(const char *path)
{
	void *library = open_library(path);

	table[0] = (struct import){ "cuptiActivityDisable", dlsym(library, "cuptiActivityDisable"),
				    (void *)my_disable };
	table[1] = (struct import){ "cuptiActivityEnable", dlsym(library, "cuptiActivityEnable"),
				    (void *)my_enable };
	CHECK(table[0].original && table[1].original);
	memcpy(&real_disable, &table[0].original, sizeof(real_disable));
	return library;
}

/* The protection of every page of the libraries that are touched; how the kernel groups them may
 * change. */
static char *mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char *text = calloc(1, 1 << 20), line[4096];
	size_t used = 0;

	CHECK(file && text);
	while (fgets(line, sizeof(line), file)) {
		unsigned long from, to;
		char protection[8];

		if ((!strstr(line, "fake_cupti") && !strstr(line, "second_client")) ||
		    sscanf(line, "%lx-%lx %7s", &from, &to, protection) != 3)
			continue;
		for (; from < to; from += 4096)
			used += (size_t)snprintf(text + used, (1 << 20) - used, "%lx %s\n", from,
						 protection);
	}
	fclose(file);
	CHECK(used > 0 && used < 1 << 20);
	return text;
}

static void redirects_and_restores_with(const char *cupti_path, const char *client_path)
{
	void *library = open_cupti(cupti_path);
	const struct second_client *client = open_client(client_path);
	char *before = mappings(), *after;
	int changed;

	CHECK(client->disable(CUPTI_ACTIVITY_KIND_MEMCPY) == CUPTI_SUCCESS);
	CHECK(redirected_calls == 0);
	changed = imports_redirect(table, COUNT(table));
	CHECK(changed > 2); /* two symbols of the library, and slots of the client */
	CHECK(client->disable_slot() == (void *)my_disable);
	CHECK(dlsym(library, "cuptiActivityDisable") == (void *)my_disable);
	CHECK(dlvsym(library, "cuptiActivityDisable", "libcupti.so.13") == (void *)my_disable);
	client->disable(CUPTI_ACTIVITY_KIND_MEMCPY);
	client->enable(CUPTI_ACTIVITY_KIND_MEMCPY);
	CHECK(redirected_calls == 2);
	CHECK(imports_redirect(table, COUNT(table)) == 0);

	/* Slots that were lazy and are filled meanwhile are put back as well. */
	CHECK(imports_restore(table, COUNT(table)) >= changed);
	CHECK(client->disable_slot() == table[0].original);
	CHECK(dlsym(library, "cuptiActivityDisable") == table[0].original);
	client->disable(CUPTI_ACTIVITY_KIND_MEMCPY);
	client->enable(CUPTI_ACTIVITY_KIND_MEMCPY);
	CHECK(redirected_calls == 2);
	CHECK(imports_restore(table, COUNT(table)) == 0);
	/* Kernel and linker see the same protections as before. */
	after = mappings();
	if (strcmp(before, after) != 0)
		fprintf(stderr, "before:\n%s\nafter:\n%s\n", before, after);
	CHECK(strcmp(before, after) == 0);
	CHECK(imports_redirect(table, COUNT(table)) >= changed);
	CHECK(client->disable_slot() == (void *)my_disable);
}

static void bound_scenario(void)
{
	redirects_and_restores_with(FAKE_CLIENTS_GNU_PATH, CLIENT_NOW_PATH);
}

static void noplt_scenario(void)
{
	redirects_and_restores_with(FAKE_CLIENTS_GNU_PATH, CLIENT_NOPLT_PATH);
}

static void redirects_imports_without_plt(void **state)
{
	(void)state;
	assert_in_child(noplt_scenario);
}

static void lazy_scenario(void)
{
	redirects_and_restores_with(FAKE_CLIENTS_GNU_PATH, CLIENT_LAZY_PATH);
}

static void redirects_bound_imports(void **state)
{
	(void)state;
	assert_in_child(bound_scenario);
}

static void redirects_lazy_imports(void **state)
{
	(void)state;
	assert_in_child(lazy_scenario);
}

static void bound_lazy_scenario(void)
{
	const struct second_client *client = open_client(CLIENT_LAZY_PATH);

	open_cupti(FAKE_CLIENTS_GNU_PATH);
	client->enable(CUPTI_ACTIVITY_KIND_MEMCPY);
	CHECK(imports_redirect(table, COUNT(table)) > 2);
	client->enable(CUPTI_ACTIVITY_KIND_MEMCPY);
	CHECK(redirected_calls == 1);
}

static void redirects_lazy_imports_that_are_bound(void **state)
{
	(void)state;
	assert_in_child(bound_lazy_scenario);
}

/* Whatever the kind of hash table: the symbols of the library itself. */
static void symbols_scenario(void)
{
	void *library = open_cupti(FAKE_CLIENTS_SYSV_PATH);

	CHECK(imports_redirect(table, COUNT(table)) == 2);
	CHECK(dlsym(library, "cuptiActivityEnable") == (void *)my_enable);
	CHECK(dlsym(library, "cuptiFinalize") != NULL);
	CHECK(imports_restore(table, COUNT(table)) == 2);
	CHECK(dlsym(library, "cuptiActivityEnable") == table[1].original);
}

static void redirects_symbols(void **state)
{
	(void)state;
	assert_in_child(symbols_scenario);
}

static void later_scenario(void)
{
	const struct second_client *now, *lazy;

	open_cupti(FAKE_CLIENTS_GNU_PATH);
	CHECK(imports_redirect(table, COUNT(table)) == 2);
	now = open_client(CLIENT_NOW_PATH);
	lazy = open_client(CLIENT_LAZY_PATH);
	CHECK(now->disable_slot() == (void *)my_disable);
	now->disable(CUPTI_ACTIVITY_KIND_MEMCPY);
	lazy->disable(CUPTI_ACTIVITY_KIND_MEMCPY);
	now->enable(CUPTI_ACTIVITY_KIND_MEMCPY);
	lazy->enable(CUPTI_ACTIVITY_KIND_MEMCPY);
	CHECK(redirected_calls == 4);
	/* Libraries have come, so it walks, and finds all of it done by the linker. */
	CHECK(imports_redirect(table, COUNT(table)) == 0);
	CHECK(imports_restore(table, COUNT(table)) > 2);
	now->disable(CUPTI_ACTIVITY_KIND_MEMCPY);
	lazy->enable(CUPTI_ACTIVITY_KIND_MEMCPY);
	CHECK(redirected_calls == 4);
}

static void reaches_libraries_that_come_later(void **state)
{
	(void)state;
	assert_in_child(later_scenario);
}

static void two_copies_scenario(void)
{
	const struct second_client *client;

	open_cupti(FAKE_CLIENTS_SYSV_PATH);
	client = open_client(CLIENT_NOW_PATH); /* it is linked to the other copy */
	CHECK(imports_redirect(table, COUNT(table)) == 2);
	client->disable(CUPTI_ACTIVITY_KIND_MEMCPY);
	CHECK(redirected_calls == 0);
}

static void leaves_another_copy_alone(void **state)
{
	(void)state;
	assert_in_child(two_copies_scenario);
}

/* Slots that readelf names in a file. */
static int relocations_of(const char *path)
{
	char command[1024], line[1024];
	FILE *listing;
	int n = 0;

	snprintf(command, sizeof(command), "readelf -rW '%s' 2>/dev/null", path);
	listing = popen(command, "r"); // NOLINT(cert-env33-c)
	CHECK(listing);
	while (fgets(line, sizeof(line), listing))
		for (size_t i = 0; i < COUNT(table); i++) {
			const char *at = strstr(line, table[i].symbol);

			/* The name ends there: "cuptiActivityEnableContext" is another. */
			n += at && strchr("@ +\n", at[strlen(table[i].symbol)]) != NULL;
		}
	return pclose(listing) == 0 ? n : -1;
}

static void readelf_scenario(void)
{
	int expected;

	open_cupti(FAKE_CLIENTS_GNU_PATH);
	expected = relocations_of(CLIENT_NOW_PATH);
	if (expected < 0)
		_exit(77);
	CHECK(expected >= 2);
	open_client(CLIENT_NOW_PATH);
	CHECK(imports_redirect(table, COUNT(table)) == 2 + expected);
	CHECK(imports_restore(table, COUNT(table)) == 2 + expected);
}

static void agrees_with_readelf(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		readelf_scenario();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip(); /* no readelf here */
	assert_int_equal(status, 0);
}

static void unloaded_scenario(void)
{
	void *client;

	open_cupti(FAKE_CLIENTS_GNU_PATH);
	client = open_library(CLIENT_NOW_PATH);
	CHECK(imports_redirect(table, COUNT(table)) > 2);
	CHECK(dlclose(client) == 0);
	CHECK(imports_restore(table, COUNT(table)) == 2);
}

static void survives_an_unloaded_module(void **state)
{
	(void)state;
	assert_in_child(unloaded_scenario);
}

static void finds_modules(void **state)
{
	uintptr_t start, end;
	int local;

	(void)state;
	assert_int_equal(imports_module_of((void *)finds_modules, &start, &end), 0);
	assert_in_range((uintptr_t)finds_modules, start, end - 1);
	assert_int_equal(imports_module_of((void *)dlsym, &start, &end), 0);
	assert_int_equal(imports_module_of(&local, &start, &end), -ENOENT);
	assert_int_equal(imports_redirect(NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(redirects_bound_imports),
		cmocka_unit_test(redirects_imports_without_plt),
		cmocka_unit_test(redirects_lazy_imports),
		cmocka_unit_test(redirects_lazy_imports_that_are_bound),
		cmocka_unit_test(redirects_symbols),
		cmocka_unit_test(reaches_libraries_that_come_later),
		cmocka_unit_test(leaves_another_copy_alone),
		cmocka_unit_test(agrees_with_readelf),
		cmocka_unit_test(survives_an_unloaded_module),
		cmocka_unit_test(finds_modules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

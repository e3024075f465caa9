/* SPDX-License-Identifier: Apache-2.0
 *
 * PC sampling beside threads, and cubins of any bytes, against the scripted CUPTI (tests/fake/fake_counters.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters/api.h"
#include "exact/lines.h"
#include "exact/pc_samples.h"
#include "probe/core/name_filter.h"
#include "probe/gpu/launch_metrics.h"

#define THREADS 4
#define ROUNDS 200
#define BARRIER 3

void fake_context(size_t context, int begins);
void fake_module(size_t context, const void *cubin, size_t size, int begins);
void fake_sample(size_t context, const char *kernel, uint64_t module, uint64_t offset, int reason,
		 uint32_t n);
int fake_fetches(void);

/* ---- what the library has of others */

struct counter_api counter_api;

int counter_api_open_exact(struct err *err)
{
	(void)err;
#define FUNCTION(name) counter_api.name = name;
	COUNTER_PC_FUNCTIONS(FUNCTION)
	FUNCTION(cuptiSubscribe)
	FUNCTION(cuptiEnableCallback)
	FUNCTION(cuptiGetDeviceId)
#undef FUNCTION
	return 0;
}

int counter_error(struct err *err, CUptiResult result, const char *what)
{
	return result == CUPTI_SUCCESS ? 0 : err_set(err, -1, "%s", what);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[256][64];
static char told[400];
static uint64_t seen[2 * THREADS + 1]; /* samples by context */
static uint64_t without_line;

moescope_name moescope_intern(const char *text)
{
	moescope_name name = 0;

	pthread_mutex_lock(&lock);
	while (names[name][0] && strncmp(names[name], text, sizeof(names[0]) - 1) != 0)
		name++;
	snprintf(names[name], sizeof(names[0]), "%s", text);
	pthread_mutex_unlock(&lock);
	return name + 1;
}

void moescope_info(const char *key, const char *text)
{
	(void)key;
	snprintf(told, sizeof(told), "%s", text);
}

void name_filter_start(struct name_filter *filter)
{
	(void)filter;
}

bool name_filter_keeps(struct name_filter *filter, uint32_t name_id, const char *name)
{
	(void)filter, (void)name_id, (void)name;
	return true;
}

void moescope_pc_samples(const struct row_pc_sample *rows, size_t n)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n; i++) {
		assert_in_range(rows[i].context, 1, 2 * THREADS);
		seen[rows[i].context] += rows[i].samples;
		without_line += !rows[i].line;
	}
	pthread_mutex_unlock(&lock);
}

static void (*ours)(void);
static pthread_t our_thread;

static void *run_ours(void *arg)
{
	(void)arg;
	ours();
	return NULL;
}

int moescope_own_thread(void (*function)(void))
{
	ours = function;
	return -pthread_create(&our_thread, NULL, run_ours, NULL);
}

/* ---- cubins */

/* With a section of that name, in exactly `size` bytes. */
static uint8_t *cubin_new(const char *section, size_t size)
{
	static const char shstrtab[] = "\0.shstrtab\0";
	uint8_t *cubin = calloc(1, size);
	Elf64_Ehdr elf = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			   .e_shoff = sizeof(elf),
			   .e_shentsize = sizeof(Elf64_Shdr),
			   .e_shnum = 3,
			   .e_shstrndx = 1 };
	Elf64_Shdr sections[3] = {
		{ 0 },
		{ .sh_name = 1, .sh_offset = sizeof(elf) + sizeof(sections) },
		{ .sh_name = sizeof(shstrtab) - 1, .sh_size = 8 },
	};

	assert_non_null(cubin);
	sections[1].sh_size = sizeof(shstrtab) + strlen(section);
	assert_true(sections[1].sh_offset + sections[1].sh_size <= size);
	memcpy(cubin, &elf, sizeof(elf));
	memcpy(cubin + sizeof(elf), sections, sizeof(sections));
	memcpy(cubin + sections[1].sh_offset, shstrtab, sizeof(shstrtab));
	strcpy((char *)cubin + sections[1].sh_offset + sizeof(shstrtab) - 1, section);
	return cubin;
}

static void test_cubins_of_any_bytes(void **state)
{
	const size_t size = 320;
	uint8_t *whole = cubin_new(".debug_line", size);

	(void)state;
	counter_api_open_exact(NULL);
	for (size_t n = 0; n < size; n++) {
		uint8_t *part = malloc(n ? n : 1);

		assert_non_null(part);
		memcpy(part, whole, n);
		lines_keep(part, n);
		free(part);
	}
	srand(1);
	for (int i = 0; i < 20000; i++) {
		uint8_t *other = malloc(size);

		assert_non_null(other);
		memcpy(other, whole, size);
		for (int k = 0; k < 4; k++)
			other[rand() % 280] = (uint8_t)(rand() % 4 ? rand() : 0xff);
		lines_keep(other, size);
		free(other);
	}
	lines_keep(NULL, 100);
	free(whole);
	/* Only those with lines are kept. */
	whole = cubin_new(".text", 5000);
	lines_keep(whole, 5000);
	assert_int_equal(lines_of(5000, "kernel", 1, 16).line, 0);
	free(whole);
	whole = cubin_new(".debug_line", 6000);
	lines_keep(whole, 6000);
	free(whole);
	assert_int_equal(lines_of(6000, "kernel", 1, 48).line, 3);
	assert_int_equal(lines_of(6000, "kernel", 1, 48).line, 3);
	assert_int_equal(lines_of(6000, "kernel", 1, 64).line, 4);
	assert_string_equal(names[lines_of(6000, "kernel", 1, 64).file - 1], "/src/kernel.cu");
	assert_int_equal(lines_left_out(), 0);
	/* There is a limit to what is taken of the program's memory. */
	whole = cubin_new(".debug_line", 40 << 20);
	lines_keep(whole, 40 << 20);
	lines_keep(whole, 40 << 20); /* the same again */
	assert_int_equal(lines_left_out(), 0);
	lines_keep(whole, (40 << 20) - 1);
	assert_int_equal(lines_left_out(), 1);
	free(whole);
}

/* ---- threads */

static void *work(void *arg)
{
	size_t context = (size_t)arg;
	uint8_t *cubin = cubin_new(".debug_line", 400 + context);

	for (uint32_t i = 0; i < ROUNDS; i++) {
		fake_context(context, 1);
		fake_module(context, cubin, 400 + context, 1);
		for (uint32_t k = 0; k < 300; k++)
			fake_sample(context, "kernel", 400 + context, 16 + 16 * (uint64_t)k,
				    BARRIER, 1 + i % 3);
		fake_module(context, cubin, 400 + context, 0);
		/* CUPTI puts these aside when the next module comes. */
		fake_sample(context, "kernel", 400 + context, 16, BARRIER, 2);
		fake_module(context, cubin, 400 + context, 1);
		fake_context(context, 0);
	}
	free(cubin);
	return NULL;
}

static _Atomic bool late_end;

/* Contexts come and go while sampling ends. */
static void *work_late(void *arg)
{
	size_t context = (size_t)arg;
	uint8_t *cubin = cubin_new(".debug_line", 400 + context);

	while (!atomic_load(&late_end)) {
		fake_context(context, 1);
		fake_module(context, cubin, 400 + context, 1);
		fake_sample(context, "kernel", 400 + context, 16, BARRIER, 1);
		fake_module(context, cubin, 400 + context, 0);
		fake_context(context, 0);
	}
	free(cubin);
	return NULL;
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	uint64_t given = 0, all = 0;
	char words[64];

	(void)state;
	assert_int_equal(pc_samples_begin(), 0);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* One that lives when the program ends; our thread has looked at it. */
	fake_context(1, 1);
	fake_sample(1, "kernel", 401, 16, BARRIER, 5);
	for (int before = fake_fetches(); fake_fetches() < before + 2;)
		;
	fake_sample(1, "kernel", 401, 16, BARRIER, 7);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, work_late, (void *)(THREADS + i + 1)), 0);
	for (int before = fake_fetches(); fake_fetches() < before + 50;)
		;
	pc_samples_end();
	atomic_store(&late_end, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(our_thread, NULL);
	/* Nobody waits for longer than a second, and that is told. */
	if (strstr(told, "ended before their last samples") || strstr(told, "within a second"))
		skip();
	for (uint32_t i = 0; i < ROUNDS; i++)
		given += 300 * (1 + i % 3) + 2;
	for (size_t i = 1; i <= THREADS; i++)
		assert_int_equal(seen[i], given + (i == 1 ? 12 : 0));
	assert_int_equal(without_line, 0);
	for (size_t i = 1; i <= (size_t)2 * THREADS; i++)
		all += seen[i];
	snprintf(words, sizeof(words), "%llu samples, one every 2^14 cycles",
		 (unsigned long long)all);
	assert_true(!strncmp(told, words, strlen(words)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cubins_of_any_bytes),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

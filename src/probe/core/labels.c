/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of threads and categories; see labels.h. The tables have a fixed size: if a program names
 * more, the current session has the names, later ones do not.
 */
#include "probe/core/labels.h"

#include <stdio.h>
#include <string.h>

#include "probe/core/probe.h"

#define MAX_THREADS 512
#define MAX_CATEGORIES 256

PROBE_LOCK(lock);
static struct row_thread threads[MAX_THREADS];
static struct row_fact categories[MAX_CATEGORIES];
static _Atomic uint32_t n_threads;
static uint32_t n_categories;

static void push_thread(struct row_thread row)
{
	probe_push(RECORD_THREAD, &row, sizeof(row), NULL, 0);
}

static void push_fact(struct row_fact row)
{
	probe_push(RECORD_FACT, &row, sizeof(row), NULL, 0);
}

void labels_name_thread(uint32_t thread, uint32_t name)
{
	uint32_t i = 0;

	if (!probe_lock(&lock))
		return;
	while (i < n_threads && threads[i].thread != thread)
		i++;
	if (i < MAX_THREADS) {
		threads[i] = (struct row_thread){ .thread = thread, .name = name };
		if (i == n_threads)
			n_threads++;
	}
	probe_unlock(&lock);
	/* A ring first: getting one announces the system's name for its thread, and the last one
	 * counts. */
	if (GATE_SESSION(gate_load()) && probe_ring())
		push_thread((struct row_thread){ .thread = thread, .name = name });
}

uint32_t labels_thread(uint32_t thread)
{
	uint32_t name = 0;

	if (!n_threads || !probe_lock(&lock))
		return 0;
	for (uint32_t i = 0; i < n_threads; i++)
		if (threads[i].thread == thread)
			name = threads[i].name;
	probe_unlock(&lock);
	return name;
}

void labels_forget_thread(uint32_t thread)
{
	if (!n_threads || !probe_lock(&lock))
		return;
	for (uint32_t i = 0; i < n_threads; i++)
		if (threads[i].thread == thread) {
			threads[i] = threads[n_threads - 1];
			n_threads--;
			break;
		}
	probe_unlock(&lock);
}

void labels_name_category(uint32_t category, const char *domain, const char *name)
{
	struct row_fact row;
	char key[128];
	uint32_t i = 0;

	snprintf(key, sizeof(key), "NVTX category %s%s%u", domain, *domain ? "/" : "", category);
	row = (struct row_fact){ .key = moescope_intern(key), .value = moescope_intern(name) };
	if (!probe_lock(&lock))
		return;
	while (i < n_categories && categories[i].key != row.key)
		i++;
	if (i < MAX_CATEGORIES) {
		categories[i] = row;
		n_categories += i == n_categories;
	}
	probe_unlock(&lock);
	if (GATE_SESSION(gate_load()))
		push_fact(row);
}

void labels_announce(void)
{
	struct row_thread given_threads[MAX_THREADS];
	struct row_fact given_categories[MAX_CATEGORIES];
	uint32_t nt, nc;

	/* Copies: pushing may need a ring, and getting a ring looks up the thread's name here. */
	if (!probe_lock(&lock))
		return;
	nt = n_threads;
	nc = n_categories;
	memcpy(given_threads, threads, nt * sizeof(threads[0]));
	memcpy(given_categories, categories, nc * sizeof(categories[0]));
	probe_unlock(&lock);
	for (uint32_t i = 0; i < nt; i++)
		push_thread(given_threads[i]);
	for (uint32_t i = 0; i < nc; i++)
		push_fact(given_categories[i]);
}

void labels_after_fork(void)
{
	/* The parent's threads do not exist here. */
	n_threads = 0;
}

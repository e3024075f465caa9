/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow steps; see step_watch.h.
 */
#include "counters/step_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/format.h"
#include "trace/ring.h"

#define PROCESSES_MOST 256
#define USUAL 31      /* steps that tell what is usual */
#define USUAL_LEAST 8 /* before that, nothing is unusual */
#define MORE_NS 5000000

struct process {
	char name[64]; /* of its buffer file */
	int fd;
	bool open;
	int64_t step, start_ns;
	int64_t usual[USUAL]; /* durations, the latest over the oldest */
	size_t n;
};

struct step_watch {
	char *run;
	struct process processes[PROCESSES_MOST];
	size_t n;
};

struct step_watch *step_watch_new(const char *run)
{
	struct step_watch *watch = calloc(1, sizeof(*watch));
	struct dirent *entry;
	DIR *dir;

	if (!watch || !(watch->run = strdup(run))) {
		free(watch);
		return NULL;
	}
	dir = opendir(run);
	while (dir && (entry = readdir(dir)))
		step_watch_file(watch, entry->d_name);
	if (dir)
		closedir(dir);
	return watch;
}

void step_watch_free(struct step_watch *watch)
{
	for (size_t i = 0; watch && i < watch->n; i++)
		close(watch->processes[i].fd);
	if (watch)
		free(watch->run);
	free(watch);
}

void step_watch_file(struct step_watch *watch, const char *name)
{
	size_t length = strlen(name), suffix = strlen(".ring");
	struct process *process = &watch->processes[watch->n];
	char *path = NULL;
	int fd;

	if (watch->n == PROCESSES_MOST || length < suffix || length >= sizeof(process->name) ||
	    strcmp(name + length - suffix, ".ring") != 0)
		return;
	for (size_t i = 0; i < watch->n; i++)
		if (!strcmp(watch->processes[i].name, name))
			return;
	if (asprintf(&path, "%s/%s", watch->run, name) < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	if (fd < 0)
		return;
	*process = (struct process){ .fd = fd };
	strcpy(process->name, name);
	watch->n++;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* 0: too few to say. */
static int64_t usual_ns(const struct process *process)
{
	size_t n = process->n < USUAL ? process->n : USUAL;
	int64_t sorted[USUAL];

	if (n < USUAL_LEAST)
		return 0;
	memcpy(sorted, process->usual, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare);
	return sorted[n / 2];
}

/* A step has ended, or several have that each took this long. */
static bool note_ended(struct process *process, int64_t duration_ns, int64_t step, char *sentence,
		       size_t size)
{
	int64_t usual = usual_ns(process);
	bool slow = usual && duration_ns > usual + usual / 2 && duration_ns > usual + MORE_NS;

	process->usual[process->n++ % USUAL] = duration_ns;
	if (slow)
		snprintf(sentence, size, "step %lld took %s instead of %s", (long long)step,
			 format_ns((double)duration_ns).text, format_ns((double)usual).text);
	return slow;
}

/* The process may be writing: what does not fit together is looked at again next time. */
static bool read_header(const struct process *process, struct ring_header *header)
{
	struct ring_header again;
	size_t size = offsetof(struct ring_header, regions);

	return pread(process->fd, header, size, 0) == (ssize_t)size &&
	       pread(process->fd, &again, size, 0) == (ssize_t)size &&
	       memcmp(header->magic, RING_MAGIC, sizeof(header->magic)) == 0 &&
	       header->version == RING_VERSION && header->map_current < 2 &&
	       header->step.open == again.step.open && header->step.step == again.step.step &&
	       header->step.start_ticks == again.step.start_ticks &&
	       tick_map_valid(&header->maps[header->map_current]);
}

static bool look_at(struct process *process, char *sentence, size_t size)
{
	struct ring_header header;
	bool slow = false, open;
	int64_t step, start_ns;

	if (!read_header(process, &header))
		return false;
	open = header.step.open != 0;
	step = header.step.step;
	start_ns = tick_map_ns(&header.maps[header.map_current], header.step.start_ticks);
	if (process->open && step > process->step && start_ns > process->start_ns)
		slow = note_ended(process, (start_ns - process->start_ns) / (step - process->step),
				  process->step, sentence, size);
	else if (process->open && !open && step == process->step)
		slow = note_ended(process, clock_monotonic_ns() - process->start_ns, step, sentence,
				  size);
	process->open = open;
	process->step = step;
	process->start_ns = start_ns;
	return slow;
}

bool step_watch_look(struct step_watch *watch, char *sentence, size_t size)
{
	bool slow = false;

	for (size_t i = 0; i < watch->n; i++)
		slow = look_at(&watch->processes[i], sentence, size) || slow;
	return slow;
}

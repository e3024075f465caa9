/* SPDX-License-Identifier: Apache-2.0
 *
 * What documents tell of the run itself: which one it is, and what casts doubt on its figures.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text/format.h"
#include "documents/document.h"
#include "subjects/routing/routing.h"
#include "subjects/stacks/sampled_stacks.h"

/* Lines of one kind that are shown; of the rest there is a count. */
#define PROCESSES_MOST 8
#define NOTES_MOST 40
#define NOTE_LENGTH 1000

static void trouble_notes(const struct scene *scene, struct page *page)
{
	size_t n = 0;

	for (const char *at = scene->run->info.notes; *at;) {
		size_t length = strcspn(at, "\n");

		if (length && n++ < NOTES_MOST)
			page_trouble(page, "%.*s",
				     (int)(length < NOTE_LENGTH ? length : NOTE_LENGTH), at);
		at += length;
		at += *at == '\n';
	}
	if (n > NOTES_MOST)
		page_trouble(page, "and %zu more notes; run.json has them all", n - NOTES_MOST);
}

enum shard_trouble { NOT_READ, NOT_CLOSED, NOT_ENDED, SHARD_TROUBLES, NO_TROUBLE };

static enum shard_trouble shard_trouble(const struct run *run, const struct run_shard *shard)
{
	if (shard->trouble.message[0])
		return NOT_READ;
	if (shard->state == SHARD_CRASHED)
		return NOT_CLOSED;
	if (shard->state == SHARD_LIVE && strcmp(run->info.status, "running") != 0)
		return NOT_ENDED;
	return NO_TROUBLE;
}

static void trouble_shards(const struct scene *scene, struct page *page)
{
	static const char *const words[SHARD_TROUBLES] = {
		[NOT_CLOSED] = "ended without closing its recording",
		[NOT_ENDED] = "still records although the command has ended; figures may grow",
	};
	static const char *const more[SHARD_TROUBLES] = {
		[NOT_READ] = "processes whose shards could not be read, or not wholly",
		[NOT_CLOSED] = "processes that ended without closing their recordings",
		[NOT_ENDED] = "processes that still record",
	};
	const struct run *run = scene->run;
	size_t n[NO_TROUBLE + 1] = { 0 };

	for (size_t i = 0; i < run->n_shards; i++) {
		const struct run_shard *shard = &run->shards[i];
		enum shard_trouble trouble = shard_trouble(run, shard);

		if (trouble == NO_TROUBLE || ++n[trouble] > PROCESSES_MOST)
			continue;
		page_trouble(page, "rank %u, %s %u%s %s", shard->rank,
			     shard->role == ROLE_MACHINE    ? "the machine's readings by process"
			     : shard->role == ROLE_COUNTERS ? "counters read by process"
							    : "process",
			     shard->pid, trouble == NOT_READ ? ":" : "",
			     trouble == NOT_READ ? shard->trouble.message : words[trouble]);
	}
	for (int t = 0; t < SHARD_TROUBLES; t++)
		if (n[t] > PROCESSES_MOST)
			page_trouble(page, "and %zu more %s", n[t] - PROCESSES_MOST, more[t]);
}

void trouble_page(const struct scene *scene, struct page *page)
{
	const struct routing *routing = answers_has(scene->answers, &subject_routing)
						? answer_routing(scene->answers)
						: NULL;

	if (routing && routing->records && !routing->self_check_ok)
		page_trouble(page, "routing self-check failed: %s", routing->self_check);
#define LOSS(field, words)                                                                         \
	if (scene->run->loss.field)                                                                \
		page_trouble(page, "%" PRIu64 " %s", scene->run->loss.field, words);
	LOSS_COUNTERS(LOSS)
#undef LOSS
	trouble_shards(scene, page);
	trouble_notes(scene, page);
}

void heading_page(const struct scene *scene, const char *title, struct page *page)
{
	size_t n;

	page_line(page, 0, "%s", "");
	page_put_in(page, TONE_STRONG, "moescope %s", title);
	page_put(page, "  %s", scene->run->info.name);
	n = page->n;
	trouble_page(scene, page);
	if (page->n > n)
		page_empty_line(page);
}

static const char *ending(const struct run_info *info, struct page *page)
{
	const char *text;

	if (!strcmp(info->status, "exited"))
		text = page_text(page, "exit status %d", info->exit_status);
	else if (!strcmp(info->status, "killed"))
		text = page_text(page, "killed by signal %d", info->signal);
	else
		text = !strcmp(info->status, "running")	    ? "still running"
		       : !strcmp(info->status, "left")	    ? "left running"
		       : !strcmp(info->status, "abandoned") ? "abandoned, end unknown"
							    : "end unknown";
	return text ? text : "";
}

void run_page(const struct scene *scene, struct page *page)
{
	const struct run_info *info = &scene->run->info;

	page_words(page, 0, 2, "%s", "");
	page_put_in(page, TONE_STRONG, "moescope report");
	page_put_in(page, TONE_PLAIN, "  ");
	page_put_in(page, TONE_PLAIN, "%s", info->name);
	page_words(page, 2, 4, "%s", info->command[0] ? info->command : "(command unknown)");
	if (info->source[0])
		page_words(page, 2, 4, "imported from %s", info->source);
	/* Files of other profilers seldom name the machine. */
	if (!info->source[0] || info->host[0] || info->cpu[0]) {
		page_words(page, 2, 4, "%s, %s, ", info->host[0] ? info->host : "host n/a",
			   info->cpu[0] ? info->cpu : "CPU n/a");
		if (info->cpus > 0)
			page_put(page, "%d CPUs", info->cpus);
		else
			page_put(page, "number of CPUs n/a");
	}
	page_line(page, 2, "%s, ",
		  info->source[0] && !info->started_realtime_ns
			  ? "time of day unknown"
			  : format_date(info->started_realtime_ns).text);
	if (info->duration_known)
		page_put(page, "ran %s, ", format_ns((double)info->duration_ns).text);
	page_put(page, "%s", ending(info, page));
	/* Levels are of our recordings. */
	if (!info->source[0] || info->level[0])
		page_put(page, ", level %s", info->level[0] ? info->level : "n/a");
	page_put(page, ", %zu process%s", run_processes(scene->run),
		 run_processes(scene->run) == 1 ? "" : "es");
}

/* Each key once: the last value of the first shard with that role. */
static void put_facts(const struct scene *scene, enum shard_role role, struct page *page)
{
	const struct table_fact *fact = &scene->run->fact;
	size_t first = 0;

	while (first < fact->n && scene->run->shards[fact->shard[first]].role != role)
		first++;
	for (size_t i = first; i < fact->n; i++) {
		bool later = false;

		for (size_t j = i + 1; j < fact->n && !later; j++)
			later = fact->key[j] == fact->key[i] && fact->shard[j] == fact->shard[i];
		/* For symbolizers; there are many. */
		if (strncmp(run_string(scene->run, fact->key[i]), FACT_BUILD_ID,
			    strlen(FACT_BUILD_ID)) == 0)
			continue;
		if (!later && fact->shard[i] == fact->shard[first])
			page_words(page, 2, 4, "%s: %s", run_string(scene->run, fact->key[i]),
				   run_string(scene->run, fact->value[i]));
	}
}

/* What the machine's shard has to tell is on its own page. */
void facts_page(const struct scene *scene, struct page *page)
{
	put_facts(scene, ROLE_PROCESS, page);
	put_facts(scene, ROLE_THREADS, page);
	put_facts(scene, ROLE_COUNTERS, page);
	put_facts(scene, ROLE_HEAP, page);
}

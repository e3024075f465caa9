/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages of the machine under the program.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/host/host.h"
#include "subjects/host/host_phases.h"
#include "subjects/pages/pages.h"

#define TOP_PROCESSES 4
#define OTHERS_LINES 3

/* What could not be read: readings.c says it once for each. */
static void tell_unread(const struct run *run, struct page *page)
{
	static const char words[] = "cannot be read here";

	for (size_t i = 0; i < run->fact.n; i++) {
		const char *value = run_string(run, run->fact.value[i]);

		if (run->shards[run->fact.shard[i]].role == ROLE_MACHINE && strstr(value, words))
			page_words(page, 2, 4, "%s", value);
	}
}

/* At most as many columns as there are stretches of time. */
static size_t heights_of(const struct host *host, size_t columns, unsigned int top, double most,
			 size_t value_offset, unsigned char *ret_heights)
{
	size_t n = columns < host->n_times ? columns : host->n_times;

	for (size_t c = 0; c < n; c++) {
		const char *time = (const char *)&host->times[c * host->n_times / n];
		struct value value = *(const struct value *)(time + value_offset);
		double share = value.known && most > 0 ? value.v / most : 0;

		share = share > 1 ? 1 : share > 0 ? share : 0;
		ret_heights[c] = (unsigned char)(top * share + 0.5);
	}
	return n;
}

static size_t resident_heights(const struct series *series, size_t columns, unsigned int top,
			       unsigned char *ret_heights)
{
	const struct host *host = series->of;

	return heights_of(host, columns, top, host->peak_resident_bytes.v,
			  offsetof(struct host_time, resident_bytes), ret_heights);
}

static size_t cpu_heights(const struct series *series, size_t columns, unsigned int top,
			  unsigned char *ret_heights)
{
	const struct host *host = series->of;

	return heights_of(host, columns, top, host->cpus.v,
			  offsetof(struct host_time, program_cpus), ret_heights);
}

static void over_time(const struct scene *scene, const struct host *host, struct page *page)
{
	static const struct {
		const char *label;
		size_t (*heights)(const struct series *series, size_t columns, unsigned int top,
				  unsigned char *ret_heights);
	} lines[] = { { "CPUs   ", cpu_heights }, { "memory ", resident_heights } };

	for (size_t i = 0; host->n_times > 2 && i < 2; i++) {
		page_line(page, 2, "%s", lines[i].label);
		page_series(page, (struct series){ scene->run, host, lines[i].heights }, 9);
	}
}

static void program_lines(const struct host *host, struct page *page)
{
	page_words(page, 2, 4, "the program used %s of %s processors%s",
		   format_ratio(host->program_cpus.v).text, format_count(host->cpus.v).text,
		   host->ready_cpus.known ? "" : "; how long it waited for them is unknown");
	if (host->ready_cpus.known)
		page_put(page, ", and its threads waited for %s more",
			 format_ratio(host->ready_cpus.v).text);
	if (host->allowed_cpus.known && host->allowed_cpus.v < host->cpus.v)
		page_put(page, "; it may run on %s of them",
			 format_count(host->allowed_cpus.v).text);
	if (host->program_system_pct.known)
		page_put(page, "; %s of its time in the kernel",
			 format_pct(host->program_system_pct.v).text);
	page_words(page, 2, 4, "its memory: at most %s",
		   host->peak_resident_bytes.known ? format_bytes(host->peak_resident_bytes.v).text
						   : "unknown");
	for (size_t i = 0; i < host->n_processes; i++)
		if (host->processes[i].growth_bytes_per_s.known)
			page_put(page, "; process %u grows steadily, by %s a second",
				 host->processes[i].pid,
				 format_bytes(host->processes[i].growth_bytes_per_s.v).text);
	if (host->program_read_bytes.known)
		page_put(page, "; read %s from disks and wrote %s",
			 format_bytes(host->program_read_bytes.v).text,
			 format_bytes(host->program_written_bytes.v).text);
	if (host->program_major_faults.known && host->program_major_faults.v > 0)
		page_put(page, "; %s page faults that a disk answered",
			 format_count(host->program_major_faults.v).text);
}

static void others_line(const struct host *host, struct page *page)
{
	size_t n = 0;

	for (size_t i = 0; i < host->n_parts; i++) {
		const struct host_part *part = &host->parts[i];

		if (part->place != HOST_OTHER || n++ >= OTHERS_LINES)
			continue;
		if (n == 1)
			page_words(page, 2, 4, "others used %s processors:",
				   format_ratio(host->others_cpus.v).text);
		page_put(page, "%s %s (%s of one)", n > 1 ? "," : "", part->name,
			 format_pct(part->busy_pct.v).text);
	}
}

static void limit_line(const struct host *host, struct page *page)
{
	if (host->quota_cpus.known)
		page_words(
			page, 2, 4,
			"its cgroup may use %s processors, and was held back in %s of the periods",
			format_ratio(host->quota_cpus.v).text,
			host->throttled_pct.known ? format_pct(host->throttled_pct.v).text
						  : "an unknown part");
	if (host->limit_bytes.known)
		page_words(page, 2, 4, "its cgroup may use %s of memory, and used at most %s",
			   format_bytes(host->limit_bytes.v).text,
			   host->peak_used_bytes.known ? format_bytes(host->peak_used_bytes.v).text
						       : "an unknown amount");
}

static void machine_lines(const struct host *host, struct page *page)
{
	page_words(page, 2, 4,
		   "processors of the machine: %s in programs, %s in the kernel, %s idle",
		   format_pct(host->user_pct.v).text, format_pct(host->system_pct.v).text,
		   format_pct(host->idle_pct.v).text);
	if (host->iowait_pct.known)
		page_put(page, ", %s waiting for disks", format_pct(host->iowait_pct.v).text);
	if (host->steal_pct.known && host->steal_pct.v > 0)
		page_put(page, ", %s taken by the hypervisor", format_pct(host->steal_pct.v).text);
	if (host->mhz.known)
		page_put(page, "; at %.0f MHz", host->mhz.v);
	if (host->cpu_pressure_pct.known)
		page_words(
			page, 2, 4,
			"somebody waited for a processor %s of the time, for a disk %s, for memory %s",
			format_pct(host->cpu_pressure_pct.v).text,
			format_pct(host->io_pressure_pct.v).text,
			format_pct(host->memory_pressure_pct.v).text);
	page_words(page, 2, 4, "disks: read %s, written %s; networks: received %s, sent %s",
		   format_bytes(host->disk_read_bytes.v).text,
		   format_bytes(host->disk_written_bytes.v).text,
		   format_bytes(host->received_bytes.v).text,
		   format_bytes(host->sent_bytes.v).text);
	if (host->memory_bytes.known && host->least_available_bytes.known)
		page_words(page, 2, 4,
			   "memory: %s of %s were free at the least; swapped in %s, out %s",
			   format_bytes(host->least_available_bytes.v).text,
			   format_bytes(host->memory_bytes.v).text,
			   format_bytes(host->swap_in_bytes.v).text,
			   format_bytes(host->swap_out_bytes.v).text);
}

static bool tell_missing(const struct host *host, struct page *page)
{
	if (!host->missing)
		return false;
	page_words(page, 2, 4, "%s", host->missing);
	return true;
}

static void host_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct host *host = answer_host(scene->answers);

	if (tell_missing(host, page))
		return;
	program_lines(host, page);
	over_time(scene, host, page);
	limit_line(host, page);
	others_line(host, page);
	machine_lines(host, page);
	page_empty_line(page);
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	page_words(page, 2, 4, "%llu looks in %s, which took %s of one processor%s",
		   (unsigned long long)host->looks, format_ns((double)host->elapsed_ns).text,
		   host->own_pct.known ? format_pct(host->own_pct.v).text : "an unknown part",
		   host->machines > 1 ? "; of several machines, the first" : "");
	tell_unread(scene->run, page);
}

static void table_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	if (!tell_missing(answer_host(scene->answers), page))
		page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
}

void host_report(const struct scene *scene, struct page *page)
{
	const struct host *host = answer_host(scene->answers);

	if (host->missing)
		return;
	page_title(page, "The machine under the program");
	program_lines(host, page);
	limit_line(host, page);
	others_line(host, page);
	machine_lines(host, page);
	if (host->n_processes > 1) {
		page_empty_line(page);
		page_table(page, page_section(page, &section_host, scene), TOP_PROCESSES,
			   ": moescope host");
	}
}

static const char *const columns_choices[] = { "processes", "parts", "times", "phases", NULL };
/* In the order of columns_choices. */
static const struct section *const columns_tables[] = { &section_host, &section_host_parts,
							&section_host_times, &section_host_phases,
							NULL };
static const struct question_parameter columns = {
	.name = "columns",
	.kind = ASK_TABLE,
	.metavar = "WHAT",
	.choices = columns_choices,
	.help = "one row per process of the program (processes); per processor, disk, network, memory "
		"node and other program (parts); per time interval (times); or per name of outermost "
		"ranges, with the memory that grew in them (phases)",
	.default_text = "processes",
};

const struct section section_host = {
	.name = "host",
	.sql = "host_processes",
	.reads = READS(&subject_host),
	.subject = &subject_host,
	.rows = &host_fields,
	.total = &host_total,
	.page = host_page,
	.command = {
		.place = 56,
		.host = true,
		.summary = "the machine under the program: processors, memory, disks, limits",
		.description =
			"What the program's processes used and waited for, who else used the machine, and "
			"what held the program back: processors, memory, disks, networks, cgroups. "
			"'moescope run' and 'moescope attach' read it from outside, about twice a second. "
			"One row per process of the program.",
		.examples = EXAMPLES({ "moescope host", "The newest run here." },
				     { "moescope host a.mscope --columns times",
				       "The same over time: processors, memory, disks, networks." },
				     { "moescope host a.mscope --columns parts",
				       "Each processor, disk, network, and who else was there." }),
		.parameters = PARAMETERS(&columns),
		.tables = columns_tables,
	},
};

const struct section section_host_parts = {
	.name = "host-parts",
	.sql = "host_parts",
	.reads = READS(&subject_host),
	.subject = &subject_host,
	.rows = &host_parts_fields,
	.total = &host_total,
	.page = table_page,
};

const struct section section_host_times = {
	.name = "host-times",
	.sql = "host_times",
	.reads = READS(&subject_host),
	.subject = &subject_host,
	.rows = &host_times_fields,
	.total = &host_total,
	.page = table_page,
};

static void phases_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	if (grid->n)
		page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	else
		page_words(page, 2, 4, "no process of this run has both ranges and readings");
}

const struct section section_host_phases = {
	.name = "host-phases",
	.sql = "host_phases",
	.reads = READS(&subject_host_phases),
	.subject = &subject_host_phases,
	.rows = &host_phases_fields,
	.total = &host_phases_total,
	.page = phases_page,
};

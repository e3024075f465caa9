/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about the machine under the program. See rules.h.
 *
 * Gains are of the program's time as a whole. What one rule explains another does not claim: a program that its
 * cgroup holds back waits for processors, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/host/host.h"
#include "verdicts/rules.h"

#define LEAST_NS INT64_C(1000000000) /* shorter programs say little about a machine */
#define THROTTLED_PCT 5.0
#define READY_SHARE 0.2 /* of the time in which threads could have run */
#define READY_CPUS 0.1
#define FULL 0.8 /* of the processors that it may use */
#define STEAL_PCT 10.0
#define NEIGHBOURS 0.25 /* processors */
#define SWAP_BYTES_PER_S 1e6
#define FAULTS_PER_S 50.0
#define DISK_THREADS 0.1
#define DISK_BYTES_PER_S 1e6
#define LIMIT_PCT 90.0
#define SOON_S 3600.0 /* out of memory within that is critical */
#define TURNS_PCT 30.0
#define LINK_PCT 70.0
#define LOOPBACK_BYTES_PER_S 1e8
#define SYSTEM_PCT 50.0
#define IDLE_CPUS 0.2
#define ONE_CPU 1.2

static void host_gain(struct verdict *v, double gain_pct, const char *assumption)
{
	rule_gain(v, gain_pct, assumption);
	v->gain_of = "the program's time";
}

static double seconds(const struct host *h)
{
	return (double)h->elapsed_ns / 1e9;
}

static bool tells(const struct host *h)
{
	return !h->missing && h->elapsed_ns >= LEAST_NS && h->n_processes;
}

/* Processors that the program could have used: run on, and waited for. */
static double wanted(const struct host *h)
{
	return h->program_cpus.v + (h->ready_cpus.known ? h->ready_cpus.v : 0);
}

static double ready_share(const struct host *h)
{
	return h->ready_cpus.known && wanted(h) > 0 ? h->ready_cpus.v / wanted(h) : 0;
}

static bool is_throttled(const struct host *h)
{
	return h->throttled_pct.known && h->throttled_pct.v >= THROTTLED_PCT;
}

static bool is_pinned(const struct host *h)
{
	return h->allowed_cpus.known && h->cpus.known && h->allowed_cpus.v < h->cpus.v &&
	       wanted(h) > h->allowed_cpus.v * 1.1;
}

static double allowed(const struct host *h)
{
	return h->allowed_cpus.known ? h->allowed_cpus.v : h->cpus.v;
}

bool rule_host_throttled(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);

	(void)run;
	if (!tells(h) || !is_throttled(h))
		return false;
	TITLE(v, "the program's cgroup limits it to %s processors",
	      format_ratio(h->quota_cpus.v).text);
	rule_evidence(v, "throttled_pct", EVIDENCE_PCT, h->throttled_pct.v);
	rule_evidence(v, "quota_cpus", EVIDENCE_NUMBER, h->quota_cpus.v);
	rule_evidence(v, "program_cpus", EVIDENCE_NUMBER, h->program_cpus.v);
	if (h->throttled_ns.known)
		rule_evidence(v, "throttled_ns", EVIDENCE_NS, h->throttled_ns.v);
	/* In a period in which it is held back, it has used up its quota before the end. */
	host_gain(v,
		  h->throttled_ns.known && h->throttled_ns.v > 0
			  ? 100 * h->throttled_ns.v / (h->throttled_ns.v + h->program_cpu_ns)
			  : h->throttled_pct.v / 2,
		  "the quota is lifted and processors are idle");
	ADVICE(v, "Raise or lift the CPU limit of the container (docker --cpus, Kubernetes "
		  "limits.cpu), or start fewer threads and workers than it allows.");
	return true;
}

bool rule_host_pinned(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	double could;

	(void)run;
	if (!tells(h) || is_throttled(h) || !is_pinned(h) || ready_share(h) < READY_SHARE)
		return false;
	could = wanted(h) < h->cpus.v ? wanted(h) : h->cpus.v;
	TITLE(v, "the program is pinned to %.0f of %.0f processors, and its threads wait for them",
	      h->allowed_cpus.v, h->cpus.v);
	rule_evidence(v, "allowed_cpus", EVIDENCE_COUNT, h->allowed_cpus.v);
	rule_evidence(v, "cpus", EVIDENCE_COUNT, h->cpus.v);
	rule_evidence(v, "program_cpus", EVIDENCE_NUMBER, h->program_cpus.v);
	rule_evidence(v, "ready_cpus", EVIDENCE_NUMBER, h->ready_cpus.v);
	host_gain(v, 100 * (1 - h->allowed_cpus.v / could),
		  "the other processors are free and its threads work in parallel");
	ADVICE(v, "Something has set its affinity: taskset, numactl, a launcher's binding "
		  "(--cpu-bind, OMP_PROC_BIND), a cpuset, or the program itself. Give it as many "
		  "processors as it has busy threads.");
	return true;
}

/* The programs of others that used most, as words. */
static const struct host_part *busiest_other(const struct host *h)
{
	for (size_t i = 0; i < h->n_parts; i++)
		if (h->parts[i].place == HOST_OTHER)
			return &h->parts[i];
	return NULL;
}

/* Would its threads have had processors enough without others? */
static bool is_crowded_out(const struct host *h)
{
	return h->others_cpus.known && h->others_cpus.v >= NEIGHBOURS &&
	       wanted(h) - allowed(h) < h->others_cpus.v && ready_share(h) >= READY_SHARE &&
	       h->ready_cpus.v >= READY_CPUS;
}

bool rule_host_neighbours(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	const struct host_part *other;
	double gain;

	(void)run;
	if (!tells(h) || is_throttled(h) || is_pinned(h) || !is_crowded_out(h))
		return false;
	other = busiest_other(h);
	TITLE(v, "other programs take the processors: '%.40s' and others use %s of %.0f",
	      other ? other->name : "?", format_ratio(h->others_cpus.v).text, h->cpus.v);
	rule_evidence(v, "others_cpus", EVIDENCE_NUMBER, h->others_cpus.v);
	rule_evidence(v, "ready_cpus", EVIDENCE_NUMBER, h->ready_cpus.v);
	rule_evidence(v, "program_cpus", EVIDENCE_NUMBER, h->program_cpus.v);
	rule_evidence(v, "cpus", EVIDENCE_COUNT, h->cpus.v);
	gain = h->ready_cpus.v < h->others_cpus.v ? h->ready_cpus.v : h->others_cpus.v;
	host_gain(v, 100 * gain / (wanted(h) > 1 ? wanted(h) : 1), "the others are gone");
	ADVICE(v,
	       "End or move them ('moescope host --columns parts' names them), give this program "
	       "processors of its own (taskset, cpuset), or lower their priority (nice).");
	return true;
}

bool rule_host_oversubscribed(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);

	(void)run;
	if (!tells(h) || is_throttled(h) || is_pinned(h) || is_crowded_out(h) ||
	    ready_share(h) < READY_SHARE || wanted(h) < allowed(h) * 1.2)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "more threads want to run than there are processors: %s want %.0f",
	      format_ratio(wanted(h)).text, allowed(h));
	rule_evidence(v, "program_cpus", EVIDENCE_NUMBER, h->program_cpus.v);
	rule_evidence(v, "ready_cpus", EVIDENCE_NUMBER, h->ready_cpus.v);
	rule_evidence(v, "allowed_cpus", EVIDENCE_COUNT, allowed(h));
	v->gain_pct = value_absent("it depends on which of its threads the others wait for");
	ADVICE(v, "Start fewer workers or threads (DataLoader num_workers, OMP_NUM_THREADS, "
		  "torch.set_num_threads), so that the threads that feed the GPU do not wait, or "
		  "give it more processors.");
	return true;
}

bool rule_host_stolen(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	double busy;

	(void)run;
	if (!tells(h) || !h->steal_pct.known)
		return false;
	busy = h->user_pct.v + h->system_pct.v + h->steal_pct.v;
	if (busy <= 0 || h->steal_pct.v < STEAL_PCT / 2 || 100 * h->steal_pct.v / busy < STEAL_PCT)
		return false;
	TITLE(v, "the hypervisor gives the processors to other guests: %s of their time",
	      format_pct(h->steal_pct.v).text);
	rule_evidence(v, "steal_pct", EVIDENCE_PCT, h->steal_pct.v);
	rule_evidence(v, "user_pct", EVIDENCE_PCT, h->user_pct.v);
	rule_evidence(v, "system_pct", EVIDENCE_PCT, h->system_pct.v);
	host_gain(v, 100 * h->steal_pct.v / busy, "no other guest takes processor time");
	ADVICE(v, "The host of this virtual machine is oversold: ask for dedicated processors, or "
		  "move to another machine.");
	return true;
}

bool rule_host_swapping(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	double swapped, faults;

	(void)run;
	if (!tells(h))
		return false;
	swapped = h->swap_in_bytes.v + h->swap_out_bytes.v;
	faults = h->program_major_faults.v / seconds(h);
	if (swapped / seconds(h) < SWAP_BYTES_PER_S || faults < FAULTS_PER_S)
		return false;
	TITLE(v, "the machine swaps: %s page faults of the program waited for a disk",
	      format_count(h->program_major_faults.v).text);
	rule_evidence(v, "major_faults", EVIDENCE_COUNT, h->program_major_faults.v);
	rule_evidence(v, "swap_in_bytes", EVIDENCE_BYTES, h->swap_in_bytes.v);
	rule_evidence(v, "swap_out_bytes", EVIDENCE_BYTES, h->swap_out_bytes.v);
	rule_evidence(v, "least_available_bytes", EVIDENCE_BYTES, h->least_available_bytes.v);
	if (h->memory_pressure_pct.known) {
		rule_evidence(v, "memory_pressure_pct", EVIDENCE_PCT, h->memory_pressure_pct.v);
		host_gain(v, h->memory_pressure_pct.v, "everything fits into memory");
	}
	if (v->severity > SEVERITY_WARNING || !h->memory_pressure_pct.known)
		v->severity = SEVERITY_WARNING;
	ADVICE(v,
	       "Use less memory (fewer workers, smaller caches and batches), give the machine more, "
	       "or end whatever else uses it.");
	return true;
}

/* The process that moves most to and from disks. */
static const struct host_process *most_moved(const struct host *h)
{
	const struct host_process *most = NULL;

	for (size_t i = 0; i < h->n_processes; i++) {
		const struct host_process *p = &h->processes[i];

		if (p->life_ns > 0 && (!most || p->read_bytes.v + p->written_bytes.v >
							most->read_bytes.v + most->written_bytes.v))
			most = p;
	}
	return most;
}

/* Threads of the program that wait for a disk, on average: those that looks have found, or, where the disks work
 * for it above all, those that the kernel has counted. */
static double waits_for_disk(const struct host *h, const struct host_process *p)
{
	double moved = p->read_bytes.v + p->written_bytes.v;
	double found = p->blocked_threads.known ? p->blocked_threads.v : 0;

	if (moved * 1e9 / (double)p->life_ns < DISK_BYTES_PER_S)
		return 0;
	if (h->io_pressure_pct.known && h->io_pressure_pct.v / 100 > found &&
	    moved >= (h->disk_read_bytes.v + h->disk_written_bytes.v) / 2)
		return h->io_pressure_pct.v / 100;
	return found;
}

bool rule_host_disk_bound(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	const struct host_process *p = tells(h) ? most_moved(h) : NULL;
	double waits = p ? waits_for_disk(h, p) : 0;
	bool reads;

	(void)run;
	if (waits < DISK_THREADS)
		return false;
	reads = p->read_bytes.v >= p->written_bytes.v;
	TITLE(v, "the program waits for the disk: it %s %s a second", reads ? "reads" : "writes",
	      format_bytes((p->read_bytes.v + p->written_bytes.v) * 1e9 / (double)p->life_ns).text);
	if (p->blocked_threads.known)
		rule_evidence(v, "blocked_threads", EVIDENCE_NUMBER, p->blocked_threads.v);
	rule_evidence(v, "read_bytes", EVIDENCE_BYTES, p->read_bytes.v);
	rule_evidence(v, "written_bytes", EVIDENCE_BYTES, p->written_bytes.v);
	rule_evidence(v, "pid", EVIDENCE_COUNT, p->pid);
	if (h->io_pressure_pct.known)
		rule_evidence(v, "io_pressure_pct", EVIDENCE_PCT, h->io_pressure_pct.v);
	host_gain(v, 100 * waits * (double)p->life_ns / (double)h->elapsed_ns,
		  "its data comes from memory or is moved while it works");
	if (reads)
		ADVICE(v,
		       "Read ahead and in parallel (DataLoader num_workers, prefetch_factor), in "
		       "larger pieces, from a faster disk or from memory; keep reused data in the "
		       "page cache (no O_DIRECT, no dropped cache).");
	else
		ADVICE(v,
		       "Write less often and in larger pieces, without waiting (fsync, O_SYNC) for "
		       "each; write checkpoints from another thread, or to a faster disk.");
	return true;
}

bool rule_host_memory_limit(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	double pct;

	(void)run;
	if (!tells(h) || !h->limit_bytes.known || !h->peak_used_bytes.known ||
	    h->limit_bytes.v <= 0)
		return false;
	pct = 100 * h->peak_used_bytes.v / h->limit_bytes.v;
	if (pct < LIMIT_PCT && !(h->oom_kills.known && h->oom_kills.v > 0))
		return false;
	if (h->memory_bytes.known && h->limit_bytes.v >= h->memory_bytes.v)
		return false;
	v->severity = h->oom_kills.known && h->oom_kills.v > 0 ? SEVERITY_CRITICAL
							       : SEVERITY_WARNING;
	TITLE(v,
	      v->severity == SEVERITY_CRITICAL
		      ? "the kernel ended processes: the memory limit of %s was reached"
		      : "memory is at the limit of %s that its cgroup has",
	      format_bytes(h->limit_bytes.v).text);
	rule_evidence(v, "peak_used_bytes", EVIDENCE_BYTES, h->peak_used_bytes.v);
	rule_evidence(v, "limit_bytes", EVIDENCE_BYTES, h->limit_bytes.v);
	if (h->limit_hits.known)
		rule_evidence(v, "limit_hits", EVIDENCE_COUNT, h->limit_hits.v);
	if (h->oom_kills.known)
		rule_evidence(v, "oom_kills", EVIDENCE_COUNT, h->oom_kills.v);
	v->gain_pct = value_absent("it ends the program rather than slowing it down");
	ADVICE(v, "Raise the memory limit of the container, or use less: fewer workers, smaller "
		  "caches and batches, memory-mapped data.");
	return true;
}

bool rule_host_leak(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	const struct host_process *worst = NULL;
	double left, until_s;

	(void)run;
	for (size_t i = 0; tells(h) && i < h->n_processes; i++) {
		const struct host_process *p = &h->processes[i];

		if (p->growth_bytes_per_s.known &&
		    (!worst || p->growth_bytes_per_s.v > worst->growth_bytes_per_s.v))
			worst = p;
	}
	if (!worst)
		return false;
	left = h->least_available_bytes.known ? h->least_available_bytes.v : 0;
	if (h->limit_bytes.known && h->peak_used_bytes.known &&
	    h->limit_bytes.v - h->peak_used_bytes.v < left)
		left = h->limit_bytes.v - h->peak_used_bytes.v;
	until_s = left > 0 ? left / worst->growth_bytes_per_s.v : 0;
	v->severity = until_s < SOON_S ? SEVERITY_CRITICAL : SEVERITY_WARNING;
	TITLE(v, "memory of process %u (%.20s) grows steadily: out of memory in est. %s",
	      worst->pid, worst->name, format_ns(until_s * 1e9).text);
	rule_evidence(v, "growth_bytes_per_s", EVIDENCE_BYTES, worst->growth_bytes_per_s.v);
	rule_evidence(v, "peak_resident_bytes", EVIDENCE_BYTES, worst->peak_resident_bytes.v);
	rule_evidence(v, "grew_bytes", EVIDENCE_BYTES, worst->grew_bytes.v);
	rule_evidence(v, "least_available_bytes", EVIDENCE_BYTES, left);
	v->gain_pct = value_absent("a leak costs memory, not time");
	ADVICE(v,
	       "Something is never freed: unbounded lists and caches, losses kept with their graph "
	       "(use .item()), data of workers that are never joined.");
	return true;
}

/* The process whose threads take turns for most of its life. */
static const struct host_process *most_turns(const struct host *h)
{
	const struct host_process *most = NULL;

	for (size_t i = 0; i < h->n_processes; i++)
		if (h->processes[i].turns_pct.known && h->processes[i].turns_pct.v >= TURNS_PCT &&
		    (!most || h->processes[i].turns_pct.v > most->turns_pct.v))
			most = &h->processes[i];
	return most;
}

bool rule_host_one_at_a_time(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	const struct host_process *p = tells(h) ? most_turns(h) : NULL;
	double parallel;

	(void)run;
	if (!p || is_throttled(h) || allowed(h) < 2)
		return false;
	parallel = p->threads.v - 1 < allowed(h) ? p->threads.v - 1 : allowed(h);
	host_gain(v, p->turns_pct.v * (1 - 1 / (parallel > 2 ? parallel : 2)),
		  "these threads work in parallel");
	TITLE(v,
	      p->python ? "Python's lock (GIL): several threads of process %u work, one at a time"
			: "threads of process %u seem to work one at a time: a lock",
	      p->pid);
	rule_evidence(v, "turns_pct", EVIDENCE_PCT, p->turns_pct.v);
	rule_evidence(v, "cpus", EVIDENCE_NUMBER, p->cpus);
	rule_evidence(v, "threads", EVIDENCE_COUNT, p->threads.v);
	if (p->voluntary.known)
		rule_evidence(v, "voluntary_switches", EVIDENCE_COUNT, p->voluntary.v);
	if (p->python)
		ADVICE(v,
		       "Python threads share one lock. Use processes (multiprocessing, DataLoader "
		       "num_workers), or functions that release it; 'moescope run --stacks' shows "
		       "where they are.");
	else
		ADVICE(v,
		       "They wait for each other. 'moescope run --stacks' shows where: hold the lock "
		       "for less time, or split what it guards.");
	return true;
}

/* The network with the most traffic beside what it can carry. */
static bool fills_link(const struct host_part *p, double *ret_pct)
{
	double most = p->in_bytes_per_s.v > p->out_bytes_per_s.v ? p->in_bytes_per_s.v
								 : p->out_bytes_per_s.v;

	if (p->place != HOST_NETWORK || !p->in_bytes_per_s.known)
		return false;
	*ret_pct = p->link_bytes_per_s.known ? 100 * most / p->link_bytes_per_s.v : -1;
	return p->link_bytes_per_s.known ? *ret_pct >= LINK_PCT : most >= LOOPBACK_BYTES_PER_S;
}

bool rule_host_network_bound(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	const struct host_part *link = NULL;
	double pct = -1;

	(void)run;
	for (size_t i = 0; tells(h) && i < h->n_parts && !link; i++)
		if (fills_link(&h->parts[i], &pct))
			link = &h->parts[i];
	/* Without a link that could be full, the kernel's work for it is what limits. */
	if (!link ||
	    (pct < 0 && !(h->program_system_pct.known && h->program_system_pct.v >= SYSTEM_PCT)))
		return false;
	if (pct >= 0) {
		v->severity = SEVERITY_WARNING;
		v->gain_pct = value_absent("it depends on how much could be sent while computing");
	} else {
		host_gain(v,
			  h->program_system_pct.v * h->program_cpus.v /
				  (wanted(h) > 1 ? wanted(h) : 1),
			  "its processes exchange data through shared memory");
	}
	if (pct >= 0)
		TITLE(v, "the network %.20s is saturated: %s of its capacity", link->name,
		      format_pct(pct).text);
	else
		TITLE(v, "the program moves data through the network %.20s: %s a second",
		      link->name, format_bytes(link->in_bytes_per_s.v).text);
	rule_evidence(v, "in_bytes_per_s", EVIDENCE_BYTES, link->in_bytes_per_s.v);
	rule_evidence(v, "out_bytes_per_s", EVIDENCE_BYTES, link->out_bytes_per_s.v);
	if (pct >= 0)
		rule_evidence(v, "link_pct", EVIDENCE_PCT, pct);
	if (h->program_system_pct.known)
		rule_evidence(v, "program_system_pct", EVIDENCE_PCT, h->program_system_pct.v);
	ADVICE(v,
	       "Send less (compress, keep data where it is used), send while computing, use shared "
	       "memory between processes of one machine, or a faster network.");
	return true;
}

/* The node that a device is at, as a mask; 0: nobody told. */
static uint64_t node_of_device(const struct run *run, size_t device)
{
	char key[160];

	snprintf(key, sizeof(key), "node of %.120s", run_string(run, run->device.uuid[device]));
	for (size_t i = 0; i < run->fact.n; i++)
		if (strcmp(run_string(run, run->fact.key[i]), key) == 0) {
			unsigned long node = strtoul(run_string(run, run->fact.value[i]), NULL, 10);

			return node < 64 ? UINT64_C(1) << node : 0;
		}
	return 0;
}

/* A device that the process uses, on a node where it may not run; 0: there is none. */
static uint64_t far_device(const struct run *run, const struct host_process *p)
{
	for (size_t i = 0; i < run->device.n; i++) {
		uint64_t node = run->shards[run->device.shard[i]].pid == p->pid
					? node_of_device(run, i)
					: 0;

		if (node && p->cpu_nodes && !(node & p->cpu_nodes))
			return node;
	}
	return 0;
}

bool rule_host_wrong_node(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);

	for (size_t i = 0; tells(h) && i < h->n_processes; i++) {
		const struct host_process *p = &h->processes[i];
		bool far_memory = p->cpu_nodes && p->memory_nodes &&
				  !(p->cpu_nodes & p->memory_nodes);
		uint64_t device = far_device(run, p);

		if (!far_memory && !device)
			continue;
		v->severity = SEVERITY_WARNING;
		TITLE(v, "process %u may only run on a node that %s", p->pid,
		      far_memory ? "its memory is not on" : "its GPU is not at");
		rule_evidence(v, "cpu_nodes", EVIDENCE_NUMBER, (double)p->cpu_nodes);
		rule_evidence(v, "memory_nodes", EVIDENCE_NUMBER, (double)p->memory_nodes);
		if (device)
			rule_evidence(v, "device_nodes", EVIDENCE_NUMBER, (double)device);
		v->gain_pct = value_absent("it depends on how much it moves");
		ADVICE(v,
		       "Bind processors and memory to the node of the GPU: numactl --cpunodebind=N "
		       "--membind=N, or the launcher's binding; 'nvidia-smi topo -m' shows which.");
		return true;
	}
	return false;
}

/* Nothing here explains why it does not compute. */
bool rule_host_waiting(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);
	const struct host_process *p = tells(h) ? most_moved(h) : NULL;

	if (!p || wanted(h) > IDLE_CPUS || is_throttled(h) || run->kernel.n ||
	    waits_for_disk(h, p) >= DISK_THREADS)
		return false;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "the program mostly sleeps: it used %s of a processor and waited for none",
	      format_pct(100 * h->program_cpus.v).text);
	rule_evidence(v, "program_cpus", EVIDENCE_NUMBER, h->program_cpus.v);
	rule_evidence(v, "ready_cpus", EVIDENCE_NUMBER, h->ready_cpus.v);
	if (p->blocked_threads.known)
		rule_evidence(v, "blocked_threads", EVIDENCE_NUMBER, p->blocked_threads.v);
	v->gain_pct = value_absent("what it waits for is not measured on this machine");
	ADVICE(v,
	       "It waits for locks, timers, pipes or replies from elsewhere, not for processors, "
	       "disks or memory. 'moescope run --stacks' shows where.");
	return true;
}

/* Not a fault: what could be had. */
bool rule_host_one_processor(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct host *h = answer_host(a);

	if (!tells(h) || run->kernel.n || is_throttled(h) || allowed(h) < 2 || most_turns(h) ||
	    h->program_cpus.v < FULL || wanted(h) > ONE_CPU)
		return false;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "the program computes on one of %.0f processors", allowed(h));
	rule_evidence(v, "program_cpus", EVIDENCE_NUMBER, h->program_cpus.v);
	rule_evidence(v, "allowed_cpus", EVIDENCE_COUNT, allowed(h));
	v->gain_pct = value_absent("it depends on how much of the work can be parallel");
	ADVICE(v,
	       "Its own computation takes the time: 'moescope run --stacks' shows in which functions. "
	       "More threads or processes could use the other processors.");
	return true;
}

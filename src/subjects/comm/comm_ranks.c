/* SPDX-License-Identifier: Apache-2.0
 *
 * The same collective on several ranks; see comm.h. Pure, any thread; n log n in collectives.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"
#include "subjects/comm/comm_rows.h"

/* A collective on one rank. */
struct member {
	uint64_t sequence;
	int64_t start_ns, duration_ns;
	uint32_t name, group, rank;
	uint32_t again; /* how many of the same rank with the same number came before */
	uint32_t row, group_size;
};

/* One row, or all of them (row == COMM_NO_ROW). */
struct late {
	uint32_t row, rank;
};

struct skew {
	uint64_t matched;
	double skew_ns, wait_ns;
	int64_t skew_max_ns;
	uint64_t late_most; /* how often the one that was late most often was */
	uint32_t late_rank;
	bool late;
	double worst_ns; /* the longest wait for one collective */
	struct span worst;
	uint32_t worst_rank;
};

static int members_by_number(const struct member *x, const struct member *y)
{
	return CMP(x->group, y->group) ?: CMP(x->name, y->name) ?: CMP(x->sequence, y->sequence);
}

static int by_rank(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return members_by_number(x, y) ?: CMP(x->rank, y->rank) ?: CMP(x->start_ns, y->start_ns);
}

/* Of one collective the last start comes last. */
static int by_collective(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return members_by_number(x, y) ?: CMP(x->again, y->again) ?:
	       CMP(x->start_ns, y->start_ns) ?: CMP(x->rank, y->rank);
}

static int by_late(const void *a, const void *b)
{
	const struct late *x = a, *y = b;

	return CMP(x->row, y->row) ?: CMP(x->rank, y->rank);
}

static size_t collect_members(const struct comm_rows *rows, struct member *members)
{
	const struct table_collective *c = &rows->run->collective;
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		if (rows->row_of[i] != COMM_NO_ROW && c->sequence_known[i] && c->group[i])
			members[n++] = (struct member){
				.sequence = c->sequence[i],
				.start_ns = c->start_ns[i],
				.duration_ns = c->duration_ns[i],
				.name = c->name[i],
				.group = c->group[i],
				.rank = rows->run->shards[c->shard[i]].rank,
				.row = rows->row_of[i],
				.group_size = c->group_size[i],
			};
	if (n)
		qsort(members, n, sizeof(*members), by_rank);
	/* A number may come again on a rank: parts of one call, or a counter that began anew. Ranks
	 * do the same in the same order. */
	for (size_t i = 1; i < n; i++)
		if (!members_by_number(&members[i - 1], &members[i]) &&
		    members[i - 1].rank == members[i].rank)
			members[i].again = members[i - 1].again + 1;
	if (n)
		qsort(members, n, sizeof(*members), by_collective);
	return n;
}

/* Who begins last has the shortest kernel. Where all are as long, nobody waited: the clocks of the
 * ranks differ. */
static double waited_ns(const struct member *members, size_t n)
{
	int64_t last = members[n - 1].start_ns, shortest = members[0].duration_ns;
	double sum = 0;

	for (size_t i = 1; i < n; i++)
		if (members[i].duration_ns < shortest)
			shortest = members[i].duration_ns;
	for (size_t i = 0; i < n; i++) {
		int64_t wait = last - members[i].start_ns;
		int64_t longer = members[i].duration_ns - shortest;

		sum += (double)(wait < longer ? wait : longer);
	}
	return sum;
}

static void add_skew(struct skew *skew, const struct member *members, size_t n, double wait_ns)
{
	int64_t gap = members[n - 1].start_ns - members[0].start_ns;

	skew->matched++;
	skew->skew_ns += (double)gap;
	skew->skew_max_ns = gap > skew->skew_max_ns ? gap : skew->skew_max_ns;
	skew->wait_ns += wait_ns;
	if (wait_ns <= skew->worst_ns)
		return;
	skew->worst_ns = wait_ns;
	skew->worst_rank = members[n - 1].rank;
	skew->worst =
		(struct span){ .start_ns = members[0].start_ns,
			       .end_ns = members[n - 1].start_ns + members[n - 1].duration_ns };
}

/* The collectives that more than one rank has; *ret_late: who was late in how many of them, twice
 * as many entries: by row, and over all. */
static size_t match_members(const struct member *members, size_t n, struct skew *skews,
			    struct skew *all, struct late *late)
{
	size_t n_late = 0, end;

	for (size_t i = 0; i < n; i = end) {
		double wait_ns;

		for (end = i + 1; end < n && !members_by_number(&members[i], &members[end]) &&
				  members[i].again == members[end].again;)
			end++;
		/* More ranks than the group has: names of groups that mean different ones. */
		if (end - i < 2 || (members[i].group_size && end - i > members[i].group_size))
			continue;
		wait_ns = waited_ns(members + i, end - i);
		add_skew(&skews[members[i].row], members + i, end - i, wait_ns);
		add_skew(all, members + i, end - i, wait_ns);
		if (wait_ns <= 0 || members[end - 1].start_ns == members[end - 2].start_ns)
			continue;
		late[n_late++] = (struct late){ members[i].row, members[end - 1].rank };
		late[n_late++] = (struct late){ COMM_NO_ROW, members[end - 1].rank };
	}
	return n_late;
}

static void find_late(struct late *late, size_t n, struct skew *skews, struct skew *all)
{
	size_t end;

	if (n)
		qsort(late, n, sizeof(*late), by_late);
	for (size_t i = 0; i < n; i = end) {
		struct skew *skew = late[i].row == COMM_NO_ROW ? all : &skews[late[i].row];

		for (end = i + 1; end < n && !by_late(&late[i], &late[end]);)
			end++;
		if (end - i <= skew->late_most)
			continue;
		skew->late = true;
		skew->late_most = end - i;
		skew->late_rank = late[i].rank;
	}
}

static const char *why_not(const struct comm_rows *rows, size_t n_members)
{
	if (!rows->run->collective.n)
		return "no collective records in this run";
	if (!n_members)
		return "its records have no group and sequence number";
	return "no other rank recorded it";
}

static struct comm_skew skew_figures(const struct skew *skew, const char *reason)
{
	double n = (double)skew->matched;
	struct value none = value_absent(reason);

	if (!skew->matched)
		return (struct comm_skew){ 0, none, none, none, none, none, { 0 }, 0 };
	return (struct comm_skew){
		.matched = skew->matched,
		.mean_ns = value_of(skew->skew_ns / n),
		.max_ns = value_of((double)skew->skew_max_ns),
		.wait_ns = value_of(skew->wait_ns),
		.late_rank =
			skew->late
				? value_of(skew->late_rank)
				: value_absent("no rank started last alone and made others wait"),
		.late_pct = value_of(100 * (double)skew->late_most / n),
		.worst = skew->worst,
		.worst_rank = skew->worst_rank,
	};
}

int comm_ranks_compare(struct comm_rows *rows, struct comm_skew *ret_all)
{
	size_t most = rows->run->collective.n;
	struct member *members = calloc(most + 1, sizeof(*members));
	struct late *late = calloc(2 * most + 1, sizeof(*late));
	struct skew *skews = calloc(rows->n + 1, sizeof(*skews));
	struct skew all = { 0 };
	int r = members && late && skews ? 0 : -ENOMEM;

	if (r >= 0) {
		size_t n = collect_members(rows, members);
		const char *reason = why_not(rows, n);

		find_late(late, match_members(members, n, skews, &all, late), skews, &all);
		for (size_t i = 0; i < rows->n; i++)
			rows->rows[i].skew = skew_figures(
				&skews[i],
				rows->rows[i].recorded ? reason : "it has no collective record");
		*ret_all = skew_figures(&all, reason);
	}
	free(members);
	free(late);
	free(skews);
	return r;
}

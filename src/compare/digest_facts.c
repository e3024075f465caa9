/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run was: the facts that must agree for two runs to be comparable, or that are what is
 * compared. See digest.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "compare/digest_inside.h"

static int add_digest_fact(struct digest_builder *b, const char *key, bool doubtful,
			   const char *value)
{
	struct run_digest *d = b->digest;
	struct digest_fact *fact;

	if (array_grow(&d->facts, &b->facts_capacity, d->n_facts + 1, sizeof(*d->facts)) < 0)
		return -ENOMEM;
	fact = &d->facts[d->n_facts++];
	*fact = (struct digest_fact){ strdup(key), strdup(value), doubtful };
	return fact->key && fact->value ? 0 : -ENOMEM;
}

/* The text of `buf`, which is released. */
static int add_text_fact(struct digest_builder *b, const char *key, struct buf *buf)
{
	int r;

	buf_append(buf, "", 1);
	r = buf->failed ? -ENOMEM : add_digest_fact(b, key, false, buf->data);
	buf_release(buf);
	return r;
}

/* "2 x NVIDIA H200": devices of the same name together, in the order of the records. */
static int add_device_fact(struct digest_builder *b)
{
	const struct table_device *t = &b->run->device;
	struct buf text = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		size_t same = 0;
		bool first = true;

		for (size_t j = 0; j < t->n; j++) {
			if (t->name[j] != t->name[i])
				continue;
			first = first && j >= i;
			/* Processes list the same devices once each. */
			same += t->shard[j] == t->shard[i];
		}
		if (first)
			buf_printf(&text, "%s%zu x %s", text.size ? ", " : "", same,
				   run_string(b->run, t->name[i]));
	}
	if (!t->n)
		buf_printf(&text, "none recorded");
	return add_text_fact(b, "devices", &text);
}

/* "2 layers, 8 experts, k 2, 64 x 128": equal layers together. */
static int add_layers(struct digest_builder *b)
{
	const struct table_moe_layer *t = &b->run->moe_layer;
	struct buf text = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		size_t same = 0;
		bool first = true;

		for (size_t j = 0; j < t->n; j++) {
			if (t->experts[j] != t->experts[i] || t->k[j] != t->k[i] ||
			    t->hidden[j] != t->hidden[i] || t->inner[j] != t->inner[i])
				continue;
			first = first && j >= i;
			same += t->shard[j] == t->shard[i];
		}
		if (first)
			buf_printf(&text, "%s%zu of %u experts, k %u, %u x %u",
				   text.size ? "; " : "", same, t->experts[i], t->k[i],
				   t->hidden[i], t->inner[i]);
	}
	return text.size || text.failed ? add_text_fact(b, "moe_layers", &text) : 0;
}

/* What the program said of itself; the last word on a key counts. */
static int add_program_facts(struct digest_builder *b)
{
	const struct table_fact *t = &b->run->fact;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		bool later = false;

		for (size_t j = i + 1; j < t->n && !later; j++)
			later = t->key[j] == t->key[i];
		if (!later)
			r = add_digest_fact(b, run_string(b->run, t->key[i]), false,
					    run_string(b->run, t->value[i]));
	}
	return r;
}

static int add_token_fact(struct digest_builder *b)
{
	double sum = 0;
	size_t n = 0;
	char text[40];

	for (size_t u = 0; u < b->n_units; u++) {
		if (!b->units[u].tokens_known)
			continue;
		sum += b->units[u].tokens;
		n++;
	}
	if (!n)
		return 0;
	snprintf(text, sizeof(text), "%.0f", sum / (double)n);
	return add_digest_fact(b, "tokens_per_step", true, text);
}

int digest_facts(struct digest_builder *b)
{
	const struct run_info *info = &b->run->info;
	char budget[40], cpus[24], ranks[24];
	const struct {
		const char *key, *value;
		bool doubtful;
	} facts[] = { { "command", info->command, false }, { "host", info->host, false },
		      { "cpu", info->cpu, false },	   { "cpus", cpus, false },
		      { "ranks", ranks, false },	   { "level", info->level, true },
		      { "budget", budget, true },	   { "moescope", info->version, false },
		      { "status", info->status, false } };
	int r = 0;

	if (!info->budget_known)
		snprintf(budget, sizeof(budget), "not set");
	else if (info->budget_pct > 0)
		snprintf(budget, sizeof(budget), "%g%%", info->budget_pct);
	else
		snprintf(budget, sizeof(budget), "no limit");
	snprintf(cpus, sizeof(cpus), "%d", info->cpus);
	snprintf(ranks, sizeof(ranks), "%zu", b->ranks);
	for (size_t i = 0; r >= 0 && i < sizeof(facts) / sizeof(facts[0]); i++)
		r = add_digest_fact(b, facts[i].key, facts[i].doubtful, facts[i].value);
	if (r >= 0)
		r = add_device_fact(b);
	if (r >= 0)
		r = add_layers(b);
	if (r >= 0)
		r = add_token_fact(b);
	return r < 0 ? r : add_program_facts(b);
}

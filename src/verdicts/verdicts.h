/* SPDX-License-Identifier: Apache-2.0
 *
 * What the answers mean and what to do about it. The rules are one table in rules.h.
 */
#ifndef VERDICTS_VERDICTS_H
#define VERDICTS_VERDICTS_H

#include "subjects/answers/answers.h"
#include "subjects/numbers/value.h"

enum severity {
	SEVERITY_CRITICAL,
	SEVERITY_WARNING,
	SEVERITY_NOTE,
	SEVERITY_OK,
};

const char *severity_name(enum severity severity); /* "critical" "warning" "note" "ok" */

enum evidence_unit {
	EVIDENCE_NUMBER,
	EVIDENCE_COUNT,
	EVIDENCE_PCT,
	EVIDENCE_NS,
	EVIDENCE_BYTES,
	EVIDENCE_MHZ
};

struct evidence {
	const char *key; /* with its unit, as in JSON */
	double v;
	enum evidence_unit unit;
};

#define VERDICT_EVIDENCE 6

/* A moment or stretch of time in which a verdict shows best. */
struct verdict_when {
	const char *what; /* "the slowest step"; NULL: there is none */
	const char *lane; /* "steps", "kernels" or "copies": which lanes of a timeline show it */
	int64_t start_ns, end_ns;
	uint32_t rank;
	struct value device;
};

struct verdict {
	const char *id;
	enum severity severity;
	char title[160];
	struct evidence evidence[VERDICT_EVIDENCE];
	size_t n_evidence;
	struct verdict_when when;
	char evidence_text[VERDICT_EVIDENCE * 96]; /* "key=value; key=value" */
	/* Of the time of the steps, without steps of the devices' windows; an estimate under
	 * gain_assumption. */
	struct value gain_pct;
	const char *gain_assumption; /* NULL when absent */
	const char *gain_of;	     /* what it is a share of, if not of these; or NULL */
	char advice[320];
};

struct verdicts {
	struct verdict *items; /* by severity, then gain */
	size_t n;
};

/* What a verdict is about, whatever the run. */
struct verdict_kind {
	const char *id, *about;
	/* "TABLE.KEY": its evidence is in the largest rows of the table by this key. NULL: in none. */
	const char *place;
};

/* All of them, up to a NULL id. */
extern const struct verdict_kind verdict_kinds[];
const struct verdict_kind *verdict_kind_find(const char *id); /* NULL: there is none */

/* What all rules together read; reads: room for SUBJECT_COUNT and a NULL. */
void verdicts_reads(const struct subject **reads);
int verdicts_analyze(const struct run *run, const struct answers *answers,
		     struct verdicts *ret_verdicts);
void verdicts_release(struct verdicts *verdicts);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What export --to chrome has put into a trace beside Kineto's events: records of moescope. Texts are
 * JSON as it stands in the file, and untrusted. Each call has its own memory: any thread, each with
 * its own part.
 */
#ifndef INGEST_KINETO_RECORD_H
#define INGEST_KINETO_RECORD_H

#include "ingest/shared/intake.h"

/* An event of the category "moescope". One that names no record is drawn for people only, and
 * nothing is added. 0; -EBADMSG: it is damaged; -ENOMEM. */
int kineto_record(struct intake_part *part, const char *event, size_t length);

/* The argument "moescope" of an event of Kineto's: columns that it has no argument for. Fills those
 * of the row that the kind has; others are ignored, as one of a launch is in that of its kernel.
 * Results as above; a damaged one leaves the row as far as it came. */
int kineto_extra(struct intake_part *part, enum record_kind kind, void *row, const char *object,
		 size_t length);
/* The same of what is a tree already; NULL: none. */
struct json_node;
int kineto_extra_node(struct intake_part *part, enum record_kind kind, void *row,
		      const struct json_node *object);
/* The place of a range or operation of that name, with what the argument says of it. 0: damaged, or
 * no memory. */
uint32_t kineto_site(struct intake_part *part, uint32_t name, const char *object, size_t length);

/* The member "moescope" of the whole file: what run.json said goes into the intake; when it tells of
 * n processes, what it says of each to these, which have the same order. */
int kineto_about(struct intake *intake, struct intake_process **processes, size_t n,
		 const char *object, size_t length);

#endif

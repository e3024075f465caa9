/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents: ordered parts of several subjects. For people a document is a page; for programs it is a
 * list of parts or of files, which surfaces walk without knowing any of them. Nothing here prints. Any
 * thread.
 */
#ifndef DOCUMENTS_DOCUMENT_H
#define DOCUMENTS_DOCUMENT_H

#include "subjects/pages/pages.h"

/* The most questions that a document asks. */
#define ASKED_MAX 4

/* A part for programs. */
struct document_part {
	const struct section *section; /* its total and rows under its name; else fields: */
	const struct field_set *fields;
	const char *key; /* of the object that holds the fields; NULL: they stand alone */
	const struct subject *subject; /* whose answer they are read from; NULL: see own */
	bool own;		       /* from what the document has made itself */
	const struct section *rows;    /* whose rows stand beside them; NULL: none */
	const char *rows_by;	       /* the key that sorts these */
	/* Why the part of a section is absent; NULL: it is there. May be NULL. */
	const char *(*absent)(const struct scene *scene);
};

/* A file of a document that is a folder. */
struct document_file {
	const char *name;		/* "%s": when the run began; NULL: no more files */
	const struct section *section;	/* a CSV file of its rows; else fields: */
	const struct field_set *fields; /* a CSV file of rows, or a JSON file of an object */
	const struct subject *subject;	/* whose answer they are read from; NULL: see own */
	size_t own;			/* where they are in what the document has made itself */
	const char *command;		/* that prints the section; NULL: the one of its name */
};
#define DOCUMENT_FILE_NAME_SIZE 64
void document_file_name(const struct document_file *file, const struct run *run, char *out,
			size_t size);

/* Whether this is one, and not the end of their list; NULL: there is no list. */
static inline bool document_has(const struct document_part *part)
{
	return part && (part->section || part->fields);
}

struct document {
	const char *meaning; /* what it is, for its schema */
	uint64_t kinds;	     /* of the records that it shows itself */
	/* Its questions, at most ASKED_MAX. run: NULL before it is loaded. */
	size_t (*ask)(const struct run *run, const struct question *question,
		      struct asked *ret_asked);
	/* What it makes of the answers before it is shown, and its end. The scenes outlive it. 0 or
	 * -errno. */
	int (*make)(const struct scene *scenes, size_t n, void **ret_own);
	void (*release)(void *own);
	int narrowest; /* columns that a page of it needs */
	void (*page)(const struct scene *scenes, const void *own, struct page *page);
	const struct document_part *parts; /* up to an empty one; NULL: for people alone */
	const struct document_file *files; /* up to one without a name; NULL: none */
	const char *not_json, *not_csv, *not_sorted; /* why not; NULL: it can be */
};

extern const struct section section_report, section_dashboard;
/* The folder of 'report --csv'. */
extern const struct document document_book;
/* All of them and the sections of subjects, up to NULL, in the order in which SQL lists its tables. */
extern const struct section *const sections[];

/* What the head of a document for programs is read from besides the run. */
#define RUN_DEVICES_MAX 256
struct run_head {
	uint32_t devices[RUN_DEVICES_MAX]; /* that ran kernels, in the order of their first ones */
	size_t n_devices;
};
void run_head_make(const struct run *run, struct run_head *ret_head);
extern const struct field_set run_head_fields; /* "run" and "loss" */
extern const struct field_set loss_rows;       /* what each process lost, of a struct run */

/* For documents that show verdicts beside what all subjects answer: what such a document has made itself are
 * its verdicts. Launches are dear, and only views show them. */
size_t report_ask(const struct run *run, const struct question *question, struct asked *ret_asked);
int report_make(const struct scene *scenes, size_t n, void **ret_own);
void report_release(void *own);
/* For parts; see `absent`. */
const char *no_device(const struct scene *scene);
/* Whether the report has a rule for when a run lacks the records of a section, and what it says. */
bool report_judges(const struct section *section, const struct scene *scene, bool *ret_lacks);

/* "moescope ops  NAME" and what casts doubt on the figures, before a view of one section. */
void heading_page(const struct scene *scene, const char *title, struct page *page);
/* Everything that casts doubt on the figures, a line each. The self-check of routing is among it where
 * routing is read. */
void trouble_page(const struct scene *scene, struct page *page);
/* The head of the report, and what the program said about itself. */
page_function run_page, facts_page;

#endif

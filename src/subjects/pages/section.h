/* SPDX-License-Identifier: Apache-2.0
 *
 * A section: one table of a subject and its page, which is a view with its command, a part of the report, a
 * table of SQL and a file of the CSV book. Pure, any thread.
 */
#ifndef SUBJECTS_SECTION_H
#define SUBJECTS_SECTION_H

#include "base/text/example.h"
#include "subjects/answers/answers.h"
#include "subjects/answers/parameters.h"
#include "subjects/pages/grid.h"
#include "subjects/pages/page.h"

/* What a section is read from. */
struct scene {
	const struct run *run;
	const struct answers *answers;
	struct question question; /* that the answers are of */
	size_t limit;		  /* rows; 0: all */
	bool data;		  /* for programs, which have room for everything */
};

struct document;

/* A section as a command: its words, and what people may ask. Its name is that of the section. */
struct section_command {
	int place;			/* in the overview: smaller ones come first */
	bool host;			/* about the host, not the device or the model */
	const char *summary;		/* one line, no full stop; NULL: it is no command */
	const char *description;	/* a paragraph: what a row is */
	const struct example *examples; /* up to a NULL line */
	const struct question_parameter *const *parameters; /* up to NULL; NULL: none */
	/* By the choice of ASK_TABLE, up to NULL; NULL: itself alone. */
	const struct section *const *tables;
};
#define EXAMPLES(...) ((const struct example[]){ __VA_ARGS__, { NULL, NULL } })

struct section {
	const char *name;   /* "ops": its command, its key in the report */
	const char *schema; /* of its JSON: "ops" in "moescope/ops/1"; NULL: as its name */
	const char *sql;    /* its table of SQL; NULL: it has none */
	const struct subject *const *reads;
	bool router_time, routed_tokens;      /* asks for these too; see question.h */
	const struct subject *subject;	      /* whose answer its fields are read from */
	const struct field_set *rows, *total; /* total: keys of "total" in JSON */
	/* More rows to follow while a run grows, few whatever the run holds; NULL: none. */
	const struct field_set *watched;
	unsigned int (*form)(const struct scene *scene); /* of its rows; NULL: the first */
	bool device; /* has figures from device records: "sampled" in its JSON */
	void (*page)(const struct scene *scene, const struct grid *grid, struct page *page);
	const struct document *document; /* several parts, in place of a table */
	struct section_command command;
};

/* A part of a document for people. */
typedef void page_function(const struct scene *scene, struct page *page);

/* "moescope/ops/1". */
void section_schema(const struct section *section, char *ret_schema, size_t size);
/* Where the fields of a section are read. */
struct field_row section_from(const struct section *section, const struct scene *scene);
/* Its rows. 0 or -errno; release the grid in both cases. */
int section_grid(const struct section *section, const struct scene *scene, struct grid *ret_grid);
/* The same answers as the section reads them; for documents. */
struct scene section_scene(const struct section *section, const struct scene *scene,
			   struct answers *ret_answers);

/* The rows of a section, or other rows that are read as its own are, for as long as the page lives;
 * NULL: no memory. */
const struct grid *page_section(struct page *page, const struct section *section,
				const struct scene *scene);
const struct grid *page_rows(struct page *page, const struct field_set *set,
			     const struct field_row *from);

/* The page of a section with its first rows alone, 0: all, for documents; how many rows there are. */
size_t page_top(struct page *page, const struct section *section, const struct scene *scene,
		size_t top);

/* Kernels, copies, sets or calls: the run used a GPU that was recorded. */
bool scene_has_device(const struct run *run);
/* The sentence for a table of a run without them. */
void page_no_device(const struct scene *scene, struct page *page);
/* "sampled: 3 windows, …" when device records were collected for a part of the run; else nothing.
 * what: "", or "device time " and the like when that is not all that the table shows. */
void page_sampled(const struct scene *scene, const char *what, struct page *page);

#endif

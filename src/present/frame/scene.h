/* SPDX-License-Identifier: Apache-2.0
 *
 * What every view has at hand, and the pieces that views share: the heading, trouble, bars, the
 * frame of the JSON documents.
 */
#ifndef PRESENT_SCENE_H
#define PRESENT_SCENE_H

#include "present/frame/grid.h"
#include "present/frame/present.h"
#include "subjects/answers/answers.h"
#include "verdicts/verdicts.h"

struct scene {
	const struct run *run;
	const struct present_options *options;
	const struct answers *answers;
};

/* The most questions that a view asks. */
#define ASKED_MAX 4

/* One table: a view, a section of the report, a table of SQL and a file of the CSV book. Or a
 * document, which has `render` in place of a table's functions. */
struct section {
	const char *name; /* "ops": schema "moescope/ops/1", key in the report */
	const char *sql;  /* its table of SQL; NULL: it has none */
	const struct subject *const *reads;
	bool router_time, routed_tokens;		 /* asks for these too; see question.h */
	const struct subject *subject;			 /* whose answer its fields are read from */
	const struct field_set *rows, *total;		 /* total: keys of "total" in JSON */
	unsigned int (*form)(const struct scene *scene); /* of its rows; NULL: the first */
	bool device; /* has figures from device records: "sampled" in its JSON */
	int (*text)(const struct scene *scene, const struct grid *grid, FILE *out);

	/* Of documents only. */
	uint64_t kinds; /* of the records that it shows itself */
	/* Its questions, at most ASKED_MAX, in place of one for all that it reads; may be NULL.
	 * run: NULL before it is loaded. */
	size_t (*ask)(const struct run *run, const struct present_options *options,
		      struct asked *ret_asked);
	int (*render)(const struct run *run, const struct present_options *options, FILE *out,
		      struct err *err);
};

extern const struct section section_ops, section_steps, section_routing, section_routing_steps,
	section_routing_experts, section_memory, section_kernels, section_api, section_transfers,
	section_efficiency, section_comm, section_moe, section_counters, section_report,
	section_dashboard;
/* All of them, up to NULL, in the order in which SQL lists its tables. */
extern const struct section *const sections[];

/* Kernels, copies, sets or calls: the run used a GPU that was recorded. */
bool scene_has_device(const struct run *run);
/* The sentence for a table of a run without them. */
void scene_no_device(const struct scene *scene, FILE *out);

/* "sampled: 3 windows, …" when device records were collected for a part of the run; else nothing.
 * what: "", or "device time " and the like when that is not all that the table shows. */
void scene_sampled(const struct scene *scene, const char *what, FILE *out);

/* Where the fields of a section are read. */
struct field_row section_from(const struct section *section, const struct scene *scene);
/* Its rows. 0 or -errno; release the grid in both cases. */
int section_grid(const struct section *section, const struct scene *scene, struct grid *ret_grid);
/* "total" and "rows" into the object that is open. */
void section_json(const struct section *section, const struct scene *scene, const struct grid *grid,
		  struct json *json);
/* The same answers as the section reads them; for documents. */
struct scene section_scene(const struct section *section, const struct scene *scene,
			   struct answers *ret_answers);

/* What the options ask. */
struct question scene_question(const struct present_options *options);
/* The question of a section. */
struct asked section_asked(const struct section *section, const struct present_options *options);
/* answers_compute with what the files of the options hold: classes of kernels, measured peaks. */
int scene_compute(const struct run *run, const struct present_options *options, struct asked *asked,
		  size_t n, struct answers *ret_answers, struct err *err);

/* "schema", "run" and "loss" into the object that is open. */
void scene_json_head(struct json *json, const struct run *run, const char *name);

struct text_layout scene_layout(const struct scene *scene, int indent);
/* "moescope ops: NAME" and trouble, if any. */
void scene_heading(const struct scene *scene, const char *title, FILE *out);
/* Everything that casts doubt on the figures, one line each; the number of lines. With count_only
 * nothing is printed. The self-check of routing is among them where routing is read. */
size_t scene_trouble(const struct scene *scene, bool count_only, FILE *out);
/* A section title on a line of its own, after an empty line. */
void scene_title(const struct scene *scene, const char *title, FILE *out);
/* "… 12 more rows (--limit 0 shows all)". */
void scene_more(size_t shown, size_t n, FILE *out);

/* A bar of `width` columns, share of it filled (0..1). */
void scene_bar(const struct scene *scene, double share, int width, FILE *out);
/* One character for load against the mean: empty, then eight heights; 1 is the middle. */
void scene_heat(const struct scene *scene, double load_to_mean, FILE *out);
/* The loads of n experts in at most `width` columns, neighbours together by their largest;
 * returns the columns used. */
int scene_heat_strip(const struct scene *scene, const uint64_t *n, uint32_t experts, double mean,
		     int width, FILE *out);
/* Step phases as one bar of `width` columns, and what its characters mean; each ends its line. */
void scene_phase_bar(const struct scene *scene, int width, FILE *out);
void scene_phase_legend(const struct scene *scene, int indent, FILE *out);

/* A line that says who marked the steps, where it was not the program itself. */
void scene_steps_source(const struct scene *scene, int indent, FILE *out);

#endif

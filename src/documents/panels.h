/* SPDX-License-Identifier: Apache-2.0
 *
 * The live view as a document: panels, each a page of its own that asks its own question, so that a
 * cheap one can be made anew more often than a dear one. A panel has two faces: a few lines for the
 * overview, and the whole of its subject for a screen of its own. Surfaces walk the list and know none
 * of them. Nothing here prints. Any thread.
 */
#ifndef DOCUMENTS_PANELS_H
#define DOCUMENTS_PANELS_H

#include "documents/document.h"

/* What whoever looks has chosen. */
struct panel_view {
	const char *sort; /* key of the rows; NULL: as they come */
};

/* How a panel is asked for and shown: as a section is, or in a way of its own. */
struct panel_face {
	const struct section *section;
	const struct subject *const *reads;
	/* Changes the question of the whole run; may be NULL. */
	void (*ask)(const struct run *run, struct question *question);
	void (*page)(const struct scene *scene, const struct panel_view *view, struct page *page);
};

struct panel {
	const char *name;
	const char *const *sorts; /* keys that its rows can be sorted by, up to NULL; NULL: none */
	bool by_layer;		  /* shows one layer, when one is chosen */
	int least;		  /* lines; with less room it is left out of the overview */
	bool right;		  /* its place on a screen with room for two columns */
	struct panel_face brief, whole;
};

/* The first is the head, which is always there and has no screen of its own. */
#define PANEL_HEAD 0
#define PANELS 9
extern const struct panel panels[PANELS];

/* The question of a face, made from that of the whole run, and the page of its answers. */
struct asked panel_asked(const struct panel *panel, const struct panel_face *face,
			 const struct run *run, const struct question *question);
void panel_page(const struct panel_face *face, const struct scene *scene,
		const struct panel_view *view, struct page *page);

/* The highest layer that panels can be asked about; -1: none. */
int panels_last_layer(const struct run *run);

/* Columns from which on there is room for two panels side by side, and what lies between them. */
#define PANELS_TWO_COLUMNS 160
#define PANELS_GAP 2

/* Where a panel stands in the overview. lines 0: not at all. */
struct panel_place {
	int column, line, columns, lines;
};
/* Chooses panels for a screen: each gets its least, the first ones first, then all of them get more,
 * line by line, up to what they have. has: lines of each panel. */
void panels_place(const int *has, int columns, int lines, struct panel_place *ret_places);
/* Columns of a panel on a screen of that many. */
int panel_columns(const struct panel *panel, int columns);

/* All figures of the panels, for programs. */
extern const struct section section_top;

#endif

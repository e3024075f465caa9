/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots as files: one of them, or all of a run into a directory. Main thread.
 */
#ifndef CMD_PLOT_FILES_H
#define CMD_PLOT_FILES_H

#include "surfaces/plot/plot.h"

/* As the options --plots, --plot-format, --plot-theme and --plot-scale give them. */
enum { PLOT_PNG, PLOT_SVG, PLOT_BOTH_FORMATS };
enum { PLOT_LIGHT, PLOT_DARK, PLOT_BOTH_THEMES };
extern const char *const plot_format_choices[], *const plot_theme_choices[];

struct plot_choices {
	const char *directory; /* NULL: no plots */
	int format, theme;
	double scale; /* 0: 1 */
};

/* All plots of the run that the user gave (NULL: the newest), with its own words on stderr.
 * EXIT_OK or EXIT_FAILED. */
int plot_files_write(const char *given, const struct view_options *options,
		     const struct plot_choices *choices);
/* One plot; "-" is standard output. Each file appears whole or not at all. */
int plot_file_write(const struct run *run, const struct answers *answers, const char *name,
		    const struct plot_options *options, const char *path);

#endif

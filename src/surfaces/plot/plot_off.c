/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots of a build without cairo: there are none, and this says what to do about it.
 */
#include <errno.h>
#include <stddef.h>

#include "surfaces/plot/plot.h"
#include "surfaces/plot/plot_lines.h"

const struct plot plots[] = { { NULL, NULL } };

const char *plot_unavailable(void)
{
	return "this build has no cairo and cannot draw plots; install libcairo2-dev (Debian, "
	       "Ubuntu) or cairo-devel (Fedora) and build again.";
}

const char *plot_trouble(void)
{
	return NULL;
}

struct run_want plot_want(const struct view_options *options)
{
	(void)options;
	return (struct run_want){ 0 };
}

int plot_compute(const struct run *run, const struct view_options *options,
		 struct answers *ret_answers, struct err *err)
{
	(void)run;
	(void)options;
	(void)ret_answers;
	return err_set(err, -ENOTSUP, "%s", plot_unavailable());
}

int plot_draw(const char *name, const struct run *run, const struct answers *answers,
	      const struct plot_options *options, FILE *out, struct err *err)
{
	(void)name;
	(void)run;
	(void)answers;
	(void)options;
	(void)out;
	return err_set(err, -ENOTSUP, "%s", plot_unavailable());
}

int plot_lines_draw(const struct lines_page *page, const struct plot_options *options, FILE *out,
		    struct err *err)
{
	(void)page;
	(void)options;
	(void)out;
	return err_set(err, -ENOTSUP, "%s", plot_unavailable());
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A build without ncurses has no screen; see screen.h.
 */
#include <errno.h>

#include "surfaces/top/screen.h"

const char *screen_unavailable(void)
{
	return "this build has no live view, because ncursesw was missing (Debian: libncurses-dev)";
}

int screen_open(struct err *err)
{
	return err_set(err, -ENOSYS, "%s.", screen_unavailable());
}

void screen_close(void)
{
}

void screen_hide(void)
{
}

void screen_show(void)
{
}

bool screen_is_ours(void)
{
	return false;
}

void screen_size(int *ret_columns, int *ret_rows)
{
	*ret_columns = 80;
	*ret_rows = 24;
}

void screen_draw(const struct lines *frame)
{
	(void)frame;
}

int screen_key(void)
{
	return -1;
}

int screen_fd(void)
{
	return -1;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that the program gives to threads and to categories of its ranges. Kept for the process, so
 * a session that starts later has them too.
 *
 * Threads: any of the program's; one lock, held for a few stores. Names are rare.
 */
#ifndef PROBE_CORE_LABELS_H
#define PROBE_CORE_LABELS_H

#include <stdint.h>

/* Names a thread by its system id; in the run from now on. */
void labels_name_thread(uint32_t thread, uint32_t name);
/* The name the program gave it, or 0. */
uint32_t labels_thread(uint32_t thread);
/* The thread has ended; its id may soon be reused. */
void labels_forget_thread(uint32_t thread);

/* Names a category of a domain (0: the default one); a fact of the run. */
void labels_name_category(uint32_t category, const char *domain, const char *name);

/* Announces all names to a session that has just started; without the session's lock. */
void labels_announce(void);
void labels_after_fork(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The device recorders of the process, for those who start and end sessions. The recorder itself is
 * in moescope.h.
 */
#ifndef PROBE_RECORDER_H
#define PROBE_RECORDER_H

/* Has what the devices have completed in the session; before its last flush, without its lock. */
void recorders_flush(void);
/* Ends their threads: the process ends. */
void recorders_end(void);
/* In the child nothing of CUDA may be called any more: every recorder is useless there. */
void recorders_after_fork(void);

#endif

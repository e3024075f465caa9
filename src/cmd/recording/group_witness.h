/* SPDX-License-Identifier: Apache-2.0
 *
 * A second process in our process group that takes every signal and does nothing with it. What it
 * has seen as well was sent to the group, and the program has it already; what it has not seen was
 * sent to us alone. The kernel tells the two apart in no other way.
 *
 * It also continues us when we have stopped beside the program and only the program was continued.
 *
 * Signals are exact as far as signals are: of equal ones that arrive while one is still pending, the
 * kernel keeps one. The program never gets more than were sent, and never none. One thread.
 */
#ifndef CMD_GROUP_WITNESS_H
#define CMD_GROUP_WITNESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct group_witness {
	pid_t pid;
	int fd;		  /* -1: there is none */
	uint64_t covered; /* pending signals, by number, of which it has told already */
};

/* Every signal must be blocked. Without a process or a socket there is no witness. */
void group_witness_start(struct group_witness *witness);
void group_witness_end(struct group_witness *witness);

/* Whether the group had the signal that we have just taken. `otherwise` is the answer when nobody
 * can tell. */
bool group_witness_saw(struct group_witness *witness, int sig, bool otherwise);

/* Asked after group_witness_saw: whether a stop has been overtaken by a continue, or the other way
 * round. The kernel has then taken the evidence from the witness, and the program needs it no more. */
bool group_witness_overtaken(int sig);

/* From now on: SIGCONT to us as soon as the program is not stopped. */
void group_witness_watch(struct group_witness *witness, pid_t program);
/* None comes later. */
void group_witness_unwatch(struct group_witness *witness);

#endif

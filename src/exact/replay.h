/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a launch may run several times, each time on the memory that it found at first: CUPTI saves what a kernel
 * writes in its GPU's memory and puts it back. It can do so neither with the host's memory, nor with another GPU's, nor
 * with what somebody else writes meanwhile; and a kernel that waits for another would wait forever. So every launch is
 * refused of which nothing says that it may. The caller's lock is held around every call, except where a comment
 * says otherwise.
 */
#ifndef EXACT_REPLAY_H
#define EXACT_REPLAY_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum replay_answer {
	REPLAY_FIT,
	REPLAY_CLASS,	   /* nothing in its name tells what it does */
	REPLAY_TIED,	   /* by how it is launched: cooperative, or bound to others */
	REPLAY_UNSEEN,	   /* it has not yet ended in a single pass, alone */
	REPLAY_LONG,	   /* its passes would take too long */
	REPLAY_PARAMETERS, /* they cannot be read */
	REPLAY_MEMORY,	   /* of the host or another GPU */
	REPLAY_ROOM,	   /* too little free memory to save what it may write */
	REPLAY_SHARED,	   /* the process works with other GPUs or ranks */
	REPLAY_BESIDE,	   /* other work goes on */
	REPLAY_ANSWERS,
};
/* Words for the reader, after "not replayed: 3". */
const char *replay_words(enum replay_answer answer);

/* Once, before the first launch. */
void replay_begin(void);
/* The process works with other GPUs or ranks: nothing is replayed from now on. Any thread, no lock. */
void replay_process_shares(void);
bool replay_is_shared(void);

/* A launch, however it was made. */
struct replay_launch {
	CUfunction function;
	void **parameters, **extra;
	const CUlaunchAttribute *attributes;
	unsigned int n_attributes;
	bool cooperative;
	uint32_t device;
};
/* What it was given. The context of the launch is current. */
enum replay_answer replay_of_launch(const struct replay_launch *launch);

/* The calls of the program's threads that are inside of the driver. No lock. */
void replay_call_begins(void);
void replay_call_ends(void);
/* Around a wait for the caller's lock: such a thread does nothing meanwhile. No lock. */
void replay_waits(bool waits);
/* From here on calls of other threads are to wait (replay_goes_on), until replay_ends. REPLAY_BESIDE: there is something
 * that has not ended; then it has ended already. */
enum replay_answer replay_alone(CUcontext context);
void replay_ends(void);
/* No lock. */
bool replay_goes_on(void);

#endif

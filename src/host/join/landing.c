/* SPDX-License-Identifier: Apache-2.0
 *
 * See landing.h. Any thread.
 */
#include "host/join/landing.h"

#include <string.h>

/* int landing(void *unused)
 * {
 *	globals = PyDict_New();
 *	if (!globals)
 *		return -1;
 *	result = PyRun_String(text, Py_file_input, globals, globals);
 *	Py_DecRef(globals);
 *	if (!result)
 *		return -1;
 *	Py_DecRef(result);
 *	return clock_gettime(CLOCK_MONOTONIC, left);
 * }
 *
 * The last is a jump: what tells that this code has been left is written from outside of it. Addresses are put in
 * where there are eight zeros. */
static const unsigned char code[] = {
	0xf3, 0x0f, 0x1e, 0xfa,			     /*	endbr64 */
	0x53,					     /*	push rbx */
	0x41, 0x54,				     /*	push r12 */
	0x48, 0x83, 0xec, 0x08,			     /*	sub rsp, 8 */
	0x48, 0xb8, 0,	  0,	0,    0, 0, 0, 0, 0, /*	mov rax, PyDict_New */
	0xff, 0xd0,				     /*	call rax */
	0x48, 0x85, 0xc0,			     /*	test rax, rax */
	0x74, 0x62,				     /*	jz failed */
	0x48, 0x89, 0xc3,			     /*	mov rbx, rax */
	0x48, 0xbf, 0,	  0,	0,    0, 0, 0, 0, 0, /*	mov rdi, text */
	0xbe, 0x01, 0x01, 0x00, 0x00,		     /*	mov esi, Py_file_input */
	0x48, 0x89, 0xda,			     /*	mov rdx, rbx */
	0x48, 0x89, 0xd9,			     /*	mov rcx, rbx */
	0x48, 0xb8, 0,	  0,	0,    0, 0, 0, 0, 0, /*	mov rax, PyRun_String */
	0xff, 0xd0,				     /*	call rax */
	0x49, 0x89, 0xc4,			     /*	mov r12, rax */
	0x48, 0x89, 0xdf,			     /*	mov rdi, rbx */
	0x48, 0xbb, 0,	  0,	0,    0, 0, 0, 0, 0, /*	mov rbx, Py_DecRef */
	0xff, 0xd3,				     /*	call rbx */
	0x4d, 0x85, 0xe4,			     /*	test r12, r12 */
	0x74, 0x27,				     /*	jz failed */
	0x4c, 0x89, 0xe7,			     /*	mov rdi, r12 */
	0xff, 0xd3,				     /*	call rbx */
	0xbf, 0x01, 0x00, 0x00, 0x00,		     /*	mov edi, CLOCK_MONOTONIC */
	0x48, 0xbe, 0,	  0,	0,    0, 0, 0, 0, 0, /*	mov rsi, left */
	0x48, 0xb8, 0,	  0,	0,    0, 0, 0, 0, 0, /*	mov rax, clock_gettime */
	0x48, 0x83, 0xc4, 0x08,			     /*	add rsp, 8 */
	0x41, 0x5c,				     /*	pop r12 */
	0x5b,					     /*	pop rbx */
	0xff, 0xe0,				     /*	jmp rax */
	0xb8, 0xff, 0xff, 0xff, 0xff,		     /* failed: mov eax, -1 */
	0x48, 0x83, 0xc4, 0x08,			     /*	add rsp, 8 */
	0x41, 0x5c,				     /*	pop r12 */
	0x5b,					     /*	pop rbx */
	0xc3,					     /*	ret */
};

_Static_assert(sizeof(code) <= LANDING_LEFT_AT, "the code is in the way of what follows it");

bool landing_make(unsigned char *landing, uint64_t at, const struct landing_uses *uses,
		  const char *text)
{
	static const unsigned char zeros[8];
	const uint64_t addresses[] = { uses->dict_new, at + LANDING_TEXT_AT, uses->run_string,
				       uses->dec_ref,  at + LANDING_LEFT_AT, uses->clock_gettime };
	unsigned char *from = landing;

	if (strlen(text) >= LANDING_BYTES - LANDING_TEXT_AT)
		return false;
	memset(landing, 0, LANDING_BYTES);
	memcpy(landing, code, sizeof(code));
	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		unsigned char *hole = memmem(from, (size_t)(landing + sizeof(code) - from), zeros,
					     sizeof(zeros));

		if (!hole)
			return false;
		memcpy(hole, &addresses[i], sizeof(addresses[i]));
		from = hole + sizeof(addresses[i]);
	}
	memcpy(landing + LANDING_TEXT_AT, text, strlen(text) + 1);
	return true;
}

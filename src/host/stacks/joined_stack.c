/* SPDX-License-Identifier: Apache-2.0
 *
 * One stack of Python and native functions; see joined_stack.h.
 */
#include "host/stacks/joined_stack.h"

#include <string.h>

/* What names begin with. Functions that call, but not those that work: PyObject_GetIter is none. */
static const struct {
	const char *begin;
	enum join_kind kind;
} known[] = {
	{ "_PyEval_EvalFrameDefault", JOIN_EVAL },
	{ "_TAIL_CALL_", JOIN_EVAL }, /* 3.14: an instruction each, in place of the former */
	{ "_PyEval_Vector", JOIN_GLUE },
	{ "_PyEval_EvalFrame", JOIN_GLUE },
	{ "_PyEval_EvalCode", JOIN_GLUE },
	{ "PyEval_EvalCode", JOIN_GLUE },
	{ "PyEval_EvalFrame", JOIN_GLUE },
	{ "_PyFunction_Vectorcall", JOIN_GLUE },
	{ "function_code_fastcall", JOIN_GLUE },
	{ "_PyObject_Vectorcall", JOIN_GLUE },
	{ "PyObject_Vectorcall", JOIN_GLUE },
	{ "_PyObject_Call", JOIN_GLUE },
	{ "PyObject_Call", JOIN_GLUE },
	{ "_PyObject_FastCall", JOIN_GLUE },
	{ "_PyObject_MakeTpCall", JOIN_GLUE },
	{ "_PyVectorcall_Call", JOIN_GLUE },
	{ "PyVectorcall_Call", JOIN_GLUE },
	{ "_PyVectorcall_", JOIN_GLUE },
	{ "method_vectorcall", JOIN_GLUE },
	{ "cfunction_vectorcall", JOIN_GLUE },
	{ "cfunction_call", JOIN_GLUE },
	{ "vectorcall_", JOIN_GLUE },
	{ "object_vacall", JOIN_GLUE },
	{ "call_function", JOIN_GLUE },
	{ "do_call_core", JOIN_GLUE },
	{ "method_call", JOIN_GLUE },
	{ "slot_tp_call", JOIN_GLUE },
	{ "type_call", JOIN_GLUE },
	{ "builtin_exec", JOIN_GLUE },
	{ "run_eval_code_obj", JOIN_GLUE },
	{ "run_mod", JOIN_GLUE },
	{ "pyrun_", JOIN_GLUE },
	{ "_PyRun_", JOIN_GLUE },
	{ "PyRun_", JOIN_GLUE },
	{ "pymain_", JOIN_GLUE },
	{ "Py_RunMain", JOIN_GLUE },
	{ "Py_BytesMain", JOIN_GLUE },
	{ "Py_Main", JOIN_GLUE },
	{ "main (python", JOIN_GLUE },
	{ "_start (", JOIN_GLUE },
	{ "__libc_start_", JOIN_GLUE },
	{ "thread_run", JOIN_GLUE },
	{ "pythread_wrapper", JOIN_GLUE },
	{ "start_thread (", JOIN_GLUE },
	{ "clone (", JOIN_GLUE },
	{ "clone3 (", JOIN_GLUE },
	{ "__clone", JOIN_GLUE },
	{ "[unknown]", JOIN_GLUE },
};

/* What files begin with whose functions have no name here: programs of distributions are stripped. */
static const struct {
	const char *begin;
	enum join_kind kind;
} known_files[] = {
	{ "python3", JOIN_GLUE }, { "libpython3", JOIN_GLUE }, { "libc.so.", JOIN_BASE },
	{ "libc-2.", JOIN_BASE }, { "libpthread", JOIN_BASE },
};

static enum join_kind nameless_kind(const char *label)
{
	const char *file = strstr(label, " (");

	for (size_t i = 0; file && i < sizeof(known_files) / sizeof(known_files[0]); i++)
		if (strncmp(file + 2, known_files[i].begin, strlen(known_files[i].begin)) == 0)
			return known_files[i].kind;
	return JOIN_OTHER;
}

enum join_kind join_kind_of(const char *label)
{
	if (strncmp(label, "0x", 2) == 0)
		return nameless_kind(label);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strncmp(label, known[i].begin, strlen(known[i].begin)) == 0)
			return known[i].kind;
	return JOIN_OTHER;
}

/* Up to the one that C has called. */
static size_t take_python(const struct python_function *python, size_t n, size_t at,
			  uint32_t *names, size_t *ret_n)
{
	while (at < n) {
		names[(*ret_n)++] = python[at].name;
		if (python[at++].entry)
			break;
	}
	return at;
}

bool join_stacks(const struct python_function *python, size_t n_python,
		 const struct join_native *native, size_t n_native, uint32_t *names, size_t *ret_n)
{
	size_t entries = 0, evals = 0, at = 0, n = 0;
	bool whole;

	for (size_t i = 0; i < n_python; i++)
		entries += python[i].entry;
	for (size_t i = 0; i < n_native; i++)
		evals += native[i].kind == JOIN_EVAL;
	whole = evals == entries && entries && python[n_python - 1].entry;
	for (size_t i = 0; i < (whole ? n_native : n_native > 0); i++) {
		if (native[i].kind == JOIN_OTHER || (native[i].kind == JOIN_BASE && at < n_python))
			names[n++] = native[i].name;
		else if (native[i].kind == JOIN_EVAL && whole)
			at = take_python(python, n_python, at, names, &n);
	}
	while (at < n_python)
		names[n++] = python[at++].name;
	*ret_n = n;
	return whole;
}

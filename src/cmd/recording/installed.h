/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the parts of moescope that lie beside the program.
 */
#ifndef CMD_INSTALLED_H
#define CMD_INSTALLED_H

/* The path of `name` beside this executable; NULL when it is not there. Caller frees. */
char *installed_program(const char *name);
/* The same for a shared library: beside the executable, or in the lib directories next to it. */
char *installed_library(const char *name);
/* The folder of the Python package for PYTHONPATH that finds steps in programs of PyTorch (python/moescope/auto),
 * NULL when the package is not there. */
char *installed_auto_path(void);
/* A file of that package which is run in a program that is joined, likewise. */
char *installed_auto_file(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools of the server, and what they share: arguments, and answers that stay short.
 */
#ifndef SURFACES_MCP_TOOL_H
#define SURFACES_MCP_TOOL_H

#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "subjects/pages/section.h"
#include "surfaces/mcp/mcp.h"

/* An answer has at most 4,000 tokens. There is no one tokenizer; three bytes a token is fewer than any has for
 * English and for tables of short numbers, so that an answer of so many bytes has fewer tokens. */
#define ANSWER_TOKENS 4000
#define ANSWER_BYTES ((size_t)3 * ANSWER_TOKENS)

enum argument_kind { ARGUMENT_TEXT, ARGUMENT_WHOLE, ARGUMENT_FLAG };

/* Of a tool, or a parameter of a table. */
struct argument {
	const char *name, *help;
	enum argument_kind kind;
	const char *const *choices; /* up to NULL; NULL: any */
	bool required;
};

struct tool_call {
	const struct mcp_host *host;
	const struct json_node *arguments; /* checked; NULL: none */
};

#define TOOL_ARGUMENTS 8

struct tool {
	const char *name, *description;
	struct argument arguments[TOOL_ARGUMENTS]; /* up to one without a name */
	bool of_tables;				   /* it has the parameters of tables, too */
	/* The answer as text. 0 or -errno with err filled. */
	int (*call)(const struct tool_call *call, FILE *out, struct err *err);
};

extern const struct tool tool_runs, tool_verdicts, tool_table, tool_explain, tool_sql, tool_compare;

#define ARGUMENT_RUN                                                                               \
	{                                                                                          \
		.name = "run", .help = "name from `runs`; default: the newest"                     \
	}
#define ARGUMENT_OFFSET                                                                            \
	{                                                                                          \
		.name = "offset", .help = "leave out the first so many", .kind = ARGUMENT_WHOLE    \
	}
#define ARGUMENT_STEPS                                                                             \
	{                                                                                          \
		.name = "steps", .help = "only steps A:B"                                          \
	}

/* The arguments against what the tool takes; those of a table are checked by the host. 0 or -EINVAL. */
int tool_check(const struct tool_call *call, const struct tool *tool, struct err *err);
/* The value of an argument as text; NULL: it was not given. */
const char *tool_argument(const struct tool_call *call, const char *name);
/* A number that is not negative; 0: not given. */
size_t tool_number(const struct tool_call *call, const char *name);
/* The run that the arguments name; the caller frees it. */
int tool_run(const struct tool_call *call, const char *argument, char **ret_name, struct err *err);

/* The i-th section that is a table; NULL: there are no more. */
const struct section *tool_table_at(size_t i);
/* The section whose command shows the table: itself, or one that has it as a choice. */
const struct section *tool_table_owner(const struct section *table);
/* Its i-th parameter; false: there are no more. */
bool tool_parameter(const struct section *table, size_t i, struct argument *ret_parameter);
/* Its parameter of that name; false: it has none. */
bool tool_table_has(const struct section *table, const char *name, struct argument *ret_parameter);

/* A JSON object whose list ends before the answer is too long. */
struct listing {
	struct json json; /* keys go in here, then the array is opened */
	size_t shown, left_out;
};

void listing_begin(struct listing *listing);
/* An item, which is released. Once one has no room, all others are left out. */
void listing_add(struct listing *listing, struct json *item);
/* offset: of the first item that was added. 0 or -errno. */
int listing_end(struct listing *listing, size_t offset, FILE *out);

/* Text of at most so many bytes; the rest is "…". */
void json_clipped(struct json *json, const char *text, size_t most);
/* A cell, its text clipped and its figure with the digits that matter. */
void json_brief_cell(struct json *json, const struct cell *cell);
/* The first lines of a text that have room; how many lines are left out. */
size_t text_fitted(const char *text, size_t room, FILE *out);

#endif

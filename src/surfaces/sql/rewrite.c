/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements over sums; see sums.h. Only what is understood wholly is rewritten: one SELECT from one
 * table, in which columns that records are not summed by stand inside of count, sum, min, max, avg or
 * total alone. Everything else is left as it is, and is right anyway.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "surfaces/sql/sums.h"

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_VALUE, TOKEN_SIGN, TOKEN_STRANGE };

struct token {
	enum token_kind kind;
	const char *text;
	size_t length;
};

struct reader {
	const char *at, *end;
};

static void skip_blank(struct reader *in)
{
	for (;;) {
		while (in->at < in->end && isspace((unsigned char)*in->at))
			in->at++;
		if (in->end - in->at >= 2 && in->at[0] == '-' && in->at[1] == '-') {
			while (in->at < in->end && *in->at != '\n')
				in->at++;
		} else if (in->end - in->at >= 2 && in->at[0] == '/' && in->at[1] == '*') {
			in->at += 2;
			while (in->end - in->at >= 2 && !(in->at[0] == '*' && in->at[1] == '/'))
				in->at++;
			in->at = in->end - in->at >= 2 ? in->at + 2 : in->end;
		} else {
			return;
		}
	}
}

static struct token next_token(struct reader *in)
{
	struct token token = { .kind = TOKEN_SIGN };

	skip_blank(in);
	token.text = in->at;
	if (in->at >= in->end) {
		token.kind = TOKEN_END;
		return token;
	}
	if (isalpha((unsigned char)*in->at) || *in->at == '_') {
		token.kind = TOKEN_WORD;
		while (in->at < in->end && (isalnum((unsigned char)*in->at) || *in->at == '_'))
			in->at++;
	} else if (isdigit((unsigned char)*in->at)) {
		token.kind = TOKEN_VALUE;
		while (in->at < in->end && (isalnum((unsigned char)*in->at) || *in->at == '.'))
			in->at++;
	} else if (*in->at == '\'') {
		token.kind = TOKEN_VALUE;
		for (in->at++; in->at < in->end; in->at++) {
			if (*in->at != '\'')
				continue;
			in->at++;
			if (in->at >= in->end || *in->at != '\'')
				break;
		}
	} else {
		/* Quoted names, parameters, tables of databases. */
		if (strchr("\"`[]?:@$#.", *in->at) || (unsigned char)*in->at >= 0x80)
			token.kind = TOKEN_STRANGE;
		in->at++;
	}
	token.length = (size_t)(in->at - token.text);
	return token;
}

static bool is_token(const struct token *token, const char *word)
{
	return (token->kind == TOKEN_WORD || token->kind == TOKEN_SIGN) &&
	       token->length == strlen(word) && !strncasecmp(token->text, word, token->length);
}

static bool is_any(const struct token *token, const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		if (is_token(token, words[i]))
			return true;
	return false;
}

static int column_of(const struct sql_table *table, const struct token *token)
{
	for (size_t c = 0; token->kind == TOKEN_WORD && c < table->n; c++)
		if (is_token(token, table->columns[c].name))
			return (int)c;
	return -1;
}

static const struct sql_table *table_of(const struct schema *schema, const struct token *token)
{
	for (size_t t = 0; t < schema->n; t++)
		if (is_token(token, schema->tables[t].name))
			return &schema->tables[t];
	return NULL;
}

/* Functions of one row, which may stand around sums and names. */
static const char *const row_functions[] = {
	"round",    "abs",    "upper",	  "lower", "length", "substr",	"ifnull", "iif",    "cast",
	"coalesce", "printf", "format",	  "trim",  "instr",  "replace", "nullif", "in",	    "and",
	"or",	    "not",    "between",  "when",  "then",   "else",	"by",	  "having", "where",
	"like",	    "select", "distinct", "case",  "limit",  NULL
};
/* Words that make more of a statement than is understood here. */
static const char *const refused[] = {
	"union",   "except",	   "intersect", "with",	   "join",   "over",	"filter",
	"window",  "exists",	   "values",	"collate", "rowid",  "oid",	"_rowid_",
	"indexed", "materialized", "escape",	"match",   "regexp", "natural", "cross",
	"left",	   "inner",	   "on",	"using",   NULL
};
static const char *const after_table[] = {
	"where", "group", "order", "limit", "having", ";", NULL
};

struct rewriting {
	const struct sql_table *table;
	const struct schema *schema;
	struct buf out;
	const char *copied; /* the text up to here is in `out` */
	bool grouped;	    /* some rows become one */
};

static void replace_span(struct rewriting *w, const char *from, const char *to, const char *format,
			 const char *name)
{
	buf_append(&w->out, w->copied, (size_t)(from - w->copied));
	buf_printf(&w->out, format, name, name);
	w->copied = to;
}

/* The expression over sums for one of an aggregate, with up to two places for the column's name. */
static const char *sum_of(const struct token *function, bool star)
{
	static const struct {
		const char *name, *format;
	} sums[] = {
		/* Nothing is 0 for count and NULL for the others. */
		{ "count", "ifnull(sum(" SUMS_ROWS "),0)" },
		{ "sum", "sum(%s__sum)" },
		{ "total", "total(%s__sum)" },
		/* Not the sum: no integer may hold that of all groups, and an average has no need. */
		{ "avg", "(total(%s__sum)/sum(" SUMS_ROWS "))" },
		{ "min", "min(%s__min)" },
		{ "max", "max(%s__max)" },
	};

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		if (is_token(function, sums[i].name) && (!star || i == 0))
			return sums[i].format;
	return NULL;
}

/* At a word before '('. True: understood, and *in is behind it. */
static bool take_call(struct rewriting *w, struct reader *in, const struct token *function)
{
	struct reader ahead = *in;
	struct token open = next_token(&ahead), inner, close;
	const char *format;
	int column;

	if (is_any(function, row_functions))
		return true;
	(void)open;
	inner = next_token(&ahead);
	close = next_token(&ahead);
	format = sum_of(function, is_token(&inner, "*"));
	if (!format || !is_token(&close, ")"))
		return false;
	w->grouped = true;
	if (is_token(&inner, "*")) {
		replace_span(w, function->text, ahead.at, format, "");
		*in = ahead;
		return true;
	}
	column = column_of(w->table, &inner);
	if (column < 0)
		return false;
	if (sums_is_summed(w->table, (size_t)column))
		replace_span(w, function->text, ahead.at, format, w->table->columns[column].name);
	else if (!sums_is_key(w->table, (size_t)column) ||
		 (!is_token(function, "min") && !is_token(function, "max")))
		return false; /* of values that repeat, those two are the same */
	*in = ahead;
	return true;
}

static bool take_from(struct rewriting *w, struct reader *in)
{
	struct token name = next_token(in), after;
	struct reader ahead = *in;

	after = next_token(&ahead);
	if (table_of(w->schema, &name) != w->table ||
	    (after.kind != TOKEN_END && !is_any(&after, after_table)))
		return false;
	replace_span(w, name.text, name.text + name.length, "%s" SUMS_SUFFIX, w->table->name);
	return true;
}

static bool take_word(struct rewriting *w, struct reader *in, const struct token *word)
{
	struct reader ahead = *in;
	struct token after = next_token(&ahead);
	int column;

	if (is_any(word, refused) || is_token(word, "select"))
		return false;
	if (is_token(word, "from"))
		return take_from(w, in);
	if (is_token(word, "group") || is_token(word, "distinct"))
		w->grouped = true;
	if (is_token(&after, "("))
		return take_call(w, in, word);
	column = column_of(w->table, word);
	/* Other words are keywords, or names that the statement gives itself. */
	return column < 0 || sums_is_key(w->table, (size_t)column);
}

static bool take_statement(struct rewriting *w, struct reader *in)
{
	struct token before = next_token(in), token;

	if (!is_token(&before, "select"))
		return false;
	for (token = next_token(in); token.kind != TOKEN_END; token = next_token(in)) {
		/* All columns, where it does not stand for "times". */
		bool all = is_token(&token, "*") &&
			   (is_token(&before, "select") || is_token(&before, ",") ||
			    is_token(&before, "distinct"));

		if (token.kind == TOKEN_STRANGE || all)
			return false;
		if (token.kind == TOKEN_WORD && !take_word(w, in, &token))
			return false;
		before = token;
	}
	return w->grouped;
}

/* Names that a statement gives must not be those of columns: which is meant would be unclear. */
static bool names_columns(const struct sql_table *table, struct reader in)
{
	struct token before = next_token(&in), token;

	for (token = next_token(&in); token.kind != TOKEN_END; token = next_token(&in)) {
		if (is_token(&before, "as") && column_of(table, &token) >= 0)
			return true;
		before = token;
	}
	return false;
}

static const struct sql_table *table_named(const struct schema *schema, struct reader in)
{
	const struct sql_table *table = NULL;
	struct token token;

	while ((token = next_token(&in)).kind != TOKEN_END) {
		if (!is_token(&token, "from"))
			continue;
		if (table)
			return NULL; /* more than one */
		token = next_token(&in);
		table = table_of(schema, &token);
		if (!table)
			return NULL;
	}
	return table && table->list < 0 ? table : NULL;
}

int sums_rewrite(const struct schema *schema, const char *text, size_t length, char **ret_text,
		 const struct sql_table **ret_table)
{
	struct reader in = { text, text + length };
	struct rewriting w = { .schema = schema, .copied = text };

	*ret_text = NULL;
	w.table = table_named(schema, in);
	if (!w.table || names_columns(w.table, in) || !take_statement(&w, &in)) {
		buf_release(&w.out);
		return 0;
	}
	buf_append(&w.out, w.copied, (size_t)(text + length - w.copied));
	buf_append(&w.out, "", 1);
	if (w.out.failed) {
		buf_release(&w.out);
		return -ENOMEM;
	}
	*ret_text = w.out.data;
	*ret_table = w.table;
	return 0;
}

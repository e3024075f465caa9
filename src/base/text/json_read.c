/* SPDX-License-Identifier: Apache-2.0
 *
 * Strict recursive-descent JSON; see json_read.h. Depth and size are bounded by the text.
 */
#include "base/text/json_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/utf8.h"

#define MAX_DEPTH 64

struct parser {
	const char *what, *text;
	size_t at, length;
	struct err *err;
};

static int parse_value(struct parser *p, int depth, struct json_node **ret_node);

static int bad_json(struct parser *p, const char *why)
{
	return err_set(p->err, -EBADMSG, "%s: not valid JSON at byte %zu: %s", p->what, p->at, why);
}

static void skip_space(struct parser *p)
{
	while (p->at < p->length && strchr(" \t\r\n", p->text[p->at]) && p->text[p->at])
		p->at++;
}

static bool take_char(struct parser *p, char c)
{
	skip_space(p);
	if (p->at >= p->length || p->text[p->at] != c)
		return false;
	p->at++;
	return true;
}

static bool take_word(struct parser *p, const char *word)
{
	size_t n = strlen(word);

	if (p->length - p->at < n || memcmp(p->text + p->at, word, n) != 0)
		return false;
	p->at += n;
	return true;
}

static int hex4(struct parser *p, uint32_t *ret)
{
	uint32_t v = 0;

	if (p->length - p->at < 4)
		return bad_json(p, "cut \\u escape");
	for (int i = 0; i < 4; i++) {
		char c = p->text[p->at++];
		uint32_t digit = c >= '0' && c <= '9'	? (uint32_t)(c - '0')
				 : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
				 : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
							: 16;

		if (digit > 15)
			return bad_json(p, "bad \\u escape");
		v = v << 4 | digit;
	}
	*ret = v;
	return 0;
}

static int unicode_escape(struct parser *p, struct buf *out)
{
	uint32_t c = 0, low = 0;
	int r = hex4(p, &c);
	char bytes[4];

	if (r < 0)
		return r;
	if (c >= 0xd800 && c < 0xdc00 && take_word(p, "\\u")) {
		r = hex4(p, &low);
		if (r < 0)
			return r;
		c = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
						  : 0xfffd;
	} else if (c >= 0xd800 && c < 0xe000) {
		c = 0xfffd;
	}
	if (!c)
		c = 0xfffd; /* our strings end at a NUL */
	buf_append(out, bytes, utf8_encode(c, bytes));
	return 0;
}

static int parse_string(struct parser *p, char **ret_text)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	struct buf out = { 0 };
	int r = 0;

	while (r == 0) {
		char c;
		const char *e;

		if (p->at >= p->length) {
			r = bad_json(p, "the string does not end");
			break;
		}
		c = p->text[p->at++];
		if (c == '"') {
			buf_append(&out, "", 1);
			if (out.failed)
				r = -ENOMEM;
			break;
		}
		if ((unsigned char)c < 0x20) {
			r = bad_json(p, "control character in a string");
		} else if (c != '\\') {
			buf_append(&out, &c, 1);
		} else if (take_word(p, "u")) {
			r = unicode_escape(p, &out);
		} else if (p->at < p->length && p->text[p->at] &&
			   (e = strchr(from, p->text[p->at]))) {
			buf_append(&out, &to[e - from], 1);
			p->at++;
		} else {
			r = bad_json(p, "unknown escape");
		}
	}
	if (r < 0) {
		buf_release(&out);
		return r;
	}
	*ret_text = out.data;
	return 0;
}

static size_t take_digits(struct parser *p)
{
	size_t n = 0;

	while (p->at < p->length && p->text[p->at] >= '0' && p->text[p->at] <= '9') {
		p->at++;
		n++;
	}
	return n;
}

static int parse_number(struct parser *p, char **ret_text)
{
	size_t from = p->at, whole;

	take_word(p, "-");
	whole = p->at;
	if (!take_digits(p))
		return bad_json(p, "expected a value");
	if (p->text[whole] == '0' && p->at > whole + 1)
		return bad_json(p, "a number must not begin with 0");
	if (take_word(p, ".") && !take_digits(p))
		return bad_json(p, "digits must follow the point");
	if (take_word(p, "e") || take_word(p, "E")) {
		if (!take_word(p, "+"))
			take_word(p, "-");
		if (!take_digits(p))
			return bad_json(p, "digits must follow the exponent");
	}
	*ret_text = strndup(p->text + from, p->at - from);
	return *ret_text ? 0 : -ENOMEM;
}

static int parse_members(struct parser *p, int depth, struct json_node *node)
{
	bool object = node->type == JSON_OBJECT;
	struct json_node **tail = &node->child;

	if (take_char(p, object ? '}' : ']'))
		return 0;
	do {
		struct json_node *member;
		char *key = NULL;
		int r;

		if (object) {
			if (!take_char(p, '"'))
				return bad_json(p, "expected a key");
			r = parse_string(p, &key);
			if (r < 0)
				return r;
			if (!take_char(p, ':')) {
				free(key);
				return bad_json(p, "expected ':'");
			}
		}
		r = parse_value(p, depth + 1, &member);
		if (r < 0) {
			free(key);
			return r;
		}
		member->key = key;
		*tail = member;
		tail = &member->next;
	} while (take_char(p, ','));
	return take_char(p, object ? '}' : ']')
		       ? 0
		       : bad_json(p, object ? "expected ',' or '}'" : "expected ',' or ']'");
}

static int parse_value(struct parser *p, int depth, struct json_node **ret_node)
{
	struct json_node *node;
	int r = 0;

	if (depth > MAX_DEPTH)
		return bad_json(p, "nested too deep");
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	skip_space(p);
	if (take_char(p, '{')) {
		node->type = JSON_OBJECT;
		r = parse_members(p, depth, node);
	} else if (take_char(p, '[')) {
		node->type = JSON_ARRAY;
		r = parse_members(p, depth, node);
	} else if (take_char(p, '"')) {
		node->type = JSON_STRING;
		r = parse_string(p, &node->text);
	} else if (take_word(p, "true")) {
		node->type = JSON_TRUE;
	} else if (take_word(p, "false")) {
		node->type = JSON_FALSE;
	} else if (!take_word(p, "null")) {
		node->type = JSON_NUMBER;
		r = parse_number(p, &node->text);
	}
	if (r < 0) {
		json_node_free(node);
		return r;
	}
	*ret_node = node;
	return 0;
}

int json_parse(const char *what, const char *text, size_t length, struct json_node **ret_root,
	       struct err *err)
{
	struct parser p = { .what = what, .text = text, .length = length, .err = err };
	struct json_node *root;
	int r = parse_value(&p, 0, &root);

	if (r < 0)
		return r;
	skip_space(&p);
	if (p.at != length) {
		json_node_free(root);
		return bad_json(&p, "text behind the document");
	}
	*ret_root = root;
	return 0;
}

void json_node_free(struct json_node *node)
{
	while (node) {
		struct json_node *next = node->next;

		json_node_free(node->child);
		free(node->text);
		free(node->key);
		free(node);
		node = next;
	}
}

const struct json_node *json_get(const struct json_node *node, const char *key)
{
	if (!node || node->type != JSON_OBJECT)
		return NULL;
	for (const struct json_node *member = node->child; member; member = member->next)
		if (!strcmp(member->key, key))
			return member;
	return NULL;
}

const char *json_get_string(const struct json_node *node, const char *key, const char *otherwise)
{
	const struct json_node *member = json_get(node, key);

	return member && member->type == JSON_STRING ? member->text : otherwise;
}

int64_t json_get_int(const struct json_node *node, const char *key, int64_t otherwise)
{
	const struct json_node *member = json_get(node, key);
	long long value;
	char *end;

	if (!member || member->type != JSON_NUMBER)
		return otherwise;
	errno = 0;
	value = strtoll(member->text, &end, 10);
	return errno || *end ? otherwise : value;
}

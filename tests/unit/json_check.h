/* SPDX-License-Identifier: Apache-2.0
 *
 * A strict JSON check for tests: RFC 8259 grammar and valid UTF-8, nothing else.
 */
#ifndef TESTS_JSON_CHECK_H
#define TESTS_JSON_CHECK_H

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/text/utf8.h"

static const char *json_check_value(const char *p);

static const char *json_check_space(const char *p)
{
	return p ? p + strspn(p, " \t\r\n") : NULL;
}

static const char *json_check_string(const char *p)
{
	if (!p || *p++ != '"')
		return NULL;
	while (*p != '"') {
		uint32_t point;
		int valid;

		if ((unsigned char)*p < 0x20)
			return NULL;
		if (*p == '\\') {
			if (p[1] == 'u') {
				for (int i = 2; i < 6; i++)
					if (!isxdigit((unsigned char)p[i]))
						return NULL;
				p += 6;
				continue;
			}
			if (!p[1] || !strchr("\"\\/bfnrt", p[1]))
				return NULL;
			p += 2;
			continue;
		}
		p += utf8_decode(p, strlen(p), &point, &valid);
		if (!valid)
			return NULL;
	}
	return p + 1;
}

static const char *json_check_number(const char *p)
{
	p += *p == '-';
	if (*p == '0')
		p++;
	else if (*p >= '1' && *p <= '9')
		p += strspn(p, "0123456789");
	else
		return NULL;
	if (*p == '.') {
		if (!isdigit((unsigned char)*++p))
			return NULL;
		p += strspn(p, "0123456789");
	}
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '+' || *p == '-';
		if (!isdigit((unsigned char)*p))
			return NULL;
		p += strspn(p, "0123456789");
	}
	return p;
}

static const char *json_check_container(const char *p, char close)
{
	p = json_check_space(p + 1);
	if (p && *p == close)
		return p + 1;
	while (p) {
		if (close == '}') {
			p = json_check_space(json_check_string(json_check_space(p)));
			if (!p || *p++ != ':')
				return NULL;
		}
		p = json_check_space(json_check_value(json_check_space(p)));
		if (p && *p == close)
			return p + 1;
		if (!p || *p++ != ',')
			return NULL;
		p = json_check_space(p);
	}
	return NULL;
}

static const char *json_check_value(const char *p)
{
	if (!p)
		return NULL;
	if (*p == '{' || *p == '[')
		return json_check_container(p, *p == '{' ? '}' : ']');
	if (*p == '"')
		return json_check_string(p);
	if (!strncmp(p, "true", 4) || !strncmp(p, "null", 4))
		return p + 4;
	if (!strncmp(p, "false", 5))
		return p + 5;
	return json_check_number(p);
}

static bool json_check(const char *text)
{
	const char *end = json_check_space(json_check_value(json_check_space(text)));

	return end && *end == '\0';
}

#endif

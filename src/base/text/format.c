/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people; see format.h. No state.
 */
#include "base/text/format.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Three significant digits: 1.24, 12.4, 124. Rounding may not make a fourth (9.995 is 10.0). */
static int decimals(double magnitude)
{
	if (magnitude < 9.995)
		return 2;
	return magnitude < 99.95 ? 1 : 0;
}

static struct format scaled(double value, const char *const *units, size_t n_units)
{
	struct format out;
	double magnitude = fabs(value);
	size_t unit = 0;

	while (unit + 1 < n_units && magnitude >= 999.5) {
		magnitude /= 1000;
		value /= 1000;
		unit++;
	}
	if (unit == 0 && value == floor(value))
		snprintf(out.text, sizeof(out.text), "%.0f%s", value, units[0]);
	else
		snprintf(out.text, sizeof(out.text), "%.*f%s", decimals(magnitude), value,
			 units[unit]);
	return out;
}

struct format format_ns(double ns)
{
	static const char *const units[] = { " ns", " us", " ms", " s" };
	struct format out;
	double seconds = fabs(ns) / 1e9;
	const char *sign = ns < 0 ? "-" : "";

	if (seconds >= 3599.5) {
		double minutes = floor(seconds / 60 + 0.5);

		snprintf(out.text, sizeof(out.text), "%s%.0fh %02.0fm", sign, floor(minutes / 60),
			 fmod(minutes, 60));
		return out;
	}
	if (seconds >= 119.5) {
		double whole = floor(seconds + 0.5);

		snprintf(out.text, sizeof(out.text), "%s%.0fm %02.0fs", sign, floor(whole / 60),
			 fmod(whole, 60));
		return out;
	}
	return scaled(ns, units, 4);
}

struct format format_bytes(double bytes)
{
	static const char *const units[] = { " B", " kB", " MB", " GB", " TB", " PB" };

	return scaled(bytes, units, 6);
}

struct format format_count(double count)
{
	static const char *const units[] = { "", " k", " M", " G", " T", " P" };

	return scaled(count, units, 6);
}

struct format format_rate(double per_second)
{
	static const char *const units[] = { "/s", " k/s", " M/s", " G/s", " T/s" };

	return scaled(per_second, units, 5);
}

struct format format_flops(double per_second)
{
	static const char *const units[] = { " FLOP/s",	 " kFLOP/s", " MFLOP/s",
					     " GFLOP/s", " TFLOP/s", " PFLOP/s" };

	return scaled(per_second, units, 6);
}

struct format format_pct(double pct)
{
	struct format out;
	double magnitude = fabs(pct);

	if (magnitude < 0.995)
		snprintf(out.text, sizeof(out.text), "%.2f%%", pct);
	else if (magnitude < 99.95)
		snprintf(out.text, sizeof(out.text), "%.1f%%", pct);
	else
		snprintf(out.text, sizeof(out.text), "%.0f%%", pct);
	return out;
}

struct format format_ratio(double value)
{
	struct format out;
	double magnitude = fabs(value);

	if (magnitude == 0)
		snprintf(out.text, sizeof(out.text), "0");
	else if (magnitude < 0.9995)
		snprintf(out.text, sizeof(out.text), "%.3f", value);
	else
		snprintf(out.text, sizeof(out.text), "%.*f", decimals(magnitude), value);
	return out;
}

struct format format_date(int64_t realtime_ns)
{
	struct format out;
	time_t seconds = (time_t)(realtime_ns / 1000000000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) ||
	    !strftime(out.text, sizeof(out.text), "%Y-%m-%d %H:%M:%S UTC", &tm))
		snprintf(out.text, sizeof(out.text), "n/a");
	return out;
}

bool moment_parse(const char *text, struct given_moment *ret_moment)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };
	double value, most = 0x1p62;
	char *end;

	/* strtod would take blanks, words such as "inf" and hexadecimal numbers. */
	if (strspn(text, "0123456789.") == 0 || text[1] == 'x' || text[1] == 'X')
		return false;
	value = strtod(text, &end);
	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(end, units[i].name) && value * units[i].ns < most) {
			*ret_moment = (struct given_moment){ true, (int64_t)nearbyint(
									   value * units[i].ns) };
			return true;
		}
	return false;
}

int interval_parse(const char *text, int64_t *ret_ns, struct err *err)
{
	char *end;
	double value = strtod(text, &end);
	double unit = !*end || strcmp(end, "s") == 0 ? 1e9 : strcmp(end, "ms") == 0 ? 1e6 : 0;

	if (end == text || unit == 0 || !isfinite(value))
		return err_set(err, -EINVAL, "an interval is a time such as 1s or 500ms, not '%s'.",
			       text);
	if (value * unit < 1e6 || value * unit > 86400e9)
		return err_set(err, -EINVAL,
			       "the interval '%s' is out of range; it must be from 1ms to 86400s.",
			       text);
	*ret_ns = (int64_t)(value * unit);
	return 0;
}

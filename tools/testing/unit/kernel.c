// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel functions that the driver's pure logic calls
 */

/* Parse a number with an optional trailing newline, base 0 only. */
int kstrtou16(const char *s, unsigned int base, u16 *res)
{
	unsigned long value = 0;
	const char *first;

	if (base)
		return -EINVAL;
	s += *s == '+';
	base = *s != '0' ? 10 :
	       tolower((unsigned char)s[1]) == 'x' &&
	       isxdigit((unsigned char)s[2]) ? 16 : 8;
	if (base == 16)
		s += 2;
	for (first = s; isxdigit((unsigned char)*s); s++) {
		char c = tolower((unsigned char)*s);
		unsigned int digit = c <= '9' ? c - '0' : c - 'a' + 10;

		if (digit >= base)
			break;
		value = min(value * base + digit, 0x10000UL);
	}
	if (s == first || (*s && strcmp(s, "\n")))
		return -EINVAL;
	if (value > U16_MAX)
		return -ERANGE;
	*res = value;
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs KUnit suites in user space and prints KTAP as the kernel does
 *
 * Arguments are names of test cases to run; default: all.
 */
#include <kunit/test.h>
#include <setjmp.h>
#include <stdarg.h>

struct unit_alloc {
	struct unit_alloc *next;
	void *data;
};

static jmp_buf unit_end;

/* The logic allocates nothing, and leak detection needs ptrace. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

void *kunit_kzalloc(struct kunit *test, size_t size, int gfp)
{
	struct unit_alloc *alloc = malloc(sizeof(*alloc));

	(void)gfp;
	alloc->data = calloc(1, size);
	alloc->next = test->allocs;
	test->allocs = alloc;
	return alloc->data;
}

static void unit_free(struct kunit *test)
{
	struct unit_alloc *alloc;

	while ((alloc = test->allocs)) {
		test->allocs = alloc->next;
		free(alloc->data);
		free(alloc);
	}
}

void unit_fail(struct kunit *test, const char *file, int line,
	       const char *what, const char *fmt, ...)
{
	va_list args;

	test->failed = true;
	printf("    # %s:%d: not so: %s: ", file, line, what);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

void unit_abort(struct kunit *test)
{
	(void)test;
	longjmp(unit_end, 1);
}

static void unit_hex(const char *name, const unsigned char *data, size_t size)
{
	printf("    # %s:", name);
	for (size_t i = 0; i < size; i++)
		printf(" %02x", data[i]);
	putchar('\n');
}

void unit_mem(struct kunit *test, const char *file, int line, const char *what,
	      const void *left, const void *right, size_t size)
{
	if (!memcmp(left, right, size))
		return;
	unit_fail(test, file, line, what, "%zu octets", size);
	unit_hex("left ", left, size);
	unit_hex("right", right, size);
}

static bool unit_run_once(const struct kunit_case *test_case,
			  const void *param)
{
	struct kunit test = { .param_value = param };

	if (!setjmp(unit_end))
		test_case->run_case(&test);
	unit_free(&test);
	return !test.failed;
}

static bool unit_run(const struct kunit_case *test_case)
{
	char desc[KUNIT_PARAM_DESC_SIZE] = "";
	const void *param = NULL;
	bool good = true;
	int n = 0;

	if (!test_case->generate_params)
		return unit_run_once(test_case, NULL);
	printf("        KTAP version 1\n        # Subtest: %s\n",
	       test_case->name);
	while ((param = test_case->generate_params(param, desc))) {
		bool passed = unit_run_once(test_case, param);

		good &= passed;
		printf("        %s %d %s\n", passed ? "ok" : "not ok", ++n,
		       desc);
	}
	return good && n;
}

static bool unit_wanted(const char *name, char **names)
{
	bool any = !*names;

	for (; *names; names++)
		any |= !strcmp(name, *names);
	return any;
}

static int unit_count(const struct kunit_suite *suite, char **names)
{
	const struct kunit_case *test_case;
	int n = 0;

	for (test_case = suite->test_cases; test_case->run_case; test_case++)
		n += unit_wanted(test_case->name, names);
	return n;
}

static bool unit_run_suite(const struct kunit_suite *suite, char **names)
{
	const struct kunit_case *test_case;
	bool good = true;
	int n = 0;

	printf("    KTAP version 1\n    # Subtest: %s\n    1..%d\n",
	       suite->name, unit_count(suite, names));
	for (test_case = suite->test_cases; test_case->run_case; test_case++) {
		bool passed;

		if (!unit_wanted(test_case->name, names))
			continue;
		passed = unit_run(test_case);
		good &= passed;
		printf("    %s %d %s\n", passed ? "ok" : "not ok", ++n,
		       test_case->name);
		fflush(stdout);
	}
	return good;
}

int main(int argc, char **argv)
{
	struct kunit_suite **suite;
	bool good = true;
	int suites = 0, cases = 0, n = 0;

	(void)argc;
	for (suite = unit_suites; *suite; suite++) {
		int found = unit_count(*suite, argv + 1);

		cases += found;
		suites += found > 0;
	}
	printf("KTAP version 1\n1..%d\n", suites);
	for (suite = unit_suites; *suite; suite++) {
		bool passed;

		if (!unit_count(*suite, argv + 1))
			continue;
		passed = unit_run_suite(*suite, argv + 1);
		good &= passed;
		printf("%s %d %s\n", passed ? "ok" : "not ok", ++n,
		       (*suite)->name);
	}
	return !(good && cases);
}

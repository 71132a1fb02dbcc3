/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of KUnit's interface that ipoib_test.c uses, in user space
 */
#ifndef UNIT_KUNIT_TEST_H
#define UNIT_KUNIT_TEST_H

#define KUNIT_PARAM_DESC_SIZE	128

struct kunit {
	const void *param_value;
	bool failed;
	struct unit_alloc *allocs;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
	const void *(*generate_params)(const void *prev, char *desc);
};

struct kunit_suite {
	const char name[256];
	struct kunit_case *test_cases;
};

extern struct kunit_suite *unit_suites[];

#define kunit_test_suites(...) \
	struct kunit_suite *unit_suites[] = { __VA_ARGS__, NULL }

#define KUNIT_CASE(test) { test, #test, NULL }
#define KUNIT_CASE_PARAM(test, params) { test, #test, params }

#define KUNIT_ARRAY_PARAM(name, array, get_desc)			\
	static const void *name##_gen_params(const void *prev, char *desc) \
	{								\
		typeof(&(array)[0]) next = prev;			\
									\
		next = next ? next + 1 : (array);			\
		if (next - (array) >= (ptrdiff_t)ARRAY_SIZE(array))	\
			return NULL;					\
		get_desc(next, desc);					\
		return next;						\
	}

/* Memory of exactly this size, so that the sanitizer knows its end. */
#define GFP_KERNEL		0
void *kunit_kzalloc(struct kunit *test, size_t size, int gfp);

__printf(5, 6)
void unit_fail(struct kunit *test, const char *file, int line,
	       const char *what, const char *fmt, ...);
__noreturn void unit_abort(struct kunit *test);

#define UNIT_CHECK(test, good, what, ...) \
	((good) || (unit_fail(test, __FILE__, __LINE__, what, __VA_ARGS__), \
		    false))

/* As in the kernel, signed and unsigned may meet. */
#define UNIT_COMPARE(test, left, op, right, fmt, ...) ({		\
	_Pragma("GCC diagnostic push")					\
	_Pragma("GCC diagnostic ignored \"-Wsign-compare\"")		\
	const typeof(left) __left = (left);				\
	const typeof(right) __right = (right);				\
									\
	UNIT_CHECK(test, __left op __right, #left " " #op " " #right,	\
		   "%lld, %lld " fmt, (long long)__left,		\
		   (long long)__right, ##__VA_ARGS__);			\
	_Pragma("GCC diagnostic pop")					\
})

#define KUNIT_EXPECT_EQ(test, l, r)	UNIT_COMPARE(test, l, ==, r, "")
#define KUNIT_EXPECT_NE(test, l, r)	UNIT_COMPARE(test, l, !=, r, "")
#define KUNIT_EXPECT_LT(test, l, r)	UNIT_COMPARE(test, l, <, r, "")
#define KUNIT_EXPECT_LE(test, l, r)	UNIT_COMPARE(test, l, <=, r, "")
#define KUNIT_EXPECT_GT(test, l, r)	UNIT_COMPARE(test, l, >, r, "")
#define KUNIT_EXPECT_GE(test, l, r)	UNIT_COMPARE(test, l, >=, r, "")
#define KUNIT_EXPECT_EQ_MSG(test, l, r, ...) \
	UNIT_COMPARE(test, l, ==, r, __VA_ARGS__)
#define KUNIT_EXPECT_LE_MSG(test, l, r, ...) \
	UNIT_COMPARE(test, l, <=, r, __VA_ARGS__)

#define KUNIT_FAIL(test, ...) \
	unit_fail(test, __FILE__, __LINE__, "failure", __VA_ARGS__)
#define KUNIT_EXPECT_TRUE(test, x)	UNIT_CHECK(test, x, #x, " ")
#define KUNIT_EXPECT_FALSE(test, x)	UNIT_CHECK(test, !(x), "!" #x, " ")
#define KUNIT_EXPECT_TRUE_MSG(test, x, ...) \
	UNIT_CHECK(test, x, #x, __VA_ARGS__)
#define KUNIT_EXPECT_FALSE_MSG(test, x, ...) \
	UNIT_CHECK(test, !(x), "!" #x, __VA_ARGS__)
#define KUNIT_EXPECT_NULL(test, p) \
	UNIT_CHECK(test, !(p), #p " is NULL", " ")
#define KUNIT_EXPECT_PTR_EQ(test, l, r) \
	UNIT_CHECK(test, (const void *)(l) == (const void *)(r), \
		   #l " == " #r, " ")
#define KUNIT_EXPECT_STREQ(test, l, r) ({				\
	const char *__left = (l), *__right = (r);			\
									\
	UNIT_CHECK(test, !strcmp(__left, __right), #l " is " #r,	\
		   "\"%s\", \"%s\"", __left, __right);			\
})

void unit_mem(struct kunit *test, const char *file, int line, const char *what,
	      const void *left, const void *right, size_t size);
#define KUNIT_EXPECT_MEMEQ(test, l, r, size) \
	unit_mem(test, __FILE__, __LINE__, #l " is " #r, l, r, size)

#define KUNIT_ASSERT_TRUE(test, x) \
	do { if (!KUNIT_EXPECT_TRUE(test, x)) unit_abort(test); } while (0)
#define KUNIT_ASSERT_NOT_NULL(test, p) KUNIT_ASSERT_TRUE(test, (p) != NULL)

#endif /* UNIT_KUNIT_TEST_H */

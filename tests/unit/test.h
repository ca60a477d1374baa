/* What every unit test includes: cmocka and what it needs first. */
#ifndef RG_TESTS_TEST_H
#define RG_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#endif

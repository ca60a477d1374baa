/*
 * Sorting and hashing of directory names, against qsort and by counting.
 */
#include "test.h"

#include "base/assert.h"
#include "base/random.h"
#include "store/posix/names.h"

#include <stdio.h>
#include <stdlib.h>

/* names.c asks; nothing is hidden here. */
bool rg_posix_name_hidden(struct span name, bool top);
bool rg_posix_name_hidden(struct span name, bool top)
{
    return false;
}

static uint64_t state;

static size_t below(size_t limit)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)((state * 0x2545f4914f6cdd1d) >> 20) % limit;
}

/* ---- Orders in which names may come ---- */

#define NAMES 4000

typedef void (*maker)(size_t i, char *name);

static void ascending(size_t i, char *name)
{
    sprintf(name, "object-%08zu", i);
}

static void descending(size_t i, char *name)
{
    sprintf(name, "object-%08zu", NAMES - i);
}

static void organ_pipe(size_t i, char *name)
{
    sprintf(name, "%08zu", i < NAMES / 2 ? i : NAMES - i);
}

static void all_the_same_head(size_t i, char *name)
{
    sprintf(name, "%s-%zu", i % 2 ? "the-same-long-beginning" : "the-same-long-beginnings", i);
}

static void few_different(size_t i, char *name)
{
    sprintf(name, "%zu", below(5));
}

static void any_bytes(size_t i, char *name)
{
    size_t len = 1 + below(i % 3 == 0 ? 255 : 12);
    for (size_t k = 0; k < len; k++) {
        name[k] = (char)(1 + below(255));
    }
    name[len] = '\0';
}

static void two_letters(size_t i, char *name)
{
    size_t len = 1 + below(250);
    for (size_t k = 0; k < len; k++) {
        name[k] = below(40) ? 'a' : '\xff';
    }
    name[len] = '\0';
}

/* Makes the middle of first, middle and last the second smallest, time after time. */
static void against_the_pivot(size_t i, char *name)
{
    size_t half = NAMES / 2;
    size_t value = i < half ? (i % 2 == 0 ? i + 1 : half + i + (half % 2)) : (i - half + 1) * 2;
    sprintf(name, "%08zu", value);
}

static void prefixes_of_each_other(size_t i, char *name)
{
    size_t len = 1 + below(255);
    memset(name, 'p', len);
    name[len] = '\0';
}

static const maker makers[] = {ascending,         descending,        organ_pipe,
                               few_different,     any_bytes,         two_letters,
                               all_the_same_head, against_the_pivot, prefixes_of_each_other};

/* ---- Sorting ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_both(maker make, size_t count)
{
    char *arena = malloc(count * RG_NAME_RECORD_MAX);
    struct rg_name_item *items = calloc(count, sizeof(*items));
    char **names = calloc(count, sizeof(*names));
    RG_ASSERT(arena && items && names);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        struct rg_name_found found = {.kind = RG_NAME_FILE};
        char name[512];
        make(i, name);
        names[i] = strdup(name);
        found.len = strlen(name);
        memcpy(found.text, name, found.len);
        items[i].offset = (uint32_t)len;
        len += rg_name_record_write(arena + len, &found, false);
    }
    rg_names_sort(arena, items, count);
    qsort(names, count, sizeof(*names), compare_names);
    for (size_t i = 0; i < count; i++) {
        struct span name = rg_name_record_text(arena + items[i].offset);
        assert_true(rg_span_is(name, names[i]));
        free(names[i]);
    }
    free(names);
    free(items);
    free(arena);
}

static void test_sorting_equals_qsort(void **unused)
{
    uint64_t seed = rg_random_u64() | 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    state = seed;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(makers); i++) {
        for (size_t count = 1; count <= NAMES; count = count * 3 / 2 + 1) {
            sort_both(makers[i], count);
        }
        sort_both(makers[i], NAMES);
    }
}

/* ---- Hashing ---- */

static const uint64_t key[2] = {0x123456789abcdef1, 0xfedcba9876543211};

static struct rg_names_print print_of(const char *text, int kind)
{
    struct rg_name_found found = {.len = strlen(text)};
    found.kind = kind;
    memcpy(found.text, text, found.len);
    struct rg_names_print print = {.count = 0};
    rg_names_print_add(&print, key, &found);
    return print;
}

static int compare_prints(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct rg_names_print));
}

/* All names of one and two bytes, and changes of one bit in longer ones, as each kind. */
static void test_no_two_small_differences_hash_alike(void **unused)
{
    const size_t room = 3 * (256 + 256 * 256 + 40 * 8 * 40);
    struct rg_names_print *prints = calloc(room, sizeof(*prints));
    RG_ASSERT(prints);
    size_t count = 0;
    for (int kind = RG_NAME_FILE; kind <= RG_NAME_UNSURE; kind++) {
        for (int a = 1; a < 256; a++) {
            for (int b = 0; b < 256; b++) {
                const char name[] = {(char)a, (char)b, '\0'};
                prints[count++] = print_of(name, kind);
            }
        }
        for (size_t len = 3; len < 40; len++) {
            for (size_t bit = 0; bit < len * 8; bit++) {
                char name[64];
                memset(name, 'x', len);
                name[len] = '\0';
                name[bit / 8] = (char)(name[bit / 8] ^ 1 << bit % 8);
                prints[count++] = print_of(name, kind);
            }
        }
    }
    assert_true(count <= room);
    qsort(prints, count, sizeof(*prints), compare_prints);
    for (size_t i = 1; i < count; i++) {
        assert_false(rg_names_print_same(&prints[i - 1], &prints[i]));
        assert_true(prints[i - 1].sum != prints[i].sum);
    }
    free(prints);
}

static void test_the_order_of_names_does_not_matter(void **unused)
{
    const char *const names[] = {"a", "b", "some-longer-name", "z"};
    struct rg_names_print one = {.count = 0};
    struct rg_names_print other = {.count = 0};
    for (size_t i = 0; i < 4; i++) {
        struct rg_name_found found = {.len = strlen(names[i])};
        memcpy(found.text, names[i], found.len);
        rg_names_print_add(&one, key, &found);
        found = (struct rg_name_found){.len = strlen(names[3 - i])};
        memcpy(found.text, names[3 - i], found.len);
        rg_names_print_add(&other, key, &found);
    }
    assert_true(rg_names_print_same(&one, &other));
    struct rg_name_found again = {.text = "a", .len = 1};
    rg_names_print_add(&other, key, &again);
    rg_names_print_add(&other, key, &again);
    assert_false(rg_names_print_same(&one, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorting_equals_qsort),
        cmocka_unit_test(test_no_two_small_differences_hash_alike),
        cmocka_unit_test(test_the_order_of_names_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * What a page of a listing costs, by the size of the directory: the first page from a store that
 * has just been opened, the next page, and both where change times are not to be trusted. Beside
 * them what a bare loop of fstatat takes for the same names: the page asks each file for its size.
 * All in one run; what counts are the ratios. Processor time is shown beside the time that passed,
 * for machines that do other things as well.
 *
 *   bench-listing DIRECTORY [LARGEST]
 *
 * DIRECTORY must be on the file system to be measured and is filled with a bucket for each size
 * (10^4, 10^5, 10^6 files, up to LARGEST), which stay for the next run.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/settings.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE  1000u
#define PAGES 40u

static int fail(const char *what, const struct rg_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err ? err->message : strerror(errno));
    return 1;
}

/* Fills a bucket with files whose names come in no order. */
static int fill(const char *root, const char *bucket, size_t count)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", root, bucket);
    if (mkdir(path, 0755) < 0) {
        return errno == EEXIST ? 0 : fail(path, NULL);
    }
    rg_autoclose int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof(name), "shard-%08zu.bin", (size_t)(i * 2654435761u % count));
        rg_autoclose int fd = openat(directory, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        if (fd < 0) {
            return fail(name, NULL);
        }
    }
    return 0;
}

struct measured {
    uint64_t first_ns;
    uint64_t next_ns; /* medians */
    uint64_t next_cpu_ns;
};

static int compare_times(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The first key before page `i` of PAGES + 1, which are spread evenly over the keys. */
static size_t position(size_t count, size_t i)
{
    return (count - PAGE) / PAGES * i;
}

/* Medians of PAGES times each. */
static struct measured medians(uint64_t *took, uint64_t *worked)
{
    qsort(took, PAGES, sizeof(took[0]), compare_times);
    qsort(worked, PAGES, sizeof(worked[0]), compare_times);
    return (struct measured){.next_ns = took[PAGES / 2], .next_cpu_ns = worked[PAGES / 2]};
}

/* The floor: what the kernel takes to say the sizes that stand on a page. */
static int measure_stats(const char *root, const char *bucket, size_t count,
                         struct measured *ret_measured)
{
    uint64_t took[PAGES];
    uint64_t worked[PAGES];
    char name[4096];
    snprintf(name, sizeof(name), "%s/%s", root, bucket);
    rg_autoclose int directory = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < PAGES; i++) {
        uint64_t start = rg_clock_ns();
        uint64_t start_cpu = cpu_ns();
        for (size_t j = 1; j <= PAGE; j++) {
            struct stat st;
            snprintf(name, sizeof(name), "shard-%08zu.bin", position(count, i + 1) + j);
            if (position(count, i + 1) + j < count &&
                fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
                return fail(name, NULL);
            }
        }
        took[i] = rg_clock_ns() - start;
        worked[i] = cpu_ns() - start_cpu;
    }
    *ret_measured = medians(took, worked);
    return 0;
}

/* Lists PAGES + 1 pages. */
static int measure(struct rg_store *store, const char *bucket, size_t count, bool want_meta,
                   struct measured *ret_measured)
{
    uint64_t took[PAGES + 1];
    uint64_t worked[PAGES + 1];
    for (size_t i = 0; i <= PAGES; i++) {
        char after[64];
        snprintf(after, sizeof(after), "shard-%08zu.bin", position(count, i));
        struct rg_list_query query = {
            .after = i > 0 ? rg_span_text(after) : RG_SPAN_EMPTY,
            .max = PAGE,
            .want_meta = want_meta,
        };
        struct rg_list_page page;
        struct rg_error err = RG_ERROR_INIT;
        uint64_t start = rg_clock_ns();
        uint64_t start_cpu = cpu_ns();
        if (rg_store_list(store, rg_span_text(bucket), &query, &page, &err) < 0) {
            return fail("list", &err);
        }
        took[i] = rg_clock_ns() - start;
        worked[i] = cpu_ns() - start_cpu;
        if (page.count < PAGE - 1) {
            fprintf(stderr, "a page of %zu entries\n", page.count);
            return 1;
        }
        rg_list_page_free(&page);
    }
    *ret_measured = medians(took + 1, worked + 1);
    ret_measured->first_ns = took[0];
    return 0;
}

static const struct way {
    const char *label;
    bool want_meta;
    const char *mask;
    const char *memory;
} ways[] = {
    {"names and sizes", false, "", "256M"},
    {"with ETags", true, "", "256M"},
    {"times not trusted", false, "fine-times", "256M"},
    {"1 MiB of memory", false, "", "1M"},
};

/* A store opened for one measurement: nothing is kept from an earlier one. */
static int measure_fresh(const char *root, const char *bucket, size_t count, const struct way *way,
                         struct measured *ret_measured)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_settings settings;
    if (rg_settings_init(&settings, &err) < 0 ||
        rg_settings_set(&settings, RG_SETTING_mask, way->mask, RG_FROM_OPTION, "bench", &err) < 0 ||
        rg_settings_set(&settings, RG_SETTING_listing_memory, way->memory, RG_FROM_OPTION, "bench",
                        &err) < 0) {
        return fail("settings", &err);
    }
    RG_BUF(summary, 4096);
    struct rg_store *store;
    if (rg_store_posix_open(root, &settings, &store, &summary, &err) < 0) {
        return fail("open", &err);
    }
    int rc = measure(store, bucket, count, way->want_meta, ret_measured);
    rg_store_close(store);
    rg_settings_free(&settings);
    return rc;
}

static void show(size_t count, const char *label, const struct measured *measured,
                 const struct measured *smallest)
{
    printf("%8zu  %-18s  %9.2f  %9.2f  %9.2f  %9.2f  %9.2f\n", count, label,
           (double)measured->first_ns / 1e6, (double)measured->next_ns / 1e6,
           (double)measured->next_ns / (double)smallest->next_ns,
           (double)measured->next_cpu_ns / 1e6,
           (double)measured->next_cpu_ns / (double)smallest->next_cpu_ns);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: bench-listing DIRECTORY [LARGEST]\n");
        return 2;
    }
    size_t largest = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    struct measured smallest[RG_ARRAY_LENGTH(ways)];
    struct measured smallest_stats = {0};
    printf("%8s  %-18s  %9s  %9s  %9s  %9s  %9s\n", "entries", "1,000 keys a page", "first ms",
           "next ms", "to 10^4", "cpu ms", "to 10^4");
    for (size_t count = 10000; count <= largest; count *= 10) {
        char bucket[64];
        snprintf(bucket, sizeof(bucket), "bench-%zu", count);
        if (fill(argv[1], bucket, count)) {
            return 1;
        }
        for (size_t i = 0; i < RG_ARRAY_LENGTH(ways); i++) {
            struct measured measured;
            /* Inodes and xattrs come from the cache of the system in all rows: two ways bring them
             * there, by being run once unmeasured. */
            if ((i < 2 && measure_fresh(argv[1], bucket, count, &ways[i], &measured)) ||
                measure_fresh(argv[1], bucket, count, &ways[i], &measured)) {
                return 1;
            }
            smallest[i] = count == 10000 ? measured : smallest[i];
            show(count, ways[i].label, &measured, &smallest[i]);
        }
        struct measured stats;
        if (measure_stats(argv[1], bucket, count, &stats)) {
            return 1;
        }
        smallest_stats = count == 10000 ? stats : smallest_stats;
        show(count, "fstatat alone", &stats, &smallest_stats);
    }
    return 0;
}

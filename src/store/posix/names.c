/*
 * Reading the names of a directory, hashing and sorting them. It must not keep anything between two
 * calls but what its caller holds.
 */
#include "store/posix/names.h"

#include "base/checked.h"
#include "store/posix/posix.h"

#include <dirent.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Reading ---- */

struct kernel_entry { /* struct linux_dirent64 */
    uint64_t inode;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
};

int rg_names_rewind(struct rg_names_reader *reader, struct rg_error *err)
{
    reader->filled = 0;
    reader->next = 0;
    if (lseek(reader->fd, 0, SEEK_SET) < 0) {
        return rg_fail_storage(err, errno, "cannot rewind a directory");
    }
    return 0;
}

/* True, and *ret_found, for an entry that listings may want. */
static bool accept_entry(const struct rg_names_reader *reader, const struct kernel_entry *entry,
                         struct rg_name_found *ret_found)
{
    size_t len = strlen(entry->name);
    struct span name = rg_span(entry->name, len);
    if (len == 0 || len >= RG_NAME_TEXT_MAX || rg_span_is(name, ".") || rg_span_is(name, "..") ||
        memchr(entry->name, '/', len) || rg_posix_name_hidden(name, false)) {
        return false;
    }
    switch (reader->ignore_types ? DT_UNKNOWN : entry->type) {
    case DT_REG:
        ret_found->kind = RG_NAME_FILE;
        break;
    case DT_DIR:
        ret_found->kind = RG_NAME_DIRECTORY;
        break;
    case DT_LNK:
    case DT_UNKNOWN:
        ret_found->kind = RG_NAME_UNSURE;
        break;
    default: /* a FIFO, socket or device is no object */
        return false;
    }
    memcpy(ret_found->text, entry->name, len);
    ret_found->len = len;
    return true;
}

int rg_names_next(struct rg_names_reader *reader, struct rg_name_found *ret_found,
                  struct rg_error *err)
{
    for (;;) {
        if (reader->next == reader->filled) {
            long got = syscall(SYS_getdents64, reader->fd, reader->buffer, RG_NAMES_READ_BYTES);
            if (got < 0 && errno == ENOENT) {
                return 0; /* the directory was removed while open */
            }
            if (got < 0) {
                return rg_fail_storage(err, errno, "cannot read a directory");
            }
            if (got == 0) {
                return 0;
            }
            reader->filled = (size_t)got;
            reader->next = 0;
        }
        struct kernel_entry *entry = (struct kernel_entry *)(reader->buffer + reader->next);
        reader->next += entry->length;
        if (accept_entry(reader, entry, ret_found)) {
            return 1;
        }
    }
}

static uint64_t name_hash(const uint64_t key[2], const struct rg_name_found *name)
{
    /* Length and kind go through the multiplier on their own: next to the name's bytes they could
     * make up for a difference in them. */
    uint64_t hash = rg_names_fold(key[0] ^ (name->len << 2 | (uint64_t)name->kind), key[1]);
    size_t at = 0;
    for (; name->len - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, name->text + at, 8);
        hash = rg_names_fold(hash ^ word, key[1]);
    }
    uint64_t last = 0;
    memcpy(&last, name->text + at, name->len - at);
    return rg_names_fold(rg_names_fold(hash ^ last, key[1]) ^ key[1], key[0]);
}

void rg_names_print_add(struct rg_names_print *print, const uint64_t key[2],
                        const struct rg_name_found *name)
{
    uint64_t hash = name_hash(key, name);
    print->count++;
    print->sum += hash;
    print->mix ^= rg_names_fold(hash, key[0]);
}

bool rg_names_print_same(const struct rg_names_print *a, const struct rg_names_print *b)
{
    return a->count == b->count && a->sum == b->sum && a->mix == b->mix;
}

/* ---- Sorting ---- */

static void swap_items(struct rg_name_item *a, struct rg_name_item *b)
{
    struct rg_name_item kept = *a;
    *a = *b;
    *b = kept;
}

static void sift(struct rg_name_item *items, size_t root, size_t count)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && items[child].head < items[child + 1].head) {
            child++;
        }
        if (items[root].head >= items[child].head) {
            return;
        }
        swap_items(&items[root], &items[child]);
        root = child;
    }
}

static void heap_sort(struct rg_name_item *items, size_t count)
{
    for (size_t root = count / 2; root-- > 0;) {
        sift(items, root, count);
    }
    for (size_t last = count; last-- > 1;) {
        swap_items(&items[0], &items[last]);
        sift(items, 0, last);
    }
}

static void insertion_sort(struct rg_name_item *items, size_t count)
{
    for (size_t at = 1; at < count; at++) {
        struct rg_name_item item = items[at];
        size_t to = at;
        while (to > 0 && items[to - 1].head > item.head) {
            items[to] = items[to - 1];
            to--;
        }
        items[to] = item;
    }
}

static uint64_t middle_head(const struct rg_name_item *items, size_t count)
{
    uint64_t a = items[0].head;
    uint64_t b = items[count / 2].head;
    uint64_t c = items[count - 1].head;
    uint64_t low = RG_MIN(a, b);
    uint64_t high = RG_MAX(a, b);
    return c < low ? low : c > high ? high : c;
}

/*
 * Quicksort by head, in place: no second array under the ceiling. Names that would make it
 * quadratic end in heap sort. `budget` is the number of splits still allowed.
 */
static void sort_heads(struct rg_name_item *items, size_t count, unsigned budget)
{
    while (count > 16) {
        if (budget-- == 0) {
            heap_sort(items, count);
            return;
        }
        uint64_t pivot = middle_head(items, count);
        size_t low = 0;
        size_t high = count - 1;
        for (;;) {
            while (items[low].head < pivot) {
                low++;
            }
            while (items[high].head > pivot) {
                high--;
            }
            if (low >= high) {
                break;
            }
            swap_items(&items[low++], &items[high--]);
        }
        /* Left of `low` nothing is above the pivot; from it on nothing below. Both sides are
         * non-empty, for the pivot is the middle of three. */
        size_t left = low;
        if (left < count - left) {
            sort_heads(items, left, budget);
            items += left;
            count -= left;
        } else {
            sort_heads(items + left, count - left, budget);
            count = left;
        }
    }
    insertion_sort(items, count);
}

/* Names hold no NUL, so a name that ends sorts before those that go on. */
static uint64_t load_head(struct span name, size_t depth)
{
    unsigned char bytes[8] = {0};
    if (depth < name.len) {
        memcpy(bytes, name.ptr + depth, RG_MIN(name.len - depth, sizeof(bytes)));
    }
    uint64_t head;
    memcpy(&head, bytes, sizeof(head));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    head = __builtin_bswap64(head);
#endif
    return head;
}

/* How many bytes from `depth` on all names share. */
static size_t shared_length(const char *arena, const struct rg_name_item *items, size_t count,
                            size_t depth)
{
    struct span first = rg_span_skip(rg_name_record_text(arena + items[0].offset), depth);
    size_t shared = first.len;
    for (size_t i = 1; i < count && shared > 0; i++) {
        struct span name = rg_span_skip(rg_name_record_text(arena + items[i].offset), depth);
        size_t most = RG_MIN(shared, name.len);
        size_t same = 0;
        while (same < most && name.ptr[same] == first.ptr[same]) {
            same++;
        }
        shared = same;
    }
    return shared;
}

/* Sorts names that agree in their first `depth` bytes: eight bytes at a time, and again those that
 * are still equal. Names are at most 256 bytes, so it nests 32 deep at most. */
static void sort_from(const char *arena, struct rg_name_item *items, size_t count, size_t depth)
{
    depth += shared_length(arena, items, count, depth);
    bool ordered = true;
    for (size_t i = 0; i < count; i++) {
        items[i].head = load_head(rg_name_record_text(arena + items[i].offset), depth);
        ordered = ordered && (i == 0 || items[i - 1].head <= items[i].head);
    }
    if (!ordered) {
        sort_heads(items, count, 2 * (64 - (unsigned)__builtin_clzll(count)));
    }
    for (size_t start = 0, end; start < count; start = end) {
        for (end = start + 1; end < count && items[end].head == items[start].head; end++) {
        }
        /* A zero byte in the head: these names ended, and are the same. */
        if (end - start > 1 && (items[start].head & 0xff) != 0) {
            sort_from(arena, items + start, end - start, depth + 8);
        }
    }
}

void rg_names_sort(const char *arena, struct rg_name_item *items, size_t count)
{
    if (count > 1) {
        sort_from(arena, items, count, 0);
    }
}

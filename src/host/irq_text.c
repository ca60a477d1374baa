/*
 * /proc/interrupts. See irq_text.h.
 */
#include "host/irq_text.h"

#include "base/checked.h"
#include "host/words.h"

#include <inttypes.h>

static size_t count_cpus(struct span header)
{
    size_t count = 0;
    struct span word;
    while (rg_words_next(&header, &word)) {
        if (!rg_span_starts(word, RG_SPAN_LITERAL("CPU"))) {
            return 0;
        }
        count++;
    }
    return count;
}

static bool contains(struct span text, const char *part)
{
    size_t len = strlen(part);
    for (size_t i = 0; len && i + len <= text.len; i++) {
        if (memcmp(text.ptr + i, part, len) == 0) {
            return true;
        }
    }
    return false;
}

static bool names_netdev(struct span name, const char *netdev)
{
    size_t len = strlen(netdev);
    for (size_t i = 0; len && i + len <= name.len; i++) {
        bool begins = i == 0 || name.ptr[i - 1] == '-' || name.ptr[i - 1] == '_';
        bool ends = i + len == name.len || name.ptr[i + len] == '-' || name.ptr[i + len] == '_';
        if (begins && ends && memcmp(name.ptr + i, netdev, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Control queues (async events, admin) are no data. */
static bool moves_data(struct span name)
{
    return !contains(name, "async") && !contains(name, "-AEQ") && !contains(name, "misc") &&
           !contains(name, "_pages") && !contains(name, ":misc") && !contains(name, "_ctrl");
}

static bool belongs(struct span name, const char *address, const char *netdev)
{
    return (contains(name, address) || names_netdev(name, netdev)) && moves_data(name);
}

bool rg_irq_shorten_head(struct span line, struct rg_buf *out)
{
    size_t cpus = count_cpus(line);
    if (cpus > 0) {
        rg_buf_addf(out, "cpus %zu\n", cpus);
    }
    return cpus > 0;
}

void rg_irq_shorten(struct span line, struct rg_buf *out)
{
    uint64_t number, count, most = 0, sum = 0;
    size_t cpu = 0;
    struct span word;
    if (!rg_words_next(&line, &word) || word.len < 2 || word.ptr[word.len - 1] != ':' ||
        !rg_span_to_u64(rg_span_head(word, word.len - 1), &number) || number > UINT32_MAX) {
        return;
    }
    for (size_t i = 0; rg_words_next(&line, &word) && rg_span_to_u64(word, &count); i++) {
        sum += count;
        if (count > most) {
            most = count;
            cpu = i;
        }
    }
    struct span name = word;
    while (rg_words_next(&line, &word)) {
        name = word;
    }
    if (name.len) {
        rg_buf_addf(out, "%" PRIu64 " %zu %" PRIu64 " %" PRIu64 " %.*s\n", number, cpu, most, sum,
                    RG_SPAN_ARG(name));
    }
}

/* One line of the shortened table. */
struct vector {
    uint64_t number, cpu, most, sum;
    struct span name;
};

static bool take_vector(struct span line, struct vector *ret_vector)
{
    uint64_t *const numbers[] = {&ret_vector->number, &ret_vector->cpu, &ret_vector->most,
                                 &ret_vector->sum};
    struct span word;
    for (size_t i = 0; i < RG_ARRAY_LENGTH(numbers); i++) {
        if (!rg_words_next(&line, &word) || !rg_span_to_u64(word, numbers[i])) {
            return false;
        }
    }
    return rg_words_next(&line, &ret_vector->name) && ret_vector->number <= UINT32_MAX;
}

static void see_vector(struct rg_irq_spread *spread, bool taken[RG_IRQ_CPUS_MAX],
                       const struct vector *vector)
{
    if (spread->vectors == RG_IRQ_LINES_MAX || vector->cpu >= RG_IRQ_CPUS_MAX) {
        spread->cut = true;
        return;
    }
    spread->numbers[spread->vectors++] = (unsigned)vector->number;
    if (vector->most == 0) {
        return;
    }
    spread->busy++;
    spread->total += vector->sum;
    if (!taken[vector->cpu]) {
        taken[vector->cpu] = true;
        spread->first_cpu = spread->cpus == 0 ? (unsigned)vector->cpu : spread->first_cpu;
        spread->cpus++;
    }
}

bool rg_irq_parse(struct span text, const char *address, const char *netdev,
                  struct rg_irq_spread *ret_spread)
{
    bool taken[RG_IRQ_CPUS_MAX] = {false};
    struct span line, word;
    struct vector vector;
    uint64_t cpus;
    *ret_spread = (struct rg_irq_spread){0};
    if (!rg_words_line(&text, &line) || !rg_words_next(&line, &word) || !rg_span_is(word, "cpus") ||
        !rg_words_next(&line, &word) || !rg_span_to_u64(word, &cpus) || cpus == 0) {
        return false;
    }
    ret_spread->online = (size_t)RG_MIN(cpus, (uint64_t)RG_IRQ_CPUS_MAX);
    ret_spread->cut = cpus > RG_IRQ_CPUS_MAX;
    while (rg_words_line(&text, &line)) {
        if (take_vector(line, &vector) && belongs(vector.name, address, netdev)) {
            see_vector(ret_spread, taken, &vector);
        }
    }
    return true;
}

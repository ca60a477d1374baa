/*
 * /proc/interrupts. See irq_text.h.
 */
#include "host/irq_text.h"

#include "host/words.h"

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

static void see_vector(struct rg_irq_spread *spread, bool taken[RG_IRQ_CPUS_MAX], uint64_t number,
                       uint64_t most, size_t cpu, uint64_t sum)
{
    if (spread->vectors == RG_IRQ_LINES_MAX) {
        spread->cut = true;
        return;
    }
    spread->numbers[spread->vectors++] = (unsigned)number;
    if (most == 0) {
        return;
    }
    spread->busy++;
    spread->total += sum;
    if (!taken[cpu]) {
        taken[cpu] = true;
        spread->first_cpu = spread->cpus == 0 ? (unsigned)cpu : spread->first_cpu;
        spread->cpus++;
    }
}

bool rg_irq_parse(struct span text, const char *address, const char *netdev,
                  struct rg_irq_spread *ret_spread)
{
    bool taken[RG_IRQ_CPUS_MAX] = {false};
    struct span line, word;
    *ret_spread = (struct rg_irq_spread){0};
    if (!rg_words_line(&text, &line) || (ret_spread->online = count_cpus(line)) == 0) {
        return false;
    }
    if (ret_spread->online > RG_IRQ_CPUS_MAX) {
        ret_spread->online = RG_IRQ_CPUS_MAX;
        ret_spread->cut = true;
    }
    while (rg_words_line(&text, &line)) {
        uint64_t number, count, most = 0, sum = 0;
        size_t cpu = 0;
        if (!rg_words_next(&line, &word) || word.len < 2 || word.ptr[word.len - 1] != ':' ||
            !rg_span_to_u64(rg_span_head(word, word.len - 1), &number) || number > UINT32_MAX) {
            continue;
        }
        for (size_t i = 0; rg_words_next(&line, &word) && rg_span_to_u64(word, &count); i++) {
            sum += count;
            if (count > most && i < RG_IRQ_CPUS_MAX) {
                most = count;
                cpu = i;
            }
        }
        struct span name = word;
        while (rg_words_next(&line, &word)) {
            name = word;
        }
        if (name.ptr && belongs(name, address, netdev)) {
            see_vector(ret_spread, taken, number, most, cpu, sum);
        }
    }
    return true;
}

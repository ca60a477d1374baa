/*
 * What all outputs share: names of the enumerations, words, phrases, times.
 */
#include "diag/diagnosis.h"

#include "diag/labels.h"

#include "base/assert.h"

#include <stdlib.h>
#include <time.h>

static const struct {
    const char *english;
    const char *korean;
} phrase_texts[RG_PHRASE_COUNT] = {
    [RG_PHRASE_NONE] = {"", ""},
#define RG_PHRASE(identifier, english, korean) [RG_PHRASE_##identifier] = {english, korean},
#include "diag/phrases.tbl"
#undef RG_PHRASE
};

const char *rg_scope_name(enum rg_scope scope)
{
    static const char *const names[RG_SCOPE_COUNT] = {
        [RG_SCOPE_UNKNOWN] = "unknown", [RG_SCOPE_NODE] = "node",
        [RG_SCOPE_PAIR] = "pair",       [RG_SCOPE_SERVER] = "server",
        [RG_SCOPE_TARGET] = "target",   [RG_SCOPE_ROUTER] = "router",
        [RG_SCOPE_FABRIC] = "fabric",   [RG_SCOPE_MGS] = "mgs",
        [RG_SCOPE_CONFIG] = "config",   [RG_SCOPE_SOFTWARE] = "software",
        [RG_SCOPE_RACK] = "rack",
    };
    RG_ASSERT(scope < RG_SCOPE_COUNT);
    return names[scope];
}

const char *rg_nature_name(enum rg_nature nature)
{
    static const char *const names[RG_NATURE_COUNT] = {
        [RG_NATURE_UNKNOWN] = "unknown",   [RG_NATURE_HARDWARE] = "hardware",
        [RG_NATURE_NETWORK] = "network",   [RG_NATURE_STORAGE] = "storage",
        [RG_NATURE_SERVER] = "server",     [RG_NATURE_HOST] = "host",
        [RG_NATURE_SOFTWARE] = "software", [RG_NATURE_CONFIG] = "config",
        [RG_NATURE_PLANNED] = "planned",
    };
    RG_ASSERT(nature < RG_NATURE_COUNT);
    return names[nature];
}

const char *rg_data_name(enum rg_data data)
{
    static const char *const names[RG_DATA_COUNT] = {
        [RG_DATA_UNTOUCHED] = "untouched",
        [RG_DATA_DELAYED] = "delayed",
        [RG_DATA_LOST] = "lost",
        [RG_DATA_UNKNOWN] = "unknown",
    };
    RG_ASSERT(data < RG_DATA_COUNT);
    return names[data];
}

const char *rg_confidence_name(enum rg_confidence confidence)
{
    static const char *const names[] = {"low", "medium", "high"};
    RG_ASSERT(confidence < RG_ARRAY_LENGTH(names));
    return names[confidence];
}

const char *rg_urgency_name(enum rg_urgency urgency)
{
    static const char *const names[] = {"note", "low", "high", "critical"};
    RG_ASSERT(urgency < RG_ARRAY_LENGTH(names));
    return names[urgency];
}

const char *rg_diagnosis_word(const struct rg_diagnosis *diagnosis, rg_word word)
{
    RG_ASSERT(word == 0 || word < diagnosis->word_count);
    return word == 0 ? "" : diagnosis->words[word];
}

const char *rg_diagnosis_word_in(const struct rg_diagnosis *diagnosis, rg_word word,
                                 enum rg_language language)
{
    return rg_word_label(rg_diagnosis_word(diagnosis, word), language);
}

void rg_phrase_render(const struct rg_diagnosis *diagnosis, const struct rg_phrase *phrase,
                      enum rg_language language, struct rg_buf *out)
{
    RG_ASSERT(phrase->id < RG_PHRASE_COUNT);
    const char *text =
        language == RG_KOREAN ? phrase_texts[phrase->id].korean : phrase_texts[phrase->id].english;
    for (const char *at = text; *at; at++) {
        if (at[0] == '{' && at[1] >= '0' && at[1] < '0' + RG_PHRASE_WORDS_MAX && at[2] == '}') {
            rg_buf_add_text(out,
                            rg_diagnosis_word_in(diagnosis, phrase->word[at[1] - '0'], language));
            at += 2;
        } else {
            rg_buf_add_char(out, *at);
        }
    }
}

#define KINDS_MAX 64

size_t rg_incident_kinds(const struct rg_diagnosis *diagnosis, const struct rg_incident *incident,
                         struct rg_kind_sum *ret_sums, size_t room)
{
    struct {
        const struct rg_catalogue_row *row;
        rg_word nodes[64];
    } seen[KINDS_MAX];
    size_t count = 0;
    room = room < KINDS_MAX ? room : KINDS_MAX;
    for (size_t i = 0; i < incident->consequence_count; i++) {
        const struct rg_finding *finding = &diagnosis->findings[incident->consequences[i].finding];
        size_t k = 0;
        while (k < count && k < room && ret_sums[k].row != finding->row) {
            k++;
        }
        if (k == room) {
            count = room + 1; /* more than there is room for */
            continue;
        }
        if (k == count) {
            ret_sums[k] = (struct rg_kind_sum){.row = finding->row, .node = finding->node};
            count++;
        }
        struct rg_kind_sum *sum = &ret_sums[k];
        sum->count += finding->count;
        size_t n = 0;
        while (n < sum->nodes && seen[k].nodes[n] != finding->node) {
            n++;
        }
        if (n == sum->nodes && n < RG_ARRAY_LENGTH(seen[k].nodes)) {
            seen[k].nodes[sum->nodes++] = finding->node;
        }
    }
    return count;
}

void rg_when_render(struct rg_when when, enum rg_language language, struct rg_buf *out)
{
    if (when.kind == RG_WHEN_UNKNOWN) {
        rg_buf_add_char(out, '-');
        return;
    }
    if (when.kind == RG_WHEN_BOOT) {
        if (language == RG_KOREAN) {
            rg_buf_addf(out, "부팅 후 %.3f초", (double)when.usec / 1e6);
        } else {
            rg_buf_addf(out, "+%.3f s after boot", (double)when.usec / 1e6);
        }
        return;
    }
    time_t seconds = (time_t)(when.usec / 1000000 - (when.usec % 1000000 < 0));
    struct tm parts;
    char text[64];
    if (!gmtime_r(&seconds, &parts) ||
        strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) == 0) {
        rg_buf_add_char(out, '-');
        return;
    }
    const char *unstated = language == RG_KOREAN ? " (시간대 미상)" : " (zone not stated)";
    rg_buf_addf(out, "%s%s", text, when.kind == RG_WHEN_UTC ? " UTC" : unstated);
}

static void free_incident(struct rg_incident *incident)
{
    free(incident->targets.items);
    free(incident->nids.items);
    free(incident->nodes.items);
    free(incident->cause.quotes.items);
    for (size_t i = 0; i < incident->other_count; i++) {
        free(incident->others[i].quotes.items);
    }
    free(incident->others);
    free(incident->evidence.items);
    free(incident->contrary.items);
    free(incident->decides.items);
    free(incident->consequences);
    free(incident->users.items);
    free(incident->data_reasons.items);
    free(incident->confidence_reasons.items);
    free(incident->next);
    free(incident->avoid.items);
    free(incident->healthy.items);
}

void rg_diagnosis_free(struct rg_diagnosis *diagnosis)
{
    if (!diagnosis) {
        return;
    }
    for (size_t i = 0; i < diagnosis->incident_count; i++) {
        free_incident(&diagnosis->incidents[i]);
    }
    free(diagnosis->incidents);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        free(diagnosis->findings[i].quotes.items);
    }
    free(diagnosis->findings);
    free(diagnosis->nodes);
    for (size_t i = 0; i < diagnosis->target_count; i++) {
        free(diagnosis->targets[i].nids.items);
    }
    free(diagnosis->targets);
    free(diagnosis->told);
    free(diagnosis->noise);
    free(diagnosis->states);
    free(diagnosis->state_notes.items);
    free(diagnosis->assumptions.items);
    free(diagnosis->clocks.items);
    free(diagnosis->holes.items);
    for (size_t i = 0; i < diagnosis->word_count; i++) {
        free(diagnosis->words[i]);
    }
    free(diagnosis->words);
    free(diagnosis);
}

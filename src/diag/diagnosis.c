/*
 * What all outputs share: names of the enumerations, words, phrases, times.
 */
#include "diag/diagnosis.h"

#include "diag/labels.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
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

/* ---- Durations ---- */

static const struct {
    int64_t seconds;
    const char *english;
    const char *korean;
} units[] = {{86400, " d", "일"}, {3600, " h", "시간"}, {60, " min", "분"}, {1, " s", "초"}};

void rg_duration_render(int64_t usec, enum rg_language language, struct rg_buf *out)
{
    int64_t seconds = usec > INT64_MAX - 500000 ? usec / 1000000 : (usec + 500000) / 1000000;
    /* Two units, and the larger one only from two of it on. */
    size_t first = seconds < 120 ? 3 : seconds < 7200 ? 2 : seconds < 172800 ? 1 : 0;
    for (size_t i = first; i < RG_ARRAY_LENGTH(units) && i < first + 2; i++) {
        rg_buf_addf(out, "%s%" PRId64 "%s", i > first ? " " : "", seconds / units[i].seconds,
                    language == RG_KOREAN ? units[i].korean : units[i].english);
        seconds %= units[i].seconds;
    }
}

/* Appends the word in Korean when it is such a duration. */
static bool add_korean_duration(const char *text, struct rg_buf *out)
{
    RG_BUF(korean, 64);
    for (size_t found = 0; found < 2; found++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 19) {
            return false;
        }
        size_t unit = 0;
        size_t len = 0;
        for (; unit < RG_ARRAY_LENGTH(units); unit++) {
            len = strlen(units[unit].english);
            bool ends = strncmp(text + digits, units[unit].english, len) == 0 &&
                        (text[digits + len] == '\0' || text[digits + len] == ' ');
            if (ends) {
                break;
            }
        }
        if (unit == RG_ARRAY_LENGTH(units)) {
            return false;
        }
        rg_buf_addf(&korean, "%s%.*s%s", found ? " " : "", (int)digits, text, units[unit].korean);
        text += digits + len;
        if (*text == '\0') {
            rg_buf_add_span(out, rg_buf_span(&korean));
            return true;
        }
        text++;
    }
    return false;
}

/* ---- Korean particles ---- */

enum ending { ENDING_VOWEL, ENDING_RIEUL, ENDING_CONSONANT };

/* How what a person reads at the end of the text ends; quotes and brackets are not read. */
static enum ending ending_of(struct span text)
{
    /* 영 일 이 삼 사 오 육 칠 팔 구 */
    static const enum ending digits[] = {
        ENDING_CONSONANT, ENDING_RIEUL,     ENDING_VOWEL, ENDING_CONSONANT, ENDING_VOWEL,
        ENDING_VOWEL,     ENDING_CONSONANT, ENDING_RIEUL, ENDING_RIEUL,     ENDING_VOWEL};
    while (text.len > 0 && text.ptr[text.len - 1] && strchr(")]}>\"'` .", text.ptr[text.len - 1])) {
        text.len--;
    }
    if (text.len == 0) {
        return ENDING_VOWEL;
    }
    unsigned char last = (unsigned char)text.ptr[text.len - 1];
    if (last >= '0' && last <= '9') {
        return digits[last - '0'];
    }
    if (last < 0x80) {
        last |= 0x20;
        bool rieul = last == 'l';
        return rieul ? ENDING_RIEUL : last == 'm' || last == 'n' ? ENDING_CONSONANT : ENDING_VOWEL;
    }
    if (text.len < 3) {
        return ENDING_VOWEL;
    }
    const unsigned char *end = (const unsigned char *)text.ptr + text.len - 3;
    unsigned code = (end[0] & 0x0fU) << 12 | (end[1] & 0x3fU) << 6 | (end[2] & 0x3fU);
    if ((end[0] & 0xf0) != 0xe0 || code < 0xac00 || code > 0xd7a3) {
        return ENDING_VOWEL;
    }
    unsigned final = (code - 0xac00) % 28; /* the syllables stand in this order in Unicode */
    return final == 0 ? ENDING_VOWEL : final == 8 ? ENDING_RIEUL : ENDING_CONSONANT;
}

/* How many bytes of the template the particle takes; 0: there is none. */
static size_t add_particle(const char *at, struct rg_buf *out)
{
    static const struct {
        const char *both;
        const char *behind_consonant;
        const char *behind_vowel;
    } particles[] = {
        {"이(가)", "이", "가"}, {"을(를)", "을", "를"},   {"은(는)", "은", "는"},
        {"와(과)", "과", "와"}, {"(으)로", "으로", "로"},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(particles); i++) {
        size_t len = strlen(particles[i].both);
        if (strncmp(at, particles[i].both, len) != 0) {
            continue;
        }
        enum ending ending = ending_of(rg_buf_span(out));
        bool light = ending == ENDING_VOWEL || (ending == ENDING_RIEUL && at[0] == '(');
        rg_buf_add_text(out, light ? particles[i].behind_vowel : particles[i].behind_consonant);
        return len;
    }
    return 0;
}

void rg_phrase_render(const struct rg_diagnosis *diagnosis, const struct rg_phrase *phrase,
                      enum rg_language language, struct rg_buf *out)
{
    RG_ASSERT(phrase->id < RG_PHRASE_COUNT);
    const char *text =
        language == RG_KOREAN ? phrase_texts[phrase->id].korean : phrase_texts[phrase->id].english;
    bool behind_word = false;
    for (const char *at = text; *at; at++) {
        size_t particle = behind_word ? add_particle(at, out) : 0;
        behind_word = false;
        if (particle > 0) {
            at += particle - 1;
        } else if (at[0] == '{' && at[1] >= '0' && at[1] < '0' + RG_PHRASE_WORDS_MAX &&
                   at[2] == '}') {
            const char *word = rg_diagnosis_word_in(diagnosis, phrase->word[at[1] - '0'], language);
            if (language != RG_KOREAN || !add_korean_duration(word, out)) {
                rg_buf_add_text(out, word);
            }
            at += 2;
            behind_word = language == RG_KOREAN;
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

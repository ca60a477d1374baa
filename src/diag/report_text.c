/*
 * The report for a terminal.
 */
#include "diag/report.h"

#include "diag/labels.h"

#include "base/checked.h"
#include "diag/lustre.h"

#include <inttypes.h>

#define KINDS_SHOWN 16

struct ink {
    const char *bold;
    const char *red;
    const char *yellow;
    const char *green;
    const char *dim;
    const char *off;
};

static const struct ink no_ink = {"", "", "", "", "", ""};
static const struct ink colours = {"\x1b[1m",  "\x1b[31m", "\x1b[33m",
                                   "\x1b[32m", "\x1b[2m",  "\x1b[0m"};

struct page {
    const struct rg_diagnosis *diagnosis;
    enum rg_language language;
    struct ink ink;
    struct rg_buf *out;
};

static const char *either(const struct page *page, const char *english, const char *korean)
{
    return page->language == RG_KOREAN ? korean : english;
}

static const char *word(const struct page *page, rg_word which)
{
    return rg_diagnosis_word_in(page->diagnosis, which, page->language);
}

static void phrase(const struct page *page, const struct rg_phrase *what)
{
    rg_phrase_render(page->diagnosis, what, page->language, page->out);
}

static void section(const struct page *page, const char *english, const char *korean)
{
    rg_buf_addf(page->out, "  %s%s%s\n", page->ink.bold, either(page, english, korean),
                page->ink.off);
}

static void phrases(const struct page *page, const char *english, const char *korean,
                    const struct rg_phrases *list)
{
    if (!list->count) {
        return;
    }
    section(page, english, korean);
    for (size_t i = 0; i < list->count; i++) {
        rg_buf_add_text(page->out, "    - ");
        phrase(page, &list->items[i]);
        rg_buf_add_char(page->out, '\n');
    }
}

static void words_line(const struct page *page, const char *english, const char *korean,
                       const struct rg_words *list)
{
    if (!list->count) {
        return;
    }
    rg_buf_addf(page->out, "  %s%s:%s ", page->ink.bold, either(page, english, korean),
                page->ink.off);
    for (size_t i = 0; i < list->count; i++) {
        rg_buf_addf(page->out, "%s%s", i ? ", " : "", word(page, list->items[i]));
    }
    rg_buf_add_char(page->out, '\n');
}

static void quotes(const struct page *page, const struct rg_words *list)
{
    for (size_t i = 0; i < list->count; i++) {
        rg_buf_addf(page->out, "      %s> %s%s\n", page->ink.dim, word(page, list->items[i]),
                    page->ink.off);
    }
}

static void cause(const struct page *page, const struct rg_cause *what)
{
    const struct rg_catalogue_row *row = what->row;
    if (!row) {
        rg_buf_add_text(page->out, "    ");
        phrase(page, &what->sentence);
        rg_buf_add_char(page->out, '\n');
        return;
    }
    rg_buf_addf(page->out, "    %s%s%s [%s, %s: %s", page->ink.yellow, row->title[page->language],
                page->ink.off, row->id, either(page, "layer", "계층"),
                rg_layer_label(row->layer, page->language));
    rg_buf_addf(page->out, "%s%s; × %" PRIu64 "]\n", what->subject ? ", " : "",
                word(page, what->subject), what->count);
    if (*row->cause[page->language]) {
        rg_buf_addf(page->out, "      %s\n", row->cause[page->language]);
    }
    quotes(page, &what->quotes);
    if (*row->remedy[page->language]) {
        rg_buf_addf(page->out, "      %s: %s\n", either(page, "Remedy", "조치"),
                    row->remedy[page->language]);
    }
}

static void times(const struct page *page, const struct rg_incident *incident)
{
    rg_buf_addf(page->out, "  %s%s:%s ", page->ink.bold, either(page, "Time", "시간"),
                page->ink.off);
    rg_when_render(incident->first, page->language, page->out);
    if (incident->last.kind != RG_WHEN_UNKNOWN && incident->duration_usec > 0) {
        rg_buf_add_text(page->out, " – ");
        rg_when_render(incident->last, page->language, page->out);
        rg_buf_add_text(page->out, " (");
        rg_duration_render(incident->duration_usec, page->language, page->out);
        rg_buf_add_char(page->out, ')');
    }
    if (incident->open) {
        rg_buf_add_text(page->out, either(page, ", no end in the logs", ", 로그에 종료 없음"));
    }
    rg_buf_add_char(page->out, '\n');
}

static void consequences(const struct page *page, const struct rg_incident *incident)
{
    if (!incident->consequence_count) {
        return;
    }
    section(page, "Consequences and company (not causes)", "결과 및 동반 메시지 (원인 아님)");
    struct rg_kind_sum sums[KINDS_SHOWN];
    size_t kinds = rg_incident_kinds(page->diagnosis, incident, sums, KINDS_SHOWN);
    for (size_t i = 0; i < RG_MIN(kinds, (size_t)KINDS_SHOWN); i++) {
        rg_buf_addf(page->out, "    %6" PRIu64 " × %s: %s", sums[i].count, sums[i].row->id,
                    sums[i].row->title[page->language]);
        if (sums[i].nodes > 1) {
            rg_buf_addf(page->out, " (%zu %s)\n", sums[i].nodes, either(page, "nodes", "개 노드"));
        } else {
            rg_buf_addf(page->out, " (%s)\n", word(page, sums[i].node));
        }
    }
    if (kinds > KINDS_SHOWN) {
        rg_buf_addf(page->out, "    … %s\n",
                    either(page, "more (see --json)", "더 있음 (--json 참조)"));
    }
}

static void status_line(const struct page *page, const struct rg_status_info *info, int number)
{
    if (info) {
        rg_buf_addf(page->out, "    %d %s: %s\n", number, info->name,
                    info->meaning[page->language]);
    }
}

static void statuses(const struct page *page, const struct rg_incident *incident)
{
    if (!incident->errno_count && !incident->status_count) {
        return;
    }
    section(page, "Numbers, in Lustre's sense", "오류 번호의 의미 (Lustre 기준)");
    for (size_t i = 0; i < incident->errno_count; i++) {
        status_line(page, rg_errno_info(incident->errnos[i]), incident->errnos[i]);
    }
    for (size_t i = 0; i < incident->status_count; i++) {
        status_line(page, rg_wc_info(incident->statuses[i]), incident->statuses[i]);
    }
}

static void next_steps(const struct page *page, const struct rg_incident *incident)
{
    if (!incident->next_count) {
        return;
    }
    section(page, "What to check next", "다음 점검 명령");
    for (size_t i = 0; i < incident->next_count; i++) {
        const struct rg_command *next = &incident->next[i];
        rg_buf_addf(page->out, "    $ %s%s%s   # ", page->ink.green, word(page, next->command),
                    page->ink.off);
        phrase(page, &next->where);
        rg_buf_add_text(page->out, ": ");
        phrase(page, &next->why);
        rg_buf_add_char(page->out, '\n');
    }
}

static void one_incident(const struct page *page, const struct rg_incident *incident)
{
    const char *shade = incident->urgency >= RG_URGENCY_HIGH ? page->ink.red : page->ink.yellow;
    rg_buf_addf(page->out, "\n%s%s %u (%s)%s: ", shade, either(page, "Incident", "장애"),
                incident->number, rg_urgency_label(incident->urgency, page->language),
                page->ink.off);
    phrase(page, &incident->headline);
    rg_buf_add_char(page->out, '\n');
    times(page, incident);
    rg_buf_addf(page->out, "  %s%s:%s %s%s%s%s, %s: %s; %s: %s\n", page->ink.bold,
                either(page, "Scope", "범위"), page->ink.off,
                rg_scope_label(incident->scope, page->language), incident->element ? " " : "",
                word(page, incident->element),
                incident->planned ? either(page, " (on purpose)", " (의도된 작업)") : "",
                either(page, "nature", "성격"), rg_nature_label(incident->nature, page->language),
                either(page, "confidence", "확신도"),
                rg_confidence_label(incident->confidence, page->language));
    words_line(page, "Nodes", "노드", &incident->nodes);
    words_line(page, "Targets", "타깃", &incident->targets);
    words_line(page, "NIDs", "NID", &incident->nids);
    section(page, "Root cause, as far as these logs show it", "로그로 확인되는 근본 원인");
    cause(page, &incident->cause);
    if (incident->other_count) {
        section(page, "Also possible, or part of it", "다른 후보");
        for (size_t i = 0; i < incident->other_count; i++) {
            cause(page, &incident->others[i]);
        }
    }
    phrases(page, "Evidence", "근거", &incident->evidence);
    phrases(page, "Against it", "반대 근거", &incident->contrary);
    phrases(page, "Not decidable from this", "이 로그만으로 판단할 수 없는 것", &incident->decides);
    phrases(page, "Users", "사용자 영향", &incident->users);
    rg_buf_addf(page->out, "  %s%s:%s %s\n", page->ink.bold, either(page, "Data", "데이터"),
                page->ink.off, rg_data_label(incident->data, page->language));
    for (size_t i = 0; i < incident->data_reasons.count; i++) {
        rg_buf_add_text(page->out, "    - ");
        phrase(page, &incident->data_reasons.items[i]);
        rg_buf_add_char(page->out, '\n');
    }
    phrases(page, "Not broken", "정상으로 보이는 것", &incident->healthy);
    consequences(page, incident);
    statuses(page, incident);
    next_steps(page, incident);
    phrases(page, "What not to do", "하지 말아야 할 것", &incident->avoid);
    const char *avoid = incident->cause.row ? incident->cause.row->avoid[page->language] : "";
    if (*avoid) {
        rg_buf_addf(page->out, "    - %s\n", avoid);
    }
    phrases(page, "Why this confidence", "확신도의 이유", &incident->confidence_reasons);
}

static void head(const struct page *page)
{
    const struct rg_diagnosis *diagnosis = page->diagnosis;
    rg_buf_addf(page->out, "%s%s%s\n", page->ink.bold,
                either(page, "Railgate diagnosis", "Railgate 진단"), page->ink.off);
    rg_buf_addf(page->out, "  %" PRIu64 "%s, %" PRIu64 "%s, %zu%s\n", diagnosis->coverage.lines,
                either(page, " lines", "줄"), diagnosis->coverage.matched,
                either(page, " known messages", "건의 알려진 메시지"), diagnosis->node_count,
                either(page, " nodes", "개 노드"));
    if (diagnosis->first.kind != RG_WHEN_UNKNOWN) {
        rg_buf_add_text(page->out, "  ");
        rg_when_render(diagnosis->first, page->language, page->out);
        rg_buf_add_text(page->out, " – ");
        rg_when_render(diagnosis->last, page->language, page->out);
        rg_buf_add_char(page->out, '\n');
    }
    size_t shown = RG_MIN(diagnosis->node_count, (size_t)40);
    for (size_t i = 0; i < shown; i++) {
        const struct rg_node_summary *node = &diagnosis->nodes[i];
        rg_buf_addf(page->out, "  %s  %s, %" PRIu64 "%s", word(page, node->name),
                    rg_role_label(node->role, page->language), node->lines,
                    either(page, " lines", "줄"));
        if (node->boots > 1) {
            rg_buf_addf(page->out, ", %u%s", node->boots, either(page, " boots", "회 부팅"));
        }
        if (node->version) {
            rg_buf_addf(page->out, ", Lustre %s", word(page, node->version));
        }
        rg_buf_add_char(page->out, '\n');
    }
    if (shown < diagnosis->node_count) {
        rg_buf_addf(page->out, "  … %zu\n", diagnosis->node_count - shown);
    }
}

static void noise(const struct page *page)
{
    const struct rg_diagnosis *diagnosis = page->diagnosis;
    if (!diagnosis->noise_count) {
        return;
    }
    size_t known = 0;
    while (known < diagnosis->noise_count && diagnosis->noise[known].row) {
        known++;
    }
    if (known) {
        rg_buf_addf(page->out, "\n%s%s%s\n", page->ink.bold,
                    either(page, "Known noise (no incident)", "알려진 무해한 메시지 (장애 아님)"),
                    page->ink.off);
    }
    for (size_t i = 0; i < known; i++) {
        const struct rg_noise *item = &diagnosis->noise[i];
        rg_buf_addf(page->out, "  %6" PRIu64 " × %s: %s\n", item->count, item->row->id,
                    item->row->title[page->language]);
    }
    if (known == diagnosis->noise_count) {
        return;
    }
    rg_buf_addf(page->out, "\n%s%" PRIu64 "%s%s\n", page->ink.bold,
                diagnosis->coverage.error_looking,
                either(page, " lines look like errors and match no rule",
                       "줄은 오류로 보이지만 해당하는 규칙이 없습니다"),
                page->ink.off);
    size_t shown = RG_MIN(diagnosis->noise_count, known + 10);
    for (size_t i = known; i < shown; i++) {
        const struct rg_noise *item = &diagnosis->noise[i];
        rg_buf_addf(page->out, "  %6" PRIu64 " × %s\n", item->count, word(page, item->sample));
    }
    if (shown < diagnosis->noise_count) {
        rg_buf_addf(page->out, "  … %zu\n", diagnosis->noise_count - shown);
    }
}

void rg_diagnosis_text(const struct rg_diagnosis *diagnosis, enum rg_language language, bool colour,
                       struct rg_buf *out)
{
    struct page page = {diagnosis, language, colour ? colours : no_ink, out};
    head(&page);
    if (!diagnosis->incident_count) {
        rg_buf_addf(out, "\n%s\n",
                    either(&page, "No incident found.", "장애가 발견되지 않았습니다."));
    }
    for (size_t i = 0; i < diagnosis->incident_count; i++) {
        one_incident(&page, &diagnosis->incidents[i]);
    }
    if (diagnosis->incidents_left_out) {
        rg_buf_addf(out, "\n%zu%s\n", diagnosis->incidents_left_out,
                    either(&page, " further incidents are left out: too many to tell apart",
                           "건의 장애는 너무 많아 생략했습니다"));
    }
    noise(&page);
    if (diagnosis->state_notes.count || diagnosis->clocks.count || diagnosis->holes.count ||
        diagnosis->assumptions.count) {
        rg_buf_add_char(out, '\n');
    }
    phrases(&page, "Clocks", "시각", &diagnosis->clocks);
    phrases(&page, "State among the inputs (a snapshot, not an event)",
            "입력에 포함된 상태 덤프(이벤트가 아닌 한 시점의 상태)", &diagnosis->state_notes);
    phrases(&page, "Missing lines", "누락된 로그", &diagnosis->holes);
    phrases(&page, "Assumptions", "가정", &diagnosis->assumptions);
}

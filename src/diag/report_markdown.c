/*
 * An incident report to paste in a ticket or send to a storage vendor, in English or Korean: first
 * a few sentences in plain words, then the facts.
 */
#include "diag/report.h"

#include "diag/labels.h"
#include "diag/lustre.h"

#include "base/checked.h"

#include <inttypes.h>

#define KINDS_SHOWN     12
#define UNMATCHED_SHOWN 10

struct page {
    const struct rg_diagnosis *diagnosis;
    enum rg_language language;
    struct rg_buf *out;
};

static const char *either(const struct page *page, const char *english, const char *korean)
{
    return page->language == RG_KOREAN ? korean : english;
}

/* Text from logs may hold anything that Markdown or HTML would take for markup. */
static void escaped(const struct page *page, const char *text)
{
    for (const char *at = text; *at; at++) {
        if (*at == '<') {
            rg_buf_add_text(page->out, "&lt;");
        } else if (*at == '>') {
            rg_buf_add_text(page->out, "&gt;");
        } else if (*at == '&') {
            rg_buf_add_text(page->out, "&amp;");
        } else {
            if (strchr("\\`*_[]|#!~", *at)) {
                rg_buf_add_char(page->out, '\\');
            }
            rg_buf_add_char(page->out, *at);
        }
    }
}

/* In a code span or block: no backtick may end it. */
static void code(const struct page *page, const char *text)
{
    for (const char *at = text; *at; at++) {
        rg_buf_add_char(page->out, *at == '`' ? '\'' : *at);
    }
}

static void phrase(const struct page *page, const struct rg_phrase *what)
{
    RG_BUF(text, 64 << 10);
    rg_phrase_render(page->diagnosis, what, page->language, &text);
    escaped(page, rg_buf_text(&text));
}

static void list(const struct page *page, const char *english, const char *korean,
                 const struct rg_phrases *phrases)
{
    if (!phrases->count) {
        return;
    }
    rg_buf_addf(page->out, "\n**%s**\n\n", either(page, english, korean));
    for (size_t i = 0; i < phrases->count; i++) {
        rg_buf_add_text(page->out, "- ");
        phrase(page, &phrases->items[i]);
        rg_buf_add_char(page->out, '\n');
    }
}

static void row(const struct page *page, const char *english, const char *korean)
{
    rg_buf_addf(page->out, "| %s | ", either(page, english, korean));
}

static void words(const struct page *page, const struct rg_words *items)
{
    for (size_t i = 0; i < items->count; i++) {
        rg_buf_add_text(page->out, i ? ", " : "");
        escaped(page, rg_diagnosis_word_in(page->diagnosis, items->items[i], page->language));
    }
    rg_buf_add_text(page->out, items->count ? " |\n" : "– |\n");
}

static void words_row(const struct page *page, const char *english, const char *korean,
                      const struct rg_words *items)
{
    row(page, english, korean);
    words(page, items);
}

static void when(const struct page *page, struct rg_when moment)
{
    RG_BUF(text, 128);
    rg_when_render(moment, page->language, &text);
    escaped(page, rg_buf_text(&text));
}

static void table(const struct page *page, const struct rg_incident *incident)
{
    rg_buf_addf(page->out, "| | |\n|---|---|\n");
    row(page, "First seen", "최초 발생");
    when(page, incident->first);
    rg_buf_add_text(page->out, " |\n");
    row(page, "Last seen", "마지막 발생");
    when(page, incident->last);
    if (incident->duration_usec > 0) {
        rg_buf_add_text(page->out, " (");
        rg_duration_render(incident->duration_usec, page->language, page->out);
        rg_buf_add_char(page->out, ')');
    }
    rg_buf_add_text(page->out, " |\n");
    words_row(page, "Nodes", "노드", &incident->nodes);
    words_row(page, "Targets", "타깃 (MDT/OST/MGS)", &incident->targets);
    words_row(page, "NIDs", "NID", &incident->nids);
    row(page, "Scope", "장애 범위");
    rg_buf_addf(page->out, "%s ", rg_scope_label(incident->scope, page->language));
    escaped(page, rg_diagnosis_word_in(page->diagnosis, incident->element, page->language));
    rg_buf_add_text(page->out, " |\n");
    row(page, "Nature", "성격");
    rg_buf_addf(page->out, "%s%s |\n", rg_nature_label(incident->nature, page->language),
                incident->planned ? either(page, " (on purpose)", " (의도된 작업)") : "");
    row(page, "Data", "데이터");
    rg_buf_addf(page->out, "%s |\n", rg_data_label(incident->data, page->language));
    row(page, "Urgency", "긴급도");
    rg_buf_addf(page->out, "%s |\n", rg_urgency_label(incident->urgency, page->language));
    row(page, "Confidence", "확신도");
    rg_buf_addf(page->out, "%s |\n", rg_confidence_label(incident->confidence, page->language));
}

static void cause(const struct page *page, const struct rg_cause *what)
{
    if (what->row) {
        rg_buf_add_text(page->out, "- ");
        escaped(page, what->row->title[page->language]);
        rg_buf_addf(page->out, " (%s, × %" PRIu64 ")", what->row->id, what->count);
        if (what->subject) {
            rg_buf_add_text(page->out, ": ");
            escaped(page, rg_diagnosis_word_in(page->diagnosis, what->subject, page->language));
        }
        rg_buf_add_char(page->out, '\n');
        if (*what->row->cause[page->language]) {
            rg_buf_add_text(page->out, "  ");
            escaped(page, what->row->cause[page->language]);
            rg_buf_add_char(page->out, '\n');
        }
        if (*what->row->remedy[page->language]) {
            rg_buf_addf(page->out, "  %s: ", either(page, "Remedy", "조치"));
            escaped(page, what->row->remedy[page->language]);
            rg_buf_add_char(page->out, '\n');
        }
    }
    if (what->quotes.count) {
        rg_buf_add_text(page->out, "\n```\n");
        for (size_t i = 0; i < what->quotes.count; i++) {
            code(page, rg_diagnosis_word(page->diagnosis, what->quotes.items[i]));
            rg_buf_add_char(page->out, '\n');
        }
        rg_buf_add_text(page->out, "```\n");
    }
}

static void status(const struct page *page, int number, const struct rg_status_info *info)
{
    if (info) {
        rg_buf_addf(page->out, "- %d %s: ", number, info->name);
        escaped(page, info->meaning[page->language]);
        rg_buf_add_char(page->out, '\n');
    }
}

static void statuses(const struct page *page, const struct rg_incident *incident)
{
    if (!incident->errno_count && !incident->status_count) {
        return;
    }
    rg_buf_addf(page->out, "\n**%s**\n\n",
                either(page, "Numbers, in Lustre's sense", "오류 번호의 의미 (Lustre 기준)"));
    for (size_t i = 0; i < incident->errno_count; i++) {
        status(page, incident->errnos[i], rg_errno_info(incident->errnos[i]));
    }
    for (size_t i = 0; i < incident->status_count; i++) {
        status(page, incident->statuses[i], rg_wc_info(incident->statuses[i]));
    }
}

static void next_steps(const struct page *page, const struct rg_incident *incident)
{
    if (!incident->next_count) {
        return;
    }
    rg_buf_addf(page->out, "\n**%s**\n\n", either(page, "What to check next", "다음 점검 명령"));
    for (size_t i = 0; i < incident->next_count; i++) {
        rg_buf_add_text(page->out, "- `");
        code(page, rg_diagnosis_word(page->diagnosis, incident->next[i].command));
        rg_buf_add_text(page->out, "` (");
        phrase(page, &incident->next[i].where);
        rg_buf_add_text(page->out, ": ");
        phrase(page, &incident->next[i].why);
        rg_buf_add_text(page->out, ")\n");
    }
}

/* Three sentences that can stand alone in a mail: what it is, how it came about, where to look. */
static void summary(const struct page *page, const struct rg_incident *incident)
{
    phrase(page, &incident->headline);
    rg_buf_add_text(page->out, "\n\n");
    if (incident->evidence.count) {
        phrase(page, &incident->evidence.items[0]);
        rg_buf_add_text(page->out, "\n\n");
    }
    const char *scope;
    switch (incident->scope) {
    case RG_SCOPE_NODE:
        scope =
            either(page,
                   "One node alone is concerned: look at its HCA, port, cable, driver and memory "
                   "before anything shared.",
                   "단일 노드에서 발생한 장애이므로, 해당 노드의 InfiniBand HCA, 포트, 케이블, "
                   "드라이버 상태를 "
                   "우선 확인해야 합니다.");
        break;
    case RG_SCOPE_FABRIC:
    case RG_SCOPE_ROUTER:
        scope = either(page,
                       "Several nodes are concerned at the same time: look at the fabric and what "
                       "the servers share; rebooting single nodes does not help.",
                       "다수 노드에서 동일 시간대에 발생하였으므로 InfiniBand Fabric 또는 Lustre "
                       "서버 측 공통 장애 "
                       "가능성이 높으며, 개별 노드 재부팅보다 공통 구간 확인이 우선입니다.");
        break;
    case RG_SCOPE_RACK:
        scope = either(page,
                       "Only hosts of one rack or leaf switch are concerned: look at what they "
                       "share there before single nodes.",
                       "한 랙 또는 leaf 스위치의 호스트에서만 발생하였으므로, 개별 노드보다 해당 "
                       "랙의 공통 요소를 우선 확인해야 합니다.");
        break;
    case RG_SCOPE_SERVER:
    case RG_SCOPE_TARGET:
    case RG_SCOPE_MGS:
        scope = either(page,
                       "The server side is concerned: look at this server, its link and its "
                       "storage; rebooting clients does not help.",
                       "Lustre 서버 측 장애이므로 해당 서버, 링크 및 스토리지를 우선 확인해야 "
                       "하며, 클라이언트 "
                       "재부팅은 도움이 되지 않습니다.");
        break;
    case RG_SCOPE_UNKNOWN:
        scope = either(
            page,
            "Whether one node, the path or the server is at fault cannot be told from "
            "these logs.",
            "제공된 로그만으로는 단일 노드, 경로, 서버 중 어느 쪽의 장애인지 판단할 수 없습니다.");
        break;
    default:
        return;
    }
    rg_buf_addf(page->out, "%s\n\n", scope);
}

static void one_incident(const struct page *page, const struct rg_incident *incident)
{
    rg_buf_addf(page->out, "\n## %s %u\n\n", either(page, "Incident", "장애"), incident->number);
    summary(page, incident);
    table(page, incident);
    rg_buf_addf(page->out, "\n**%s**\n\n", either(page, "Root cause", "근본 원인"));
    cause(page, &incident->cause);
    if (incident->other_count) {
        rg_buf_addf(page->out, "\n**%s**\n\n", either(page, "Also possible", "다른 후보"));
        for (size_t i = 0; i < incident->other_count; i++) {
            cause(page, &incident->others[i]);
        }
    }
    list(page, "Evidence", "근거", &incident->evidence);
    list(page, "Against it", "반대 근거", &incident->contrary);
    list(page, "Not decidable from these logs", "판단할 수 없는 것", &incident->decides);
    list(page, "Effect on users", "사용자 영향", &incident->users);
    list(page, "Data", "데이터 영향", &incident->data_reasons);
    list(page, "Not broken", "정상으로 보이는 것", &incident->healthy);
    if (incident->consequence_count) {
        rg_buf_addf(page->out, "\n**%s**\n\n",
                    either(page, "Consequences (not causes)", "결과로 나타난 메시지 (원인 아님)"));
    }
    struct rg_kind_sum sums[KINDS_SHOWN];
    size_t kinds = rg_incident_kinds(page->diagnosis, incident, sums, KINDS_SHOWN);
    for (size_t i = 0; i < RG_MIN(kinds, (size_t)KINDS_SHOWN); i++) {
        rg_buf_addf(page->out, "- %" PRIu64 " × ", sums[i].count);
        escaped(page, sums[i].row->title[page->language]);
        rg_buf_addf(page->out, " (%s), ", sums[i].row->id);
        if (sums[i].nodes > 1) {
            rg_buf_addf(page->out, "%zu%s", sums[i].nodes, either(page, " nodes", "개 노드"));
        } else {
            escaped(page, rg_diagnosis_word_in(page->diagnosis, sums[i].node, page->language));
        }
        rg_buf_add_char(page->out, '\n');
    }
    rg_buf_add_text(page->out, kinds > KINDS_SHOWN ? "- …\n" : "");
    statuses(page, incident);
    next_steps(page, incident);
    list(page, "What not to do", "하지 말아야 할 것", &incident->avoid);
    list(page, "Confidence", "확신도의 이유", &incident->confidence_reasons);
}

/* What nobody knows may be the cause: it goes to whoever reads the ticket. */
static void unmatched(const struct page *page)
{
    const struct rg_diagnosis *diagnosis = page->diagnosis;
    size_t first = 0;
    while (first < diagnosis->noise_count && diagnosis->noise[first].row) {
        first++;
    }
    if (first == diagnosis->noise_count) {
        return;
    }
    rg_buf_addf(page->out, "\n**%" PRIu64 "%s**\n\n```\n", diagnosis->coverage.error_looking,
                either(page, " lines look like errors and match no rule",
                       "줄은 오류로 보이지만 해당하는 규칙이 없습니다"));
    size_t shown = RG_MIN(diagnosis->noise_count, first + UNMATCHED_SHOWN);
    for (size_t i = first; i < shown; i++) {
        rg_buf_addf(page->out, "%" PRIu64 " × ", diagnosis->noise[i].count);
        code(page, rg_diagnosis_word(diagnosis, diagnosis->noise[i].sample));
        rg_buf_add_char(page->out, '\n');
    }
    if (shown < diagnosis->noise_count) {
        rg_buf_addf(page->out, "… %zu\n", diagnosis->noise_count - shown);
    }
    rg_buf_add_text(page->out, "```\n");
}

void rg_diagnosis_markdown(const struct rg_diagnosis *diagnosis, enum rg_language language,
                           struct rg_buf *out)
{
    struct page page = {diagnosis, language, out};
    rg_buf_addf(out, "# %s\n\n",
                either(&page, "Lustre and RDMA incident report", "Lustre RDMA 장애 보고서"));
    rg_buf_addf(out, "%s: ", either(&page, "Logs", "로그"));
    if (diagnosis->first.kind != RG_WHEN_UNKNOWN) {
        when(&page, diagnosis->first);
        rg_buf_add_text(out, " – ");
        when(&page, diagnosis->last);
        rg_buf_add_text(out, ", ");
    }
    rg_buf_addf(out, "%zu%s, %" PRIu64 "%s\n", diagnosis->node_count,
                either(&page, " nodes", "개 노드"), diagnosis->coverage.lines,
                either(&page, " lines", "줄"));
    if (!diagnosis->incident_count) {
        rg_buf_addf(out, "\n%s\n",
                    either(&page, "No incident was found.", "장애가 발견되지 않았습니다."));
    }
    for (size_t i = 0; i < diagnosis->incident_count; i++) {
        one_incident(&page, &diagnosis->incidents[i]);
    }
    if (diagnosis->incidents_left_out) {
        rg_buf_addf(out, "\n%zu%s\n", diagnosis->incidents_left_out,
                    either(&page, " further incidents are left out.", "건의 장애는 생략했습니다."));
    }
    unmatched(&page);
    list(&page, "Clocks", "시각", &diagnosis->clocks);
    list(&page, "State among the inputs (a snapshot, not an event)",
         "입력에 포함된 상태 덤프(이벤트가 아닌 한 시점의 상태)", &diagnosis->state_notes);
    list(&page, "Missing lines", "누락된 로그", &diagnosis->holes);
    list(&page, "Assumptions", "가정", &diagnosis->assumptions);
}

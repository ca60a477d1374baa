/*
 * One page that needs nothing but itself: a timeline of nodes that can be zoomed, a matrix of nodes
 * and targets, and every incident. It loads nothing, and its policy forbids it to.
 *
 * Everything that is not a literal here goes through `escaped`.
 */
#include "diag/report.h"

#include "diag/labels.h"

#include "base/checked.h"
#include "diag/lustre.h"

#include <inttypes.h>
#include <stdlib.h>

#define NODES_SHOWN   80
#define TARGETS_SHOWN 48
#define BARS_SHOWN    4000
#define AXES_SHOWN    4
#define KINDS_SHOWN   24
#define ROW_HEIGHT    22
#define LABEL_WIDTH   170
#define LABEL_CHARS   26 /* that fit into it */
#define PLOT_WIDTH    1000

struct page {
    const struct rg_diagnosis *diagnosis;
    enum rg_language language;
    struct rg_buf *out;
};

static const char *either(const struct page *page, const char *english, const char *korean)
{
    return page->language == RG_KOREAN ? korean : english;
}

static void escaped(const struct page *page, const char *text)
{
    rg_buf_add_html(page->out, text);
}

static void word(const struct page *page, rg_word which)
{
    escaped(page, rg_diagnosis_word_in(page->diagnosis, which, page->language));
}

static void phrase(const struct page *page, const struct rg_phrase *what)
{
    RG_BUF(text, 64 << 10);
    rg_phrase_render(page->diagnosis, what, page->language, &text);
    escaped(page, rg_buf_text(&text));
}

static void when(const struct page *page, struct rg_when moment)
{
    RG_BUF(text, 128);
    rg_when_render(moment, page->language, &text);
    escaped(page, rg_buf_text(&text));
}

static const char *effect_class(enum rg_effect effect)
{
    switch (effect) {
    case RG_EFFECT_FAULT:
        return "fault";
    case RG_EFFECT_LOST:
        return "lost";
    case RG_EFFECT_RESTORED:
        return "back";
    case RG_EFFECT_EVICTED:
        return "evicted";
    default:
        return "note";
    }
}

static const char style[] =
    ":root{--bg:#fff;--fg:#1b1f24;--soft:#667;--line:#d5d9e0;--card:#f6f7f9}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e7eb;--soft:#98a;"
    "--line:#333a44;--card:#1c2127}}"
    "body{font:15px/1.5 system-ui,sans-serif;background:var(--bg);color:var(--fg);"
    "max-width:1200px;margin:1.5rem auto;padding:0 1rem}"
    "h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2rem}h3{font-size:1rem;margin:1rem 0 .2rem}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:8px;"
    "padding:.8rem 1rem;margin:1rem 0}"
    ".card>summary{cursor:pointer;font-weight:600}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font-size:12px;margin:.3rem 0}"
    "code{overflow-wrap:anywhere}"
    "table{border-collapse:collapse;font-size:13px}td,th{border:1px solid var(--line);"
    "padding:2px 6px;text-align:left}"
    ".scroll{overflow-x:auto}.matrix tr>th:first-child{position:sticky;left:0;background:var(--bg);"
    "white-space:nowrap;max-width:24em;overflow:hidden;text-overflow:ellipsis}"
    "svg{width:100%;border:1px solid var(--line);border-radius:8px;touch-action:none;"
    "cursor:grab;user-select:none}"
    "svg text{font:11px system-ui,sans-serif;fill:var(--fg)}"
    ".axis{stroke:var(--line)}.band{fill:#e8a33d;opacity:.18}"
    ".fault{fill:#d64545;background:#d6454555}.lost{fill:#e07b2a;background:#e07b2a55}"
    ".evicted{fill:#8e3fb0;background:#8e3fb055}.back{fill:#3a9d5d;background:#3a9d5d55}"
    ".note{fill:#7a8594;background:#7a859433}"
    ".urgency{border-radius:4px;padding:0 .4em;font-size:12px;border:1px solid var(--line)}"
    ".critical,.high{color:#d64545}.soft{color:var(--soft)}";

/* The plot's x runs from 0 to 1000; bars keep their places, the view moves. */
static const char script[] =
    "document.querySelectorAll('svg[data-first]').forEach(function(svg){"
    "var plot=svg.querySelector('.plot'),first=+svg.dataset.first,last=+svg.dataset.last,"
    "clock=svg.dataset.clock,a=0,b=1000,drag=null;"
    "function label(x){var t=first+(last-first)*x/1000;"
    "var s=(last-first)/1e6*(b-a)/1000;"
    "if(clock==='boot')return '+'+(t/1e6).toFixed(s>40?1:s>.4?3:6)+' s';"
    "var d=new Date(t/1e3).toISOString().replace('T',' ').slice(0,s>10?19:23);"
    "return x>a&&s<86400?d.slice(11):d}"
    "function draw(){var k=1000/(b-a);"
    "plot.setAttribute('transform','translate('+(170-a*k)+',0) scale('+k+',1)');"
    /* What is drawn wider than it lasted stays as thin as it was. */
    "plot.querySelectorAll('[data-w]').forEach(function(r){"
    "r.setAttribute('width',Math.max(+r.dataset.w,+r.dataset.least/k))});"
    "svg.querySelectorAll('.tick').forEach(function(t,i){t.textContent=label(a+(b-a)*i/4)})}"
    "function zoom(f,at){var w=Math.min(1000,Math.max(.001,(b-a)*f));"
    "var x=a+(b-a)*at;a=Math.max(0,Math.min(1000-w,x-w*at));b=a+w;draw()}"
    "function at(e){var r=svg.getBoundingClientRect();"
    "return Math.min(1,Math.max(0,((e.clientX-r.left)/r.width*1180-170)/1000))}"
    "svg.addEventListener('wheel',function(e){e.preventDefault();"
    "zoom(e.deltaY<0?.8:1.25,at(e))},{passive:false});"
    "svg.addEventListener('pointerdown',function(e){drag={p:at(e),a:a,w:b-a};"
    "svg.setPointerCapture(e.pointerId)});"
    "svg.addEventListener('pointermove',function(e){if(!drag)return;"
    "a=Math.max(0,Math.min(1000-drag.w,drag.a-(at(e)-drag.p)*drag.w));b=a+drag.w;draw()});"
    "svg.addEventListener('pointerup',function(){drag=null});"
    "svg.addEventListener('dblclick',function(){a=0;b=1000;draw()});"
    "var box=svg.parentNode.querySelectorAll('button');"
    "if(box.length===3){box[0].onclick=function(){zoom(.5,.5)};"
    "box[1].onclick=function(){zoom(2,.5)};box[2].onclick=function(){a=0;b=1000;draw()}}"
    "draw()});";

/* ---- The timeline. ---- */

struct axis {
    int clock;
    int64_t first;
    int64_t last;
    int kind; /* of rg_when */
    rg_word nodes[NODES_SHOWN];
    size_t node_count;
    bool more;
};

static bool is_shown(const struct rg_finding *finding)
{
    return finding->clock >= 0 && (finding->incident >= 0 || !finding->silent);
}

static size_t find_axes(const struct rg_diagnosis *diagnosis, struct axis *axes)
{
    size_t count = 0;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const struct rg_finding *finding = &diagnosis->findings[i];
        if (!is_shown(finding)) {
            continue;
        }
        size_t k = 0;
        while (k < count && axes[k].clock != finding->clock) {
            k++;
        }
        if (k == AXES_SHOWN) {
            continue;
        }
        struct axis *axis = &axes[k];
        if (k == count) {
            *axis = (struct axis){.clock = finding->clock,
                                  .first = finding->axis_first,
                                  .last = finding->axis_last,
                                  .kind = (int)finding->first.kind};
            count++;
        }
        axis->first = RG_MIN(axis->first, finding->axis_first);
        axis->last = RG_MAX(axis->last, finding->axis_last);
        size_t n = 0;
        while (n < axis->node_count && axis->nodes[n] != finding->node) {
            n++;
        }
        if (n == NODES_SHOWN) {
            axis->more = true;
        } else if (n == axis->node_count) {
            axis->nodes[axis->node_count++] = finding->node;
        }
    }
    for (size_t k = 0; k < count; k++) {
        /* Room at both ends, for what happened first and last. */
        int64_t margin = (axes[k].last - axes[k].first) / 50;
        axes[k].first -= margin;
        axes[k].last += margin;
    }
    return count;
}

static double place(const struct axis *axis, int64_t usec)
{
    int64_t width = axis->last - axis->first;
    return width > 0 ? (double)(usec - axis->first) * 1000.0 / (double)width : 0;
}

/* A rectangle of the plot, at least so wide on the screen. */
static void rectangle(const struct page *page, const char *class, double x, double width,
                      double least)
{
    rg_buf_addf(page->out, "<rect class=\"%s\" x=\"%.4f\" width=\"%.4f\"", class, x,
                RG_MAX(width, least));
    if (width < 1000) {
        rg_buf_addf(page->out, " data-w=\"%.4f\" data-least=\"%.1f\"", width, least);
    }
}

static void bar(const struct page *page, const struct axis *axis, const struct rg_finding *finding)
{
    size_t row = 0;
    while (row < axis->node_count && axis->nodes[row] != finding->node) {
        row++;
    }
    if (row == axis->node_count) {
        return;
    }
    double x = place(axis, finding->axis_first);
    rectangle(page, effect_class(finding->effect), x, place(axis, finding->axis_last) - x, 1.5);
    rg_buf_addf(page->out, " y=\"%zu\" height=\"%d\"><title>", 24 + row * ROW_HEIGHT,
                ROW_HEIGHT - 8);
    word(page, finding->node);
    rg_buf_addf(page->out, " %s × %" PRIu64 ": ", finding->row->id, finding->count);
    escaped(page, finding->row->title[page->language]);
    if (finding->target || finding->nid) {
        rg_buf_add_text(page->out, " → ");
        word(page, finding->target ? finding->target : finding->nid);
    }
    rg_buf_add_char(page->out, '\n');
    when(page, finding->first);
    rg_buf_add_text(page->out, " – ");
    when(page, finding->last);
    rg_buf_add_text(page->out, "</title></rect>");
}

static void bands(const struct page *page, const struct axis *axis, size_t height)
{
    for (size_t i = 0; i < page->diagnosis->incident_count; i++) {
        int64_t first = INT64_MAX;
        int64_t last = INT64_MIN;
        for (size_t k = 0; k < page->diagnosis->finding_count; k++) {
            const struct rg_finding *finding = &page->diagnosis->findings[k];
            if (finding->incident == (int)i && finding->clock == axis->clock && !finding->silent) {
                first = RG_MIN(first, finding->axis_first);
                last = RG_MAX(last, finding->axis_last);
            }
        }
        if (first > last) {
            continue;
        }
        double x = place(axis, first);
        rectangle(page, "band", x, place(axis, last) - x, 3.0);
        rg_buf_addf(page->out, " y=\"18\" height=\"%zu\"><title>%s %zu</title></rect>", height - 34,
                    either(page, "Incident", "장애"), i + 1);
    }
}

static bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* The name of a node as the timeline has room for it: without its domain, then without its middle;
 * pointing at it shows the whole. */
static void label(const struct page *page, rg_word which)
{
    struct span name = rg_span_text(rg_diagnosis_word_in(page->diagnosis, which, page->language));
    size_t characters = 0;
    for (size_t i = 0; i < name.len; i++) {
        characters += begins_character(name.ptr[i]);
    }
    ptrdiff_t dot = rg_span_find(name, '.');
    bool numbers = name.len > 0 && name.ptr[0] >= '0' && name.ptr[0] <= '9';
    if (characters > LABEL_CHARS && dot > 0 && !numbers) {
        name = rg_span_head(name, (size_t)dot);
        characters = 0;
        for (size_t i = 0; i < name.len; i++) {
            characters += begins_character(name.ptr[i]);
        }
    }
    RG_BUF(text, 2048);
    size_t at = 0;
    for (size_t i = 0; i < name.len; i++) {
        bool first = begins_character(name.ptr[i]);
        bool left_out = characters > LABEL_CHARS && at > LABEL_CHARS / 2 - 1 &&
                        at <= characters - LABEL_CHARS / 2;
        if (characters > LABEL_CHARS && first && at == LABEL_CHARS / 2 - 1) {
            rg_buf_add_text(&text, "…");
            left_out = true;
        }
        at += first;
        if (!left_out) {
            rg_buf_add_char(&text, name.ptr[i]);
        }
    }
    escaped(page, rg_buf_text(&text));
    rg_buf_add_text(page->out, "<title>");
    word(page, which);
    rg_buf_add_text(page->out, "</title>");
}

static void one_axis(const struct page *page, const struct axis *axis)
{
    size_t height = 24 + axis->node_count * ROW_HEIGHT + 24;
    rg_buf_addf(page->out,
                "<div><button>+</button> <button>−</button> <button>%s</button> "
                "<span class=\"soft\">%s</span>"
                "<svg viewBox=\"0 0 1180 %zu\" data-first=\"%" PRId64 "\" data-last=\"%" PRId64
                "\" data-clock=\"%s\" role=\"img\" aria-label=\"timeline\">",
                either(page, "whole", "전체"),
                either(page, "wheel: zoom, drag: move", "휠: 확대/축소, 드래그: 이동"), height,
                axis->first, axis->last, axis->kind == RG_WHEN_BOOT ? "boot" : "wall");
    rg_buf_addf(
        page->out,
        "<clipPath id=\"clip%d\"><rect x=\"%d\" y=\"0\" width=\"%d\" height=\"%zu\"/></clipPath>"
        "<g clip-path=\"url(#clip%d)\"><g class=\"plot\" transform=\"translate(%d,0)\">",
        axis->clock, LABEL_WIDTH, PLOT_WIDTH, height, axis->clock, LABEL_WIDTH);
    bands(page, axis, height);
    /* What lasts goes beneath what is a mere moment. */
    size_t drawn = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < page->diagnosis->finding_count && drawn < BARS_SHOWN; i++) {
            const struct rg_finding *finding = &page->diagnosis->findings[i];
            bool lasting = finding->effect == RG_EFFECT_LOST;
            if (is_shown(finding) && finding->clock == axis->clock && lasting == (pass == 0)) {
                bar(page, axis, finding);
                drawn++;
            }
        }
    }
    rg_buf_add_text(page->out, "</g></g>");
    for (size_t i = 0; i < axis->node_count; i++) {
        rg_buf_addf(page->out, "<text x=\"4\" y=\"%zu\">", 36 + i * ROW_HEIGHT);
        label(page, axis->nodes[i]);
        rg_buf_addf(page->out,
                    "</text><line class=\"axis\" x1=\"0\" x2=\"1180\" y1=\"%zu\" y2=\"%zu\"/>",
                    20 + (i + 1) * ROW_HEIGHT, 20 + (i + 1) * ROW_HEIGHT);
    }
    for (int i = 0; i < 5; i++) {
        rg_buf_addf(page->out, "<text class=\"tick\" x=\"%d\" y=\"%zu\" text-anchor=\"%s\"></text>",
                    LABEL_WIDTH + i * PLOT_WIDTH / 4, height - 6,
                    i == 0   ? "start"
                    : i == 4 ? "end"
                             : "middle");
    }
    rg_buf_add_text(page->out, "</svg></div>");
    if (axis->more || drawn == BARS_SHOWN) {
        rg_buf_addf(page->out, "<p class=\"soft\">%s</p>",
                    either(page, "Not everything is drawn; --json has all.",
                           "일부만 그렸습니다. 전체는 --json 에 있습니다."));
    }
}

static void timeline(const struct page *page)
{
    rg_autofree struct axis *axes = calloc(AXES_SHOWN, sizeof(*axes));
    if (!axes) {
        page->out->failed = true;
        return;
    }
    size_t count = find_axes(page->diagnosis, axes);
    if (!count) {
        return;
    }
    rg_buf_addf(page->out, "<h2>%s</h2>", either(page, "Timeline", "타임라인"));
    rg_buf_addf(
        page->out,
        "<p class=\"soft\"><span class=\"fault\">&nbsp;%s&nbsp;</span> "
        "<span class=\"lost\">&nbsp;%s&nbsp;</span> <span class=\"evicted\">&nbsp;%s&nbsp;</span> "
        "<span class=\"back\">&nbsp;%s&nbsp;</span> <span class=\"note\">&nbsp;%s&nbsp;</span></p>",
        either(page, "fault", "장애"), either(page, "lost", "끊김"),
        either(page, "evicted", "evict"), either(page, "restored", "복구"),
        either(page, "note", "정보"));
    for (size_t i = 0; i < count; i++) {
        one_axis(page, &axes[i]);
    }
}

/* ---- Nodes by targets. ---- */

static void matrix(const struct page *page)
{
    const struct rg_diagnosis *diagnosis = page->diagnosis;
    size_t targets = RG_MIN(diagnosis->target_count, (size_t)TARGETS_SHOWN);
    size_t nodes = RG_MIN(diagnosis->node_count, (size_t)NODES_SHOWN);
    if (!targets || !nodes) {
        return;
    }
    rg_autofree uint64_t *counts = calloc(nodes * targets, sizeof(*counts));
    rg_autofree unsigned char *worst = calloc(nodes * targets, 1);
    if (!counts || !worst) {
        page->out->failed = true;
        return;
    }
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const struct rg_finding *finding = &diagnosis->findings[i];
        size_t n = 0;
        size_t t = 0;
        while (n < nodes && diagnosis->nodes[n].name != finding->node) {
            n++;
        }
        while (t < targets && diagnosis->targets[t].name != finding->target) {
            t++;
        }
        if (n == nodes || t == targets || finding->silent) {
            continue;
        }
        size_t cell = n * targets + t;
        counts[cell] += finding->count;
        unsigned char weight = finding->effect == RG_EFFECT_EVICTED    ? 4
                               : finding->effect == RG_EFFECT_FAULT    ? 3
                               : finding->effect == RG_EFFECT_LOST     ? 2
                               : finding->effect == RG_EFFECT_RESTORED ? 1
                                                                       : 0;
        worst[cell] = RG_MAX(worst[cell], weight);
    }
    static const char *const classes[] = {"note", "back", "lost", "fault", "evicted"};
    rg_buf_addf(page->out, "<h2>%s</h2><div class=\"scroll\"><table class=\"matrix\"><tr><th></th>",
                either(page, "Nodes by targets", "노드별 타깃 영향"));
    for (size_t t = 0; t < targets; t++) {
        rg_buf_add_text(page->out, "<th title=\"");
        word(page, diagnosis->targets[t].both_forms);
        rg_buf_add_text(page->out, "\">");
        word(page, diagnosis->targets[t].name);
        rg_buf_add_text(page->out, "</th>");
    }
    rg_buf_add_text(page->out, "</tr>");
    for (size_t n = 0; n < nodes; n++) {
        rg_buf_add_text(page->out, "<tr><th title=\"");
        word(page, diagnosis->nodes[n].name);
        rg_buf_add_text(page->out, "\">");
        word(page, diagnosis->nodes[n].name);
        rg_buf_add_text(page->out, "</th>");
        for (size_t t = 0; t < targets; t++) {
            size_t cell = n * targets + t;
            if (counts[cell]) {
                rg_buf_addf(page->out, "<td class=\"%s\">%" PRIu64 "</td>", classes[worst[cell]],
                            counts[cell]);
            } else {
                rg_buf_add_text(page->out, "<td></td>");
            }
        }
        rg_buf_add_text(page->out, "</tr>");
    }
    rg_buf_add_text(page->out, "</table></div>");
    if (targets < diagnosis->target_count || nodes < diagnosis->node_count) {
        rg_buf_addf(page->out, "<p class=\"soft\">%zu × %zu %s</p>", diagnosis->node_count,
                    diagnosis->target_count,
                    either(page, "in all; the rest is left out", "중 일부만 표시"));
    }
}

/* ---- Incidents. ---- */

static void phrases(const struct page *page, const char *english, const char *korean,
                    const struct rg_phrases *list)
{
    if (!list->count) {
        return;
    }
    rg_buf_addf(page->out, "<h3>%s</h3><ul>", either(page, english, korean));
    for (size_t i = 0; i < list->count; i++) {
        rg_buf_add_text(page->out, "<li>");
        phrase(page, &list->items[i]);
        rg_buf_add_text(page->out, "</li>");
    }
    rg_buf_add_text(page->out, "</ul>");
}

static void words_row(const struct page *page, const char *english, const char *korean,
                      const struct rg_words *list)
{
    rg_buf_addf(page->out, "<tr><th>%s</th><td>", either(page, english, korean));
    for (size_t i = 0; i < list->count; i++) {
        rg_buf_add_text(page->out, i ? ", " : "");
        word(page, list->items[i]);
    }
    rg_buf_add_text(page->out, "</td></tr>");
}

static void cause(const struct page *page, const struct rg_cause *what)
{
    if (what->row) {
        rg_buf_add_text(page->out, "<p><b>");
        escaped(page, what->row->title[page->language]);
        rg_buf_add_text(page->out, "</b> <span class=\"soft\">");
        escaped(page, what->row->id);
        rg_buf_addf(page->out, ", %s, × %" PRIu64 " ", rg_layer_label(what->layer, page->language),
                    what->count);
        word(page, what->subject);
        rg_buf_add_text(page->out, "</span><br>");
        escaped(page, what->row->cause[page->language]);
        if (*what->row->remedy[page->language]) {
            rg_buf_addf(page->out, "<br>%s: ", either(page, "Remedy", "조치"));
            escaped(page, what->row->remedy[page->language]);
        }
        rg_buf_add_text(page->out, "</p>");
    }
    for (size_t i = 0; i < what->quotes.count; i++) {
        rg_buf_add_text(page->out, "<pre>");
        word(page, what->quotes.items[i]);
        rg_buf_add_text(page->out, "</pre>");
    }
}

static void facts(const struct page *page, const struct rg_incident *incident)
{
    rg_buf_addf(page->out, "<table><tr><th>%s</th><td>", either(page, "Time", "시간"));
    when(page, incident->first);
    rg_buf_add_text(page->out, " – ");
    when(page, incident->last);
    if (incident->duration_usec > 0) {
        rg_buf_add_text(page->out, " (");
        rg_duration_render(incident->duration_usec, page->language, page->out);
        rg_buf_add_char(page->out, ')');
    }
    rg_buf_addf(page->out, "</td></tr><tr><th>%s</th><td>%s ", either(page, "Scope", "범위"),
                rg_scope_label(incident->scope, page->language));
    word(page, incident->element);
    rg_buf_addf(page->out, "</td></tr><tr><th>%s</th><td>%s%s</td></tr>",
                either(page, "Nature", "성격"), rg_nature_label(incident->nature, page->language),
                incident->planned ? either(page, " (on purpose)", " (의도된 작업)") : "");
    words_row(page, "Nodes", "노드", &incident->nodes);
    words_row(page, "Targets", "타깃", &incident->targets);
    words_row(page, "NIDs", "NID", &incident->nids);
    rg_buf_addf(page->out, "<tr><th>%s</th><td>%s</td></tr><tr><th>%s</th><td>%s</td></tr></table>",
                either(page, "Data", "데이터"), rg_data_label(incident->data, page->language),
                either(page, "Confidence", "확신도"),
                rg_confidence_label(incident->confidence, page->language));
}

static void status(const struct page *page, int number, const struct rg_status_info *info)
{
    if (info) {
        rg_buf_addf(page->out, "<li>%d %s: ", number, info->name);
        escaped(page, info->meaning[page->language]);
        rg_buf_add_text(page->out, "</li>");
    }
}

static void one_incident(const struct page *page, const struct rg_incident *incident)
{
    rg_buf_addf(page->out,
                "<details class=\"card\" open><summary>%s %u <span class=\"urgency %s\">%s</span> ",
                either(page, "Incident", "장애"), incident->number,
                rg_urgency_name(incident->urgency),
                rg_urgency_label(incident->urgency, page->language));
    phrase(page, &incident->headline);
    rg_buf_add_text(page->out, "</summary>");
    facts(page, incident);
    rg_buf_addf(page->out, "<h3>%s</h3>", either(page, "Root cause", "근본 원인"));
    cause(page, &incident->cause);
    if (incident->other_count) {
        rg_buf_addf(page->out, "<h3>%s</h3>", either(page, "Also possible", "다른 후보"));
    }
    for (size_t i = 0; i < incident->other_count; i++) {
        cause(page, &incident->others[i]);
    }
    phrases(page, "Evidence", "근거", &incident->evidence);
    phrases(page, "Against it", "반대 근거", &incident->contrary);
    phrases(page, "Not decidable from this", "판단할 수 없는 것", &incident->decides);
    phrases(page, "Users", "사용자 영향", &incident->users);
    phrases(page, "Data", "데이터 영향", &incident->data_reasons);
    phrases(page, "Not broken", "정상으로 보이는 것", &incident->healthy);
    if (incident->consequence_count) {
        rg_buf_addf(page->out, "<h3>%s</h3><ul>",
                    either(page, "Consequences (not causes)", "결과 (원인 아님)"));
        struct rg_kind_sum sums[KINDS_SHOWN];
        size_t kinds = rg_incident_kinds(page->diagnosis, incident, sums, KINDS_SHOWN);
        for (size_t i = 0; i < RG_MIN(kinds, (size_t)KINDS_SHOWN); i++) {
            rg_buf_addf(page->out, "<li>%" PRIu64 " × ", sums[i].count);
            escaped(page, sums[i].row->title[page->language]);
            rg_buf_addf(page->out, " <span class=\"soft\">%s, ", sums[i].row->id);
            if (sums[i].nodes > 1) {
                rg_buf_addf(page->out, "%zu%s", sums[i].nodes, either(page, " nodes", "개 노드"));
            } else {
                word(page, sums[i].node);
            }
            rg_buf_add_text(page->out, "</span></li>");
        }
        rg_buf_add_text(page->out, kinds > KINDS_SHOWN ? "<li>…</li>" : "");
        rg_buf_add_text(page->out, "</ul>");
    }
    if (incident->errno_count || incident->status_count) {
        rg_buf_addf(page->out, "<h3>%s</h3><ul>",
                    either(page, "Numbers, in Lustre's sense", "오류 번호의 의미"));
        for (size_t i = 0; i < incident->errno_count; i++) {
            status(page, incident->errnos[i], rg_errno_info(incident->errnos[i]));
        }
        for (size_t i = 0; i < incident->status_count; i++) {
            status(page, incident->statuses[i], rg_wc_info(incident->statuses[i]));
        }
        rg_buf_add_text(page->out, "</ul>");
    }
    if (incident->next_count) {
        rg_buf_addf(page->out, "<h3>%s</h3><ul>",
                    either(page, "What to check next", "다음 점검 명령"));
        for (size_t i = 0; i < incident->next_count; i++) {
            rg_buf_add_text(page->out, "<li><code>");
            word(page, incident->next[i].command);
            rg_buf_add_text(page->out, "</code> <span class=\"soft\">");
            phrase(page, &incident->next[i].where);
            rg_buf_add_text(page->out, ": ");
            phrase(page, &incident->next[i].why);
            rg_buf_add_text(page->out, "</span></li>");
        }
        rg_buf_add_text(page->out, "</ul>");
    }
    phrases(page, "What not to do", "하지 말아야 할 것", &incident->avoid);
    phrases(page, "Why this confidence", "확신도의 이유", &incident->confidence_reasons);
    rg_buf_add_text(page->out, "</details>");
}

static void foot(const struct page *page)
{
    const struct rg_diagnosis *diagnosis = page->diagnosis;
    if (diagnosis->noise_count) {
        rg_buf_addf(page->out, "<h2>%s</h2><ul>",
                    either(page, "Noise and unknown lines", "무해한 메시지와 규칙에 없는 줄"));
        size_t shown = RG_MIN(diagnosis->noise_count, (size_t)60);
        for (size_t i = 0; i < shown; i++) {
            rg_buf_addf(page->out, "<li>%" PRIu64 " × ", diagnosis->noise[i].count);
            if (diagnosis->noise[i].row) {
                escaped(page, diagnosis->noise[i].row->title[page->language]);
            } else {
                word(page, diagnosis->noise[i].sample);
            }
            rg_buf_add_text(page->out, "</li>");
        }
        if (shown < diagnosis->noise_count) {
            rg_buf_addf(page->out, "<li>… %zu</li>", diagnosis->noise_count - shown);
        }
        rg_buf_add_text(page->out, "</ul>");
    }
    phrases(page, "Clocks", "시각", &diagnosis->clocks);
    phrases(page, "State among the inputs (a snapshot, not an event)",
            "입력에 포함된 상태 덤프(이벤트가 아닌 한 시점의 상태)", &diagnosis->state_notes);
    phrases(page, "Missing lines", "누락된 로그", &diagnosis->holes);
    phrases(page, "Assumptions", "가정", &diagnosis->assumptions);
}

void rg_diagnosis_html(const struct rg_diagnosis *diagnosis, enum rg_language language,
                       struct rg_buf *out)
{
    struct page page = {diagnosis, language, out};
    const char *title = either(&page, "Railgate diagnosis", "Railgate 진단");
    rg_buf_addf(out,
                "<!doctype html><html lang=\"%s\"><head><meta charset=\"utf-8\">"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"
                "<meta name=\"viewport\" content=\"width=device-width\"><title>%s</title><style>",
                language == RG_KOREAN ? "ko" : "en", title);
    rg_buf_add_text(out, style);
    rg_buf_addf(out, "</style></head><body><h1>%s</h1><p class=\"soft\">", title);
    if (diagnosis->first.kind != RG_WHEN_UNKNOWN) {
        when(&page, diagnosis->first);
        rg_buf_add_text(out, " – ");
        when(&page, diagnosis->last);
        rg_buf_add_text(out, ", ");
    }
    rg_buf_addf(out, "%zu%s, %" PRIu64 "%s</p>", diagnosis->node_count,
                either(&page, " nodes", "개 노드"), diagnosis->coverage.lines,
                either(&page, " lines", "줄"));
    if (!diagnosis->incident_count) {
        rg_buf_addf(out, "<p>%s</p>",
                    either(&page, "No incident found.", "장애가 발견되지 않았습니다."));
    }
    timeline(&page);
    matrix(&page);
    if (diagnosis->incident_count) {
        rg_buf_addf(out, "<h2>%s</h2>", either(&page, "Incidents", "장애"));
    }
    for (size_t i = 0; i < diagnosis->incident_count; i++) {
        one_incident(&page, &diagnosis->incidents[i]);
    }
    if (diagnosis->incidents_left_out) {
        rg_buf_addf(out, "<p>%zu%s</p>", diagnosis->incidents_left_out,
                    either(&page, " further incidents are left out", "건의 장애는 생략했습니다"));
    }
    foot(&page);
    rg_buf_add_text(out, "<script>");
    rg_buf_add_text(out, script);
    rg_buf_add_text(out, "</script></body></html>\n");
}

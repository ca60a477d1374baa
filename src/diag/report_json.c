/*
 * The diagnosis as JSON; docs/diagnose.md describes the schema. It is written straight into the
 * buffer: a tree of values would need the memory of the whole report once more.
 *
 * Field names and enumerations are stable. A new field may appear; none changes its meaning.
 */
#include "diag/report.h"

#include "diag/lustre.h"
#include "diag/words.h"

#include <inttypes.h>

#define SCHEMA 1

struct json {
    const struct rg_diagnosis *diagnosis;
    struct rg_buf *out;
    bool comma; /* before the next value or name */
};

static void text(struct json *json, const char *value)
{
    RG_BUF(clean, 64 << 10);
    rg_text_clean(rg_span_text(value), 32 << 10, &clean);
    rg_buf_add_char(json->out, '"');
    for (const char *at = rg_buf_text(&clean); *at; at++) {
        if (*at == '"' || *at == '\\') {
            rg_buf_add_char(json->out, '\\');
        }
        rg_buf_add_char(json->out, *at);
    }
    rg_buf_add_char(json->out, '"');
    json->comma = true;
}

static void separate(struct json *json)
{
    if (json->comma) {
        rg_buf_add_char(json->out, ',');
    }
    json->comma = false;
}

static void name(struct json *json, const char *field)
{
    separate(json);
    text(json, field);
    rg_buf_add_char(json->out, ':');
    json->comma = false;
}

static void open_with(struct json *json, char bracket)
{
    separate(json);
    rg_buf_add_char(json->out, bracket);
}

static void close_with(struct json *json, char bracket)
{
    rg_buf_add_char(json->out, bracket);
    json->comma = true;
}

static void field_text(struct json *json, const char *field, const char *value)
{
    name(json, field);
    text(json, value);
}

static void field_word(struct json *json, const char *field, rg_word word)
{
    name(json, field);
    if (word) {
        text(json, rg_diagnosis_word(json->diagnosis, word));
    } else {
        rg_buf_add_text(json->out, "null");
        json->comma = true;
    }
}

static void field_number(struct json *json, const char *field, int64_t value)
{
    name(json, field);
    rg_buf_addf(json->out, "%" PRId64, value);
    json->comma = true;
}

static void field_bool(struct json *json, const char *field, bool value)
{
    name(json, field);
    rg_buf_add_text(json->out, value ? "true" : "false");
    json->comma = true;
}

static void field_words(struct json *json, const char *field, const struct rg_words *words)
{
    name(json, field);
    open_with(json, '[');
    for (size_t i = 0; i < words->count; i++) {
        separate(json);
        text(json, rg_diagnosis_word(json->diagnosis, words->items[i]));
    }
    close_with(json, ']');
}

static void phrase(struct json *json, const struct rg_phrase *what)
{
    static const char *const languages[RG_LANGUAGE_COUNT] = {"en", "ko"};
    open_with(json, '{');
    for (int language = 0; language < RG_LANGUAGE_COUNT; language++) {
        RG_BUF(rendered, 64 << 10);
        rg_phrase_render(json->diagnosis, what, (enum rg_language)language, &rendered);
        field_text(json, languages[language], rg_buf_text(&rendered));
    }
    close_with(json, '}');
}

static void field_phrase(struct json *json, const char *field, const struct rg_phrase *what)
{
    name(json, field);
    phrase(json, what);
}

static void field_phrases(struct json *json, const char *field, const struct rg_phrases *list)
{
    name(json, field);
    open_with(json, '[');
    for (size_t i = 0; i < list->count; i++) {
        phrase(json, &list->items[i]);
    }
    close_with(json, ']');
}

static void field_pair(struct json *json, const char *field,
                       const char *const texts[RG_LANGUAGE_COUNT])
{
    name(json, field);
    open_with(json, '{');
    field_text(json, "en", texts[RG_ENGLISH]);
    field_text(json, "ko", texts[RG_KOREAN]);
    close_with(json, '}');
}

static void field_when(struct json *json, const char *field, struct rg_when when)
{
    static const char *const kinds[] = {"unknown", "boot", "local", "utc"};
    name(json, field);
    if (when.kind == RG_WHEN_UNKNOWN) {
        rg_buf_add_text(json->out, "null");
        json->comma = true;
        return;
    }
    open_with(json, '{');
    field_text(json, "clock", kinds[when.kind]);
    field_number(json, "usec", when.usec);
    field_number(json, "uncertain_usec", when.uncertain_usec);
    RG_BUF(shown, 128);
    rg_when_render(when, RG_ENGLISH, &shown);
    field_text(json, "text", rg_buf_text(&shown));
    close_with(json, '}');
}

static void cause(struct json *json, const struct rg_cause *what)
{
    open_with(json, '{');
    field_text(json, "row", what->row ? what->row->id : "");
    field_text(json, "layer", rg_layer_name(what->layer));
    field_word(json, "subject", what->subject);
    field_number(json, "count", (int64_t)what->count);
    if (what->row) {
        field_pair(json, "title", what->row->title);
        field_pair(json, "cause", what->row->cause);
        field_pair(json, "remedy", what->row->remedy);
    }
    field_words(json, "lines", &what->quotes);
    close_with(json, '}');
}

static void status(struct json *json, const char *kind, int number,
                   const struct rg_status_info *info)
{
    open_with(json, '{');
    field_text(json, "kind", kind);
    field_number(json, "number", number);
    field_text(json, "name", info ? info->name : "");
    if (info) {
        field_pair(json, "meaning", info->meaning);
    }
    close_with(json, '}');
}

static void incident(struct json *json, const struct rg_incident *what)
{
    open_with(json, '{');
    field_number(json, "number", what->number);
    field_phrase(json, "headline", &what->headline);
    field_text(json, "scope", rg_scope_name(what->scope));
    field_word(json, "element", what->element);
    field_text(json, "nature", rg_nature_name(what->nature));
    field_text(json, "urgency", rg_urgency_name(what->urgency));
    field_text(json, "confidence", rg_confidence_name(what->confidence));
    field_bool(json, "planned", what->planned);
    field_bool(json, "open", what->open);
    field_bool(json, "self_healed", what->self_healed);
    field_when(json, "first", what->first);
    field_when(json, "last", what->last);
    field_number(json, "duration_usec", what->duration_usec);
    field_words(json, "nodes", &what->nodes);
    field_words(json, "targets", &what->targets);
    field_words(json, "nids", &what->nids);
    name(json, "cause");
    cause(json, &what->cause);
    name(json, "other_causes");
    open_with(json, '[');
    for (size_t i = 0; i < what->other_count; i++) {
        cause(json, &what->others[i]);
    }
    close_with(json, ']');
    field_phrases(json, "evidence", &what->evidence);
    field_phrases(json, "contrary", &what->contrary);
    field_phrases(json, "undecided", &what->decides);
    name(json, "consequences");
    open_with(json, '[');
    for (size_t i = 0; i < what->consequence_count; i++) {
        const struct rg_finding *finding =
            &json->diagnosis->findings[what->consequences[i].finding];
        open_with(json, '{');
        field_text(json, "row", finding->row->id);
        field_word(json, "node", finding->node);
        field_word(json, "target", finding->target);
        field_word(json, "nid", finding->nid);
        field_number(json, "count", (int64_t)finding->count);
        close_with(json, '}');
    }
    close_with(json, ']');
    field_phrases(json, "users", &what->users);
    field_text(json, "data", rg_data_name(what->data));
    field_phrases(json, "data_reasons", &what->data_reasons);
    field_phrases(json, "confidence_reasons", &what->confidence_reasons);
    field_phrases(json, "healthy", &what->healthy);
    name(json, "next");
    open_with(json, '[');
    for (size_t i = 0; i < what->next_count; i++) {
        open_with(json, '{');
        field_word(json, "command", what->next[i].command);
        field_phrase(json, "where", &what->next[i].where);
        field_phrase(json, "why", &what->next[i].why);
        close_with(json, '}');
    }
    close_with(json, ']');
    field_phrases(json, "avoid", &what->avoid);
    name(json, "statuses");
    open_with(json, '[');
    for (size_t i = 0; i < what->errno_count; i++) {
        status(json, "errno", what->errnos[i], rg_errno_info(what->errnos[i]));
    }
    for (size_t i = 0; i < what->status_count; i++) {
        status(json, "ib_wc_status", what->statuses[i], rg_wc_info(what->statuses[i]));
    }
    close_with(json, ']');
    close_with(json, '}');
}

static void finding(struct json *json, const struct rg_finding *what)
{
    open_with(json, '{');
    field_text(json, "row", what->row->id);
    field_word(json, "node", what->node);
    field_number(json, "boot", what->boot);
    field_word(json, "target", what->target);
    field_word(json, "nid", what->nid);
    field_word(json, "device", what->device);
    field_word(json, "operation", what->operation);
    field_word(json, "detail", what->detail);
    field_number(json, "rc", what->rc);
    field_when(json, "first", what->first);
    field_when(json, "last", what->last);
    field_number(json, "count", (int64_t)what->count);
    name(json, "incident");
    if (what->incident >= 0) {
        rg_buf_addf(json->out, "%d", what->incident + 1);
    } else {
        rg_buf_add_text(json->out, "null");
    }
    json->comma = true;
    field_words(json, "lines", &what->quotes);
    close_with(json, '}');
}

static void nodes(struct json *json)
{
    name(json, "nodes");
    open_with(json, '[');
    for (size_t i = 0; i < json->diagnosis->node_count; i++) {
        const struct rg_node_summary *node = &json->diagnosis->nodes[i];
        open_with(json, '{');
        field_word(json, "name", node->name);
        field_text(json, "role", rg_role_name(node->role));
        field_number(json, "lines", (int64_t)node->lines);
        field_number(json, "boots", node->boots);
        field_when(json, "first", node->first);
        field_when(json, "last", node->last);
        field_word(json, "lustre_version", node->version);
        close_with(json, '}');
    }
    close_with(json, ']');
}

static void targets(struct json *json)
{
    name(json, "targets");
    open_with(json, '[');
    for (size_t i = 0; i < json->diagnosis->target_count; i++) {
        const struct rg_target_summary *target = &json->diagnosis->targets[i];
        open_with(json, '{');
        field_word(json, "name", target->name);
        field_word(json, "label", target->both_forms);
        field_words(json, "nids", &target->nids);
        close_with(json, '}');
    }
    close_with(json, ']');
}

static void noise(struct json *json)
{
    name(json, "noise");
    open_with(json, '[');
    for (size_t i = 0; i < json->diagnosis->noise_count; i++) {
        const struct rg_noise *item = &json->diagnosis->noise[i];
        open_with(json, '{');
        field_text(json, "kind", item->row ? "benign" : "unmatched");
        field_text(json, "row", item->row ? item->row->id : "");
        field_number(json, "count", (int64_t)item->count);
        field_word(json, "sample", item->sample);
        close_with(json, '}');
    }
    close_with(json, ']');
}

static void states(struct json *json)
{
    name(json, "states");
    open_with(json, '[');
    for (size_t i = 0; i < json->diagnosis->state_count; i++) {
        const struct rg_state_seen *state = &json->diagnosis->states[i];
        open_with(json, '{');
        field_text(json, "kind", rg_state_kind_name(state->kind));
        field_word(json, "node", state->node);
        field_word(json, "subject", state->subject);
        field_word(json, "state", state->value);
        field_bool(json, "bad", state->bad);
        field_word(json, "line", state->line);
        close_with(json, '}');
    }
    close_with(json, ']');
    field_number(json, "states_left_out", (int64_t)json->diagnosis->states_left_out);
}

void rg_diagnosis_json(const struct rg_diagnosis *diagnosis, struct rg_buf *out)
{
    struct json writer = {diagnosis, out, false};
    struct json *json = &writer;
    open_with(json, '{');
    field_number(json, "schema", SCHEMA);
    field_bool(json, "anonymous", diagnosis->anonymous);
    name(json, "coverage");
    open_with(json, '{');
    field_number(json, "lines", (int64_t)diagnosis->coverage.lines);
    field_number(json, "matched", (int64_t)diagnosis->coverage.matched);
    field_number(json, "error_looking", (int64_t)diagnosis->coverage.error_looking);
    field_number(json, "folded", (int64_t)diagnosis->coverage.folded);
    close_with(json, '}');
    field_when(json, "first", diagnosis->first);
    field_when(json, "last", diagnosis->last);
    name(json, "incidents");
    open_with(json, '[');
    for (size_t i = 0; i < diagnosis->incident_count; i++) {
        incident(json, &diagnosis->incidents[i]);
    }
    close_with(json, ']');
    field_number(json, "incidents_left_out", (int64_t)diagnosis->incidents_left_out);
    nodes(json);
    targets(json);
    name(json, "findings");
    open_with(json, '[');
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        finding(json, &diagnosis->findings[i]);
    }
    close_with(json, ']');
    noise(json);
    states(json);
    field_phrases(json, "assumptions", &diagnosis->assumptions);
    field_phrases(json, "clocks", &diagnosis->clocks);
    field_phrases(json, "holes", &diagnosis->holes);
    close_with(json, '}');
    rg_buf_add_char(out, '\n');
}

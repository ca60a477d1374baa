#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"

#include <stdio.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8192

static struct {
    int fd;
    enum rg_log_format format;
    enum rg_log_level level;
} config = {STDERR_FILENO, RG_LOG_HUMAN, RG_LOG_INFO};

static _Thread_local const char *request;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void rg_log_setup(int fd, enum rg_log_format format, enum rg_log_level level)
{
    config.fd = fd;
    config.format = format;
    config.level = level;
}

bool rg_log_enabled(enum rg_log_level level)
{
    return level <= config.level;
}

void rg_log_set_request(const char *request_id)
{
    request = request_id;
}

static void add_time(struct rg_buf *line)
{
    struct timespec now = rg_clock_wall();
    struct tm utc;
    gmtime_r(&now.tv_sec, &utc);
    rg_buf_addf(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
}

/* In quotes; a byte that must not stand there as it is becomes `escape` and its two hex digits. */
static void add_quoted(struct rg_buf *line, struct span text, const char *escape)
{
    bool utf8 = rg_span_is_utf8(text);
    rg_buf_add_char(line, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == '"' || c == '\\') {
            rg_buf_add_char(line, '\\');
            rg_buf_add_char(line, (char)c);
        } else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8)) {
            rg_buf_addf(line, "%s%02x", escape, c);
        } else {
            rg_buf_add_char(line, (char)c);
        }
    }
    rg_buf_add_char(line, '"');
}

/* JSON strings must be UTF-8: bytes of malformed text are shown as the Latin-1 code points. */
static void add_json_text(struct rg_buf *line, struct span text)
{
    add_quoted(line, text, "\\u00");
}

/* Bare when it is one printable word, else quoted with \xNN for what would break the line. */
static void add_human_text(struct rg_buf *line, struct span text)
{
    bool bare = text.len > 0;
    bool utf8 = rg_span_is_utf8(text);
    for (size_t i = 0; i < text.len && bare; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bare = c > ' ' && c != '"' && c != '\\' && c != 0x7f && (c < 0x80 || utf8);
    }
    if (bare) {
        rg_buf_add_span(line, text);
        return;
    }
    add_quoted(line, text, "\\x");
}

static void add_json(struct rg_buf *line, enum rg_log_level level, const char *event,
                     const char *message, const struct rg_field *fields, size_t count)
{
    rg_buf_add_text(line, "{\"time\":\"");
    add_time(line);
    rg_buf_addf(line, "\",\"level\":\"%s\",\"event\":\"%s\",\"message\":", level_names[level],
                event);
    add_json_text(line, rg_span_text(message));
    if (request) {
        rg_buf_add_text(line, ",\"request\":");
        add_json_text(line, rg_span_text(request));
    }
    for (size_t i = 0; i < count; i++) {
        rg_buf_addf(line, ",\"%s\":", fields[i].name);
        if (fields[i].type == RG_FIELD_IS_INT) {
            rg_buf_addf(line, "%lld", (long long)fields[i].number);
        } else {
            add_json_text(line, fields[i].text);
        }
    }
    rg_buf_add_text(line, "}\n");
}

static void add_human(struct rg_buf *line, enum rg_log_level level, const char *event,
                      const char *message, const struct rg_field *fields, size_t count)
{
    add_time(line);
    rg_buf_addf(line, " %-5s %s %s", level_names[level], event, message);
    if (request) {
        rg_buf_addf(line, " request=%s", request);
    }
    for (size_t i = 0; i < count; i++) {
        rg_buf_addf(line, " %s=", fields[i].name);
        if (fields[i].type == RG_FIELD_IS_INT) {
            rg_buf_addf(line, "%lld", (long long)fields[i].number);
        } else {
            add_human_text(line, fields[i].text);
        }
    }
    rg_buf_add_char(line, '\n');
}

void rg_log_write(enum rg_log_level level, const char *event, const char *message,
                  const struct rg_field *fields, size_t count)
{
    RG_BUF(line, LINE_MAX_BYTES);
    (config.format == RG_LOG_JSON ? add_json : add_human)(&line, level, event, message, fields,
                                                          count);
    if (!rg_buf_ok(&line)) {
        rg_buf_clear(&line);
        (config.format == RG_LOG_JSON ? add_json : add_human)(
            &line, level, event, "(line too long: fields left out)", NULL, 0);
    }
    /* The log has nowhere to report its own failure. */
    ssize_t written RG_UNUSED = write(config.fd, line.data, line.len);
}

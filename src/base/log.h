/*
 * The log: one line an event, on standard error, human or JSON. Thread-safe; a line is written by
 * one write(2). Only servers and commands log; libraries return errors instead.
 *
 *   rg_log_info("gateway.ready", "listening", RG_FIELD_TEXT("address", address),
 *               RG_FIELD_INT("port", port));
 *
 * human: 2026-11-29T16:40:01.123Z info  gateway.ready listening address=0.0.0.0 port=9000
 * json:  {"time":"...","level":"info","event":"gateway.ready","message":"listening", ...}
 */
#ifndef RG_BASE_LOG_H
#define RG_BASE_LOG_H

#include "base/error.h"
#include "base/span.h"

#include <stdint.h>

enum rg_log_level { RG_LOG_ERROR, RG_LOG_WARN, RG_LOG_INFO, RG_LOG_DEBUG };
enum rg_log_format { RG_LOG_HUMAN, RG_LOG_JSON };

struct rg_field {
    const char *name;
    enum { RG_FIELD_IS_TEXT, RG_FIELD_IS_INT } type;
    struct span text;
    int64_t number;
};

#define RG_FIELD_TEXT(field_name, value)                                                           \
    ((struct rg_field){.name = (field_name), .type = RG_FIELD_IS_TEXT, .text = rg_span_text(value)})
#define RG_FIELD_SPAN(field_name, value)                                                           \
    ((struct rg_field){.name = (field_name), .type = RG_FIELD_IS_TEXT, .text = (value)})
#define RG_FIELD_INT(field_name, value)                                                            \
    ((struct rg_field){.name = (field_name), .type = RG_FIELD_IS_INT, .number = (int64_t)(value)})

/* Before threads start. fd is borrowed. */
void rg_log_setup(int fd, enum rg_log_format format, enum rg_log_level level);

bool rg_log_enabled(enum rg_log_level level);

/*
 * The request id that later lines of this thread carry as "request" (borrowed until replaced;
 * NULL for none).
 */
void rg_log_set_request(const char *request_id);

/* `event` is a fixed dotted name that scripts may match; `message` a short sentence. */
void rg_log_write(enum rg_log_level level, const char *event, const char *message,
                  const struct rg_field *fields, size_t count);

#define rg_log(level, event, message, ...)                                                         \
    do {                                                                                           \
        if (rg_log_enabled(level)) {                                                               \
            const struct rg_field fields_[] = {{0}, ##__VA_ARGS__};                                \
            rg_log_write((level), (event), (message), fields_ + 1, RG_ARRAY_LENGTH(fields_) - 1);  \
        }                                                                                          \
    } while (0)

#define rg_log_error(event, message, ...) rg_log(RG_LOG_ERROR, event, message, ##__VA_ARGS__)
#define rg_log_warn(event, message, ...)  rg_log(RG_LOG_WARN, event, message, ##__VA_ARGS__)
#define rg_log_info(event, message, ...)  rg_log(RG_LOG_INFO, event, message, ##__VA_ARGS__)
#define rg_log_debug(event, message, ...) rg_log(RG_LOG_DEBUG, event, message, ##__VA_ARGS__)

#endif

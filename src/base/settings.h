/*
 * The settings, from one table (settings.tbl). Sources, the later winning: default, file,
 * environment, command line. Anything unknown, misspelt, of the wrong case or out of range is an
 * error of one line that names the setting; nothing is ever silently replaced.
 */
#ifndef RG_BASE_SETTINGS_H
#define RG_BASE_SETTINGS_H

#include "base/buf.h"
#include "base/error.h"

#include <stdint.h>

enum rg_setting_id {
#define RG_INT(field, name, unit, fallback, least, most, sentence) RG_SETTING_##field,
#define RG_SIZE(field, name, fallback, least, most, sentence)      RG_SETTING_##field,
#define RG_DURATION(field, name, fallback, least, most, sentence)  RG_SETTING_##field,
#define RG_CHOICE(field, name, fallback, choices, sentence)        RG_SETTING_##field,
#define RG_TEXT(field, name, fallback, most, sentence)             RG_SETTING_##field,
#define RG_SECRET(field, name, most, sentence)                     RG_SETTING_##field,
#define RG_GROUP(title)
#include "base/settings.tbl"
    RG_SETTING_COUNT
};

enum rg_setting_source {
    RG_FROM_DEFAULT,
    RG_FROM_FILE,
    RG_FROM_ENVIRONMENT,
    RG_FROM_OPTION,
};

/* Numbers are int64_t, in the table's unit (bytes, milliseconds); choices are the index of the
 * word in the table's list; texts are never NULL. */
struct rg_settings {
#undef RG_INT
#undef RG_SIZE
#undef RG_DURATION
#undef RG_CHOICE
#undef RG_TEXT
#undef RG_SECRET
#define RG_INT(field, name, unit, fallback, least, most, sentence) int64_t field;
#define RG_SIZE(field, name, fallback, least, most, sentence)      int64_t field;
#define RG_DURATION(field, name, fallback, least, most, sentence)  int64_t field;
#define RG_CHOICE(field, name, fallback, choices, sentence)        int64_t field;
#define RG_TEXT(field, name, fallback, most, sentence)             char *field;
#define RG_SECRET(field, name, most, sentence)                     char *field;
#include "base/settings.tbl"
#undef RG_INT
#undef RG_SIZE
#undef RG_DURATION
#undef RG_CHOICE
#undef RG_TEXT
#undef RG_SECRET
#undef RG_GROUP
    enum rg_setting_source source[RG_SETTING_COUNT];
};

/* Order of the words in the table. */
enum rg_durability { RG_DURABILITY_FULL, RG_DURABILITY_DATA, RG_DURABILITY_NONE };
enum rg_etag_kind { RG_ETAG_MD5, RG_ETAG_FAST };
enum rg_rdma_mode { RG_RDMA_AUTO, RG_RDMA_ON, RG_RDMA_OFF };
enum rg_rdma_mtu { RG_MTU_AUTO, RG_MTU_256, RG_MTU_512, RG_MTU_1024, RG_MTU_2048, RG_MTU_4096 };
enum rg_rdma_direct { RG_DIRECT_AUTO, RG_DIRECT_ON, RG_DIRECT_OFF };
enum rg_rdma_decline_get { RG_DECLINE_WITH_OBJECT, RG_DECLINE_WITH_ERROR };
enum rg_rdma_decline_put { RG_DECLINE_WITH_501, RG_DECLINE_WITH_200 };
enum rg_copy_method { RG_COPY_AUTO, RG_COPY_REFLINK, RG_COPY_RANGE, RG_COPY_PLAIN };

/* Fills in the defaults. Release with rg_settings_free. */
int rg_settings_init(struct rg_settings *settings, struct rg_error *err);
void rg_settings_free(struct rg_settings *settings);

/*
 * Sets one setting from text. `origin` (for messages) says where the text stands, for example
 * "/etc/railgate.conf:12", "RAILGATE_PORT" or "--port". Fails with RG_SETTING.
 */
int rg_settings_set(struct rg_settings *settings, enum rg_setting_id id, const char *text,
                    enum rg_setting_source source, const char *origin, struct rg_error *err);

/*
 * Reads all sources: options and environment first for --config / RAILGATE_CONFIG, then file,
 * environment, options in rising rank. `argv` holds the words after the subcommand; those that are
 * not options (and all after "--") are moved to the front of argv, and their number is stored in
 * *ret_count. `environment` is an environ-style list: every name that begins with RAILGATE_ must be
 * a setting. Fails with RG_SETTING; the message is one line without a newline.
 */
int rg_settings_load(struct rg_settings *settings, const char **argv, int argc,
                     const char *const *environment, int *ret_count, struct rg_error *err);

/* The table itself, for help, `railgate config` and the documentation. */
const char *rg_setting_name(enum rg_setting_id id);

/* The value as text that rg_settings_set accepts; a secret gives "(set)" or "(not set)". */
void rg_settings_value(const struct rg_settings *settings, enum rg_setting_id id,
                       struct rg_buf *ret_text);

/* Option list for --help; `name = value  # source` lines; a Markdown reference page. */
void rg_settings_help(struct rg_buf *out);
void rg_settings_show(const struct rg_settings *settings, struct rg_buf *out);
void rg_settings_reference(struct rg_buf *out);

#endif

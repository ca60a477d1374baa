/*
 * Numbers that have names: opcodes, portals and flags of requests (lustre_idl.h, lustre_net.h),
 * errno and ib_wc_status.
 */
#include "diag/lustre.h"

#include "base/attr.h"

static const struct {
    int number;
    const char *name;
} opcodes[] = {
    {0, "ost_reply"},
    {1, "ost_getattr"},
    {2, "ost_setattr"},
    {3, "ost_read"},
    {4, "ost_write"},
    {5, "ost_create"},
    {6, "ost_destroy"},
    {7, "ost_get_info"},
    {8, "ost_connect"},
    {9, "ost_disconnect"},
    {10, "ost_punch"},
    {11, "ost_open"},
    {12, "ost_close"},
    {13, "ost_statfs"},
    {16, "ost_sync"},
    {17, "ost_set_info"},
    {18, "ost_quotacheck"},
    {19, "ost_quotactl"},
    {21, "ost_ladvise"},
    {22, "ost_fallocate"},
    {23, "ost_seek"},
    {33, "mds_getattr"},
    {34, "mds_getattr_lock"},
    {35, "mds_close"},
    {36, "mds_reint"},
    {37, "mds_readpage"},
    {38, "mds_connect"},
    {39, "mds_disconnect"},
    {40, "mds_get_root"},
    {41, "mds_statfs"},
    {44, "mds_sync"},
    {48, "mds_quotactl"},
    {49, "mds_getxattr"},
    {50, "mds_setxattr"},
    {51, "mds_writepage"},
    {53, "mds_get_info"},
    {54, "mds_hsm_state_get"},
    {55, "mds_hsm_state_set"},
    {56, "mds_hsm_action"},
    {57, "mds_hsm_progress"},
    {58, "mds_hsm_request"},
    {59, "mds_hsm_ct_register"},
    {60, "mds_hsm_ct_unregister"},
    {61, "mds_swap_layouts"},
    {101, "ldlm_enqueue"},
    {102, "ldlm_convert"},
    {103, "ldlm_cancel"},
    {104, "ldlm_bl_callback"},
    {105, "ldlm_cp_callback"},
    {106, "ldlm_gl_callback"},
    {107, "ldlm_set_info"},
    {250, "mgs_connect"},
    {251, "mgs_disconnect"},
    {253, "mgs_target_reg"},
    {254, "mgs_target_del"},
    {255, "mgs_set_info"},
    {256, "mgs_config_read"},
    {400, "obd_ping"},
    {402, "obd_quota_callback"},
    {501, "llog_origin_handle_create"},
    {502, "llog_origin_handle_next_block"},
    {503, "llog_origin_handle_read_header"},
    {601, "quota_dqacq"},
    {602, "quota_dqrel"},
    {700, "seq_query"},
    {801, "sec_ctx_init"},
    {802, "sec_ctx_init_cont"},
    {803, "sec_ctx_fini"},
    {900, "fld_query"},
    {901, "fld_read"},
    {1000, "out_update"},
};

static const struct {
    int number;
    const char *name;
} portals[] = {
    {4, "OSC_REPLY"},    {6, "OST_IO"},        {7, "OST_CREATE"}, {8, "OST_BULK"},
    {10, "MDC_REPLY"},   {12, "MDS_REQUEST"},  {15, "LDLM_CB"},   {16, "LDLM_CB_REPLY"},
    {17, "LDLM_CANCEL"}, {23, "MDS_READPAGE"}, {24, "OUT"},       {25, "MGC_REPLY"},
    {26, "MGS_REQUEST"}, {28, "OST_REQUEST"},
};

static const struct {
    char flag;
    const char *name;
} flags[] = {
    {'I', "interrupted"},
    {'R', "replied"},
    {'E', "error"},
    {'e', "network error"},
    {'X', "expired"},
    {'S', "resend"},
    {'T', "restart"},
    {'P', "replay"},
    {'N', "not to be resent"},
    {'n', "no reply expected"},
    {'W', "waiting"},
    {'C', "waiting for a security context"},
    {'H', "high priority"},
    {'M', "committed"},
    {'Q', "request unlinked"},
    {'U', "reply unlinked"},
    {'r', "receiving a reply"},
};

const char *rg_opcode_name(int opcode)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(opcodes); i++) {
        if (opcodes[i].number == opcode) {
            return opcodes[i].name;
        }
    }
    return NULL;
}

const char *rg_portal_name(int portal)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(portals); i++) {
        if (portals[i].number == portal) {
            return portals[i].name;
        }
    }
    return NULL;
}

const char *rg_request_flag_name(char flag)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(flags); i++) {
        if (flags[i].flag == flag) {
            return flags[i].name;
        }
    }
    return NULL;
}

#define STATUS(n, word, who, en, ko, next_en, next_ko)                                             \
    {.number = (n),                                                                                \
     .name = (word),                                                                               \
     .accused = RG_ACCUSED_##who,                                                                  \
     .meaning = {(en), (ko)},                                                                      \
     .next = {(next_en), (next_ko)}},

static const struct rg_status_info errnos[] = {
#define RG_ERRNO STATUS
#define RG_WC(...)
#include "diag/status.tbl"
#undef RG_ERRNO
#undef RG_WC
};

static const struct rg_status_info completions[] = {
#define RG_ERRNO(...)
#define RG_WC STATUS
#include "diag/status.tbl"
#undef RG_ERRNO
#undef RG_WC
};

const struct rg_status_info *rg_errno_info(int rc)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(errnos); i++) {
        if (errnos[i].number == rc || errnos[i].number == -(int64_t)rc) {
            return &errnos[i];
        }
    }
    return NULL;
}

const struct rg_status_info *rg_wc_info(int status)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(completions); i++) {
        if (completions[i].number == status) {
            return &completions[i];
        }
    }
    return NULL;
}

const struct rg_status_info *rg_errno_table(size_t *ret_count)
{
    *ret_count = RG_ARRAY_LENGTH(errnos);
    return errnos;
}

const struct rg_status_info *rg_wc_table(size_t *ret_count)
{
    *ret_count = RG_ARRAY_LENGTH(completions);
    return completions;
}

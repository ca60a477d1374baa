/*
 * Korean labels; the English ones are the names that diagnosis.c and rules.c have.
 */
#include "diag/labels.h"

#include "diag/catalogue.h"

#include "base/assert.h"
#include "base/checked.h"

#include <string.h>

const char *rg_scope_label(enum rg_scope scope, enum rg_language language)
{
    static const char *const korean[] = {
        [RG_SCOPE_UNKNOWN] = "판단 불가",
        [RG_SCOPE_NODE] = "단일 노드",
        [RG_SCOPE_PAIR] = "두 노드 사이",
        [RG_SCOPE_SERVER] = "서버",
        [RG_SCOPE_TARGET] = "타깃",
        [RG_SCOPE_ROUTER] = "라우터",
        [RG_SCOPE_RACK] = "랙/leaf 스위치",
        [RG_SCOPE_FABRIC] = "Fabric",
        [RG_SCOPE_MGS] = "MGS",
        [RG_SCOPE_CONFIG] = "설정",
        [RG_SCOPE_SOFTWARE] = "소프트웨어",
    };
    RG_ASSERT((size_t)scope < RG_ARRAY_LENGTH(korean));
    return language == RG_KOREAN ? korean[scope] : rg_scope_name(scope);
}

const char *rg_nature_label(enum rg_nature nature, enum rg_language language)
{
    static const char *const korean[] = {
        [RG_NATURE_UNKNOWN] = "알 수 없음",  [RG_NATURE_HARDWARE] = "하드웨어",
        [RG_NATURE_NETWORK] = "네트워크",    [RG_NATURE_STORAGE] = "스토리지",
        [RG_NATURE_SERVER] = "서버",         [RG_NATURE_HOST] = "호스트",
        [RG_NATURE_SOFTWARE] = "소프트웨어", [RG_NATURE_CONFIG] = "설정",
        [RG_NATURE_PLANNED] = "의도된 작업",
    };
    RG_ASSERT((size_t)nature < RG_ARRAY_LENGTH(korean));
    return language == RG_KOREAN ? korean[nature] : rg_nature_name(nature);
}

const char *rg_data_label(enum rg_data data, enum rg_language language)
{
    static const char *const korean[] = {
        [RG_DATA_UNTOUCHED] = "영향 없음",
        [RG_DATA_DELAYED] = "지연됨",
        [RG_DATA_LOST] = "유실됨",
        [RG_DATA_UNKNOWN] = "알 수 없음",
    };
    RG_ASSERT((size_t)data < RG_ARRAY_LENGTH(korean));
    return language == RG_KOREAN ? korean[data] : rg_data_name(data);
}

const char *rg_confidence_label(enum rg_confidence confidence, enum rg_language language)
{
    static const char *const korean[] = {
        [RG_CONFIDENCE_LOW] = "낮음",
        [RG_CONFIDENCE_MEDIUM] = "보통",
        [RG_CONFIDENCE_HIGH] = "높음",
    };
    RG_ASSERT((size_t)confidence < RG_ARRAY_LENGTH(korean));
    return language == RG_KOREAN ? korean[confidence] : rg_confidence_name(confidence);
}

const char *rg_urgency_label(enum rg_urgency urgency, enum rg_language language)
{
    static const char *const korean[] = {
        [RG_URGENCY_NOTE] = "참고",
        [RG_URGENCY_LOW] = "낮음",
        [RG_URGENCY_HIGH] = "높음",
        [RG_URGENCY_CRITICAL] = "긴급",
    };
    RG_ASSERT((size_t)urgency < RG_ARRAY_LENGTH(korean));
    return language == RG_KOREAN ? korean[urgency] : rg_urgency_name(urgency);
}

const char *rg_layer_label(enum rg_layer layer, enum rg_language language)
{
    static const char *const korean[] = {
        [RG_LAYER_HARDWARE] = "하드웨어",
        [RG_LAYER_PLATFORM] = "플랫폼",
        [RG_LAYER_FIRMWARE] = "펌웨어/드라이버",
        [RG_LAYER_LINK] = "링크",
        [RG_LAYER_ADDRESS] = "주소/GID",
        [RG_LAYER_LND] = "LND",
        [RG_LAYER_LNET] = "LNet",
        [RG_LAYER_BACKEND] = "백엔드 스토리지",
        [RG_LAYER_CONFIG] = "설정",
        [RG_LAYER_RPC] = "RPC",
        [RG_LAYER_IMPORT] = "연결(import)",
        [RG_LAYER_RECOVERY] = "복구",
        [RG_LAYER_APPLICATION] = "애플리케이션",
        [RG_LAYER_CLUSTER] = "클러스터",
    };
    RG_ASSERT((size_t)layer < RG_ARRAY_LENGTH(korean));
    return language == RG_KOREAN ? korean[layer] : rg_layer_name(layer);
}

const char *rg_role_label(enum rg_role role, enum rg_language language)
{
    static const char *const korean[] = {
        [RG_ROLE_UNKNOWN] = "역할 미상",
        [RG_ROLE_CLIENT] = "클라이언트",
        [RG_ROLE_SERVER] = "서버",
        [RG_ROLE_MGS] = "MGS",
    };
    RG_ASSERT((size_t)role < RG_ARRAY_LENGTH(korean));
    return language == RG_KOREAN ? korean[role] : rg_role_name(role);
}

const char *rg_word_label(const char *word, enum rg_language language)
{
    static const struct {
        const char *english;
        const char *korean;
    } ours[] = {
        {RG_WORD_UNNAMED, "이름 없는 노드"},
        {RG_WORD_FURTHER, "그 밖의 노드"},
        {RG_WORD_LEFT_OUT, "(생략됨)"},
    };
    for (size_t i = 0; language == RG_KOREAN && i < RG_ARRAY_LENGTH(ours); i++) {
        if (strcmp(word, ours[i].english) == 0) {
            return ours[i].korean;
        }
    }
    return word;
}

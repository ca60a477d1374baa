/* All verbs: see call.h for what one is. dispatch.c maps operations to them. */
#ifndef RG_GATE_VERBS_H
#define RG_GATE_VERBS_H

#include "gate/call.h"

/* verb_bucket.c */
rg_verb rg_verb_list_buckets;
rg_verb rg_verb_create_bucket;
rg_verb rg_verb_head_bucket;
rg_verb rg_verb_delete_bucket;
rg_verb rg_verb_get_bucket_location;
rg_verb rg_verb_put_acl; /* of buckets and objects */

/* verb_object_get.c */
rg_verb rg_verb_get_object; /* and HEAD */
rg_verb rg_verb_get_object_attributes;

/* verb_object_put.c */
rg_verb rg_verb_put_object;

/* verb_object_delete.c */
rg_verb rg_verb_delete_object;
rg_verb rg_verb_delete_objects;

/* verb_copy.c */
rg_verb rg_verb_copy_object;
rg_verb rg_verb_upload_part_copy;

/* verb_tagging.c */
rg_verb rg_verb_get_object_tagging;
rg_verb rg_verb_put_object_tagging;
rg_verb rg_verb_delete_object_tagging;
rg_verb rg_verb_get_bucket_tagging;
rg_verb rg_verb_put_bucket_tagging;
rg_verb rg_verb_delete_bucket_tagging;

/* verb_multipart.c */
rg_verb rg_verb_create_multipart_upload;
rg_verb rg_verb_upload_part;
rg_verb rg_verb_complete_multipart_upload;
rg_verb rg_verb_abort_multipart_upload;
rg_verb rg_verb_list_parts;
rg_verb rg_verb_list_multipart_uploads;

/* verb_list.c */
rg_verb rg_verb_list_objects;
rg_verb rg_verb_list_objects_v2;
rg_verb rg_verb_list_object_versions;

/* verb_default.c: whatever has no verb of its own */
rg_verb rg_verb_default;

#endif

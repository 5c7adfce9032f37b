/* SPDX-License-Identifier: MIT */
/* Snapshots of records. */
#pragma once

#include <vmscope/flow.h>

/* Makes a report without records. */
struct vms_flow_report *vms_flow_report_new(void);
/* Adds a record at the end. Takes the reference. Only before the report is used by others. */
void vms_flow_report_take(struct vms_flow_report *report, struct vms_flow_record *record);
/* The same with a new reference. */
void vms_flow_report_add(struct vms_flow_report *report, struct vms_flow_record *record);

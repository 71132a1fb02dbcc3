/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ibdevsim: which instructions of a module call verbs, and calls that fail
 */
#ifndef IBDEVSIM_CALL_H
#define IBDEVSIM_CALL_H

#include <linux/jump_label.h>

#include "ibdevsim.h"

struct seq_file;

/* What is called: operations of struct ib_device_ops, and what follows them. */
enum ibds_verb {
	IBDS_CALL_QUERY_DEVICE,
	IBDS_CALL_MODIFY_DEVICE,
	IBDS_CALL_QUERY_PORT,
	IBDS_CALL_MODIFY_PORT,
	IBDS_CALL_QUERY_GID,
	IBDS_CALL_QUERY_PKEY,
	IBDS_CALL_LINK_LAYER,
	IBDS_CALL_FW_STR,
	IBDS_CALL_PROCESS_MAD,
	IBDS_CALL_ALLOC_PD,
	IBDS_CALL_DEALLOC_PD,
	IBDS_CALL_GET_DMA_MR,
	IBDS_CALL_ALLOC_MR,
	IBDS_CALL_MAP_MR_SG,
	IBDS_CALL_DEREG_MR,
	IBDS_CALL_CREATE_AH,
	IBDS_CALL_QUERY_AH,
	IBDS_CALL_DESTROY_AH,
	IBDS_CALL_CREATE_CQ,
	IBDS_CALL_MODIFY_CQ,
	IBDS_CALL_DESTROY_CQ,
	IBDS_CALL_POLL_CQ,
	IBDS_CALL_REQ_NOTIFY_CQ,
	IBDS_CALL_CREATE_SRQ,
	IBDS_CALL_MODIFY_SRQ,
	IBDS_CALL_QUERY_SRQ,
	IBDS_CALL_DESTROY_SRQ,
	IBDS_CALL_POST_SRQ_RECV,
	IBDS_CALL_CREATE_QP,
	IBDS_CALL_MODIFY_QP,
	IBDS_CALL_QUERY_QP,
	IBDS_CALL_DESTROY_QP,
	IBDS_CALL_POST_SEND,
	IBDS_CALL_POST_RECV,
	IBDS_CALL_ATTACH_MCAST,
	IBDS_CALL_DETACH_MCAST,
	IBDS_CALL_SET_VF_LINK_STATE,
	IBDS_CALL_GET_VF_CONFIG,
	IBDS_CALL_GET_VF_STATS,
	IBDS_CALL_GET_VF_GUID,
	IBDS_CALL_SET_VF_GUID,
	IBDS_CALL_NETDEV_PARAMS,
	IBDS_CALL_NETDEV_INIT,
	IBDS_CALL_MEMORY,	/* no verb: an allocation */
	IBDS_CALLS
};

DECLARE_STATIC_KEY_FALSE(ibds_calls_watched);

int __cold ibds_call_watched(struct ib_device *ibdev, enum ibds_verb verb);
int ibds_calls_store(char *text);
void ibds_calls_show(struct seq_file *m);
int ibds_fail_call_store(char *text);
void ibds_fail_call_show(struct seq_file *m);
void ibds_call_exit(void);

/**
 * ibds_call - record a call of a verb, or have it fail
 * @ibdev: HCA
 * @verb: which
 *
 * The verb calls it before it changes anything.  Some verbs have to work, as
 * the core or their callers cannot handle an error: for them it is always 0.
 *
 * Context: any.
 * Return: 0, or the error that the verb has to return.
 */
static __always_inline int ibds_call(struct ib_device *ibdev,
				     enum ibds_verb verb)
{
	if (static_branch_unlikely(&ibds_calls_watched))
		return ibds_call_watched(ibdev, verb);
	return 0;
}

#endif /* IBDEVSIM_CALL_H */

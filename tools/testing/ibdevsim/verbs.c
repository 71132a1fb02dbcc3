// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: an HCA's interface to ib_core: operations, attributes, queries, and
 * the objects that are not queues
 *
 * User space can use HCAs that were created with provider=hfi1.  The simulator has
 * no provider in rdma-core, but the one of hfi1, as long as the ABI version is 1,
 * leaves all work requests and polling to the kernel: nothing is mapped, and the
 * functions that serve the kernel serve users, too.
 */
#include <linux/if_link.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <rdma/ib_user_verbs.h>

#include "addr.h"
#include "call.h"
#include "count.h"
#include "cq.h"
#include "mcast.h"
#include "mr.h"
#include "netdev.h"
#include "object.h"
#include "qp.h"
#include "rcv.h"
#include "slow.h"
#include "sma.h"
#include "sq.h"
#include "srq.h"
#include "verbs.h"

#define IBDS_HW_REV		1

/* ---- queries ------------------------------------------------------------ */

static void ibds_query_flags(const struct ibds_caps *caps,
			     struct ib_device_attr *attr)
{
	attr->device_cap_flags = IB_DEVICE_BAD_PKEY_CNTR |
				 IB_DEVICE_BAD_QKEY_CNTR |
				 IB_DEVICE_UD_AV_PORT_ENFORCE |
				 IB_DEVICE_CURR_QP_STATE_MOD |
				 IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_MEM_MGT_EXTENSIONS |
				 IB_DEVICE_RC_RNR_NAK_GEN;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	if (caps->csum)
		attr->device_cap_flags |= IB_DEVICE_UD_IP_CSUM;
	if (caps->netif_qps)
		attr->device_cap_flags |= IB_DEVICE_MANAGED_FLOW_STEERING;
	if (caps->lso)
		attr->kernel_cap_flags |= IBK_UD_TSO;
	if (caps->block_loopback)
		attr->kernel_cap_flags |= IBK_BLOCK_MULTICAST_LOOPBACK;
}

static int ibds_query_device(struct ib_device *ibdev,
			     struct ib_device_attr *attr, struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	const struct ibds_caps *caps = &dev->caps;
	int err;

	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_QUERY_DEVICE);
	if (err)
		return err;
	attr->fw_ver = 1ULL << 32;
	attr->sys_image_guid = READ_ONCE(dev->sys_guid);
	attr->vendor_id = 0x021bd5;
	attr->vendor_part_id = 0x1bd5;
	attr->hw_ver = IBDS_HW_REV;
	attr->max_mr_size = U64_MAX;
	attr->page_size_cap = PAGE_SIZE | SZ_4K;
	attr->max_qp = caps->max_qp;
	attr->max_qp_wr = caps->max_qp_wr;
	attr->max_send_sge = caps->max_sge;
	attr->max_recv_sge = caps->max_sge;
	attr->max_cq = caps->max_cq;
	attr->max_cqe = caps->max_cqe;
	attr->max_pd = INT_MAX;
	attr->max_ah = INT_MAX;
	attr->max_mr = IBDS_MAX_MR;
	attr->max_fast_reg_page_list_len = caps->max_fast_pages;
	attr->max_sge_rd = caps->max_sge;
	attr->max_qp_rd_atom = caps->max_rd_atom;
	attr->max_qp_init_rd_atom = caps->max_rd_atom;
	attr->max_res_rd_atom = min_t(u64, INT_MAX,
				      (u64)caps->max_qp * caps->max_rd_atom);
	attr->max_mcast_grp = IBDS_MFT_SIZE;
	attr->max_mcast_qp_attach = min(caps->group_qps, caps->max_qp);
	attr->max_total_mcast_qp_attach = INT_MAX;
	attr->max_pkeys = caps->pkeys;
	attr->local_ca_ack_delay = 8;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->masked_atomic_cap = IB_ATOMIC_NONE;
	if (caps->srq) {
		attr->max_srq = caps->max_qp;
		attr->max_srq_wr = caps->max_qp_wr;
		attr->max_srq_sge = caps->max_srq_sge;
	}
	if (caps->moderation) {
		attr->cq_caps.max_cq_moderation_count = U16_MAX;
		attr->cq_caps.max_cq_moderation_period = U16_MAX;
	}
	ibds_query_flags(caps, attr);
	return 0;
}

static int ibds_query_port(struct ib_device *ibdev, u32 port_num,
			   struct ib_port_attr *attr)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	struct ibds_port *port = &dev->port[port_num - 1];
	unsigned long flags;
	int err;

	err = ibds_call(ibdev, IBDS_CALL_QUERY_PORT);
	if (err)
		return err;
	ibds_command_wait(dev, READ_ONCE(port->faults.query_delay_ms));
	spin_lock_irqsave(&port->lock, flags);
	attr->subnet_prefix = be64_to_cpu(port->gid_prefix);
	attr->state = port->state;
	attr->phys_state = port->phys_state;
	attr->max_mtu = ib_mtu_int_to_enum(dev->caps.mtu);
	attr->active_mtu = ib_mtu_int_to_enum(port->mtu_active);
	attr->phys_mtu = port->mtu_active;
	attr->port_cap_flags = port->cap_mask;
	attr->bad_pkey_cntr = port->pkey_viol;
	attr->qkey_viol_cntr = port->qkey_viol;
	attr->lid = port->lid;
	attr->lmc = port->lmc;
	attr->sm_lid = port->sm_lid;
	attr->sm_sl = port->sm_sl;
	attr->subnet_timeout = port->subnet_timeout;
	attr->max_vl_num = port->vl_cap;
	spin_unlock_irqrestore(&port->lock, flags);

	attr->gid_tbl_len = dev->caps.gids;
	attr->pkey_tbl_len = dev->caps.pkeys;
	attr->max_msg_sz = IBDS_MAX_MSG;
	attr->active_width = dev->caps.width;
	attr->active_speed = dev->caps.speed;
	return 0;
}

static int ibds_port_immutable(struct ib_device *ibdev, u32 port_num,
			       struct ib_port_immutable *immutable)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);

	immutable->pkey_tbl_len = dev->caps.pkeys;
	immutable->gid_tbl_len = dev->caps.gids;
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer ibds_link_layer(struct ib_device *ibdev,
					    u32 port_num)
{
	ibds_call(ibdev, IBDS_CALL_LINK_LAYER);
	return IB_LINK_LAYER_INFINIBAND;
}

static int ibds_query_gid(struct ib_device *ibdev, u32 port_num, int index,
			  union ib_gid *gid)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	struct ibds_port *port = &dev->port[port_num - 1];
	int err;

	if (index < 0 || index >= dev->caps.gids)
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_QUERY_GID);
	if (err)
		return err;
	ibds_command_wait(dev, READ_ONCE(port->faults.query_delay_ms));
	ibds_port_gid(port, index, gid);
	return 0;
}

static int ibds_query_pkey(struct ib_device *ibdev, u32 port_num, u16 index,
			   u16 *pkey)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	struct ibds_port *port = &dev->port[port_num - 1];
	int err;

	if (index >= dev->caps.pkeys)
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_QUERY_PKEY);
	if (err)
		return err;
	ibds_command_wait(dev, READ_ONCE(port->faults.query_delay_ms));
	if (atomic_dec_if_positive(&port->faults.pkey_error) >= 0)
		return -EIO;
	*pkey = READ_ONCE(port->pkeys[index]);
	return 0;
}

static void ibds_fw_str(struct ib_device *ibdev, char *str)
{
	ibds_call(ibdev, IBDS_CALL_FW_STR);
	strscpy(str, "1.0.0", IB_FW_VERSION_NAME_MAX);
}

static ssize_t hw_rev_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%x\n", IBDS_HW_REV);
}

static ssize_t hca_type_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "ibdevsim\n");
}

static ssize_t board_id_show(struct device *dev, struct device_attribute *attr,
			     char *buf)
{
	return sysfs_emit(buf, "ibdevsim\n");
}

static DEVICE_ATTR_RO(hw_rev);
static DEVICE_ATTR_RO(hca_type);
static DEVICE_ATTR_RO(board_id);

/* Shown by ibstat; node_exporter of Prometheus wants all of them. */
static struct attribute *ibds_dev_attrs[] = {
	&dev_attr_hw_rev.attr,
	&dev_attr_hca_type.attr,
	&dev_attr_board_id.attr,
	NULL
};

static const struct attribute_group ibds_dev_group = {
	.attrs = ibds_dev_attrs,
};

/* ---- protection domains, address handles -------------------------------- */

static int ibds_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	int err = ibds_call(ibpd->device, IBDS_CALL_ALLOC_PD);

	if (err)
		return err;
	to_ibds_pd(ibpd)->user = udata;
	return ibds_object_get(to_ibds_dev(ibpd->device), IBDS_PD, udata);
}

static int ibds_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	ibds_call(ibpd->device, IBDS_CALL_DEALLOC_PD);
	ibds_object_put(to_ibds_dev(ibpd->device), IBDS_PD,
			to_ibds_pd(ibpd)->user);
	return 0;
}

static int ibds_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
			  struct ib_udata *udata)
{
	struct ibds_dev *dev = to_ibds_dev(ibah->device);
	const struct rdma_ah_attr *attr = init->ah_attr;
	struct ibds_ah *ah = to_ibds_ah(ibah);
	int err;

	if (attr->type != RDMA_AH_ATTR_TYPE_IB)
		return -EINVAL;
	if ((rdma_ah_get_ah_flags(attr) & IB_AH_GRH) &&
	    rdma_ah_read_grh(attr)->sgid_index >= dev->caps.gids)
		return -EINVAL;
	if (udata && rdma_ah_get_sl(attr) >= 16)
		return -EINVAL;
	err = ibds_call(ibah->device, IBDS_CALL_CREATE_AH) ?:
	      ibds_object_get(dev, IBDS_AH, udata);
	if (err)
		return err;
	if (init->flags & RDMA_CREATE_AH_SLEEPABLE)
		ibds_command_wait_us(dev,
				     READ_ONCE(dev->port[0].faults.ah_delay_us));
	ah->magic = IBDS_AH_MAGIC;
	ah->user = udata;
	ah->port_num = rdma_ah_get_port_num(attr);
	ibds_path_init(&ah->path, &dev->port[ah->port_num - 1], attr);
	ah->attr = *attr;
	/* The core keeps its own reference. */
	ah->attr.grh.sgid_attr = NULL;
	return 0;
}

static int ibds_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	int err = ibds_call(ibah->device, IBDS_CALL_QUERY_AH);

	if (!err)
		*attr = to_ibds_ah(ibah)->attr;
	return err;
}

static int ibds_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct ibds_ah *ah = to_ibds_ah(ibah);

	ibds_call(ibah->device, IBDS_CALL_DESTROY_AH);
	/* Make sends that still use it fail. */
	ah->magic = IBDS_AH_POISON;
	memset(&ah->path, 0xdd, sizeof(ah->path));
	ibds_object_put(to_ibds_dev(ibah->device), IBDS_AH, ah->user);
	return 0;
}

/* ---- user space --------------------------------------------------------- */

static int ibds_alloc_ucontext(struct ib_ucontext *ibcontext,
			       struct ib_udata *udata)
{
	struct ibds_ucontext *ucontext = to_ibds_ucontext(ibcontext);

	mutex_init(&ucontext->lock);
	INIT_LIST_HEAD(&ucontext->faces);
	return ibds_object_get(to_ibds_dev(ibcontext->device), IBDS_UCONTEXT,
			       true);
}

static void ibds_dealloc_ucontext(struct ib_ucontext *ibcontext)
{
	struct ibds_ucontext *ucontext = to_ibds_ucontext(ibcontext);
	struct ibds_face *face, *next;

	list_for_each_entry_safe(face, next, &ucontext->faces, list)
		kfree(face);
	ibds_object_put(to_ibds_dev(ibcontext->device), IBDS_UCONTEXT, true);
}

/* Nothing of the HCA is mapped. */
static void ibds_disassociate_ucontext(struct ib_ucontext *ibcontext)
{
}

/* ---- virtual functions -------------------------------------------------- */

/* They can be configured, but not used. */
static struct ibds_vf *ibds_vf(struct ib_device *ibdev, int vf, u32 port_num)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);

	if (vf < 0 || vf >= dev->caps.vfs)
		return NULL;
	return &dev->vf[port_num - 1][vf];
}

static int ibds_set_vf_link_state(struct ib_device *ibdev, int vf, u32 port_num,
				  int state)
{
	struct ibds_vf *v = ibds_vf(ibdev, vf, port_num);
	int err;

	if (!v || state < IFLA_VF_LINK_STATE_AUTO ||
	    state > IFLA_VF_LINK_STATE_DISABLE)
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_SET_VF_LINK_STATE);
	if (!err)
		WRITE_ONCE(v->state, state);
	return err;
}

static int ibds_get_vf_config(struct ib_device *ibdev, int vf, u32 port_num,
			      struct ifla_vf_info *info)
{
	struct ibds_vf *v = ibds_vf(ibdev, vf, port_num);
	int err;

	if (!v)
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_GET_VF_CONFIG);
	if (err)
		return err;
	memset(info, 0, sizeof(*info));
	info->vf = vf;
	info->linkstate = READ_ONCE(v->state);
	return 0;
}

/* They carry no traffic: distinct values, so that tests can tell them apart. */
static int ibds_get_vf_stats(struct ib_device *ibdev, int vf, u32 port_num,
			     struct ifla_vf_stats *stats)
{
	int err;

	if (!ibds_vf(ibdev, vf, port_num))
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_GET_VF_STATS);
	if (err)
		return err;
	memset(stats, 0, sizeof(*stats));
	stats->rx_packets = 1000 * port_num + vf;
	stats->tx_packets = 2000 * port_num + vf;
	stats->rx_bytes = 3000 * port_num + vf;
	stats->tx_bytes = 4000 * port_num + vf;
	return 0;
}

static int ibds_get_vf_guid(struct ib_device *ibdev, int vf, u32 port_num,
			    struct ifla_vf_guid *node_guid,
			    struct ifla_vf_guid *port_guid)
{
	struct ibds_vf *v = ibds_vf(ibdev, vf, port_num);
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	int err;

	if (!v)
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_GET_VF_GUID);
	if (err)
		return err;
	spin_lock(&dev->vf_lock);
	node_guid->guid = v->node_guid;
	port_guid->guid = v->port_guid;
	spin_unlock(&dev->vf_lock);
	return 0;
}

static int ibds_set_vf_guid(struct ib_device *ibdev, int vf, u32 port_num,
			    u64 guid, int type)
{
	struct ibds_vf *v = ibds_vf(ibdev, vf, port_num);
	struct ibds_dev *dev = to_ibds_dev(ibdev);
	int err;

	if (!v)
		return -EINVAL;
	err = ibds_call(ibdev, IBDS_CALL_SET_VF_GUID);
	if (err)
		return err;
	spin_lock(&dev->vf_lock);
	if (type == IFLA_VF_IB_NODE_GUID)
		v->node_guid = guid;
	else
		v->port_guid = guid;
	spin_unlock(&dev->vf_lock);
	return 0;
}

/* ---- set-up ------------------------------------------------------------- */

static const struct ib_device_ops ibds_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.device_group = &ibds_dev_group,

	.query_device = ibds_query_device,
	.modify_device = ibds_modify_device,
	.query_port = ibds_query_port,
	.alloc_hw_port_stats = ibds_alloc_hw_port_stats,
	.get_hw_stats = ibds_get_hw_stats,
	.modify_port = ibds_modify_port,
	.get_port_immutable = ibds_port_immutable,
	.get_link_layer = ibds_link_layer,
	.query_gid = ibds_query_gid,
	.query_pkey = ibds_query_pkey,
	.process_mad = ibds_process_mad,
	.get_dev_fw_str = ibds_fw_str,

	.alloc_pd = ibds_alloc_pd,
	.dealloc_pd = ibds_dealloc_pd,
	.get_dma_mr = ibds_get_dma_mr,
	.reg_user_mr = ibds_reg_user_mr,
	.alloc_mr = ibds_alloc_mr,
	.map_mr_sg = ibds_map_mr_sg,
	.dereg_mr = ibds_dereg_mr,
	.create_ah = ibds_create_ah,
	.query_ah = ibds_query_ah,
	.destroy_ah = ibds_destroy_ah,

	.create_cq = ibds_create_cq,
	.destroy_cq = ibds_destroy_cq,
	.poll_cq = ibds_poll_cq,
	.req_notify_cq = ibds_req_notify_cq,

	.create_qp = ibds_create_qp,
	.modify_qp = ibds_modify_qp,
	.query_qp = ibds_query_qp,
	.destroy_qp = ibds_destroy_qp,
	.post_send = ibds_post_send,
	.post_recv = ibds_post_recv,
	.attach_mcast = ibds_attach_mcast,
	.detach_mcast = ibds_detach_mcast,

	INIT_RDMA_OBJ_SIZE(ib_ah, ibds_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, ibds_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, ibds_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, ibds_qp, ib),
};

static const struct ib_device_ops ibds_srq_ops = {
	.create_srq = ibds_create_srq,
	.modify_srq = ibds_modify_srq,
	.query_srq = ibds_query_srq,
	.destroy_srq = ibds_destroy_srq,
	.post_srq_recv = ibds_post_srq_recv,

	INIT_RDMA_OBJ_SIZE(ib_srq, ibds_srq, ib),
};

static const struct ib_device_ops ibds_vf_ops = {
	.set_vf_link_state = ibds_set_vf_link_state,
	.get_vf_config = ibds_get_vf_config,
	.get_vf_stats = ibds_get_vf_stats,
	.get_vf_guid = ibds_get_vf_guid,
	.set_vf_guid = ibds_set_vf_guid,
};

static const struct ib_device_ops ibds_user_ops = {
	.driver_id = RDMA_DRIVER_HFI1,
	.uverbs_abi_ver = 1,

	.alloc_ucontext = ibds_alloc_ucontext,
	.dealloc_ucontext = ibds_dealloc_ucontext,
	.disassociate_ucontext = ibds_disassociate_ucontext,
	.create_user_ah = ibds_create_ah,
	.create_user_cq = ibds_create_cq,
	.resize_user_cq = ibds_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_ucontext, ibds_ucontext, ib),
};

static const struct ib_device_ops ibds_netdev_ops = {
	.rdma_netdev_get_params = ibds_netdev_params,
};

static const struct ib_device_ops ibds_moderation_ops = {
	.modify_cq = ibds_modify_cq,
};

/* The verbs that most providers handle without the kernel. */
static const u64 ibds_user_commands =
	BIT_ULL(IB_USER_VERBS_CMD_POLL_CQ) |
	BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ) |
	BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
	BIT_ULL(IB_USER_VERBS_CMD_POST_RECV) |
	BIT_ULL(IB_USER_VERBS_CMD_POST_SRQ_RECV);

/**
 * ibds_verbs_setup - set up operations and attributes of an HCA
 * @dev: HCA that is not registered yet
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_verbs_setup(struct ibds_dev *dev)
{
	u32 buckets = min_t(u32, roundup_pow_of_two(dev->caps.max_qp),
			    IBDS_QP_BUCKETS_MAX);
	struct ib_device *ibdev = &dev->ib;

	dev->receive = ibds_port_receive;
	dev->qp_hash = kvzalloc_objs(*dev->qp_hash, buckets);
	if (!dev->qp_hash)
		return -ENOMEM;
	dev->qp_mask = buckets - 1;
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC);
	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC);
	/* HCAs should rarely use the same QPN. */
	dev->next_qpn = IBDS_QPN_FIRST + dev->id % 64 * 61;
	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = dev->caps.ports;
	ibdev->num_comp_vectors = dev->caps.vectors;
	ibdev->local_dma_lkey = 0x5a5a0000 | dev->id;
	ib_set_device_ops(ibdev, &ibds_ops);
	if (dev->caps.srq)
		ib_set_device_ops(ibdev, &ibds_srq_ops);
	if (dev->caps.vfs)
		ib_set_device_ops(ibdev, &ibds_vf_ops);
	if (dev->caps.moderation)
		ib_set_device_ops(ibdev, &ibds_moderation_ops);
	if (dev->caps.rdma_netdev != IBDS_NETDEV_NONE)
		ib_set_device_ops(ibdev, &ibds_netdev_ops);
	if (dev->caps.provider == IBDS_PROVIDER_HFI1) {
		ib_set_device_ops(ibdev, &ibds_user_ops);
		ibdev->uverbs_cmd_mask |= ibds_user_commands;
	}
	return 0;
}

/**
 * ibds_verbs_release - undo ibds_verbs_setup()
 * @dev: HCA without QPs, in which no QP is looked up any more
 */
void ibds_verbs_release(struct ibds_dev *dev)
{
	WARN_ON(!xa_empty(&dev->mrs));
	kvfree(dev->qp_hash);
}

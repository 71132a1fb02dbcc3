// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks that a simulated HCA does what the verbs say.  For virtual machines.
 *
 * Writing "HCA CHECK" to /sys/kernel/debug/ibds_selftest/run runs a check; the
 * write fails if it could not be run.  Reading the file returns the result.
 */
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/hardirq.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>

MODULE_DESCRIPTION("Checks of the simulated HCAs");
MODULE_LICENSE("GPL");

#define SELFTEST_PORT	1
#define SELFTEST_QUEUE	8	/* entries of each queue */
#define SELFTEST_CQ	64
#define SELFTEST_WAIT	(10 * HZ)
#define SELFTEST_PERIOD_US 60000	/* of moderation; fits in 16 bits */
#define SELFTEST_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ)
#define SELFTEST_MESSAGES	3
#define SELFTEST_LATE_MS	1000	/* after which late ones are there */
#define SELFTEST_TEXT	64
#define SELFTEST_MLID	0xc001
#define SELFTEST_PAGES	3	/* of a region */
#define SELFTEST_OFFSET	100	/* of the data in it */
#define SELFTEST_BYTES	((SELFTEST_PAGES - 1) * PAGE_SIZE)

/**
 * struct selftest - a QP and what it needs
 * @device: HCA
 * @pd: protection domain
 * @cq: CQ of both queues
 * @qp: UD, or RC that is connected to itself
 * @lid: LID of the port
 * @cqe: of every request, where the core polls
 * @flushed: flushed requests whose completion the core polled
 * @event: completed by the first call of the handler
 * @events: number of calls
 * @hardirq: the first call was in hard interrupt context
 * @irqs_off: interrupts were disabled in it
 * @bh_off: bottom halves were disabled in it
 * @text: result
 */
struct selftest {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	u16 lid;
	struct ib_cqe cqe;
	atomic_t flushed;
	struct completion event;
	atomic_t events;
	bool hardirq;
	bool irqs_off;
	bool bh_off;
	char *text;
};

/**
 * struct selftest_hca - an HCA that there is
 * @entry: in selftest_hcas
 * @device: HCA
 */
struct selftest_hca {
	struct list_head entry;
	struct ib_device *device;
};

/* Protects all below, and keeps the HCA of a check from going away. */
static DEFINE_MUTEX(selftest_lock);
static LIST_HEAD(selftest_hcas);
static struct dentry *selftest_dir;
static char selftest_text[SELFTEST_TEXT];

/* ---- HCAs ------------------------------------------------------------------ */

static int selftest_add(struct ib_device *device);
static void selftest_remove(struct ib_device *device, void *data);

static struct ib_client selftest_client = {
	.name = "ibds_selftest",
	.add = selftest_add,
	.remove = selftest_remove,
};

static int selftest_add(struct ib_device *device)
{
	struct selftest_hca *hca = kzalloc_obj(*hca);

	if (!hca)
		return -ENOMEM;
	hca->device = device;
	ib_set_client_data(device, &selftest_client, hca);
	mutex_lock(&selftest_lock);
	list_add_tail(&hca->entry, &selftest_hcas);
	mutex_unlock(&selftest_lock);
	return 0;
}

static void selftest_remove(struct ib_device *device, void *data)
{
	struct selftest_hca *hca = data;

	mutex_lock(&selftest_lock);
	list_del(&hca->entry);
	mutex_unlock(&selftest_lock);
	kfree(hca);
}

static struct ib_device *selftest_find(const char *name)
{
	struct selftest_hca *hca;

	lockdep_assert_held(&selftest_lock);
	list_for_each_entry(hca, &selftest_hcas, entry)
		if (!strcmp(dev_name(&hca->device->dev), name))
			return hca->device;
	return NULL;
}

/* ---- objects -------------------------------------------------------------- */

static void selftest_comp(struct ib_cq *cq, void *context)
{
	struct selftest *st = context;

	if (atomic_inc_return(&st->events) > 1)
		return;
	st->hardirq = in_hardirq();
	st->irqs_off = irqs_disabled();
	st->bh_off = in_softirq();
	complete(&st->event);
}

static void selftest_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct selftest *st = container_of(wc->wr_cqe, struct selftest, cqe);

	if (wc->status == IB_WC_WR_FLUSH_ERR)
		atomic_inc(&st->flushed);
}

/* Polled by the core if @core, otherwise by the caller. */
static int selftest_cq(struct selftest *st, bool core, int cqe)
{
	struct ib_cq_init_attr attr = { .cqe = cqe ?: SELFTEST_CQ };

	if (core)
		st->cq = ib_alloc_cq(st->device, st, SELFTEST_CQ, 0,
				     IB_POLL_WORKQUEUE);
	else
		st->cq = ib_create_cq(st->device, selftest_comp, NULL, st,
				      &attr);
	return PTR_ERR_OR_ZERO(st->cq);
}

static int selftest_qp(struct selftest *st, enum ib_qp_type type)
{
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = SELFTEST_QUEUE,
			.max_recv_wr = SELFTEST_QUEUE,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = type,
		.send_cq = st->cq,
		.recv_cq = st->cq,
	};

	st->qp = ib_create_qp(st->pd, &attr);
	return PTR_ERR_OR_ZERO(st->qp);
}

static int selftest_open(struct selftest *st, const char *name,
			 enum ib_qp_type type, bool core, int cqe)
{
	struct ib_port_attr port;
	int err;

	st->cqe.done = selftest_done;
	init_completion(&st->event);
	st->device = selftest_find(name);
	if (!st->device)
		return -ENODEV;
	err = ib_query_port(st->device, SELFTEST_PORT, &port);
	if (err)
		return err;
	st->lid = port.lid;
	st->pd = ib_alloc_pd(st->device, 0);
	if (IS_ERR(st->pd))
		return PTR_ERR(st->pd);
	err = selftest_cq(st, core, cqe);
	return err ?: selftest_qp(st, type);
}

static void selftest_close(struct selftest *st)
{
	if (!IS_ERR_OR_NULL(st->qp))
		ib_destroy_qp(st->qp);
	if (!IS_ERR_OR_NULL(st->cq)) {
		if (st->cq->comp_handler == selftest_comp)
			ib_destroy_cq(st->cq);
		else
			ib_free_cq(st->cq);
	}
	if (!IS_ERR_OR_NULL(st->pd))
		ib_dealloc_pd(st->pd);
}

static int selftest_state(struct selftest *st, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(st->qp, &attr, IB_QP_STATE);
}

static int selftest_ud_up(struct selftest *st)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = SELFTEST_PORT,
	};
	int err;

	err = ib_modify_qp(st->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_QKEY);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTR;
	err = ib_modify_qp(st->qp, &attr, IB_QP_STATE);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(st->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

/* Without a posted receive, its sends are retried forever. */
static int selftest_rc_up(struct selftest *st)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = SELFTEST_PORT,
		.path_mtu = IB_MTU_2048,
		.dest_qp_num = st->qp->qp_num,
		.min_rnr_timer = 30,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.qp_access_flags = SELFTEST_ACCESS,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
	};
	int err;

	err = ib_modify_qp(st->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTR;
	attr.ah_attr.type = rdma_ah_find_type(st->device, SELFTEST_PORT);
	rdma_ah_set_dlid(&attr.ah_attr, st->lid);
	rdma_ah_set_port_num(&attr.ah_attr, SELFTEST_PORT);
	err = ib_modify_qp(st->qp, &attr, IB_QP_STATE | IB_QP_AV |
			   IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(st->qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT |
			    IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			    IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

/* ---- requests ------------------------------------------------------------- */

static int selftest_recv(struct selftest *st, int count)
{
	struct ib_recv_wr wr = { .wr_cqe = &st->cqe };
	int i, err = 0;

	for (i = 0; i < count && !err; i++)
		err = ib_post_recv(st->qp, &wr, NULL);
	return err;
}

static int selftest_send(struct selftest *st, int count)
{
	struct ib_send_wr wr = { .wr_cqe = &st->cqe, .opcode = IB_WR_SEND };
	int i, err = 0;

	for (i = 0; i < count && !err; i++)
		err = ib_post_send(st->qp, &wr, NULL);
	return err;
}

static int selftest_poll(struct selftest *st)
{
	struct ib_wc wc;
	int count = 0;

	while (ib_poll_cq(st->cq, 1, &wc) == 1)
		count++;
	return count;
}

static int selftest_wait(struct selftest *st)
{
	return wait_for_completion_timeout(&st->event, SELFTEST_WAIT) ?
	       0 : -ETIMEDOUT;
}

/* ---- checks --------------------------------------------------------------- */

/* The core drains a QP; it warns if it cannot. */
static int selftest_drain_ud(struct selftest *st)
{
	int err = selftest_ud_up(st) ?: selftest_recv(st, SELFTEST_QUEUE - 1);

	if (err)
		return err;
	ib_drain_qp(st->qp);
	sprintf(st->text, "%d flushed", atomic_read(&st->flushed));
	return 0;
}

static int selftest_drain_rc(struct selftest *st)
{
	int err = selftest_rc_up(st) ?: selftest_send(st, SELFTEST_QUEUE - 1);

	if (err)
		return err;
	ib_drain_qp(st->qp);
	sprintf(st->text, "%d flushed", atomic_read(&st->flushed));
	return 0;
}

/* Report the context in which a completion handler is called. */
static int selftest_context(struct selftest *st)
{
	int err = selftest_ud_up(st);

	if (err)
		return err;
	ib_req_notify_cq(st->cq, IB_CQ_NEXT_COMP);
	err = selftest_state(st, IB_QPS_ERR) ?: selftest_recv(st, 1) ?:
	      selftest_wait(st);
	if (err)
		return err;
	if (st->hardirq)
		sprintf(st->text, "interrupt");
	else
		sprintf(st->text, "task, irqs %s, bh %s",
			st->irqs_off ? "off" : "on",
			st->bh_off ? "off" : "on");
	return 0;
}

/*
 * Count the completions left after a RESET.  They must not make room in queues
 * that are empty anyway.
 */
static int selftest_reset(struct selftest *st)
{
	int stale, err;

	err = selftest_rc_up(st) ?: selftest_send(st, SELFTEST_QUEUE) ?:
	      selftest_state(st, IB_QPS_ERR) ?: selftest_recv(st, 3) ?:
	      selftest_state(st, IB_QPS_RESET) ?: selftest_rc_up(st) ?:
	      selftest_send(st, SELFTEST_QUEUE);
	if (err)
		return err;
	stale = selftest_poll(st);
	sprintf(st->text, "%d stale, %s", stale,
		selftest_send(st, 1) == -ENOMEM ? "full" : "room");
	return 0;
}

/* Report which of six mappings fail. */
static int selftest_map(struct selftest *st)
{
	void *buf = kzalloc(PAGE_SIZE, GFP_KERNEL);
	u64 addr;
	int i;

	if (!buf)
		return -ENOMEM;
	for (i = 0; i < 6; i++) {
		addr = ib_dma_map_single(st->device, buf, PAGE_SIZE,
					 DMA_TO_DEVICE);
		st->text[i] = '-';
		if (ib_dma_mapping_error(st->device, addr))
			continue;
		st->text[i] = '+';
		ib_dma_unmap_single(st->device, addr, PAGE_SIZE,
				    DMA_TO_DEVICE);
	}
	st->text[i] = '\0';
	kfree(buf);
	return 0;
}

/* Report how long commands take, in milliseconds. */
static int selftest_slow(struct selftest *st)
{
	ktime_t start = ktime_get();
	int err;

	err = selftest_ud_up(st) ?: selftest_state(st, IB_QPS_RESET);
	sprintf(st->text, "%lld", ktime_ms_delta(ktime_get(), start));
	return err;
}

/* Report how long it takes to attach the QP to a group and to detach it. */
static int selftest_group(struct selftest *st)
{
	union ib_gid mgid = { .raw = { 0xff, 0x12, [15] = 1 } };
	ktime_t start = ktime_get();
	int err;

	err = selftest_ud_up(st) ?:
	      ib_attach_mcast(st->qp, &mgid, SELFTEST_MLID) ?:
	      ib_detach_mcast(st->qp, &mgid, SELFTEST_MLID);
	sprintf(st->text, "%lld", ktime_ms_delta(ktime_get(), start));
	return err;
}

/*
 * Count the calls of the handler after the last QP is gone.  ib_free_cq()
 * relies on there being none.
 */
static int selftest_moderation(struct selftest *st)
{
	int before, err;

	err = rdma_set_cq_moderation(st->cq, SELFTEST_CQ, SELFTEST_PERIOD_US);
	if (err)
		return err;
	ib_req_notify_cq(st->cq, IB_CQ_NEXT_COMP);
	err = selftest_ud_up(st) ?: selftest_state(st, IB_QPS_ERR) ?:
	      selftest_recv(st, 1);
	if (err)
		return err;
	ib_destroy_qp(st->qp);
	st->qp = NULL;
	before = atomic_read(&st->events);
	fsleep(3 * SELFTEST_PERIOD_US);
	sprintf(st->text, "%d late", atomic_read(&st->events) - before);
	return 0;
}

/* ---- completions that a fault concerns ------------------------------------ */

/* Send three messages; requests have numbers, receives the lower ones. */
static int selftest_messages(struct selftest *st)
{
	struct ib_recv_wr recv = { };
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	int i, err = 0;

	for (i = 1; i <= SELFTEST_MESSAGES && !err; i++) {
		recv.wr_id = i;
		err = ib_post_recv(st->qp, &recv, NULL);
	}
	for (; i <= 2 * SELFTEST_MESSAGES && !err; i++) {
		send.wr_id = i;
		err = ib_post_send(st->qp, &send, NULL);
	}
	return err;
}

/* Note number and status of the completions that are there. */
static void selftest_list(struct selftest *st)
{
	size_t len = strlen(st->text);
	struct ib_wc wc;

	while (ib_poll_cq(st->cq, 1, &wc) == 1)
		len += scnprintf(st->text + len, SELFTEST_TEXT - len,
				 "%llu:%d ", wc.wr_id, wc.status);
}

/*
 * Report the completions of three messages at once, and those after a while, with
 * that of one more receive: it is flushed if the QP is in ERR then.
 */
static int selftest_odd(struct selftest *st)
{
	struct ib_recv_wr recv = { .wr_id = 2 * SELFTEST_MESSAGES + 1 };
	int err = selftest_rc_up(st) ?: selftest_messages(st);

	if (err)
		return err;
	selftest_list(st);
	strlcat(st->text, "| ", SELFTEST_TEXT);
	msleep(SELFTEST_LATE_MS);
	err = ib_post_recv(st->qp, &recv, NULL);
	selftest_list(st);
	return err;
}

/*
 * Send three messages, and three more after a while; report what has come at that
 * time, and after that.
 */
static int selftest_odd_more(struct selftest *st)
{
	int err = selftest_rc_up(st) ?: selftest_messages(st);

	if (err)
		return err;
	msleep(SELFTEST_LATE_MS);
	err = selftest_messages(st);
	selftest_list(st);
	strlcat(st->text, "| ", SELFTEST_TEXT);
	msleep(3 * SELFTEST_LATE_MS);
	selftest_list(st);
	return err;
}

/* Likewise if the QP is reset before they come. */
static int selftest_odd_reset(struct selftest *st)
{
	int err = selftest_rc_up(st) ?: selftest_messages(st) ?:
		  selftest_state(st, IB_QPS_RESET);

	if (err)
		return err;
	selftest_list(st);
	strlcat(st->text, "| ", SELFTEST_TEXT);
	msleep(SELFTEST_LATE_MS);
	selftest_list(st);
	return 0;
}

/* Likewise if the QP is destroyed; and what its CQ has is of no QP then. */
static int selftest_odd_destroy(struct selftest *st)
{
	int err = selftest_rc_up(st) ?: selftest_messages(st);

	if (err)
		return err;
	ib_destroy_qp(st->qp);
	st->qp = NULL;
	msleep(SELFTEST_LATE_MS);
	selftest_list(st);
	strlcat(st->text, "|", SELFTEST_TEXT);
	return 0;
}

/* ---- long messages -------------------------------------------------------- */

/* Report how a message completes that is longer than the HCA supports. */
static int selftest_long(struct selftest *st)
{
	unsigned long end = jiffies + SELFTEST_WAIT;
	struct ib_sge sge = {
		.addr = (uintptr_t)st,
		.lkey = st->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ib_port_attr port;
	struct ib_wc wc;
	int err;

	err = ib_query_port(st->device, SELFTEST_PORT, &port);
	if (err)
		return err;
	sge.length = min_t(u64, port.max_msg_sz + 1ULL, U32_MAX);
	err = selftest_rc_up(st) ?: ib_post_send(st->qp, &wr, NULL);
	while (!err && !ib_poll_cq(st->cq, 1, &wc)) {
		fsleep(1000);
		if (time_after(jiffies, end))
			err = -ETIMEDOUT;
	}
	if (!err)
		sprintf(st->text, "%u: %s", port.max_msg_sz,
			ib_wc_status_msg(wc.status));
	return err;
}

/* ---- regions that requests register --------------------------------------- */

/**
 * struct selftest_region - a region and what is transferred
 * @mr: region
 * @sg: its pages
 * @data: what is written to it and read from it
 * @addr: DMA address of @data
 * @wc: the last completion
 */
struct selftest_region {
	struct ib_mr *mr;
	struct scatterlist sg[SELFTEST_PAGES];
	u8 *data;
	u64 addr;
	struct ib_wc wc;
};

static void selftest_region_free(struct selftest *st, struct selftest_region *r)
{
	int i;

	if (!IS_ERR_OR_NULL(r->mr)) {
		ib_dereg_mr(r->mr);
		ib_dma_unmap_sg(st->device, r->sg, SELFTEST_PAGES,
				DMA_BIDIRECTIONAL);
		ib_dma_unmap_single(st->device, r->addr, SELFTEST_BYTES,
				    DMA_BIDIRECTIONAL);
	}
	for (i = 0; i < SELFTEST_PAGES; i++)
		if (sg_page(&r->sg[i]))
			__free_page(sg_page(&r->sg[i]));
	kfree(r->data);
}

/* Pages that are not adjacent, mapped but not registered. */
static int selftest_region_new(struct selftest *st, struct selftest_region *r)
{
	int i, n;

	sg_init_table(r->sg, SELFTEST_PAGES);
	for (i = 0; i < SELFTEST_PAGES; i++) {
		struct page *page = alloc_page(GFP_KERNEL | __GFP_ZERO);

		if (!page)
			return -ENOMEM;
		sg_set_page(&r->sg[i], page, PAGE_SIZE, 0);
	}
	r->data = kzalloc(SELFTEST_BYTES, GFP_KERNEL);
	if (!r->data)
		return -ENOMEM;
	get_random_bytes(r->data, SELFTEST_BYTES);
	r->mr = ib_alloc_mr(st->pd, IB_MR_TYPE_MEM_REG, SELFTEST_PAGES);
	if (IS_ERR(r->mr))
		return PTR_ERR(r->mr);
	r->addr = ib_dma_map_single(st->device, r->data, SELFTEST_BYTES,
				    DMA_BIDIRECTIONAL);
	n = ib_dma_map_sg(st->device, r->sg, SELFTEST_PAGES, DMA_BIDIRECTIONAL);
	n = ib_map_mr_sg(r->mr, r->sg, n, NULL, PAGE_SIZE);
	return n == SELFTEST_PAGES ? 0 : -EINVAL;
}

/* Post a request if there is one, and note how the last one completes. */
static int selftest_do(struct selftest *st, struct selftest_region *r,
		       struct ib_send_wr *wr, int completions)
{
	unsigned long end = jiffies + SELFTEST_WAIT;
	int err;

	err = wr ? ib_post_send(st->qp, wr, NULL) : 0;
	while (!err && completions) {
		if (ib_poll_cq(st->cq, 1, &r->wc) == 1)
			completions--;
		else if (time_after(jiffies, end))
			err = -ETIMEDOUT;
		else
			fsleep(100);
	}
	return err;
}

/* Register it under its next key. */
static int selftest_register(struct selftest *st, struct selftest_region *r)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = r->mr,
		.access = SELFTEST_ACCESS,
	};

	ib_update_fast_reg_key(r->mr, r->mr->rkey + 1);
	wr.key = r->mr->rkey;
	return selftest_do(st, r, &wr.wr, 1);
}

static int selftest_invalidate(struct selftest *st, struct selftest_region *r)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = r->mr->rkey,
	};

	return selftest_do(st, r, &wr, 1);
}

static int selftest_rdma(struct selftest *st, struct selftest_region *r,
			 enum ib_wr_opcode opcode)
{
	struct ib_sge sge = {
		.addr = r->addr,
		.length = SELFTEST_BYTES,
		.lkey = st->pd->local_dma_lkey,
	};
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = r->mr->iova + SELFTEST_OFFSET,
		.rkey = r->mr->rkey,
	};

	return selftest_do(st, r, &wr.wr, 1);
}

/* What was written is in the pages. */
static bool selftest_stored(struct selftest_region *r)
{
	u8 *copy = kzalloc(SELFTEST_BYTES, GFP_KERNEL);
	bool same;

	if (!copy)
		return false;
	sg_pcopy_to_buffer(r->sg, SELFTEST_PAGES, copy, SELFTEST_BYTES,
			   SELFTEST_OFFSET);
	same = !memcmp(copy, r->data, SELFTEST_BYTES);
	kfree(copy);
	return same;
}

static void selftest_note(struct selftest *st, const struct selftest_region *r)
{
	sprintf(st->text + strlen(st->text), " %d", r->wc.status);
}

/* Report how each step completes. */
static int selftest_region_use(struct selftest *st, struct selftest_region *r)
{
	int err;

	err = selftest_rc_up(st) ?: selftest_register(st, r);
	if (err)
		return err;
	selftest_note(st, r);
	err = selftest_rdma(st, r, IB_WR_RDMA_WRITE);
	if (err)
		return err;
	selftest_note(st, r);
	strcat(st->text, selftest_stored(r) ? " stored" : " lost");
	memset(r->data, 0, SELFTEST_BYTES);
	err = selftest_rdma(st, r, IB_WR_RDMA_READ);
	if (err)
		return err;
	selftest_note(st, r);
	strcat(st->text, selftest_stored(r) ? " same" : " different");
	err = selftest_invalidate(st, r);
	if (err)
		return err;
	selftest_note(st, r);
	err = selftest_rdma(st, r, IB_WR_RDMA_WRITE);
	selftest_note(st, r);
	return err;
}

static int selftest_regions(struct selftest *st)
{
	struct selftest_region r = { };
	int err;

	err = selftest_region_new(st, &r) ?: selftest_region_use(st, &r);
	selftest_region_free(st, &r);
	return err;
}

/* Report what SEND with invalidate does to a region, and to the next write. */
static int selftest_send_inv(struct selftest *st)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND_WITH_INV };
	struct selftest_region r = { };
	int err;

	err = selftest_region_new(st, &r) ?: selftest_rc_up(st) ?:
	      selftest_register(st, &r) ?: selftest_recv(st, 1);
	if (!err) {
		wr.ex.invalidate_rkey = r.mr->rkey;
		err = selftest_do(st, &r, &wr, 1);
		sprintf(st->text, "%s key,",
			r.wc.wc_flags & IB_WC_WITH_INVALIDATE &&
			r.wc.ex.invalidate_rkey == r.mr->rkey ? "its" : "no");
	}
	if (!err)
		err = selftest_do(st, &r, NULL, 1);
	if (!err)
		err = selftest_rdma(st, &r, IB_WR_RDMA_WRITE);
	selftest_note(st, &r);
	selftest_region_free(st, &r);
	return err;
}

static const struct {
	const char *name;
	int (*run)(struct selftest *st);
	enum ib_qp_type type;
	bool core;
	int cqe;	/* entries of the CQ, 0: enough */
} selftest_checks[] = {
	{ "drain-ud", selftest_drain_ud, IB_QPT_UD, true },
	{ "drain-rc", selftest_drain_rc, IB_QPT_RC, true },
	{ "context", selftest_context, IB_QPT_UD, false },
	{ "reset", selftest_reset, IB_QPT_RC, false },
	{ "map", selftest_map, IB_QPT_UD, false },
	{ "slow", selftest_slow, IB_QPT_UD, false },
	{ "group", selftest_group, IB_QPT_UD, false },
	{ "moderation", selftest_moderation, IB_QPT_UD, false },
	{ "odd", selftest_odd, IB_QPT_RC, false },
	{ "odd-exact", selftest_odd, IB_QPT_RC, false,
	  2 * SELFTEST_MESSAGES },
	{ "odd-more", selftest_odd_more, IB_QPT_RC, false },
	{ "odd-reset", selftest_odd_reset, IB_QPT_RC, false },
	{ "odd-destroy", selftest_odd_destroy, IB_QPT_RC, false },
	{ "long", selftest_long, IB_QPT_RC, false },
	{ "regions", selftest_regions, IB_QPT_RC, false },
	{ "send-inv", selftest_send_inv, IB_QPT_RC, false },
};

/* ---- file ----------------------------------------------------------------- */

static int selftest_run(const char *hca, const char *name)
{
	struct selftest *st;
	int i, err;

	for (i = 0; i < ARRAY_SIZE(selftest_checks); i++)
		if (!strcmp(selftest_checks[i].name, name))
			break;
	if (i == ARRAY_SIZE(selftest_checks))
		return -ENOENT;
	st = kzalloc(sizeof(*st), GFP_KERNEL);
	if (!st)
		return -ENOMEM;
	st->text = selftest_text;
	selftest_text[0] = '\0';
	err = selftest_open(st, hca, selftest_checks[i].type,
			    selftest_checks[i].core, selftest_checks[i].cqe);
	if (!err)
		err = selftest_checks[i].run(st);
	selftest_close(st);
	kfree(st);
	return err;
}

static ssize_t selftest_write(struct file *file, const char __user *buf,
			      size_t count, loff_t *ppos)
{
	char line[64], hca[IB_DEVICE_NAME_MAX], name[32];
	int err;

	if (count >= sizeof(line))
		return -E2BIG;
	if (copy_from_user(line, buf, count))
		return -EFAULT;
	line[count] = '\0';
	if (sscanf(line, "%31s %31s", hca, name) != 2)
		return -EINVAL;
	mutex_lock(&selftest_lock);
	err = selftest_run(hca, name);
	mutex_unlock(&selftest_lock);
	return err ?: count;
}

static ssize_t selftest_read(struct file *file, char __user *buf, size_t count,
			     loff_t *ppos)
{
	return simple_read_from_buffer(buf, count, ppos, selftest_text,
				       strlen(selftest_text));
}

static const struct file_operations selftest_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = selftest_read,
	.write = selftest_write,
};

static int __init selftest_init(void)
{
	int err = ib_register_client(&selftest_client);

	if (err)
		return err;
	selftest_dir = debugfs_create_dir("ibds_selftest", NULL);
	debugfs_create_file("run", 0600, selftest_dir, NULL, &selftest_fops);
	return 0;
}

static void __exit selftest_exit(void)
{
	debugfs_remove_recursive(selftest_dir);
	ib_unregister_client(&selftest_client);
}

module_init(selftest_init);
module_exit(selftest_exit);

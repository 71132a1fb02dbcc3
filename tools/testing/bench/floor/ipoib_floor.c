// SPDX-License-Identifier: GPL-2.0-only
/*
 * Floors for the benchmark: the cost of the verbs for the packets of IPoIB,
 * with the best batching, and how long interrupts are off
 *
 * In /sys/kernel/debug/ipoib_floor:
 *
 * run: writing "ud SIZE BATCH COUNT" or "rc SIZE BATCH COUNT" sends COUNT
 * packets from one HCA to the other and returns when they have arrived.  Sends
 * and receives are posted in chains of BATCH, of which the last send is
 * signalled; CQs are polled, without interrupts.  Reading returns packets and
 * nanoseconds of the last run, sender and receiver together.
 *
 * late: writing "1" starts a timer on the writer's CPU, "0" stops it.  Reading
 * returns the most nanoseconds that it was late, which is how long interrupts
 * were off.
 */
#include <linux/debugfs.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>

MODULE_DESCRIPTION("Floors for the IPoIB benchmark");
MODULE_LICENSE("GPL");

#define FLOOR_PORT	1
#define FLOOR_QKEY	0x11111111
#define FLOOR_GRH	40
#define FLOOR_MAX_BATCH	64
#define FLOOR_MAX_SIZE	65536
#define FLOOR_WARM_UP	16	/* batches that do not count */
#define FLOOR_WAIT	(5 * HZ)
#define FLOOR_PERIOD_NS	20000

static char *from = "ibdevsim0";
module_param(from, charp, 0444);
MODULE_PARM_DESC(from, "HCA that sends");
static char *to = "ibdevsim1";
module_param(to, charp, 0444);
MODULE_PARM_DESC(to, "HCA that receives");

/**
 * struct floor_end - one of the two HCAs
 * @device: HCA
 * @pd: protection domain
 * @cq: CQ of the QP
 * @qp: UD or RC
 * @lid: LID of its port
 */
struct floor_end {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	u16 lid;
};

/**
 * struct floor_run - one measurement
 * @tx: end that sends
 * @rx: end that receives
 * @type: type of the QPs
 * @size: bytes of a packet
 * @batch: packets per chain
 * @ah: address handle of @rx, for UD
 * @tx_buf: buffer that is sent repeatedly
 * @tx_sge: its address
 * @tx_wr: chain of sends
 * @rx_buf: a buffer for each receive
 * @rx_sge: their addresses
 * @rx_wr: chain of receives
 * @wc: completions
 */
struct floor_run {
	struct floor_end tx;
	struct floor_end rx;
	enum ib_qp_type type;
	u32 size;
	u32 batch;
	struct ib_ah *ah;
	void *tx_buf;
	struct ib_sge tx_sge;
	struct ib_ud_wr tx_wr[FLOOR_MAX_BATCH];
	void *rx_buf[FLOOR_MAX_BATCH];
	struct ib_sge rx_sge[FLOOR_MAX_BATCH];
	struct ib_recv_wr rx_wr[FLOOR_MAX_BATCH];
	struct ib_wc wc[FLOOR_MAX_BATCH];
};

/**
 * struct floor_late - how late a timer is
 * @timer: expires every FLOOR_PERIOD_NS
 * @running: @timer is running
 * @worst_ns: longest delay so far
 */
struct floor_late {
	struct hrtimer timer;
	bool running;
	u64 worst_ns;
};

/* Held during a run: removing an HCA waits for its end. */
static DEFINE_MUTEX(floor_lock);
static struct ib_device *floor_from;
static struct ib_device *floor_to;
static struct dentry *floor_dir;
static struct floor_late floor_late;
static u64 floor_packets;
static u64 floor_ns;

/* ---- HCAs ---------------------------------------------------------------- */

static int floor_add(struct ib_device *device)
{
	bool sends = !strcmp(dev_name(&device->dev), from);
	bool receives = !strcmp(dev_name(&device->dev), to);

	if (!sends && !receives)
		return -EOPNOTSUPP;
	mutex_lock(&floor_lock);
	if (sends)
		floor_from = device;
	if (receives)
		floor_to = device;
	mutex_unlock(&floor_lock);
	return 0;
}

static void floor_remove(struct ib_device *device, void *client_data)
{
	mutex_lock(&floor_lock);
	if (floor_from == device)
		floor_from = NULL;
	if (floor_to == device)
		floor_to = NULL;
	mutex_unlock(&floor_lock);
}

static struct ib_client floor_client = {
	.name = "ipoib_floor",
	.add = floor_add,
	.remove = floor_remove,
};

/* ---- QPs ----------------------------------------------------------------- */

static int floor_end_open(struct floor_end *end, struct ib_device *device,
			  enum ib_qp_type type)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 4 * FLOOR_MAX_BATCH };
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 2 * FLOOR_MAX_BATCH,
			.max_recv_wr = 2 * FLOOR_MAX_BATCH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = type,
	};
	struct ib_port_attr port;
	int ret;

	if (!device)
		return -ENODEV;
	end->device = device;
	ret = ib_query_port(end->device, FLOOR_PORT, &port);
	if (ret)
		return ret;
	end->lid = port.lid;
	end->pd = ib_alloc_pd(end->device, 0);
	if (IS_ERR(end->pd))
		return PTR_ERR(end->pd);
	end->cq = ib_create_cq(end->device, NULL, NULL, NULL, &cq_attr);
	if (IS_ERR(end->cq))
		return PTR_ERR(end->cq);
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	end->qp = ib_create_qp(end->pd, &attr);
	return PTR_ERR_OR_ZERO(end->qp);
}

static void floor_end_close(struct floor_end *end)
{
	if (!IS_ERR_OR_NULL(end->qp))
		ib_destroy_qp(end->qp);
	if (!IS_ERR_OR_NULL(end->cq))
		ib_destroy_cq(end->cq);
	if (!IS_ERR_OR_NULL(end->pd))
		ib_dealloc_pd(end->pd);
}

static void floor_ah_attr(const struct floor_end *end, u16 dlid,
			  struct rdma_ah_attr *ah)
{
	memset(ah, 0, sizeof(*ah));
	ah->type = rdma_ah_find_type(end->device, FLOOR_PORT);
	rdma_ah_set_dlid(ah, dlid);
	rdma_ah_set_port_num(ah, FLOOR_PORT);
}

static int floor_ud_up(struct floor_end *end)
{
	struct ib_qp_attr attr = {
		.port_num = FLOOR_PORT,
		.qkey = FLOOR_QKEY,
	};
	int ret;

	attr.qp_state = IB_QPS_INIT;
	ret = ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_QKEY);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTR;
	ret = ib_modify_qp(end->qp, &attr, IB_QP_STATE);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
}

static int floor_rc_up(struct floor_end *end, const struct floor_end *peer)
{
	struct ib_qp_attr attr = {
		.port_num = FLOOR_PORT,
		.path_mtu = IB_MTU_4096,
		.dest_qp_num = peer->qp->qp_num,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	int ret;

	attr.qp_state = IB_QPS_INIT;
	ret = ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTR;
	floor_ah_attr(end, peer->lid, &attr.ah_attr);
	ret = ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_AV |
			   IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(end->qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT |
			    IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
			    IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

/* ---- buffers ------------------------------------------------------------- */

/* Allocate a buffer and map it for @end's HCA; @sge gets its address */
static void *floor_buffer(struct floor_end *end, u32 size,
			  enum dma_data_direction dir, struct ib_sge *sge)
{
	void *buf = kzalloc(size, GFP_KERNEL);

	if (!buf)
		return NULL;
	sge->addr = ib_dma_map_single(end->device, buf, size, dir);
	if (ib_dma_mapping_error(end->device, sge->addr)) {
		kfree(buf);
		return NULL;
	}
	sge->length = size;
	sge->lkey = end->pd->local_dma_lkey;
	return buf;
}

static void floor_buffer_free(struct floor_end *end, void *buf,
			      enum dma_data_direction dir,
			      const struct ib_sge *sge)
{
	if (!buf)
		return;
	ib_dma_unmap_single(end->device, sge->addr, sge->length, dir);
	kfree(buf);
}

static int floor_buffers(struct floor_run *run)
{
	u32 room = run->size + (run->type == IB_QPT_UD ? FLOOR_GRH : 0);
	u32 i;

	run->tx_buf = floor_buffer(&run->tx, run->size, DMA_TO_DEVICE,
				   &run->tx_sge);
	if (!run->tx_buf)
		return -ENOMEM;
	for (i = 0; i < run->batch; i++) {
		struct ib_ud_wr *tx = &run->tx_wr[i];
		struct ib_recv_wr *rx = &run->rx_wr[i];
		bool last = i == run->batch - 1;

		run->rx_buf[i] = floor_buffer(&run->rx, room, DMA_FROM_DEVICE,
					      &run->rx_sge[i]);
		if (!run->rx_buf[i])
			return -ENOMEM;
		rx->sg_list = &run->rx_sge[i];
		rx->num_sge = 1;
		rx->next = last ? NULL : &run->rx_wr[i + 1];
		tx->wr.sg_list = &run->tx_sge;
		tx->wr.num_sge = 1;
		tx->wr.opcode = IB_WR_SEND;
		tx->wr.send_flags = last ? IB_SEND_SIGNALED : 0;
		tx->wr.next = last ? NULL : &run->tx_wr[i + 1].wr;
		tx->ah = run->ah;
		tx->remote_qpn = run->rx.qp->qp_num;
		tx->remote_qkey = FLOOR_QKEY;
	}
	return 0;
}

/* ---- a run --------------------------------------------------------------- */

static void floor_close(struct floor_run *run)
{
	u32 i;

	if (!IS_ERR_OR_NULL(run->ah))
		rdma_destroy_ah(run->ah, 0);
	/* QPs first: posted buffers must not be written to any more. */
	if (!IS_ERR_OR_NULL(run->tx.qp))
		ib_destroy_qp(run->tx.qp);
	if (!IS_ERR_OR_NULL(run->rx.qp))
		ib_destroy_qp(run->rx.qp);
	run->tx.qp = NULL;
	run->rx.qp = NULL;
	floor_buffer_free(&run->tx, run->tx_buf, DMA_TO_DEVICE, &run->tx_sge);
	for (i = 0; i < run->batch; i++)
		floor_buffer_free(&run->rx, run->rx_buf[i], DMA_FROM_DEVICE,
				  &run->rx_sge[i]);
	floor_end_close(&run->tx);
	floor_end_close(&run->rx);
}

static int floor_open(struct floor_run *run)
{
	struct rdma_ah_attr ah;
	int ret;

	ret = floor_end_open(&run->tx, floor_from, run->type);
	if (ret)
		return ret;
	ret = floor_end_open(&run->rx, floor_to, run->type);
	if (ret)
		return ret;
	if (run->type == IB_QPT_RC) {
		ret = floor_rc_up(&run->rx, &run->tx);
		if (ret)
			return ret;
		ret = floor_rc_up(&run->tx, &run->rx);
	} else {
		ret = floor_ud_up(&run->rx);
		if (ret)
			return ret;
		ret = floor_ud_up(&run->tx);
		if (ret)
			return ret;
		floor_ah_attr(&run->tx, run->rx.lid, &ah);
		run->ah = rdma_create_ah(run->tx.pd, &ah, RDMA_CREATE_AH_SLEEPABLE);
		ret = PTR_ERR_OR_ZERO(run->ah);
	}
	if (ret)
		return ret;
	return floor_buffers(run);
}

/* Take @count completions; sends and receives have separate CQs. */
static int floor_take(struct floor_run *run, struct floor_end *end, u32 count)
{
	unsigned long limit = jiffies + FLOOR_WAIT;
	int n, i;

	while (count) {
		n = ib_poll_cq(end->cq, count, run->wc);
		if (n < 0)
			return n;
		for (i = 0; i < n; i++)
			if (run->wc[i].status != IB_WC_SUCCESS)
				return -EIO;
		count -= n;
		if (!n) {
			if (time_after(jiffies, limit))
				return -ETIMEDOUT;
			cond_resched();
		}
	}
	return 0;
}

static int floor_batch(struct floor_run *run)
{
	const struct ib_recv_wr *bad_rx;
	const struct ib_send_wr *bad_tx;
	int ret;

	ret = ib_post_recv(run->rx.qp, run->rx_wr, &bad_rx);
	if (ret)
		return ret;
	ret = ib_post_send(run->tx.qp, &run->tx_wr[0].wr, &bad_tx);
	if (ret)
		return ret;
	ret = floor_take(run, &run->rx, run->batch);
	return ret ?: floor_take(run, &run->tx, 1);
}

static int floor_measure(struct floor_run *run, u32 count)
{
	u64 begin, batches = DIV_ROUND_UP(count, run->batch);
	u64 i;
	int ret;

	for (i = 0; i < FLOOR_WARM_UP; i++) {
		ret = floor_batch(run);
		if (ret)
			return ret;
	}
	begin = ktime_get_ns();
	for (i = 0; i < batches; i++) {
		ret = floor_batch(run);
		if (ret)
			return ret;
		cond_resched();
	}
	floor_ns = ktime_get_ns() - begin;
	floor_packets = batches * run->batch;
	return 0;
}

/* ---- debugfs ------------------------------------------------------------- */

static ssize_t run_write(struct file *file, const char __user *buf,
			 size_t len, loff_t *pos)
{
	struct floor_run *run;
	char text[64], type[3];
	u32 count;
	int ret;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, len))
		return -EFAULT;
	text[len] = '\0';
	run = kzalloc(sizeof(*run), GFP_KERNEL);
	if (!run)
		return -ENOMEM;
	ret = -EINVAL;
	if (sscanf(text, "%2s %u %u %u", type, &run->size, &run->batch,
		   &count) != 4)
		goto out_free;
	run->type = !strcmp(type, "rc") ? IB_QPT_RC : IB_QPT_UD;
	if (run->type == IB_QPT_UD && strcmp(type, "ud"))
		goto out_free;
	if (!run->size || run->size > FLOOR_MAX_SIZE || !run->batch ||
	    run->batch > FLOOR_MAX_BATCH || !count)
		goto out_free;
	mutex_lock(&floor_lock);
	ret = floor_open(run);
	if (!ret)
		ret = floor_measure(run, count);
	floor_close(run);
	mutex_unlock(&floor_lock);
out_free:
	kfree(run);
	return ret ?: len;
}

static ssize_t run_read(struct file *file, char __user *buf, size_t len,
			loff_t *pos)
{
	char text[48];
	int size;

	mutex_lock(&floor_lock);
	size = scnprintf(text, sizeof(text), "%llu %llu\n", floor_packets,
			 floor_ns);
	mutex_unlock(&floor_lock);
	return simple_read_from_buffer(buf, len, pos, text, size);
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = run_read,
	.write = run_write,
	.llseek = default_llseek,
};

static enum hrtimer_restart floor_expired(struct hrtimer *timer)
{
	struct floor_late *late = container_of(timer, struct floor_late, timer);
	ktime_t now = ktime_get();
	s64 ns = ktime_to_ns(ktime_sub(now, hrtimer_get_expires(timer)));

	if (ns > 0 && ns > late->worst_ns)
		late->worst_ns = ns;
	hrtimer_set_expires(timer, ktime_add_ns(now, FLOOR_PERIOD_NS));
	return HRTIMER_RESTART;
}

static int late_set(void *data, u64 value)
{
	struct floor_late *late = data;

	mutex_lock(&floor_lock);
	if (late->running)
		hrtimer_cancel(&late->timer);
	late->running = value;
	if (value) {
		late->worst_ns = 0;
		hrtimer_start(&late->timer, ns_to_ktime(FLOOR_PERIOD_NS),
			      HRTIMER_MODE_REL_PINNED_HARD);
	}
	mutex_unlock(&floor_lock);
	return 0;
}

static int late_get(void *data, u64 *value)
{
	struct floor_late *late = data;

	*value = late->worst_ns;
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(late_fops, late_get, late_set, "%llu\n");

static int __init floor_init(void)
{
	int ret = ib_register_client(&floor_client);

	if (ret)
		return ret;
	hrtimer_setup(&floor_late.timer, floor_expired, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
	floor_dir = debugfs_create_dir("ipoib_floor", NULL);
	debugfs_create_file("run", 0600, floor_dir, NULL, &run_fops);
	debugfs_create_file_unsafe("late", 0600, floor_dir, &floor_late,
				   &late_fops);
	return 0;
}

static void __exit floor_exit(void)
{
	debugfs_remove(floor_dir);
	hrtimer_cancel(&floor_late.timer);
	ib_unregister_client(&floor_client);
}

module_init(floor_init);
module_exit(floor_exit);

// SPDX-License-Identifier: GPL-2.0-only
/*
 * User verbs: what a program may ask an HCA, and more
 *
 * Commands are complete, with the handles of the objects that the input has made
 * before, until patches change them.
 */
#include <err.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent.h"

#define DEVICE		"/dev/infiniband/uverbs0"
#define MEMORY		(64 << 10)
#define ANSWER		8192
#define BUFFER		256
#define QPS		4
#define COMMAND_MAX	1024
#define IOCTL_ATTRS	16

enum { QP_RC = 2, QP_UD = 4 };

/* Bits of ib_qp_attr_mask for the steps of a QP */
#define MASK_INIT_RC	0x0039
#define MASK_INIT_UD	0x0071
#define MASK_RTR_UD	0x0001
#define MASK_RTS_UD	0x10001
#define MASK_RTR_RC	0x129181
#define MASK_RTS_RC	0x12e01

struct qp_made {
	u32 handle;
	u32 qpn;
	bool ud;
};

/* What the input has made: the latest of each kind */
static struct {
	int fd;
	u32 pd;
	u32 cq;
	u32 srq;
	u32 mr;
	u32 lkey;
	u32 rkey;
	u32 ah;
	u32 channel;
	struct qp_made qps[QPS];
	u32 qps_n;
} verbs = { .fd = -1 };

/*
 * Memory that the kernel and the HCA are told of.  It is at the same place in every
 * run, so that an address that an input changes is the same one when it is run
 * again; and nothing else is within 4 GB, so that it is none of the agent's own.
 */
#define ARENA		((u8 *)0x100000000000)
#define ARENA_SIZE	0x100000000UL

static u8 *const memory = ARENA + 0x40000000;
static u8 *const answer = ARENA + 0x50000000;
static u8 *const buffers = ARENA + 0x60000000;

static struct qp_made *qp_latest(unsigned int back)
{
	static struct qp_made none;

	if (verbs.qps_n <= back)
		return &none;
	return &verbs.qps[(verbs.qps_n - 1 - back) % QPS];
}

/* ---- commands ----------------------------------------------------------- */

static size_t fill_qp(struct ib_uverbs_create_qp *cmd, u8 which)
{
	*cmd = (struct ib_uverbs_create_qp){
		.pd_handle = verbs.pd,
		.send_cq_handle = verbs.cq,
		.recv_cq_handle = verbs.cq,
		.srq_handle = verbs.srq,
		.max_send_wr = 8,
		.max_recv_wr = 8,
		.max_send_sge = 2,
		.max_recv_sge = 2,
		.qp_type = which & 1 ? QP_UD : QP_RC,
		.is_srq = !!(which & 2),
		.sq_sig_all = !!(which & 4),
	};
	return sizeof(*cmd);
}

static size_t fill_modify(struct ib_uverbs_modify_qp *cmd, u8 which)
{
	static const u32 masks[] = {
		MASK_INIT_RC, MASK_RTR_RC, MASK_RTS_RC, 1,
		MASK_INIT_UD, MASK_RTR_UD, MASK_RTS_UD, 1,
	};
	static const u8 states[] = { 1, 2, 3, 6 };

	*cmd = (struct ib_uverbs_modify_qp){
		.qp_handle = qp_latest(which >> 6 & 1)->handle,
		.attr_mask = masks[which % 8],
		.qp_state = states[which % 4],
		.qkey = 0x1234,
		.dest_qp_num = qp_latest(!(which >> 6 & 1))->qpn ?: qp_latest(0)->qpn,
		.qp_access_flags = 15,
		.path_mtu = 5,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.port_num = 1,
		.timeout = 10,
		.retry_cnt = 1,
		.rnr_retry = 1,
		.dest.dlid = scene_ports[0].lid,
		.dest.port_num = 1,
	};
	return offsetof(struct ib_uverbs_modify_qp, driver_data);
}

static size_t fill_send(u8 *to, u8 which)
{
	bool ud = qp_latest(0)->ud;
	struct ib_uverbs_post_send cmd = {
		.qp_handle = qp_latest(0)->handle,
		.wr_count = 1,
		.sge_count = 1,
		.wqe_size = sizeof(struct ib_uverbs_send_wr),
	};
	struct ib_uverbs_send_wr wr = {
		.wr_id = 1,
		.num_sge = 1,
		/* All that UD can do is to send. */
		.opcode = which % 16 ^ (ud ? IB_UVERBS_WR_SEND : 0),
		.send_flags = 2,
	};
	struct ib_uverbs_sge sge = {
		.addr = (uintptr_t)memory,
		.length = 64,
		.lkey = verbs.lkey,
	};

	if (ud != !!(which & 0x80)) {
		wr.wr.ud.ah = verbs.ah;
		wr.wr.ud.remote_qpn = qp_latest(0)->qpn;
		wr.wr.ud.remote_qkey = 0x1234;
	} else if (wr.opcode == IB_UVERBS_WR_ATOMIC_CMP_AND_SWP ||
		   wr.opcode == IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)memory + 4096;
		wr.wr.atomic.rkey = verbs.rkey;
		sge.length = 8;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)memory + 4096;
		wr.wr.rdma.rkey = verbs.rkey;
	}
	memcpy(to, &cmd, sizeof(cmd));
	memcpy(to + sizeof(cmd), &wr, sizeof(wr));
	memcpy(to + sizeof(cmd) + sizeof(wr), &sge, sizeof(sge));
	return sizeof(cmd) + sizeof(wr) + sizeof(sge);
}

static size_t fill_recv(u8 *to, u32 handle)
{
	struct ib_uverbs_post_recv cmd = {
		.qp_handle = handle,
		.wr_count = 1,
		.sge_count = 1,
		.wqe_size = sizeof(struct ib_uverbs_recv_wr),
	};
	struct ib_uverbs_recv_wr wr = { .wr_id = 2, .num_sge = 1 };
	struct ib_uverbs_sge sge = {
		.addr = (uintptr_t)memory + 8192,
		.length = 4096,
		.lkey = verbs.lkey,
	};

	memcpy(to, &cmd, sizeof(cmd));
	memcpy(to + sizeof(cmd), &wr, sizeof(wr));
	memcpy(to + sizeof(cmd) + sizeof(wr), &sge, sizeof(sge));
	return sizeof(cmd) + sizeof(wr) + sizeof(sge);
}

static size_t fill_two(u8 *to, u32 first, u32 second)
{
	memset(to, 0, 8);		/* the answer's address */
	memcpy(to + 8, &first, sizeof(first));
	memcpy(to + 12, &second, sizeof(second));
	return 16;
}

static size_t fill_handle(u8 *to, u32 handle)
{
	memset(to, 0, 8);
	memcpy(to, &handle, sizeof(handle));
	return 8;
}

/* Commands whose answer's address is not their first field */
static bool has_answer(u8 command)
{
	switch (command) {
	case IB_USER_VERBS_CMD_DEALLOC_PD:
	case IB_USER_VERBS_CMD_DEREG_MR:
	case IB_USER_VERBS_CMD_DESTROY_AH:
	case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
	case IB_USER_VERBS_CMD_MODIFY_QP:
	case IB_USER_VERBS_CMD_ATTACH_MCAST:
	case IB_USER_VERBS_CMD_DETACH_MCAST:
	case IB_USER_VERBS_CMD_MODIFY_SRQ:
		return false;
	default:
		return true;
	}
}

static size_t fill(u8 command, u8 *to, u8 which)
{
	struct ib_uverbs_reg_mr mr = {
		.start = (uintptr_t)memory,
		.length = MEMORY,
		.hca_va = (uintptr_t)memory,
		.pd_handle = verbs.pd,
		.access_flags = 15,
	};
	struct ib_uverbs_create_cq cq = {
		.cqe = 32,
		.comp_channel = which & 1 ? (int)verbs.channel : -1,
	};
	struct ib_uverbs_create_ah ah = {
		.pd_handle = verbs.pd,
		.attr.dlid = scene_ports[0].lid,
		.attr.port_num = 1,
		.attr.is_global = which & 1,
	};
	struct ib_uverbs_create_srq srq = {
		.pd_handle = verbs.pd,
		.max_wr = 8,
		.max_sge = 1,
	};
	struct ib_uverbs_attach_mcast mcast = {
		.gid = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, [15] = which },
		.qp_handle = qp_latest(0)->handle,
		.mlid = 0xc001,
	};

	memcpy(ah.attr.grh.dgid, scene_ports[0].gid, 16);
	switch (command) {
	case IB_USER_VERBS_CMD_QUERY_PORT:
		return fill_two(to, 1, 0);
	case IB_USER_VERBS_CMD_DEALLOC_PD:
		return fill_handle(to, verbs.pd);
	case IB_USER_VERBS_CMD_CREATE_AH:
		memcpy(to, &ah, sizeof(ah));
		return sizeof(ah);
	case IB_USER_VERBS_CMD_DESTROY_AH:
		return fill_handle(to, verbs.ah);
	case IB_USER_VERBS_CMD_REG_MR:
		memcpy(to, &mr, sizeof(mr));
		return sizeof(mr);
	case IB_USER_VERBS_CMD_DEREG_MR:
		return fill_handle(to, verbs.mr);
	case IB_USER_VERBS_CMD_CREATE_CQ:
		memcpy(to, &cq, sizeof(cq));
		return sizeof(cq);
	case IB_USER_VERBS_CMD_RESIZE_CQ:
	case IB_USER_VERBS_CMD_POLL_CQ:
		return fill_two(to, verbs.cq, 16);
	case IB_USER_VERBS_CMD_DESTROY_CQ:
		return fill_two(to, verbs.cq, 0);
	case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ:
		return fill_handle(to, verbs.cq);
	case IB_USER_VERBS_CMD_CREATE_QP:
		return fill_qp((struct ib_uverbs_create_qp *)to, which);
	case IB_USER_VERBS_CMD_QUERY_QP:
		return fill_two(to, qp_latest(0)->handle, 0x1fffff);
	case IB_USER_VERBS_CMD_MODIFY_QP:
		return fill_modify((struct ib_uverbs_modify_qp *)to, which);
	case IB_USER_VERBS_CMD_DESTROY_QP:
		return fill_two(to, qp_latest(which & 1)->handle, 0);
	case IB_USER_VERBS_CMD_POST_SEND:
		return fill_send(to, which);
	case IB_USER_VERBS_CMD_POST_RECV:
		return fill_recv(to, qp_latest(which & 1)->handle);
	case IB_USER_VERBS_CMD_ATTACH_MCAST:
	case IB_USER_VERBS_CMD_DETACH_MCAST:
		memcpy(to, &mcast, sizeof(mcast));
		return sizeof(mcast);
	case IB_USER_VERBS_CMD_CREATE_SRQ:
		memcpy(to, &srq, sizeof(srq));
		return sizeof(srq);
	case IB_USER_VERBS_CMD_MODIFY_SRQ:
		memset(to, 0, 16);
		memcpy(to, &verbs.srq, sizeof(verbs.srq));
		to[4] = 2;
		to[12] = 1;
		return 16;
	case IB_USER_VERBS_CMD_QUERY_SRQ:
	case IB_USER_VERBS_CMD_DESTROY_SRQ:
		return fill_two(to, verbs.srq, 0);
	case IB_USER_VERBS_CMD_POST_SRQ_RECV:
		return fill_recv(to, verbs.srq);
	default:
		memset(to, 0, 8);
		return 8;
	}
}

static void remember(u8 command, const u8 *body)
{
	const struct ib_uverbs_create_qp *qp = (const void *)body;
	u32 words[4];

	memcpy(words, answer, sizeof(words));
	switch (command) {
	case IB_USER_VERBS_CMD_ALLOC_PD:
		verbs.pd = words[0];
		break;
	case IB_USER_VERBS_CMD_CREATE_AH:
		verbs.ah = words[0];
		break;
	case IB_USER_VERBS_CMD_REG_MR:
		verbs.mr = words[0];
		verbs.lkey = words[1];
		verbs.rkey = words[2];
		break;
	case IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL:
		verbs.channel = words[0];
		break;
	case IB_USER_VERBS_CMD_CREATE_CQ:
		verbs.cq = words[0];
		break;
	case IB_USER_VERBS_CMD_CREATE_SRQ:
		verbs.srq = words[0];
		break;
	case IB_USER_VERBS_CMD_CREATE_QP:
		verbs.qps[verbs.qps_n++ % QPS] = (struct qp_made){
			.handle = words[0],
			.qpn = words[1],
			.ud = qp->qp_type == QP_UD,
		};
		break;
	}
}

static void command(u8 number, u8 which, struct reader *r)
{
	struct ib_uverbs_cmd_hdr head = { .command = number };
	union {
		u8 bytes[COMMAND_MAX];
		u64 align;
	} cmd;
	u64 where = (uintptr_t)answer;
	u8 *body = cmd.bytes + sizeof(head);
	size_t len;

	memset(cmd.bytes, 0, sizeof(cmd.bytes));
	len = fill(number, body, which);
	if (has_answer(number)) {
		memcpy(body, &where, sizeof(where));
		/* No more than what it is; the largest is that of poll_cq. */
		head.out_words = number == IB_USER_VERBS_CMD_POLL_CQ ?
				 (8 + 48 * 16) / 4 : 256 / 4;
	}
	memset(answer, 0, 64);
	head.in_words = 0;
	if (r) {
		/* The patches know the header, too. */
		memcpy(cmd.bytes, &head, sizeof(head));
		take_patches(r, cmd.bytes, sizeof(head) + len);
		len += take(r, body + len, 256);
		memcpy(&head, cmd.bytes, sizeof(head));
	}
	len = (len + 3) & ~3UL;
	head.in_words ^= (sizeof(head) + len) / 4;
	memcpy(cmd.bytes, &head, sizeof(head));
	if (write(verbs.fd, cmd.bytes, sizeof(head) + len) > 0)
		remember(head.command, body);
}

static void modify(unsigned int which)
{
	command(IB_USER_VERBS_CMD_MODIFY_QP, which, NULL);
}

/* ---- several at once ---------------------------------------------------- */

static void make_scene(u8 which)
{
	command(IB_USER_VERBS_CMD_ALLOC_PD, 0, NULL);
	command(IB_USER_VERBS_CMD_REG_MR, 0, NULL);
	if (which & 8)
		command(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 0, NULL);
	command(IB_USER_VERBS_CMD_CREATE_CQ, which & 8 ? 1 : 0, NULL);
	if (which & 2)
		command(IB_USER_VERBS_CMD_CREATE_SRQ, 0, NULL);
	command(IB_USER_VERBS_CMD_CREATE_QP, which, NULL);
}

static void make_pair(u8 which)
{
	unsigned int step;

	make_scene(which & ~1);
	command(IB_USER_VERBS_CMD_CREATE_QP, which & ~1, NULL);
	for (step = 0; step < 3; step++) {
		modify(step);
		modify(step | 1 << 6);
	}
}

static void make_ud(u8 which)
{
	unsigned int step;

	make_scene(which | 1);
	command(IB_USER_VERBS_CMD_CREATE_AH, which >> 4, NULL);
	for (step = 0; step < 3; step++)
		modify(4 + step);
}

static void traffic(u8 which, struct reader *r)
{
	command(IB_USER_VERBS_CMD_POST_RECV, 1, NULL);
	command(IB_USER_VERBS_CMD_POST_RECV, 0, NULL);
	if (verbs.srq)
		command(IB_USER_VERBS_CMD_POST_SRQ_RECV, 0, NULL);
	command(IB_USER_VERBS_CMD_POST_SEND, which, r);
	usleep(1000);
	command(IB_USER_VERBS_CMD_POLL_CQ, 0, NULL);
}

/* ---- the newer way ------------------------------------------------------ */

/*
 * Attributes: id, flags, length, data or what the numbers below stand for.  Objects
 * have no length, unless flags have 2.
 */
static void by_ioctl(u8 object, struct reader *r)
{
	union {
		struct ib_uverbs_ioctl_hdr head;
		u8 bytes[sizeof(struct ib_uverbs_ioctl_hdr) +
			 IOCTL_ATTRS * sizeof(struct ib_uverbs_attr)];
	} cmd;
	unsigned int n = 0;
	u8 *buffer;

	memset(&cmd, 0, sizeof(cmd));
	cmd.head.object_id = object & 31;
	cmd.head.method_id = take8(r);
	if (cmd.head.method_id & 0x80)
		cmd.head.method_id = 0x1000 | (cmd.head.method_id & 15);
	cmd.head.driver_id = object & 32 ? take8(r) : RDMA_DRIVER_HFI1;
	while (r->left >= 3 && n < IOCTL_ATTRS) {
		struct ib_uverbs_attr *attr = &cmd.head.attrs[n];
		u8 id = take8(r), flags = take8(r);

		attr->attr_id = id & 0x80 ? 0x1000 | (id & 15) : id;
		attr->flags = flags & 1;
		attr->len = take8(r);
		if (flags >> 4 >= 1 && flags >> 4 <= 5 && !(flags & 2))
			attr->len = 0;
		buffer = buffers + n * BUFFER;
		memset(buffer, 0, BUFFER);
		switch (flags >> 4) {
		case 0:
			attr->data = (uintptr_t)buffer;
			take(r, buffer, attr->len);
			break;
		case 1:
			attr->data = verbs.pd;
			break;
		case 2:
			attr->data = verbs.cq;
			break;
		case 3:
			attr->data = qp_latest(0)->handle;
			break;
		case 4:
			attr->data = verbs.mr;
			break;
		case 5:
			attr->data = verbs.srq;
			break;
		case 6:
			attr->data = (uintptr_t)memory;
			break;
		default:
			attr->data = take32(r);
		}
		n++;
	}
	cmd.head.num_attrs = n;
	cmd.head.length = sizeof(cmd.head) + n * sizeof(struct ib_uverbs_attr);
	ioctl(verbs.fd, RDMA_VERBS_IOCTL, &cmd);
}

void verbs_open(void)
{
	if (mmap(ARENA, ARENA_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		 MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != ARENA ||
	    mprotect(memory, MEMORY, PROT_READ | PROT_WRITE) ||
	    mprotect(answer, ANSWER, PROT_READ | PROT_WRITE) ||
	    mprotect(buffers, IOCTL_ATTRS * BUFFER, PROT_READ | PROT_WRITE))
		err(2, "memory for user verbs");
}

static bool verbs_ready(void)
{
	if (verbs.fd >= 0)
		return true;
	verbs.fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	if (verbs.fd < 0)
		return false;
	/* Nothing is left of the input before. */
	memset(memory, 0, MEMORY);
	memset(answer, 0, ANSWER);
	command(IB_USER_VERBS_CMD_GET_CONTEXT, 0, NULL);
	return true;
}

/**
 * verbs_call - ask the HCA as a program would
 * @call: the variant is the command; data: which of its forms, patches, what
 *	follows it
 */
void verbs_call(const struct call *call)
{
	struct reader r = reader_of(call);
	u8 which;

	if (!verbs_ready())
		return;
	which = take8(&r);
	if (call->variant >= VERBS_IOCTL)
		return by_ioctl(call->variant & 63, &r);
	switch (call->variant) {
	case VERBS_SCENE:
		return make_scene(which);
	case VERBS_PAIR:
		return make_pair(which);
	case VERBS_UD:
		return make_ud(which);
	case VERBS_TRAFFIC:
		return traffic(which, &r);
	case VERBS_READ_WRITE:
		command(IB_USER_VERBS_CMD_POST_SEND, IB_UVERBS_WR_RDMA_READ, &r);
		return traffic(IB_UVERBS_WR_RDMA_WRITE, &r);
	default:
		return command(call->variant % 64, which, &r);
	}
}

/*
 * As the end of the program.  Descriptors that the kernel has made since are gone,
 * too, whether it could tell their numbers or not; of what is open now nothing else
 * is younger.
 */
void verbs_close(void)
{
	if (verbs.fd < 0)
		return;
	close_range(verbs.fd, ~0U, 0);
	memset(&verbs, 0, sizeof(verbs));
	verbs.fd = -1;
}

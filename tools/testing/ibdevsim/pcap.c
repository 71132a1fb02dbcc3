// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: port mirror
 *
 * While a port's mirror is on, packets that pass it are recorded as they would
 * look on the wire, from LRH to VCRC, and read from debugfs as a pcap stream.
 * Its link type is ERF with InfiniBand records, because Wireshark does not
 * read link type 247 (bare InfiniBand) from pcap files, and because ERF has the
 * direction: interface 0 for packets received by the port, 1 for those sent.
 * The simulator moves whole messages on reliable connections; here they are
 * shown as the packets a link would carry.
 *
 * Each record has its own buffer; the oldest are dropped when too many wait.
 * pcap->lock is a leaf, taken in any context.
 */
#include <linux/crc32.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>
#include <linux/wait.h>

#include "pcap.h"

#define IBDS_PCAP_MAGIC		0xa1b23c4d	/* nanoseconds */
#define IBDS_PCAP_LINKTYPE	197	/* ERF */
#define IBDS_PCAP_BYTES		(4 << 20)
#define IBDS_PCAP_SNAPLEN	8192

#define IBDS_VCRC_BYTES		2
#define IBDS_IMM_BYTES		4
#define IBDS_HEADERS_MAX	(IB_LRH_BYTES + IB_GRH_BYTES + IB_BTH_BYTES + \
				 IB_DETH_BYTES + IBDS_IMM_BYTES)

struct ibds_pcap_file_header {
	u32 magic;
	u16 major, minor;
	u32 zone, sigfigs, snaplen, linktype;
};

struct ibds_pcap_record_header {
	u32 sec, nsec, captured, length;
};

#define IBDS_ERF_INFINIBAND	21
#define IBDS_ERF_VARYING	0x04

/* Extensible Record Format: header of each packet. */
struct ibds_erf_header {
	__le64 time;		/* seconds and fraction, 32 bits each */
	u8 type;
	u8 flags;
	__be16 record_len;
	__be16 lost;
	__be16 wire_len;
} __packed;

/**
 * struct ibds_record - a packet that waits to be read
 * @list: in struct ibds_pcap
 * @len: bytes in @data
 * @data: headers and packet
 */
struct ibds_record {
	struct list_head list;
	u32 len;
	u8 data[];
};

/**
 * struct ibds_pcap - mirror of a port
 * @lock: protects @records and @bytes
 * @records: oldest first
 * @bytes: bytes in them
 * @wait: readers
 * @closed: the port is being removed
 */
struct ibds_pcap {
	spinlock_t lock;	/* records, bytes */
	struct list_head records;
	u32 bytes;
	wait_queue_head_t wait;
	bool closed;
};

/* ---- on the wire -------------------------------------------------------- */

/* CRC of the whole packet except VCRC: x^16+x^12+x^3+x+1, IBA 7.8.2. */
static u16 ibds_vcrc(const u8 *data, u32 len)
{
	u16 crc = 0xffff;
	int bit;

	while (len--) {
		crc ^= *data++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xd008 : 0);
	}
	return ~crc;
}

/*
 * CRC-32 of fields no switch or router changes, with ones in place of those
 * it may change: VL, traffic class, flow label, hop limit, BTH Resv8a (7.8.1).
 */
static u32 ibds_icrc(const u8 *data, u32 len, bool global)
{
	u32 fixed = IB_LRH_BYTES + IB_BTH_BYTES + (global ? IB_GRH_BYTES : 0);
	u8 head[IB_LRH_BYTES + IB_GRH_BYTES + IB_BTH_BYTES];
	u32 crc;

	memcpy(head, data, fixed);
	head[0] |= 0xf0;
	if (global) {
		head[IB_LRH_BYTES] |= 0x0f;
		memset(head + IB_LRH_BYTES + 1, 0xff, 3);
		head[IB_LRH_BYTES + 7] = 0xff;
	}
	head[fixed - IB_BTH_BYTES + 4] = 0xff;
	crc = crc32_le(~0, head, fixed);
	return ~crc32_le(crc, data + fixed, len - fixed);
}

static bool ibds_is_ud(const struct ibds_pkt *pkt)
{
	return (pkt->opcode & 0xe0) == IB_OPCODE_UD;
}

static u32 ibds_headers_len(const struct ibds_pkt *pkt)
{
	return IB_LRH_BYTES + (pkt->grh_valid ? IB_GRH_BYTES : 0) +
	       IB_BTH_BYTES + (ibds_is_ud(pkt) ? IB_DETH_BYTES : 0) +
	       pkt->ext_len +
	       (pkt->imm_valid ? IBDS_IMM_BYTES : 0);
}

/* @len: bytes from LRH to ICRC */
static u8 *ibds_put_lrh(u8 *p, const struct ibds_pkt *pkt, u32 len)
{
	p[0] = pkt->dqpn ? 0 : 15 << 4;
	p[1] = pkt->sl << 4 |
	       (pkt->grh_valid ? IB_LNH_IBA_GLOBAL : IB_LNH_IBA_LOCAL);
	put_unaligned_be16(pkt->dlid, p + 2);
	put_unaligned_be16(len / 4, p + 4);
	put_unaligned_be16(pkt->slid, p + 6);
	return p + IB_LRH_BYTES;
}

static u8 *ibds_put_grh(u8 *p, const struct ibds_pkt *pkt, u32 len)
{
	struct ib_grh grh = pkt->grh;

	if (!pkt->grh_valid)
		return p;
	grh.paylen = cpu_to_be16(len - IB_LRH_BYTES - IB_GRH_BYTES);
	memcpy(p, &grh, IB_GRH_BYTES);
	return p + IB_GRH_BYTES;
}

static u8 *ibds_put_bth(u8 *p, const struct ibds_pkt *pkt, u32 pad)
{
	p[0] = pkt->opcode;
	p[1] = (pkt->solicited ? 0x80 : 0) | 0x40 | pad << 4;
	put_unaligned_be16(pkt->pkey, p + 2);
	put_unaligned_be32(pkt->dqpn & 0xffffff, p + 4);
	put_unaligned_be32(pkt->psn & 0xffffff, p + 8);
	return p + IB_BTH_BYTES;
}

static u8 *ibds_put_ext(u8 *p, const struct ibds_pkt *pkt)
{
	if (ibds_is_ud(pkt)) {
		put_unaligned_be32(pkt->qkey, p);
		put_unaligned_be32(pkt->sqpn & 0xffffff, p + 4);
		p += IB_DETH_BYTES;
	}
	memcpy(p, pkt->ext, pkt->ext_len);
	p += pkt->ext_len;
	if (pkt->imm_valid) {
		memcpy(p, &pkt->imm, IBDS_IMM_BYTES);
		p += IBDS_IMM_BYTES;
	}
	return p;
}

/* Bytes of a packet with this payload, CRCs included. */
static u32 ibds_wire_len(const struct ibds_pkt *pkt, u32 payload)
{
	return ibds_headers_len(pkt) + ALIGN(payload, 4) + IB_ICRC_BYTES +
	       IBDS_VCRC_BYTES;
}

static void ibds_put_packet(u8 *start, const struct ibds_pkt *pkt,
			    const u8 *payload, u32 len)
{
	u32 covered = ibds_wire_len(pkt, len) - IBDS_VCRC_BYTES;
	u32 pad = -len & 3;
	u8 *p = start;

	p = ibds_put_lrh(p, pkt, covered);
	p = ibds_put_grh(p, pkt, covered);
	p = ibds_put_bth(p, pkt, pad);
	p = ibds_put_ext(p, pkt);
	memcpy(p, payload, len);
	memset(p + len, 0, pad);
	p += len + pad;
	put_unaligned_le32(ibds_icrc(start, p - start, pkt->grh_valid), p);
	put_unaligned_le16(ibds_vcrc(start, covered), start + covered);
}

/* ---- records ------------------------------------------------------------ */

static void ibds_records_trim(struct ibds_pcap *pcap, u32 limit)
{
	struct ibds_record *rec;

	lockdep_assert_held(&pcap->lock);
	while (pcap->bytes > limit) {
		rec = list_first_entry(&pcap->records, struct ibds_record,
				       list);
		list_del(&rec->list);
		pcap->bytes -= rec->len;
		kfree(rec);
	}
}

static void ibds_record_add(struct ibds_pcap *pcap, struct ibds_record *rec)
{
	unsigned long flags;

	spin_lock_irqsave(&pcap->lock, flags);
	ibds_records_trim(pcap, IBDS_PCAP_BYTES - rec->len);
	list_add_tail(&rec->list, &pcap->records);
	pcap->bytes += rec->len;
	spin_unlock_irqrestore(&pcap->lock, flags);
	wake_up_interruptible(&pcap->wait);
}

/* @len: bytes from LRH to VCRC.  Return: where to put the packet. */
static u8 *ibds_put_record(u8 *p, u32 len, bool tx)
{
	struct ibds_erf_header erf = {
		.type = IBDS_ERF_INFINIBAND,
		.flags = IBDS_ERF_VARYING | tx,
		.record_len = cpu_to_be16(sizeof(erf) + len),
		.wire_len = cpu_to_be16(len),
	};
	struct ibds_pcap_record_header head = {
		.captured = sizeof(erf) + len,
		.length = sizeof(erf) + len,
	};
	struct timespec64 now;

	ktime_get_real_ts64(&now);
	head.sec = now.tv_sec;
	head.nsec = now.tv_nsec;
	erf.time = cpu_to_le64((u64)head.sec << 32 |
			       div_u64((u64)head.nsec << 32, NSEC_PER_SEC));
	memcpy(p, &head, sizeof(head));
	memcpy(p + sizeof(head), &erf, sizeof(erf));
	return p + sizeof(head) + sizeof(erf);
}

static void ibds_record_packet(struct ibds_port *port,
			       const struct ibds_pkt *pkt, const u8 *payload,
			       u32 payload_len, bool tx)
{
	u32 wire = ibds_wire_len(pkt, payload_len);
	u32 len = sizeof(struct ibds_pcap_record_header) +
		  sizeof(struct ibds_erf_header) + wire;
	struct ibds_record *rec;

	rec = kmalloc_flex(*rec, data, len, GFP_ATOMIC);
	if (!rec)
		return;
	rec->len = len;
	ibds_put_packet(ibds_put_record(rec->data, wire, tx), pkt, payload,
			payload_len);
	ibds_record_add(port->pcap, rec);
}

/* The opcode of one packet of a message that was RC SEND Only. */
static u8 ibds_segment_opcode(bool first, bool last, bool imm)
{
	if (first)
		return IB_OPCODE_RC_SEND_FIRST;
	if (!last)
		return IB_OPCODE_RC_SEND_MIDDLE;
	return imm ? IB_OPCODE_RC_SEND_LAST_WITH_IMMEDIATE :
		     IB_OPCODE_RC_SEND_LAST;
}

static void ibds_record_message(struct ibds_port *port,
				const struct ibds_pkt *message, u32 mtu,
				bool tx)
{
	struct ibds_pkt pkt = *message;
	u32 off, n;

	for (off = 0; off < message->len; off += n) {
		bool last = message->len - off <= mtu;

		n = min(mtu, message->len - off);
		pkt.imm_valid = message->imm_valid && last;
		pkt.solicited = message->solicited && last;
		pkt.opcode = ibds_segment_opcode(!off, last, pkt.imm_valid);
		ibds_record_packet(port, &pkt, message->data + off, n, tx);
		pkt.psn++;
	}
}

/**
 * ibds_mirror - record a packet if the port's mirror is on
 * @port: HCA port
 * @pkt: packet
 * @tx: the port sends it
 *
 * Context: any.
 */
void ibds_mirror(struct ibds_port *port, const struct ibds_pkt *pkt, bool tx)
{
	u32 mtu = READ_ONCE(port->mtu_active);

	if (!READ_ONCE(port->mirror))
		return;
	if (!ibds_is_ud(pkt) && pkt->len > mtu)
		ibds_record_message(port, pkt, mtu, tx);
	else
		ibds_record_packet(port, pkt, pkt->data, pkt->len, tx);
}

/* ---- debugfs: pcap ------------------------------------------------------ */

/**
 * struct ibds_pcap_reader - an open file
 * @port: port that is mirrored; valid during debugfs file operations
 * @lock: protects the fields below: a file may have several readers at a time
 * @started: the file header has been read
 * @rec: record being read
 * @off: bytes of @rec already read
 */
struct ibds_pcap_reader {
	struct ibds_port *port;
	struct mutex lock;	/* started, rec, off */
	bool started;
	struct ibds_record *rec;
	u32 off;
};

static struct ibds_record *ibds_pcap_file_header(void)
{
	struct ibds_pcap_file_header head = {
		.magic = IBDS_PCAP_MAGIC,
		.major = 2,
		.minor = 4,
		.snaplen = IBDS_PCAP_SNAPLEN,
		.linktype = IBDS_PCAP_LINKTYPE,
	};
	struct ibds_record *rec;

	rec = kmalloc_flex(*rec, data, sizeof(head));
	if (!rec)
		return NULL;
	rec->len = sizeof(head);
	memcpy(rec->data, &head, sizeof(head));
	return rec;
}

static struct ibds_record *ibds_record_take(struct ibds_pcap *pcap)
{
	struct ibds_record *rec;

	spin_lock_irq(&pcap->lock);
	rec = list_first_entry_or_null(&pcap->records, struct ibds_record,
				       list);
	if (rec) {
		list_del(&rec->list);
		pcap->bytes -= rec->len;
	}
	spin_unlock_irq(&pcap->lock);
	return rec;
}

static bool ibds_pcap_ended(struct ibds_port *port)
{
	return !READ_ONCE(port->mirror) || READ_ONCE(port->pcap->closed);
}

/* Return: 1 if there is something to read, 0 at the end. */
static int ibds_pcap_next(struct ibds_pcap_reader *reader, bool block)
{
	struct ibds_port *port = reader->port;
	struct ibds_pcap *pcap = port->pcap;
	int err;

	if (!reader->started) {
		reader->rec = ibds_pcap_file_header();
		reader->started = reader->rec;
		return reader->rec ? 1 : -ENOMEM;
	}
	reader->rec = ibds_record_take(pcap);
	if (reader->rec)
		return 1;
	if (ibds_pcap_ended(port))
		return 0;
	if (!block)
		return -EAGAIN;
	err = wait_event_interruptible(pcap->wait,
				       (reader->rec = ibds_record_take(pcap)) ||
				       ibds_pcap_ended(port));
	return err ?: !!reader->rec;
}

static ssize_t ibds_pcap_copy(struct ibds_pcap_reader *reader,
			      char __user *buf, size_t count, bool block)
{
	struct ibds_record *rec;
	size_t n;
	int err;

	lockdep_assert_held(&reader->lock);
	if (!reader->rec) {
		err = ibds_pcap_next(reader, block);
		if (err <= 0)
			return err;
	}
	rec = reader->rec;
	n = min_t(size_t, count, rec->len - reader->off);
	if (copy_to_user(buf, rec->data + reader->off, n))
		return -EFAULT;
	reader->off += n;
	if (reader->off == rec->len) {
		kfree(rec);
		reader->rec = NULL;
		reader->off = 0;
	}
	return n;
}

static ssize_t ibds_pcap_read(struct file *file, char __user *buf,
			      size_t count, loff_t *ppos)
{
	struct ibds_pcap_reader *reader = file->private_data;
	bool block = !(file->f_flags & O_NONBLOCK);
	ssize_t n;

	if (block) {
		n = mutex_lock_interruptible(&reader->lock);
		if (n)
			return n;
	} else if (!mutex_trylock(&reader->lock)) {
		return -EAGAIN;
	}
	n = ibds_pcap_copy(reader, buf, count, block);
	mutex_unlock(&reader->lock);
	return n;
}

static int ibds_pcap_open(struct inode *inode, struct file *file)
{
	struct ibds_pcap_reader *reader;

	reader = kzalloc_obj(*reader);
	if (!reader)
		return -ENOMEM;
	reader->port = inode->i_private;
	mutex_init(&reader->lock);
	file->private_data = reader;
	return stream_open(inode, file);
}

static int ibds_pcap_release(struct inode *inode, struct file *file)
{
	struct ibds_pcap_reader *reader = file->private_data;

	kfree(reader->rec);
	kfree(reader);
	return 0;
}

const struct file_operations ibds_pcap_fops = {
	.owner = THIS_MODULE,
	.open = ibds_pcap_open,
	.read = ibds_pcap_read,
	.release = ibds_pcap_release,
};

/* ---- setup and teardown ------------------------------------------------- */

/**
 * ibds_pcap_set - turn a port's mirror on or off
 * @port: HCA port
 * @on: on, dropping packets captured before, or off
 *
 * Context: process.
 */
void ibds_pcap_set(struct ibds_port *port, bool on)
{
	struct ibds_pcap *pcap = port->pcap;

	if (on && !port->mirror) {
		spin_lock_irq(&pcap->lock);
		ibds_records_trim(pcap, 0);
		spin_unlock_irq(&pcap->lock);
	}
	WRITE_ONCE(port->mirror, on);
	wake_up_interruptible(&pcap->wait);
}

/**
 * ibds_pcap_close - wake readers before the file is removed
 * @port: HCA port
 */
void ibds_pcap_close(struct ibds_port *port)
{
	WRITE_ONCE(port->pcap->closed, true);
	wake_up_interruptible_all(&port->pcap->wait);
}

/**
 * ibds_pcap_alloc - allocate a port's mirror, switched off
 * @port: HCA port
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_pcap_alloc(struct ibds_port *port)
{
	struct ibds_pcap *pcap = kzalloc_obj(*pcap);

	if (!pcap)
		return -ENOMEM;
	spin_lock_init(&pcap->lock);
	INIT_LIST_HEAD(&pcap->records);
	init_waitqueue_head(&pcap->wait);
	port->pcap = pcap;
	return 0;
}

/**
 * ibds_pcap_free - release a port's mirror
 * @port: HCA port; no packets are mirrored and no readers are left
 */
void ibds_pcap_free(struct ibds_port *port)
{
	struct ibds_record *rec, *next;

	list_for_each_entry_safe(rec, next, &port->pcap->records, list)
		kfree(rec);
	kfree(port->pcap);
}

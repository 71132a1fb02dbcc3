/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef IBDEVSIM_MR_H
#define IBDEVSIM_MR_H

#include "datapath.h"

/*
 * The maps are per CPU, and who has one has disabled interrupts by
 * spin_lock_irqsave().  With PREEMPT_RT that lets others run on the CPU, which
 * would use the map, too; and who invalidates a region spins until they are done.
 */
#ifdef CONFIG_PREEMPT_RT
#error "ibdevsim copies with maps per CPU, which PREEMPT_RT does not protect"
#endif

/*
 * Pieces of a segment: each entry of a list may begin and end within a page,
 * and pages of 4096 bytes need not be adjacent.
 */
#define IBDS_MAP_PIECES		(IBDS_SEGMENT / SZ_4K + 2 * IBDS_MAX_SGE)

/**
 * struct ibds_space - whose memory a list refers to
 * @dev: HCA
 * @pd: protection domain that regions must belong to
 * @lkey: L_Key for all of kernel memory, %IBDS_NO_LKEY: there is none
 * @phys: addresses under @lkey, and those wanted, are DMA addresses
 */
struct ibds_space {
	struct ibds_dev *dev;
	const struct ib_pd *pd;
	u64 lkey;
	bool phys;
};

/**
 * struct ibds_map - bytes of regions, where the kernel finds them
 * @pieces: entries of @sge
 * @regions: entries of @region
 * @region: regions that are referred to
 * @sge: the bytes, in order
 */
struct ibds_map {
	u32 pieces;
	u32 regions;
	struct ibds_mr *region[IBDS_MAX_SGE];
	struct ib_sge sge[IBDS_MAP_PIECES];
};

int ibds_mr_init(void);
void ibds_mr_exit(void);

struct ibds_map *ibds_map_local(void);
struct ibds_map *ibds_map_remote(void);
bool ibds_map_list(struct ibds_map *map, const struct ibds_space *space,
		   const struct ib_sge *sge, int num, u64 skip, u32 len,
		   int access);
bool ibds_map_range(struct ibds_map *map, const struct ibds_space *space,
		    u32 key, u64 addr, u32 len, int access);
void ibds_map_put(struct ibds_map *map);

bool ibds_mr_register(struct ibds_dev *dev, const struct ib_pd *pd,
		      const struct ib_reg_wr *wr);
bool ibds_mr_invalidate(struct ibds_dev *dev, const struct ib_pd *pd, u32 key);

struct ib_mr *ibds_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *ibds_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 virt_addr, int access, struct ib_dmah *dmah,
			       struct ib_udata *udata);
struct ib_mr *ibds_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg);
int ibds_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int num,
		   unsigned int *offset);
int ibds_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

#endif /* IBDEVSIM_MR_H */

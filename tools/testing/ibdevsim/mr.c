// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: memory regions
 *
 * A region maps the addresses that its owner uses to pages.  Its key is both
 * L_Key and R_Key: an index in dev->mrs, and eight bits that the owner may
 * change from one registration to the next (IBA vol 1, 10.6.3.3).
 *
 * Whoever copies holds references to the regions meanwhile, with interrupts
 * disabled and for %IBDS_SEGMENT bytes at most (struct ibds_map).  To invalidate
 * or deregister a region is to drop the region's own reference and to wait for
 * the last copy: afterwards nobody touches its pages.  A grace period would not
 * do, since requests invalidate regions in atomic context.
 *
 * Rule: who holds references takes neither an sq.lock nor a receive side's
 * lock, because regions are invalidated under these.
 */
#include <linux/percpu.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>

#include "call.h"
#include "mr.h"
#include "object.h"
#include "sge.h"

/* Below the indices that local_dma_lkey looks like. */
#define IBDS_MR_LAST		0x3fffff

#define IBDS_REMOTE_ACCESS	(IB_ACCESS_REMOTE_WRITE | \
				 IB_ACCESS_REMOTE_READ | \
				 IB_ACCESS_REMOTE_ATOMIC)
/* Windows can be allowed, but there are none. */
#define IBDS_USER_ACCESS	(IB_ACCESS_LOCAL_WRITE | IBDS_REMOTE_ACCESS | \
				 IB_ACCESS_MW_BIND | IB_ACCESS_OPTIONAL)

/**
 * enum ibds_mr_state - state of a region
 * @IBDS_MR_FREE: its key gives access to nothing
 * @IBDS_MR_CHANGING: it is being registered
 * @IBDS_MR_VALID: registered
 */
enum ibds_mr_state {
	IBDS_MR_FREE,
	IBDS_MR_CHANGING,
	IBDS_MR_VALID,
};

/**
 * struct ibds_mr - memory region
 * @ib: ib_core's part
 * @pd: protection domain
 * @state: enum ibds_mr_state
 * @refs: copies in progress, and one while it is valid
 * @key: the key under which it is registered
 * @fast: requests register and invalidate it (ib_alloc_mr())
 * @all: all of kernel memory (ib_get_dma_mr())
 * @user: it is user space's
 * @shift: binary logarithm of the bytes of a page
 * @access: IB_ACCESS_*
 * @iova: address of the first byte
 * @length: bytes
 * @num: entries of @page in use
 * @max: entries of @page
 * @page: kernel addresses of the pages
 * @listed: entries of @list in use
 * @list: @fast: the pages that the next registration is for (ib_map_mr_sg())
 * @umem: pinned pages
 * @charged: memory taken from the limit for user space
 * @rcu: frees it
 *
 * @key and @shift to @num do not change while there are references.
 */
struct ibds_mr {
	struct ib_mr ib;
	struct ib_pd *pd;
	int state;
	atomic_t refs;
	u32 key;
	bool fast;
	bool all;
	bool user;
	u8 shift;
	int access;
	u64 iova;
	u64 length;
	u32 num;
	u32 max;
	void **page;
	u32 listed;
	void **list;
	struct ib_umem *umem;
	u64 charged;
	struct rcu_head rcu;
};

/**
 * struct ibds_scratch - maps for what this CPU copies; interrupts are disabled
 * @local: memory of the requester
 * @remote: memory of the responder
 */
struct ibds_scratch {
	struct ibds_map local;
	struct ibds_map remote;
};

static struct ibds_scratch __percpu *ibds_scratch;

static struct ibds_mr *to_ibds_mr(struct ib_mr *mr)
{
	return container_of(mr, struct ibds_mr, ib);
}

/* ---- references --------------------------------------------------------- */

static void ibds_mr_put(struct ibds_mr *mr)
{
	/* Pairs with atomic_read_acquire() in ibds_mr_stop(). */
	atomic_dec_return_release(&mr->refs);
}

/* RCU read side.  Return: a region that is valid under this key, or NULL. */
static struct ibds_mr *ibds_mr_get(struct ibds_dev *dev, u32 key)
{
	struct ibds_mr *mr = xa_load(&dev->mrs, key >> 8);

	if (!mr || READ_ONCE(mr->state) != IBDS_MR_VALID ||
	    !atomic_inc_not_zero(&mr->refs))
		return NULL;
	/* Again: nobody may join those whom ibds_mr_stop() waits for. */
	if (READ_ONCE(mr->state) == IBDS_MR_VALID && mr->key == key)
		return mr;
	ibds_mr_put(mr);
	return NULL;
}

/* A free region may be changed, but only by one at a time. */
static bool ibds_mr_claim(struct ibds_mr *mr)
{
	if (cmpxchg(&mr->state, IBDS_MR_FREE, IBDS_MR_CHANGING) != IBDS_MR_FREE)
		return false;
	if (!atomic_read_acquire(&mr->refs))
		return true;
	/*
	 * Somebody invalidates it and still waits for a copy.  Pairs with the
	 * cmpxchg() above.
	 */
	smp_store_release(&mr->state, IBDS_MR_FREE);
	return false;
}

static void ibds_mr_publish(struct ibds_mr *mr)
{
	/* Who gets a reference in ibds_mr_get() sees the rest. */
	atomic_set_release(&mr->refs, 1);
	/* Pairs with the atomic_inc_not_zero() there. */
	smp_store_release(&mr->state, IBDS_MR_VALID);
}

/*
 * Make the key useless, and wait until nobody copies any more.  If another QP
 * registers the region meanwhile, that comes after this.
 */
static void ibds_mr_stop(struct ibds_mr *mr)
{
	if (cmpxchg(&mr->state, IBDS_MR_VALID, IBDS_MR_FREE) == IBDS_MR_VALID)
		ibds_mr_put(mr);
	while (atomic_read_acquire(&mr->refs) &&
	       READ_ONCE(mr->state) != IBDS_MR_VALID)
		cpu_relax();
}

/* ---- translation -------------------------------------------------------- */

/**
 * ibds_map_local - the map for the requester's memory
 *
 * Context: interrupts are disabled until ibds_map_put().
 * Return: this CPU's map.
 */
struct ibds_map *ibds_map_local(void)
{
	lockdep_assert_irqs_disabled();
	return &this_cpu_ptr(ibds_scratch)->local;
}

/**
 * ibds_map_remote - the map for the responder's memory
 *
 * Context: interrupts are disabled until ibds_map_put().
 * Return: this CPU's map.
 */
struct ibds_map *ibds_map_remote(void)
{
	lockdep_assert_irqs_disabled();
	return &this_cpu_ptr(ibds_scratch)->remote;
}

static bool ibds_map_add(struct ibds_map *map, u64 addr, u32 len)
{
	struct ib_sge *sge = &map->sge[map->pieces];

	if (map->pieces && sge[-1].addr + sge[-1].length == addr) {
		sge[-1].length += len;
		return true;
	}
	if (WARN_ON_ONCE(map->pieces == IBDS_MAP_PIECES))
		return false;
	sge->addr = addr;
	sge->length = len;
	map->pieces++;
	return true;
}

/* Bytes from @addr on, which are in the region. */
static bool ibds_map_pages(struct ibds_map *map, const struct ibds_mr *mr,
			   u64 addr, u32 len, bool phys)
{
	u32 size = 1U << mr->shift;
	u64 off = (mr->iova & (size - 1)) + (addr - mr->iova);
	u32 n;

	if (mr->all)
		return ibds_map_add(map, addr, len);
	for (; len; len -= n, off += n) {
		u32 within = off & (size - 1);
		u8 *va = (u8 *)mr->page[off >> mr->shift] + within;

		n = min(len, size - within);
		if (!ibds_map_add(map, phys ? virt_to_phys(va) : (uintptr_t)va,
				  n))
			return false;
	}
	return true;
}

/* IBA vol 1, 10.6.3.4: protection domain, bounds and access rights. */
static bool ibds_mr_allows(const struct ibds_mr *mr, const struct ib_pd *pd,
			   u64 addr, u32 len, int access)
{
	return mr->pd == pd && !(access & ~mr->access) && addr >= mr->iova &&
	       len <= mr->length && addr - mr->iova <= mr->length - len;
}

static bool ibds_map_region(struct ibds_map *map,
			    const struct ibds_space *space, u32 key, u64 addr,
			    u32 len, int access)
{
	struct ibds_mr *mr = ibds_mr_get(space->dev, key);

	if (!mr)
		return false;
	map->region[map->regions++] = mr;
	return ibds_mr_allows(mr, space->pd, addr, len, access) &&
	       ibds_map_pages(map, mr, addr, len, space->phys);
}

/**
 * ibds_map_put - drop the references of a map
 * @map: map
 */
void ibds_map_put(struct ibds_map *map)
{
	while (map->regions)
		ibds_mr_put(map->region[--map->regions]);
}

/**
 * ibds_map_list - translate bytes of a scatter/gather list
 * @map: of this CPU
 * @space: whose memory it is
 * @sge: the list
 * @num: its entries, %IBDS_MAX_SGE at most
 * @skip: bytes of the list before those wanted
 * @len: bytes wanted, %IBDS_SEGMENT at most
 * @access: IB_ACCESS_LOCAL_WRITE to write to them, 0 to read them
 *
 * Context: interrupts are disabled; RCU read side.
 * Return: true if the list holds them and all keys allow it; ibds_map_put() has to follow then.
 */
bool ibds_map_list(struct ibds_map *map, const struct ibds_space *space,
		   const struct ib_sge *sge, int num, u64 skip, u32 len,
		   int access)
{
	u32 n;

	map->pieces = 0;
	map->regions = 0;
	if (WARN_ON_ONCE(num > IBDS_MAX_SGE) || len > IBDS_SEGMENT)
		return false;
	for (; num && len; num--, sge++) {
		if (skip >= sge->length) {
			skip -= sge->length;
			continue;
		}
		n = min_t(u64, sge->length - skip, len);
		if (sge->lkey == space->lkey ?
		    !ibds_map_add(map, sge->addr + skip, n) :
		    !ibds_map_region(map, space, sge->lkey, sge->addr + skip,
				     n, access)) {
			ibds_map_put(map);
			return false;
		}
		skip = 0;
		len -= n;
	}
	if (!len)
		return true;
	ibds_map_put(map);
	return false;
}

/**
 * ibds_map_range - translate a range of the responder's memory
 * @map: of this CPU
 * @space: whose memory it is
 * @key: R_Key
 * @addr: first address
 * @len: bytes, %IBDS_SEGMENT at most; without any the key does not matter
 * @access: IB_ACCESS_REMOTE_* that is needed
 *
 * Context: interrupts are disabled; RCU read side.
 * Return: true if the key allows it; ibds_map_put() has to follow then.
 */
bool ibds_map_range(struct ibds_map *map, const struct ibds_space *space,
		    u32 key, u64 addr, u32 len, int access)
{
	map->pieces = 0;
	map->regions = 0;
	if (!len || ibds_map_region(map, space, key, addr, len, access))
		return true;
	ibds_map_put(map);
	return false;
}

/* ---- requests ----------------------------------------------------------- */

/**
 * ibds_mr_register - execute IB_WR_REG_MR
 * @dev: HCA
 * @pd: protection domain of the QP
 * @wr: request
 *
 * Return: true if the region is valid now.
 */
bool ibds_mr_register(struct ibds_dev *dev, const struct ib_pd *pd,
		      const struct ib_reg_wr *wr)
{
	struct ibds_mr *mr = to_ibds_mr(wr->mr);

	if (!mr->fast || mr->pd != pd || wr->mr->device != &dev->ib ||
	    wr->key >> 8 != mr->key >> 8 || !ibds_mr_claim(mr))
		return false;
	mr->key = wr->key;
	mr->access = wr->access;
	mr->iova = wr->mr->iova;
	mr->length = wr->mr->length;
	mr->shift = ilog2(wr->mr->page_size);
	mr->num = mr->listed;
	/* The owner may have moved the range away from its pages. */
	if (mr->length > U32_MAX ||
	    (mr->iova & (wr->mr->page_size - 1)) + mr->length >
	    (u64)mr->num << mr->shift) {
		/* Pairs with the cmpxchg() in ibds_mr_claim(). */
		smp_store_release(&mr->state, IBDS_MR_FREE);
		return false;
	}
	memcpy(mr->page, mr->list, mr->num * sizeof(*mr->page));
	ibds_mr_publish(mr);
	return true;
}

/**
 * ibds_mr_invalidate - execute IB_WR_LOCAL_INV, or what a peer sent
 * @dev: HCA
 * @pd: protection domain of the QP
 * @key: key of a region made by ib_alloc_mr()
 *
 * Afterwards nobody accesses the region's memory.  It need not be valid.
 *
 * Context: any, RCU read side; the caller holds no references.
 * Return: true if there is such a region.
 */
bool ibds_mr_invalidate(struct ibds_dev *dev, const struct ib_pd *pd, u32 key)
{
	struct ibds_mr *mr = xa_load(&dev->mrs, key >> 8);

	if (!mr || !mr->fast || mr->pd != pd || mr->key != key)
		return false;
	ibds_mr_stop(mr);
	return true;
}

/* ---- verbs -------------------------------------------------------------- */

static void ibds_mr_free(struct ibds_mr *mr)
{
	struct ibds_dev *dev = to_ibds_dev(mr->pd->device);

	ib_umem_release(mr->umem);
	kvfree(mr->page);
	kvfree(mr->list);
	ibds_user_uncharge(dev, mr->charged);
	ibds_object_put(dev, IBDS_MR, mr->user);
	/* Those who look keys up may still see it. */
	kfree_rcu(mr, rcu);
}

/* The page list, and room for it in the limit for users. */
static int ibds_mr_alloc_pages(struct ibds_dev *dev, struct ibds_mr *mr,
			       u64 pages)
{
	u64 bytes = pages * sizeof(*mr->page);
	int err;

	if (mr->user) {
		err = ibds_user_charge(dev, bytes);
		if (err)
			return err;
		mr->charged = bytes;
	}
	mr->max = pages;
	mr->page = kvcalloc(pages, sizeof(*mr->page), ibds_gfp(mr->user));
	return mr->page ? 0 : -ENOMEM;
}

/* A region that is not valid yet and cannot be looked up; or an error. */
static struct ibds_mr *ibds_mr_alloc(struct ib_pd *ibpd, bool user)
{
	struct ibds_dev *dev = to_ibds_dev(ibpd->device);
	struct ibds_mr *mr;
	int err;

	err = ibds_object_get(dev, IBDS_MR, user);
	if (err)
		return ERR_PTR(err);
	mr = kzalloc_obj(*mr, ibds_gfp(user));
	if (!mr) {
		ibds_object_put(dev, IBDS_MR, user);
		return ERR_PTR(-ENOMEM);
	}
	mr->pd = ibpd;
	mr->user = user;
	mr->shift = PAGE_SHIFT;
	return mr;
}

/* Give a region its key. */
static int ibds_mr_enter(struct ibds_mr *mr)
{
	struct ibds_dev *dev = to_ibds_dev(mr->pd->device);
	u32 index;
	int err;

	err = xa_alloc_cyclic(&dev->mrs, &index, mr, XA_LIMIT(1, IBDS_MR_LAST),
			      &dev->next_mr, GFP_KERNEL);
	if (err < 0)
		return err;
	mr->key = index << 8 | get_random_u8();
	mr->ib.lkey = mr->key;
	mr->ib.rkey = mr->key;
	return 0;
}

/* Make a region usable, or free it after an error. */
static struct ib_mr *ibds_mr_finish(struct ibds_mr *mr, int err)
{
	if (!err)
		err = ibds_mr_enter(mr);
	if (err) {
		ibds_mr_free(mr);
		return ERR_PTR(err);
	}
	if (!mr->fast)
		ibds_mr_publish(mr);
	return &mr->ib;
}

struct ib_mr *ibds_get_dma_mr(struct ib_pd *ibpd, int access)
{
	int err = ibds_call(ibpd->device, IBDS_CALL_GET_DMA_MR);
	struct ibds_mr *mr;

	if (err)
		return ERR_PTR(err);
	mr = ibds_mr_alloc(ibpd, false);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->all = true;
	mr->access = access;
	mr->length = U64_MAX;
	return ibds_mr_finish(mr, 0);
}

static int ibds_mr_pin(struct ibds_mr *mr, u64 start, u64 length, u64 virt_addr,
		       int access)
{
	struct ib_device *ibdev = mr->pd->device;
	struct sg_page_iter iter;
	struct ib_umem *umem;
	int err;

	umem = ib_umem_get_va(ibdev, start, length, access);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	mr->umem = umem;
	err = ibds_mr_alloc_pages(to_ibds_dev(ibdev), mr,
				  ib_umem_num_pages(umem));
	if (err)
		return err;
	for_each_sgtable_page(&umem->sgt_append.sgt, &iter, 0) {
		struct page *page = sg_page_iter_page(&iter);

		if (WARN_ON_ONCE(mr->num == mr->max))
			return -EFAULT;
		if (PageHighMem(page))
			return -EOPNOTSUPP;
		mr->page[mr->num++] = page_address(page);
	}
	mr->access = access;
	mr->iova = virt_addr;
	mr->length = length;
	return 0;
}

struct ib_mr *ibds_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 virt_addr, int access, struct ib_dmah *dmah,
			       struct ib_udata *udata)
{
	struct ibds_mr *mr;

	if (dmah || access & ~IBDS_USER_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!length || virt_addr + length < virt_addr ||
	    (start ^ virt_addr) & ~PAGE_MASK)
		return ERR_PTR(-EINVAL);
	mr = ibds_mr_alloc(ibpd, true);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	return ibds_mr_finish(mr, ibds_mr_pin(mr, start, length, virt_addr,
					      access));
}

struct ib_mr *ibds_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg)
{
	struct ibds_mr *mr;
	int err;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > to_ibds_dev(ibpd->device)->caps.max_fast_pages)
		return ERR_PTR(-EINVAL);
	err = ibds_call(ibpd->device, IBDS_CALL_ALLOC_MR);
	if (err)
		return ERR_PTR(err);
	mr = ibds_mr_alloc(ibpd, false);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->fast = true;
	err = ibds_mr_alloc_pages(to_ibds_dev(ibpd->device), mr, max_num_sg);
	mr->list = kvcalloc(max_num_sg, sizeof(*mr->list), GFP_KERNEL);
	if (!mr->list)
		err = -ENOMEM;
	return ibds_mr_finish(mr, err);
}

static int ibds_mr_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct ibds_mr *mr = to_ibds_mr(ibmr);

	if (mr->listed == mr->max)
		return -ENOMEM;
	mr->list[mr->listed++] = ibds_va(addr,
					 to_ibds_dev(mr->pd->device)->caps.dma);
	return 0;
}

int ibds_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int num,
		   unsigned int *offset)
{
	struct ibds_mr *mr = to_ibds_mr(ibmr);
	int err;

	if (!mr->fast)
		return -EINVAL;
	err = ibds_call(ibmr->device, IBDS_CALL_MAP_MR_SG);
	if (err)
		return err;
	/* An earlier registration may still be in use: it keeps its pages. */
	mr->listed = 0;
	return ib_sg_to_pages(ibmr, sg, num, offset, ibds_mr_set_page);
}

int ibds_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct ibds_mr *mr = to_ibds_mr(ibmr);

	ibds_call(mr->pd->device, IBDS_CALL_DEREG_MR);
	xa_erase(&to_ibds_dev(mr->pd->device)->mrs, mr->key >> 8);
	ibds_mr_stop(mr);
	ibds_mr_free(mr);
	return 0;
}

/* ---- set-up ------------------------------------------------------------- */

/**
 * ibds_mr_init - allocate what all HCAs share
 *
 * Return: 0 or -ENOMEM.
 */
int ibds_mr_init(void)
{
	ibds_scratch = alloc_percpu(struct ibds_scratch);
	return ibds_scratch ? 0 : -ENOMEM;
}

/**
 * ibds_mr_exit - undo ibds_mr_init(); no HCA is left
 */
void ibds_mr_exit(void)
{
	free_percpu(ibds_scratch);
}

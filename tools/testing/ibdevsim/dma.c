// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: the DMA device of an HCA that has one (dma=1)
 *
 * A platform device with its own DMA operations: DMA addresses are physical
 * addresses, whatever IOMMU or bounce buffers the machine has, so that the
 * datapath can translate them back (ibds_va()).  The DMA API does its debugging
 * before it calls these operations.  Mappings fail when the fault is set.
 *
 * Coherent memory is not supported: users of the verbs map their own memory.
 */
#include <linux/dma-map-ops.h>
#include <linux/scatterlist.h>

#include "dma.h"
#include "object.h"

static bool ibds_dma_fails(struct device *dma)
{
	struct ibds_dev *dev = dev_get_drvdata(dma);
	struct ibds_faults *faults = &dev->port[0].faults;

	return ibds_object_fails(&faults->map_error, &faults->map_skip);
}

static dma_addr_t ibds_dma_map(struct device *dma, phys_addr_t phys,
			       size_t size, enum dma_data_direction dir,
			       unsigned long attrs)
{
	return ibds_dma_fails(dma) ? DMA_MAPPING_ERROR : phys;
}

static void ibds_dma_unmap(struct device *dma, dma_addr_t addr, size_t size,
			   enum dma_data_direction dir, unsigned long attrs)
{
}

static int ibds_dma_map_sg(struct device *dma, struct scatterlist *list,
			   int count, enum dma_data_direction dir,
			   unsigned long attrs)
{
	struct scatterlist *sg;
	int i;

	if (ibds_dma_fails(dma))
		return -ENOMEM;
	for_each_sg(list, sg, count, i) {
		sg_dma_address(sg) = sg_phys(sg);
		sg_dma_len(sg) = sg->length;
	}
	return count;
}

static void ibds_dma_unmap_sg(struct device *dma, struct scatterlist *list,
			      int count, enum dma_data_direction dir,
			      unsigned long attrs)
{
}

static const struct dma_map_ops ibds_dma_ops = {
	.map_phys = ibds_dma_map,
	.unmap_phys = ibds_dma_unmap,
	.map_sg = ibds_dma_map_sg,
	.unmap_sg = ibds_dma_unmap_sg,
};

/**
 * ibds_dma_dev_new - create the DMA device of an HCA
 * @dev: HCA with caps.dma set
 *
 * Return: 0, -EOPNOTSUPP when the kernel is configured without DMA operations
 * of single devices, or another error.
 */
int ibds_dma_dev_new(struct ibds_dev *dev)
{
	struct platform_device_info info = {
		.parent = dev->dev,
		.name = "ibdevsim-dma",
		.id = dev->id,
		.dma_mask = DMA_BIT_MASK(64),
	};
	struct platform_device *pdev;

	pdev = platform_device_register_full(&info);
	if (IS_ERR(pdev))
		return PTR_ERR(pdev);
	platform_set_drvdata(pdev, dev);
	set_dma_ops(&pdev->dev, &ibds_dma_ops);
	if (get_dma_ops(&pdev->dev) != &ibds_dma_ops) {
		dev_err(dev->dev, "dma=1: the kernel lacks CONFIG_ARCH_HAS_DMA_OPS\n");
		platform_device_unregister(pdev);
		return -EOPNOTSUPP;
	}
	dev->pdev = pdev;
	return 0;
}

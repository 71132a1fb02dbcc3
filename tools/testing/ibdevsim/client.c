// SPDX-License-Identifier: GPL-2.0-only
/*
 * ibdevsim: when the agents of an HCA answer
 *
 * ib_core takes an HCA from its clients when it is removed, and for a moment
 * when it moves to another network namespace.  ib_mad then frees the sender of
 * process_mad() responses without waiting for one that is in flight
 * (agent_send_response() keeps no reference), so there must be none.
 *
 * Clients get an HCA in the order in which they were registered and lose it in
 * reverse.  ib_mad is part of ib_core and so was registered before the client
 * here: that one is told first that the HCA goes, and last that it came.
 * Answers to the HCA's own requests are still passed to ib_mad: clients that are
 * told later wait for some of them.
 */
#include "client.h"
#include "ibdevsim.h"
#include "qp.h"
#include "sma.h"

static int ibds_client_add(struct ib_device *ibdev)
{
	/* All HCAs of the machine are offered. */
	if (ibdev->ops.process_mad != ibds_process_mad)
		return -EOPNOTSUPP;
	WRITE_ONCE(to_ibds_dev(ibdev)->answering, true);
	return 0;
}

static void ibds_client_remove(struct ib_device *ibdev, void *unused)
{
	struct ibds_dev *dev = to_ibds_dev(ibdev);

	WRITE_ONCE(dev->answering, false);
	ibds_mads_flush(dev);
}

static struct ib_client ibds_client = {
	.name = "ibdevsim",
	.add = ibds_client_add,
	.remove = ibds_client_remove,
};

/**
 * ibds_client_init - become a client of ib_core; there is no HCA yet
 *
 * Return: 0 or -errno.
 */
int ibds_client_init(void)
{
	return ib_register_client(&ibds_client);
}

/**
 * ibds_client_exit - undo ibds_client_init(); no HCA is left
 */
void ibds_client_exit(void)
{
	ib_unregister_client(&ibds_client);
}

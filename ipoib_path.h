/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paths of a port: interface to code that does not deal with single paths
 */
#ifndef IPOIB_PATH_H
#define IPOIB_PATH_H

#include <linux/types.h>

struct ipoib_dev;
struct ipoib_port;
struct seq_file;

/**
 * struct ipoib_path_stats - counters of a port's paths
 * @queries: sent to the SA
 * @failures: queries that were not sent, not answered or refused
 * @dropped: packets that could not wait for a path any longer
 * @evicted: paths removed to make room for others
 * @unresolved: paths without an address handle, now
 */
struct ipoib_path_stats {
	u64 queries;
	u64 failures;
	u64 dropped;
	u64 evicted;
	u64 unresolved;
};

int ipoib_paths_create(struct ipoib_port *port);
void ipoib_paths_destroy(struct ipoib_port *port);
void ipoib_paths_revalidate(struct ipoib_port *port);
void ipoib_paths_hurry(struct ipoib_port *port);
void ipoib_paths_get_stats(const struct ipoib_port *port,
			   struct ipoib_path_stats *stats);
void ipoib_path_show(struct seq_file *m, const struct ipoib_dev *dev);

#endif /* IPOIB_PATH_H */

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probes of the SA by a port
 */
#ifndef IPOIB_PROBE_H
#define IPOIB_PROBE_H

struct ipoib_paths;
struct ipoib_port;

void ipoib_probe_init(struct ipoib_paths *paths);
void ipoib_probe_stop(struct ipoib_port *port);
void ipoib_probe_start(struct ipoib_paths *paths);
void ipoib_probe_unanswered(struct ipoib_port *port);

#endif /* IPOIB_PROBE_H */

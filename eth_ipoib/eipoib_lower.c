// SPDX-License-Identifier: GPL-2.0-only
/*
 * The packets of the IPoIB interface below
 *
 * What it receives passes an rx_handler, what the host sends through it the
 * hook that netfilter has for that.  IPoIB does not loop its own multicasts, so
 * without that hook host and guests would not find each other.
 */
#include <linux/if_arp.h>
#include <linux/netfilter_netdev.h>

#include "eipoib_lower.h"
#include "eipoib_rx.h"
#include "eipoib_send.h"

static rx_handler_result_t eipoib_handle(struct sk_buff **pskb)
{
	struct sk_buff *skb = *pskb;
	struct eipoib_dev *dev = rcu_dereference(skb->dev->rx_handler_data);

	if (skb->pkt_type == PACKET_LOOPBACK || eipoib_from_here(skb))
		return RX_HANDLER_PASS;
	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return RX_HANDLER_CONSUMED;
	*pskb = skb;
	switch (eipoib_rx(dev, skb, skb->pkt_type != PACKET_HOST,
			  EIPOIB_PEER)) {
	case EIPOIB_FRAME:
		dev_sw_netstats_rx_add(dev->ndev, skb->len + ETH_HLEN);
		return RX_HANDLER_ANOTHER;
	case EIPOIB_GONE:
		return RX_HANDLER_CONSUMED;
	default:
		return RX_HANDLER_PASS;
	}
}

/* ---- what the host sends ------------------------------------------------- */

#ifdef CONFIG_NETFILTER_EGRESS
/* A copy for guests of what the host sends to a group or to all. */
static void eipoib_host_group(struct eipoib_dev *dev, struct sk_buff *skb)
{
	struct sk_buff *copy = skb_clone(skb, GFP_ATOMIC);

	if (!copy) {
		eipoib_count(dev, EIPOIB_C_NOMEM);
		return;
	}
	eipoib_scrub(copy);
	skb_pull(copy, EIPOIB_HARD_LEN);
	skb_reset_network_header(copy);
	eipoib_count(dev, EIPOIB_C_RX_HOST);
	if (eipoib_rx(dev, copy, true, EIPOIB_HOST) == EIPOIB_ON)
		consume_skb(copy);
}

/* What is for the interface's own address is for a guest; true: it was taken. */
static bool eipoib_host_unicast(struct eipoib_dev *dev, struct sk_buff *skb)
{
	skb_pull(skb, EIPOIB_HARD_LEN);
	switch (eipoib_rx(dev, skb, false, EIPOIB_HOST)) {
	case EIPOIB_FRAME:
		eipoib_count(dev, EIPOIB_C_RX_HOST);
		eipoib_scrub(skb);
		eipoib_to_guests(dev, skb);
		return true;
	case EIPOIB_GONE:
		return true;
	default:
		skb_push(skb, EIPOIB_HARD_LEN);
		return false;
	}
}

/* What the host itself sends */
static noinline unsigned int eipoib_host(struct eipoib_dev *dev,
					 struct sk_buff *skb)
{
	bool taken = false;

	if (!pskb_may_pull(skb, EIPOIB_HARD_LEN))
		return NF_ACCEPT;
	rcu_read_lock();
	if (eipoib_lladdr_is_group(skb->data))
		eipoib_host_group(dev, skb);
	else if (eipoib_lladdr_is_own(dev, skb->data))
		taken = eipoib_host_unicast(dev, skb);
	rcu_read_unlock();
	return taken ? NF_STOLEN : NF_ACCEPT;
}

static unsigned int eipoib_egress(void *priv, struct sk_buff *skb,
				  const struct nf_hook_state *state)
{
	return eipoib_sends(skb) ? NF_ACCEPT : eipoib_host(priv, skb);
}

/**
 * eipoib_lower_hook - look at what the host sends through the lower interface
 * @dev: interface
 * Return: 0 or -errno.  With rtnl.
 */
int eipoib_lower_hook(struct eipoib_dev *dev)
{
	int ret;

	dev->egress = (struct nf_hook_ops){
		.hook = eipoib_egress,
		.priv = dev,
		.dev = dev->lower,
		.pf = NFPROTO_NETDEV,
		.hooknum = NF_NETDEV_EGRESS,
		.priority = INT_MAX,
	};
	ret = nf_register_net_hook(dev_net(dev->lower), &dev->egress);
	dev->hooked = !ret;
	return ret;
}

/* With rtnl, in the namespace in which the hook was registered. */
void eipoib_lower_unhook(struct eipoib_dev *dev)
{
	if (dev->hooked)
		nf_unregister_net_hook(dev_net(dev->lower), &dev->egress);
	dev->hooked = false;
}
#else
int eipoib_lower_hook(struct eipoib_dev *dev)
{
	return 0;
}

void eipoib_lower_unhook(struct eipoib_dev *dev)
{
}
#endif

/* ---- attach -------------------------------------------------------------- */

/* The interface on top of an IPoIB interface, or NULL.  With rtnl. */
struct eipoib_dev *eipoib_on_lower(const struct net_device *lower)
{
	ASSERT_RTNL();
	if (rtnl_dereference(lower->rx_handler) != eipoib_handle)
		return NULL;
	return rtnl_dereference(lower->rx_handler_data);
}

/**
 * eipoib_lower_check - can an interface be below?
 * @lower: interface
 * @extack: what is said if it can't
 * Return: 0 or -errno
 */
int eipoib_lower_check(const struct net_device *lower,
		       struct netlink_ext_ack *extack)
{
	if (lower->type != ARPHRD_INFINIBAND ||
	    lower->addr_len != INFINIBAND_ALEN) {
		NL_SET_ERR_MSG(extack,
			       "The lower interface is not an IPoIB interface");
		return -EINVAL;
	}
	if (eipoib_on_lower(lower)) {
		NL_SET_ERR_MSG(extack,
			       "The lower interface has an eipoib interface already");
		return -EBUSY;
	}
	if (netif_is_bond_slave(lower)) {
		NL_SET_ERR_MSG(extack,
			       "The lower interface is in a bond: use the bond");
		return -EBUSY;
	}
	return 0;
}

/**
 * eipoib_lower_may - may the caller decide who has which address on the fabric?
 * @dev: interface
 *
 * It may be in the namespace of a container, whose administrator is not that of
 * the lower interface.
 *
 * Context: process.
 * Return: true if it has CAP_NET_ADMIN in the lower interface's namespace
 */
bool eipoib_lower_may(const struct eipoib_dev *dev)
{
	return ns_capable(dev_net(dev->lower)->user_ns, CAP_NET_ADMIN);
}

/**
 * eipoib_lower_attach - begin to get the packets of the lower interface
 * @dev: interface
 * @extack: what is said if it fails
 * Return: 0 or -errno.  With rtnl.
 */
int eipoib_lower_attach(struct eipoib_dev *dev, struct netlink_ext_ack *extack)
{
	int ret;

	ret = netdev_rx_handler_register(dev->lower, eipoib_handle, dev);
	if (ret) {
		NL_SET_ERR_MSG(extack,
			       "The packets of the lower interface are taken by something else");
		return ret;
	}
	ret = eipoib_lower_hook(dev);
	if (ret) {
		NL_SET_ERR_MSG(extack, "No hook for what this host sends");
		netdev_rx_handler_unregister(dev->lower);
	}
	if (!ret && !IS_ENABLED(CONFIG_NETFILTER_EGRESS))
		NL_SET_ERR_MSG(extack,
			       "This kernel has no NETFILTER_EGRESS: guests and this host don't reach each other");
	return ret;
}

/* With rtnl; when it returns, no packet is looked at any more. */
void eipoib_lower_detach(struct eipoib_dev *dev)
{
	eipoib_lower_unhook(dev);
	netdev_rx_handler_unregister(dev->lower);
}

# SPDX-License-Identifier: GPL-2.0-only
"""The library of the IPoIB self-tests: everything a test file needs."""

import os
import sys

# For what test files and the programs on the host share
sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)),
                             "../.."))

# pylint: disable=wrong-import-position
from .ksft import (Failed, Skip, defer, define, expect_report, fixed_in_ours,
                   in_groups, ksft_eq, ksft_false, ksft_ge, ksft_gt, ksft_in,
                   ksft_le, ksft_lt, ksft_ne, ksft_not_in, ksft_pr, ksft_raises,
                   ksft_true, not_ud, ours_differs, ours_only, own_interfaces,
                   timeout, verbs_only)
from .utils import (bkg, cmd, exists, hold, ip, kmsg_since, kmsg_tail, module,
                    need_modules, now, read, read_int, slow, stagger,
                    wait_until, write)
from .netns import Netns, ROOT
from .fabric import Hca, fabric, hca, port, sa_query, sm
from .ipoib import (End, any_ends, counted, ends, ends_with, ensure_module,
                    flowing, ifaces, load_module, loaded, mgid_of, plain_ends,
                    settled, stuck, unheard, unload_module)
from .traffic import (Flood, Stream, UdpSink, mcast_flow, mcast_passes,
                      mcast_receiver, mcast_sender, neigh_flush, ping, ping_ok,
                      tcp_transfer, udp_exchange)
from .capture import Capture, Mirror
from .tracing import Call, Graph, Tracer, traceable

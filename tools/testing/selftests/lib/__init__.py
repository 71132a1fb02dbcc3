# SPDX-License-Identifier: GPL-2.0-only
"""The library of the IPoIB self-tests: everything a test file needs."""

from .ksft import (ExpectedFailure, Failed, Skip, defer, defer_ctx,
                   expect_report, fixed_in_ours, in_groups, ksft_eq,
                   ksft_false, ksft_ge, ksft_gt, ksft_in, ksft_le, ksft_lt,
                   ksft_ne, ksft_not_in, ksft_pr, ksft_raises, ksft_true,
                   main, ours_differs, ours_only, run_cases, timeout)
from .utils import (CmdError, bkg, cmd, exists, hold, ip, kmsg_since,
                    kmsg_tail, module, now, pids_of, read, read_int,
                    rtnl_exclusive_free, slow, stagger, wait_until, write)
from .netns import Netns, ROOT
from .fabric import (Fabric, Hca, Port, Sm, fabric, hca, port, sa_query, sm)
from .ipoib import (End, Ends, any_ends, ends, ensure_module, flowing,
                    ifaces, load_module, loaded, mgid_of, other_module_loaded,
                    settled, stuck, unheard, unload_module)
from .traffic import (Flood, Stream, UdpSink, mcast_receiver, mcast_sender,
                      neigh_flush, ping, ping_ok, tcp_transfer, udp_exchange)
from .capture import Capture, Mirror
from .tracing import Tracer

# SPDX-License-Identifier: GPL-2.0-only
"""How Sphinx makes pages of this directory: make docs."""

# pylint: disable=invalid-name
project = "ib_ipoib"
author = "the ib_ipoib developers"
exclude_patterns = ["floors", "netlink"]
html_theme = "alabaster"
html_theme_options = {"page_width": "60em", "show_powered_by": False}
html_show_copyright = False
nitpicky = True

# SPDX-License-Identifier: GPL-2.0-only
"""Texts of OpenSM's partitions.conf that several test files have in their BOOT."""

# P_Key 0x8001 beside the default one
ONE = ("Default=0x7fff, ipoib : ALL=full;\n"
       "p1=0x0001, ipoib : ALL=full;\n")
# 0x8001 to 0x8008
EIGHT = ("Default=0x7fff, ipoib : ALL=full;\n"
         "p1=0x0001, ipoib : ALL=full;\n"
         "p2=0x0002, ipoib : ALL=full;\n"
         "p3=0x0003, ipoib : ALL=full;\n"
         "p4=0x0004, ipoib : ALL=full;\n"
         "p5=0x0005, ipoib : ALL=full;\n"
         "p6=0x0006, ipoib : ALL=full;\n"
         "p7=0x0007, ipoib : ALL=full;\n"
         "p8=0x0008, ipoib : ALL=full;\n")

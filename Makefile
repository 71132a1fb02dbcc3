# SPDX-License-Identifier: GPL-2.0-only
#
# Read by kbuild (KERNELRELEASE is set) this says what the driver is made of,
# in a kernel tree as well as outside; called by hand it has the targets that
# "make help" lists.

ifneq ($(KERNELRELEASE),)

ifneq ($(KBUILD_EXTMOD),)
CONFIG_INFINIBAND_IPOIB := m
CONFIG_INFINIBAND_IPOIB_CM ?= y
CONFIG_INFINIBAND_IPOIB_DEBUG ?= y
ifneq ($(CONFIG_KUNIT),)
CONFIG_INFINIBAND_IPOIB_KUNIT_TEST := m
ccflags-y += -DCONFIG_INFINIBAND_IPOIB_KUNIT_TEST_MODULE=1
endif

ipoib-options := CM DEBUG DEBUG_DATA
# What the kernel's configuration says does not bind this build.
ifneq ($(wildcard $(src)/ipoib_config.h),)
ccflags-y += -include $(src)/ipoib_config.h
else
ccflags-y += $(foreach option,$(ipoib-options), \
	$(if $(filter y,$(CONFIG_INFINIBAND_IPOIB_$(option))), \
	     -DCONFIG_INFINIBAND_IPOIB_$(option)=1))
endif
ifneq ($(wildcard $(src)/compat/ipoib_compat.h),)
compat := $(src)/compat
include $(compat)/Makefile.compat
ccflags-y += -include $(compat)/ipoib_compat.h $(compat-flags)
endif
ccflags-y += -I$(src)/include/uapi
endif

obj-$(CONFIG_INFINIBAND_IPOIB) += ib_ipoib.o

ib_ipoib-y := ipoib_main.o ipoib_netdev.o ipoib_settings.o ipoib_dev.o \
	      ipoib_port.o ipoib_ib.o ipoib_ud.o ipoib_tso.o ipoib_cq.o \
	      ipoib_rx.o ipoib_tx.o ipoib_poll.o ipoib_channel.o ipoib_ah.o \
	      ipoib_attach.o ipoib_lost.o ipoib_probe.o \
	      ipoib_source.o ipoib_path.o ipoib_neigh.o ipoib_drain.o \
	      ipoib_group.o ipoib_multicast.o ipoib_vlan.o ipoib_netlink.o \
	      ipoib_pmtu.o ipoib_skb.o ipoib_sysfs.o ipoib_ethtool.o \
	      ipoib_proto.o ipoib_rules.o ipoib_fit.o ipoib_why.o \
	      ipoib_msg.o ipoib_genl.o ipoib_verbs.o ipoib_enhanced.o
ib_ipoib-$(CONFIG_INFINIBAND_IPOIB_CM) += ipoib_link.o ipoib_rc.o \
	ipoib_cm_port.o ipoib_cm_peers.o ipoib_conn.o ipoib_cm.o
ib_ipoib-$(CONFIG_INFINIBAND_IPOIB_DEBUG) += ipoib_fs.o

obj-$(CONFIG_INFINIBAND_IPOIB_KUNIT_TEST) += ib_ipoib_test.o
ib_ipoib_test-y := ipoib_test.o

# Trace headers are found beside the sources.
CFLAGS_ipoib_main.o := -I$(src)

# The same sources under another name, beside the distribution's module.
ifneq ($(IPOIB_INTEROP),)
obj-m := ib_ipoib_interop.o
ib_ipoib_interop-y := $(ib_ipoib-y) $(ib_ipoib-m)
ccflags-y += -DIPOIB_INTEROP
endif

# What DKMS builds has the version of the package.
ifneq ($(IPOIB_VERSION),)
ib_ipoib-y += compat/ipoib_version.o
ccflags-y += -DIPOIB_VERSION='"$(IPOIB_VERSION)"'
endif

else # called by hand

KERNEL ?= 6.12
VM := tools/testing/vm
FABRIC := tools/testing/ibdevsim
ETHERNET := eth_ipoib
IPROUTE2 := tools/iproute2
BROKEN := tools/testing/broken
BENCH := tools/testing/bench
FUZZ := tools/testing/fuzz
OUT := build

# The running kernel's for "make install" and "make uninstall", or what the user
# says; else a Debian kernel from the cache.
ifneq ($(filter install uninstall,$(MAKECMDGOALS)),)
KDIR ?= /lib/modules/$(shell uname -r)/build
endif
ifeq ($(origin KDIR),undefined)
KDIR = $(eval KDIR := $$(shell $(VM)/kernels kdir $(KERNEL)))$(KDIR)
DEFAULT := $(filter 6.12,$(KERNEL))
else
DEFAULT := yes
endif
RELEASE = $(eval RELEASE := $$(shell sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' \
	$(KDIR)/include/generated/utsrelease.h 2>/dev/null))$(RELEASE)

# A kernel that is too new for this machine's compiler says so with a file.
CHROOT = $(if $(wildcard $(KDIR)/../../../.chroot),$(VM)/chroot run)

# Without pahole there is no BTF for modules; nobody misses it.
KBUILD = +@$(CHROOT) $(MAKE) -C $(KDIR) M=$(CURDIR)/$(1) \
	CONFIG_DEBUG_INFO_BTF_MODULES= $(2) modules

# One build at a time and per kernel, on links to the sources, so that objects
# of different kernels never meet.  $(1): directory, $(2): files, $(3): words
# for kbuild.  A file that is gone leaves a dangling link behind.
define build
	@test -e "$(KDIR)/Makefile" || \
		{ echo "no kernel headers in '$(KDIR)'" >&2; exit 1; }
	@mkdir -p $(1)
	@find $(1) -xtype l -delete
	@cp -sf $(abspath $(2)) $(1)/
	$(call KBUILD,$(1),$(3))
endef

# Copies only what is different, for the sake of time stamps.
update = @cmp -s $(1) $(2) || { mkdir -p $(dir $(2)); cp $(1) $(2); }

OPTIONS := CM DEBUG DEBUG_DATA
CONFIG_INFINIBAND_IPOIB_CM ?= y
CONFIG_INFINIBAND_IPOIB_DEBUG ?= y

define write-config
	@mkdir -p $(1)
	@for option in $(foreach o,$(OPTIONS),$(o)=$(CONFIG_INFINIBAND_IPOIB_$(o))); do \
		name=CONFIG_INFINIBAND_IPOIB_$${option%%=*}; \
		echo "#undef $$name"; \
		[ "$${option#*=}" != y ] || echo "#define $$name 1"; \
	done > $(1)/.config.new
	@cmp -s $(1)/.config.new $(1)/ipoib_config.h || \
		cp $(1)/.config.new $(1)/ipoib_config.h
	$(call link-compat,$(1))
	@cp -rsf $(CURDIR)/include $(1)/
endef

# What older kernels lack, with links as for the rest
define link-compat
	@mkdir -p $(1)/compat
	@cp -rsf $(CURDIR)/compat/. $(1)/compat/
endef

CONFIG_WORDS = $(foreach o,$(OPTIONS),CONFIG_INFINIBAND_IPOIB_$(o)=$(CONFIG_INFINIBAND_IPOIB_$(o)))
SOURCES = $(wildcard *.c *.h) Makefile

all: modules

# kbuild is started under a lock: other people's runs build too.
LOCKED := modules ethernet fabric interop broken floor selftest recorded
ifeq ($(IPOIB_BUILD_LOCKED),)

$(LOCKED):
	@mkdir -p build
	+@flock build/.lock $(MAKE) --no-print-directory \
		$@ KDIR='$(KDIR)' DEFAULT='$(DEFAULT)' IPOIB_BUILD_LOCKED=1

else

modules:
	$(call write-config,$(OUT)/$(RELEASE)/ib_ipoib)
	$(call build,$(OUT)/$(RELEASE)/ib_ipoib,$(SOURCES),$(CONFIG_WORDS) \
		$(if $(filter gcov,$(KERNEL)),GCOV_PROFILE=y))
ifneq ($(DEFAULT),)
	$(call update,$(OUT)/$(RELEASE)/ib_ipoib/ib_ipoib.ko,ib_ipoib.ko)
endif

fabric:
	$(call link-compat,$(OUT)/$(RELEASE)/ibdevsim)
	$(call build,$(OUT)/$(RELEASE)/ibdevsim,$(wildcard $(FABRIC)/*.c \
		$(FABRIC)/*.h $(FABRIC)/Makefile $(FABRIC)/Kbuild))
ifneq ($(DEFAULT),)
	$(call update,$(OUT)/$(RELEASE)/ibdevsim/ibdevsim.ko,$(FABRIC)/ibdevsim.ko)
endif

ethernet:
	$(call link-compat,$(OUT)/$(RELEASE)/eth_ipoib)
	@cp -rsf $(CURDIR)/include $(OUT)/$(RELEASE)/eth_ipoib/
	$(call build,$(OUT)/$(RELEASE)/eth_ipoib,$(wildcard $(ETHERNET)/*.c \
		$(ETHERNET)/*.h $(ETHERNET)/Makefile))

interop:
	$(call write-config,$(OUT)/$(RELEASE)/interop)
	$(call build,$(OUT)/$(RELEASE)/interop,$(SOURCES),$(CONFIG_WORDS) IPOIB_INTEROP=1)
ifneq ($(DEFAULT),)
	$(call update,$(OUT)/$(RELEASE)/interop/ib_ipoib_interop.ko,build/interop/ib_ipoib_interop.ko)
endif

broken:
	$(call build,$(OUT)/$(RELEASE)/broken,$(wildcard $(BROKEN)/*.c $(BROKEN)/Makefile))

selftest:
	$(call link-compat,$(OUT)/$(RELEASE)/selftest)
	$(call build,$(OUT)/$(RELEASE)/selftest,$(wildcard $(FABRIC)/selftest/*.c $(FABRIC)/selftest/Makefile))

floor:
	$(call link-compat,$(OUT)/$(RELEASE)/floor)
	$(call build,$(OUT)/$(RELEASE)/floor,$(wildcard $(BENCH)/floor/*.c $(BENCH)/floor/Makefile))

# All three modules with a recorder of what runs in them, for the fuzzer.  $(1):
# module, $(2): files, $(3): words for kbuild
COVER := $(OUT)/$(RELEASE)/recorded
define build-recorded
	@mkdir -p $(COVER)/$(1)
	@cp -sf $(CURDIR)/$(FUZZ)/cover/cover.h $(CURDIR)/$(FUZZ)/cover/cover_point.c $(COVER)/$(1)/
	@cp -sf $(CURDIR)/$(FUZZ)/cover/Kbuild.recorded $(COVER)/$(1)/Kbuild
	$(call build,$(COVER)/$(1),$(2),$(3) RECORDED=$(1) \
		KBUILD_EXTRA_SYMBOLS=$(CURDIR)/$(COVER)/cover/Module.symvers)
endef

recorded:
	$(call build,$(COVER)/cover,$(wildcard $(FUZZ)/cover/*.[ch] $(FUZZ)/cover/Makefile))
	$(call write-config,$(COVER)/ib_ipoib)
	$(call build-recorded,ib_ipoib,$(SOURCES),$(CONFIG_WORDS))
	$(call link-compat,$(COVER)/ibdevsim)
	$(call build-recorded,ibdevsim,$(wildcard $(FABRIC)/*.c $(FABRIC)/*.h \
		$(FABRIC)/Makefile $(FABRIC)/Kbuild))
	$(call link-compat,$(COVER)/eth_ipoib)
	@cp -rsf $(CURDIR)/include $(COVER)/eth_ipoib/
	$(call build-recorded,eth_ipoib,$(wildcard $(ETHERNET)/*.c $(ETHERNET)/*.h \
		$(ETHERNET)/Makefile))

endif

# Traffic for the benchmark, in user space
load: $(OUT)/bench/load

$(OUT)/bench/load: $(BENCH)/load.c
	@mkdir -p $(@D)
	$(CC) -O2 -Wall -Wextra -pthread -o $@ $<

# A plug-in for ip(8): settings of links of the kind eipoib
iproute2: $(OUT)/iproute2/link_eipoib.so

$(OUT)/iproute2/link_eipoib.so: $(IPROUTE2)/link_eipoib.c $(IPROUTE2)/plugin.h \
		include/uapi/linux/eth_ipoib.h
	@mkdir -p $(@D)
	$(CC) -O2 -Wall -Wextra $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -fPIC -shared \
		-Iinclude/uapi -o $@ $<

# A machine within a test's machine: what it boots
nested: $(OUT)/nested/initramfs

$(OUT)/nested/initramfs: $(VM)/nested
	$(VM)/nested $(@D)

# Counts what a guest executes; for $(BENCH)/profile
insns: $(OUT)/bench/insns.so

$(OUT)/bench/insns.so: $(BENCH)/insns.c
	@mkdir -p $(@D)
	$(CC) -O2 -Wall -Wextra -Wno-unused-parameter -shared -fPIC -o $@ $<

setup:
	@$(VM)/setup

ifneq ($(IB_LOCAL),)
# Two hosts with real HCAs; nothing of the machines is needed.
check:
	@tools/testing/hardware '$(IB_LOCAL)' '$(IB_REMOTE)' \
		$(if $(filter-out 0 n,$(DISTURB)),--disturb)
else
check: setup
	@tools/testing/check T='$(T)' IPOIB='$(IPOIB)' KERNEL='$(KERNEL)' \
		PROFILE='$(PROFILE)' HCA='$(HCA)' DEBUG='$(DEBUG)' COVERAGE='$(COVERAGE)'
endif

stress: setup
	@IPOIB_MINUTES='$(MINUTES)' IPOIB_SEED='$(SEED)' tools/testing/check T=@stress \
		IPOIB='$(IPOIB)' KERNEL='$(KERNEL)' PROFILE='$(PROFILE)' HCA='$(HCA)' \
		DEBUG='$(DEBUG)'

bench:
	@$(BENCH)/bench QUICK='$(QUICK)' BASE='$(BASE)' ONLY='$(ONLY)' KERNEL='$(KERNEL)' \
		PROFILE='$(PROFILE)'

build-all-kernels: setup
	@tools/testing/build-all-kernels

release-check:
	@tools/testing/release-check $(ONLY)

unit:
	@$(MAKE) -s -C tools/testing/unit

fuzz: setup
	@$(FUZZ)/fuzz MINUTES='$(MINUTES)' SEED='$(SEED)' KERNEL='$(KERNEL)' \
		DEBUG='$(DEBUG)' REPLAY='$(REPLAY)' EMPTY='$(EMPTY)' KEEP='$(KEEP)' \
		ONLY='$(ONLY)' DEFECT='$(DEFECT)' CORE='$(CORE)'

demo: setup
	@tools/testing/demo

shell: setup
	@$(VM)/run --kernel $(KERNEL) --ipoib $(or $(IPOIB),ours) --hcas 2 \
		--timeout 86400 --shell -- $(VM)/shell

# What programs of user space the tests of the verbs run
verbs-tools:
	@$(VM)/setup --no-kernel --verbs

# The programs that keep clocks by the time stamps of packets
ptp-tools:
	@$(VM)/setup --no-kernel --ptp

# Two hosts whose programs of user space can use the fabric
fabric-shell: setup verbs-tools
	@$(VM)/run --kernel $(KERNEL) --ipoib $(or $(IPOIB),ours) --hcas 2 \
		--fabric-args provider=hfi1 --timeout 86400 --shell -- \
		$(VM)/shell --verbs

# Debian packages, in a Debian 12 of its own
debs rpms:
	@$(VM)/setup --only packages
	@tools/packaging/$@ build

# Pages of the documentation; what Sphinx warns of is an error.
docs:
	@$(VM)/setup --only docs
	@sphinx-build -q -W --keep-going -b html Documentation $(OUT)/html
	@echo "$(OUT)/html/index.html"

DESTDIR ?= $(INSTALL_MOD_PATH)
# Where ip(8) looks for plug-ins: Debian's directory, or that of others
IP_LIB_DIR ?= /usr/$(or $(addprefix lib/,$(shell $(CC) -print-multiarch)),lib64)/ip
UPDATES = $(DESTDIR)/lib/modules/$(RELEASE)/updates
LOCAL = $(DESTDIR)/usr/local
install: modules ethernet iproute2
	install -D -m 644 $(OUT)/$(RELEASE)/ib_ipoib/ib_ipoib.ko $(UPDATES)/ib_ipoib.ko
	install -D -m 644 $(OUT)/$(RELEASE)/eth_ipoib/eth_ipoib.ko $(UPDATES)/eth_ipoib.ko
	install -D -m 644 -t $(DESTDIR)$(IP_LIB_DIR) $(OUT)/iproute2/link_eipoib.so
	install -D -m 644 -t $(LOCAL)/lib/ipoibctl $(wildcard tools/ipoibctl/*.py)
	install -t $(LOCAL)/lib/ipoibctl tools/ipoibctl/ipoibctl
	install -d $(LOCAL)/sbin
	ln -sf ../lib/ipoibctl/ipoibctl $(LOCAL)/sbin/ipoibctl
	install -D -m 644 -t $(LOCAL)/share/man/man8 tools/ipoibctl/ipoibctl.8
	$(if $(DESTDIR),,depmod $(RELEASE))

# What "make install" has put there; directories stay if anything else is in them.
uninstall:
	@[ -n "$(RELEASE)" ] || { echo "no kernel headers in '$(KDIR)':" \
		"say RELEASE=, as uname -r prints it" >&2; exit 1; }
	rm -f $(UPDATES)/ib_ipoib.ko $(UPDATES)/eth_ipoib.ko
	rm -f $(DESTDIR)$(IP_LIB_DIR)/link_eipoib.so
	rm -rf $(LOCAL)/lib/ipoibctl
	rm -f $(LOCAL)/sbin/ipoibctl $(LOCAL)/share/man/man8/ipoibctl.8
	@rmdir $(UPDATES) $(DESTDIR)$(IP_LIB_DIR) 2>/dev/null || true
	$(if $(DESTDIR),,depmod $(RELEASE))

clean:
	rm -rf build ib_ipoib.ko $(FABRIC)/ibdevsim.ko
	find tools -name __pycache__ -prune -exec rm -rf {} +

help:
	@echo 'make              build ib_ipoib.ko (KERNEL=6.12, 6.1, 6.18 or newest, which is'
	@echo '                  fetched if needed; KDIR=DIR for other headers, such as those of'
	@echo '                  the running kernel: KDIR=/lib/modules/$$(uname -r)/build)'
	@echo 'make W=1 C=1      the same with more warnings, and sparse'
	@echo 'make ethernet     build eth_ipoib.ko; make iproute2 its plug-in for ip(8)'
	@echo 'make build-all-kernels  build for all of these kernels, and within the'
	@echo '                  newest one'"'"'s source tree; a warning is an error'
	@echo 'make debs         Debian packages of driver, fabric and ipoibctl; make rpms'
	@echo '                  the same for other distributions'
	@echo 'make docs         the documentation as HTML, in build/html'
	@echo 'make demo         two hosts on a simulated fabric, shown to a person'
	@echo 'make check        run the core of the tests; T=NAME selects some, T=@GROUP a'
	@echo '                  group, T=@all all; IPOIB=stock tests the module of the'
	@echo '                  distribution, KERNEL=6.1 or newest another kernel'
	@echo 'make check DEBUG=1     run them on a kernel with everything that finds'
	@echo '                  defects: KASAN, lockdep, kmemleak and others'
	@echo 'make check PROFILE=worst  on HCAs that are hard on drivers, or are like those'
	@echo '                  that exist: $(FABRIC)/README.rst'
	@echo 'make check HCA=KEY=VALUE,...   on HCAs with these keys, likewise'
	@echo 'make check IB_LOCAL=mlx5_0:1 IB_REMOTE=HOST  try this host'"'"'s IPoIB, as it is'
	@echo '                  set up, with that of another one that ssh reaches;'
	@echo '                  DISTURB=1 also changes modes and makes children'
	@echo 'make check COVERAGE=1  say which lines of the driver the tests run; report'
	@echo '                  in build/coverage'
	@echo 'make release-check     all that a release has to pass, in pieces of at most 45'
	@echo '                  minutes; called again it goes on where it was ended;'
	@echo '                  ONLY=PIECE selects some'
	@echo 'make stress       everything at once, commands and events at random under traffic;'
	@echo '                  MINUTES=30, SEED=1, DEBUG=1; IPOIB=, KERNEL= as for check'
	@echo 'make bench        measure it beside the module of the distribution; table, and'
	@echo '                  report.html in build/bench; 20 minutes, with QUICK=1 4;'
	@echo '                  BASE=REV compares with another revision of this driver,'
	@echo '                  PROFILE=HCA measures on HCAs of another kind (mlx4, nomod, ...)'
	@echo 'make unit         the tests of what needs no device, in user space; also part of'
	@echo '                  make check'
	@echo 'make fuzz         let libFuzzer look for input that breaks them, and for packets,'
	@echo '                  requests and commands that break the modules in a machine;'
	@echo '                  MINUTES=5, DEBUG=1, REPLAY=FILE, DEFECT=NAME: $(FUZZ)/README.rst'
	@echo 'make shell        a root shell in a virtual machine, two hosts on the fabric'
	@echo 'make fabric-shell the same, for programs that use verbs (ibv_*, perftest)'
	@echo 'make setup        install what tests and machines need (Debian 12, as root);'
	@echo '                  debs, rpms and docs install only what they need'
	@echo 'make ethernet     build eth_ipoib.ko, Ethernet interfaces on top of IPoIB'
	@echo 'make fabric       build the fabric, $(FABRIC)/ibdevsim.ko'
	@echo 'make interop      build build/interop/ib_ipoib_interop.ko, which can be loaded'
	@echo '                  beside the module of the distribution'
	@echo 'make install      build for the running kernel and install; make uninstall'
	@echo '                  removes that again, RELEASE= for another kernel'
	@echo 'make clean        remove what was built'

.PHONY: all debs rpms docs $(LOCKED) load iproute2 nested setup check bench build-all-kernels release-check stress unit fuzz demo shell fabric-shell verbs-tools ptp-tools install uninstall clean help

endif

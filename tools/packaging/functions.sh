# SPDX-License-Identifier: GPL-2.0-only
#
# What debs and rpms share: a Debian in the cache to build and try packages in.

IPOIB_VM=$(realpath "$(dirname "$(realpath "$0")")/../testing/vm")
. "$IPOIB_VM/functions.sh"

# Make a Debian ($1: release, $2: packages) if it is not there; sets TOP.
packages_get()
{
	TOP=$CACHE/packages/${3:-$1}
	debian_get "$1" "$TOP" "$2" "$2
packages: main of $1"
}

# Run a script ($1) in a copy of that Debian that is gone afterwards; $2 is
# seen as /packages.
inside()
{
	exec unshare --mount --propagation private sh -eu -c '
		top=$1 out=$2 tree=$3 script=$4
		mount -t tmpfs -o mode=755 tmpfs /mnt
		mkdir /mnt/upper /mnt/work /mnt/root
		mount -t overlay overlay -o "lowerdir=$top,upperdir=/mnt/upper,workdir=/mnt/work" \
			/mnt/root
		mkdir -p /mnt/root/packages /mnt/root/tree
		mount -t proc proc /mnt/root/proc
		mount --rbind /dev /mnt/root/dev
		mount --bind "$tree" /mnt/root/tree
		mount --bind "$out" /mnt/root/packages
		printf "#!/bin/sh\nexit 101\n" > /mnt/root/usr/sbin/policy-rc.d
		chmod 755 /mnt/root/usr/sbin/policy-rc.d
		exec chroot /mnt/root env -i HOME=/root LANG=C.UTF-8 \
			DEBIAN_FRONTEND=noninteractive \
			PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -eu -c "$script"
		' sh "$TOP" "$2" "$PROJECT" "$1"
}

# For scripts inside: copy what belongs to the tree, without what was built there.
COPY='
mkdir /source
cd /tree
for name in *; do
	[ "$name" = build ] || cp -r "$name" /source/
done
find /source -name "*.ko" -delete
'

# For scripts inside: what has to be so once the packages are installed, for each
# kernel that has headers; and when they are gone.
CHECKS='
modules() { find /lib/modules /var/lib/dkms -name "$1*"; }
installed()
{
	for kernel in /lib/modules/*; do
		[ -e "$kernel/build" ] || continue
		kernel=${kernel##*/}
		for module in ib_ipoib eth_ipoib ibdevsim; do
			path=$(modinfo -k "$kernel" -n $module)
			case $path in
			*/updates/dkms/$module.ko*) echo "$kernel: $path" ;;
			*) echo "modprobe would load $path"; exit 1 ;;
			esac
		done
	done
	plugin=$(find /usr/lib* -name link_eipoib.so)
	IP_LIB_DIR=$(dirname "$plugin") ip link add type eipoib help 2>&1 |
		grep max_guests
	ipoibctl show
	ipoibctl swap -n 2>&1 | grep "ib_ipoib is not loaded"
}
removed()
{
	left=$(modules "ib*ipoib*"; modules "eth*ipoib*"; modules "ibdevsim*")
	[ -z "$left" ] || { echo "left behind:" $left; exit 1; }
	echo "removed, and nothing is left"
}
'

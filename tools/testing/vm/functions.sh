# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2034
#
# For the scripts of this directory, which read it: places, and what they say.
# Those of others set IPOIB_VM, this directory, before.

VM=${IPOIB_VM:-$(dirname "$(realpath "$0")")}
PROJECT=$(realpath "$VM/../../..")
CACHE=$("$VM/cache")

say()
{
	echo "${0##*/}: $*" >&2
}

die()
{
	say "$@"
	exit 1
}

# The comment that the script begins with
usage()
{
	sed -n '/^#$/,/^$/s/^# \{0,1\}//p; /^set -eu$/q' "$0"
}

# ---- a Debian in a directory ----------------------------------------------

KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# Lines for apt: $1 and its backports, from the mirror that this machine's
# release comes from.
debian_sources()
{
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	line=$("$VM/apt-sources" "${codename:-bookworm}" |
	       grep -v security | head -n 1)
	[ -n "$line" ] || die "apt has no source to derive that of $1 from"
	options=$(echo "${line%%|*}" | tr -d '[]' | tr ' ' '\n' |
		  grep -v -e '^signed-by=' -e '^$' | tr '\n' ' ')
	uri=${line#*|}
	uri=${uri%|*}
	[ -f "$KEYRING" ] || die "there is no $KEYRING"
	for suite in "$1" "$1-backports"; do
		echo "deb [${options}signed-by=$KEYRING] $uri $suite main"
		echo "deb-src [${options}signed-by=$KEYRING] $uri $suite main"
	done
}

# $top is there, and was made by $recipe.
debian_complete()
{
	[ "$(cat "$top/.complete" 2>/dev/null)" = "$recipe" ]
}

# Make directory $2 one of release $1 with packages $3, unless it is there and
# was made by the same recipe, $4.  More words are for mmdebstrap.
debian_get()
{
	release=$1 top=$2 packages=$3 recipe=$4
	shift 4
	if debian_complete; then
		return
	fi
	mkdir -p "$(dirname "$top")"
	(
		flock 9
		debian_complete || debian_make "$@"
	) 9>"$(dirname "$top")/.lock"
}

debian_make()
{
	[ "$(id -u)" = 0 ] || die "not root, cannot make $top"
	command -v mmdebstrap >/dev/null ||
		die "there is no mmdebstrap; run $VM/setup first"
	say "making $top"
	temp=$(dirname "$top")/.new
	rm -rf --one-file-system "$temp" "$top"
	mkdir -p "$temp"
	debian_sources "$release" > "$temp.list"
	# how this machine gets at the mirror is how that one does
	apt-config dump | grep -E '^Acquire::[a-zA-Z]+::(Proxy|CA|Verify)' \
		> "$temp.conf" || true
	include=$(echo $packages | tr ' ' ,)
	# Without translations and manuals; the lists of packages stay.  What it
	# mounts there goes with it, whatever happens.
	unshare --mount --propagation private \
	mmdebstrap --quiet --variant=minbase --mode=root \
		--include="$include" --aptopt="$temp.conf" \
		--aptopt='Acquire::Languages "none"' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--skip=cleanup/apt/lists "$@" \
		"$release" "$temp" "$temp.list" >&2 </dev/null ||
		die "mmdebstrap failed"
	echo "$recipe" > "$temp/.complete"
	mv "$temp" "$top"
	rm -f "$temp.list" "$temp.conf"
}

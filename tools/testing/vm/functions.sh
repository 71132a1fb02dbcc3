# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2034
#
# For the scripts of this directory, which read it: places, and what they say.

VM=$(dirname "$(realpath "$0")")
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

# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# For the tests that take packages from Debian's archive. Source it after tap.sh.

# The archive that this system installs from; empty if it is not Debian.
archive() {
	local codename
	codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	# shellcheck disable=SC2016 # apt expands these
	apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
		awk -v "release=$codename" '$1 == release { print $2; exit }'
}

# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# Compares what `cargo cinstall` installed below $CINSTALLED with what `make install`
# installed below $MADE, both to /usr and /usr/lib/$MULTIARCH. Source it after tap.sh.

# library_part TREE: the files that cargo-c installs too
library_part() {
	(cd "$1" && find . ! -type d | grep -vE '/(man|bin)/|/librdma_verbs_preload\.so$' | sort)
}

# of_module TREE: what pkg-config reports
of_module() {
	PKG_CONFIG_PATH=$1/usr/lib/$MULTIARCH/pkgconfig \
		pkg-config --cflags --libs --modversion --print-requires librdma_verbs
}

cinstalled_the_same_files() {
	same "$(library_part "$MADE")" "$(library_part "$CINSTALLED")"
	diff -r "$MADE/usr/include" "$CINSTALLED/usr/include"
	same "$(of_module "$MADE")" "$(of_module "$CINSTALLED")"
}

# exported TREE: the symbols of its library, with their versions
exported() {
	nm -D --defined-only "$1/usr/lib/$MULTIARCH/librdma_verbs.so.1" |
		awk '$2 != "A" { print $3 }' | sort
}

cinstalled_without_versions() {
	same "$(exported "$MADE" | sed 's/@.*//')" "$(exported "$CINSTALLED")"
}

# A program linked with either library runs with the other.
runs_with_either() {
	local linked other
	for linked in "$MADE" "$CINSTALLED"; do
		cc -Iinclude -o "$work/program" c-tests/header/every.c c-tests/fake/fake.c \
			-L"$linked/usr/lib/$MULTIARCH" -lrdma_verbs -lrdmacm -libverbs
		for other in "$MADE" "$CINSTALLED"; do
			LD_LIBRARY_PATH=$other/usr/lib/$MULTIARCH timeout 60 "$work/program"
		done
	done
}

check_cinstalled() {
	check "$1: the files are those of make install" cinstalled_the_same_files
	check "$1: the symbols are the same, without versions" cinstalled_without_versions
	check "$1: programs of the one run with the library of the other" runs_with_either
}

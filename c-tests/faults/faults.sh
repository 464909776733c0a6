# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=bash
#
# The load and the faults: for check-faults and soak, which source it after lib/tap.sh.

readonly programs=$root/build/c-tests/faults
readonly address=192.0.2.2

# --- server and client ------------------------------------------------------------

# start_server [srq]: leaves $server and $port. Each test runs in a shell of its own, with
# which its processes end.
start_server() {
	"$programs/server" "$address" "$@" >"$work/server" 2>&1 &
	server=$!
	trap end_of_test EXIT
	until port=$(sed -n 's/^port //p' "$work/server") && [[ -n $port ]]; do
		kill -0 "$server" || return
		sleep 0.05
	done
}

end_of_test() {
	jobs -p | xargs -r kill -KILL 2>/dev/null || true
	calm
}

# stop_server: all it served must have been right
stop_server() {
	kill "$server"
	wait "$server" || return
	grep '^server:' "$work/server"
	! grep -v '^port \|^server:' "$work/server"
}

# client OPTION...: leaves its output in $work/client; its exit status
client() {
	timeout 100 "$programs/client" "$address" "$port" "$@" >"$work/client" 2>&1
}

# begin_client OPTION...: in the background; returns when it is connected
begin_client() {
	: >"$work/client"
	client "$@" &
	client=$!
	until grep -q connected "$work/client"; do
		kill -0 "$client" || return
		sleep 0.05
	done
}

# end_client STATUS: that it must end with; shows what it said
end_client() {
	local status=0
	wait "$client" || status=$?
	cat "$work/client"
	[[ $status -eq $1 ]]
}

# a_run OPTION...: nothing lost, nothing twice, each byte right, no wait too long
a_run() {
	client "$@" || { cat "$work/client"; return 1; }
}

# --- the wire -----------------------------------------------------------------------

# disturb NETEM...: both ends
disturb() {
	local end
	for end in veth0 veth1; do
		tc qdisc replace dev "$end" root netem limit 10000 "$@"
	done
}

calm() {
	local end
	for end in veth0 veth1; do
		tc qdisc del dev "$end" root 2>/dev/null || true
	done
}

now_ms() {
	awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime
}

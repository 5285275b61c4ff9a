#!/bin/sh
# Boots a throw-away machine out of this one's /usr, and runs machine.sh in it as root.
#
#   boot.sh INIT SHARE
#
#   INIT    systemd, openrc or none: what starts services there
#   SHARE   a directory that is /test there, machine.sh in it
#
# The machine has its own processes, mounts, network, cgroups, name and root file system; /usr is this
# one's, read-only. All of it ends with this script. It exits 77 where that cannot be had, and says why.
set -eu

init=$1
share=$2

skip() {
	printf '%s was not started, so nothing was tested with it: %s\n' "$init" "$*"
	exit 77
}

# --- inside -------------------------------------------------------------------------------------

# show FROM TO: a directory of this machine, read-only.
show() {
	mkdir -p "$2"
	mount --bind "$1" "$2"
	mount -o remount,bind,ro "$2"
}

show_usr() {
	if [ "$init" = openrc ]; then
		mount -t overlay -o "lowerdir=$base/openrc/usr:/usr" overlay usr
		cp -a "$base/openrc/etc/." etc
	else
		show /usr usr
	fi
	for dir in bin sbin lib lib32 lib64 libx32; do
		[ ! -h "/$dir" ] || cp -P "/$dir" "$dir"
	done
	# Debian's awk is a link through this.
	[ ! -d /etc/alternatives ] || cp -a /etc/alternatives etc
	mkdir -p "$base/local/bin"
	mount --bind "$base/local" usr/local
}

# Of systemd's own units those that a machine comes up with, and none of those for hardware.
show_units() {
	mount -t tmpfs -o mode=755 tmpfs usr/lib/systemd/system
	for unit in /usr/lib/systemd/system/*.target /usr/lib/systemd/system/systemd-journald*; do
		[ -d "$unit" ] || cp -P "$unit" usr/lib/systemd/system
	done
	mkdir usr/lib/systemd/system/sysinit.target.wants
	ln -s ../systemd-journald.service usr/lib/systemd/system/sysinit.target.wants
	ln -sf multi-user.target usr/lib/systemd/system/default.target
	# They would look for this machine's disks and consoles.
	mount -t tmpfs -o mode=755 tmpfs usr/lib/systemd/system-generators
}

show_devices() {
	mount -t tmpfs -o mode=755 tmpfs dev
	for device in null zero full random urandom tty; do
		: >"dev/$device"
		mount --bind "/dev/$device" "dev/$device"
	done
	ln -s /proc/self/fd dev/fd
	ln -s pts/ptmx dev/ptmx
	mkdir dev/shm dev/pts
}

become_machine() {
	base=$BASE
	mount --bind "$base/root" "$base/root" # only a mount can become the root
	cd "$base/root"
	mkdir usr etc var var/lib var/log run proc sys dev tmp root srv home opt old etc/systemd etc/systemd/system
	chmod 1777 tmp
	show_usr
	show "$share" test
	printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >etc/passwd
	printf 'root:x:0:\nnogroup:x:65534:\n' >etc/group
	printf '127.0.0.1 localhost\n' >etc/hosts
	ln -s /run var/run
	echo throwaway >etc/hostname
	echo 0123456789abcdef0123456789abcdef >etc/machine-id

	mount -t proc proc proc
	show proc/sys proc/sys # the kernel is this machine's, and so are its settings
	mount -t sysfs -o ro sysfs sys
	mount -t tmpfs -o mode=755 tmpfs run
	show_devices
	ip link set lo up 2>/dev/null || busybox ip link set lo up
	case $init in
	systemd)
		mount -t cgroup2 cgroup2 sys/fs/cgroup
		show_units
		first='exec /usr/lib/systemd/systemd'
		;;
	openrc) first='openrc default; while :; do sleep 1000; done' ;;
	none)
		[ ! -e usr/bin/systemctl ] || mount --bind dev/null usr/bin/systemctl
		first='while :; do sleep 1000; done'
		;;
	esac
	pivot_root . old
	exec env -i container=throwaway PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		sh -c "cd / && umount -l /old && rmdir /old && : >/run/throwaway && $first"
}

# --- outside ------------------------------------------------------------------------------------

clean_up() {
	code=$?
	# What starts all others in there takes them with it.
	for process in $machine $parent; do
		kill -KILL "$process" 2>/dev/null || :
	done
	wait
	if [ -n "$group" ]; then
		# The kernel may not have let go of the last process yet.
		tries=0
		until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || [ "$tries" = 50 ]; do
			tries=$((tries + 1))
			sleep 0.1
		done
	fi
	rm -rf --one-file-system "$base"
	exit "$code"
}

# fetch_openrc: Debian's package, unpacked as a layer for /usr. It is not installed: that would give this
# machine another init system.
fetch_openrc() {
	mkdir "$base/packages" "$base/unpacked"
	(cd "$base/packages" && apt-get download openrc libeinfo1 librc1) >"$base/log" 2>&1 ||
		skip "no package openrc: $(tail -n 1 "$base/log")"
	for package in "$base"/packages/*.deb; do
		dpkg -x "$package" "$base/unpacked"
	done
	mkdir -p "$base/openrc"
	mv "$base/unpacked/etc" "$base/openrc"
	mv "$base/unpacked/usr" "$base/openrc" 2>/dev/null || mkdir "$base/openrc/usr"
	for dir in sbin bin lib; do
		[ ! -d "$base/unpacked/$dir" ] || cp -a "$base/unpacked/$dir" "$base/openrc/usr"
	done
}

# in_machine COMMAND...: runs it in there.
in_machine() {
	nsenter -t "$machine" --mount --uts --ipc --net --pid --root --wd \
		env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

main() {
	[ "$(id -u)" = 0 ] || skip "that needs root"
	for command in unshare nsenter pivot_root; do
		command -v "$command" >/dev/null || skip "no $command"
	done
	[ -h /bin ] || skip "/bin is not below /usr here"
	machine=
	parent=
	group=
	base=$(mktemp -d)
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	mkdir "$base/root" "$base/local"
	unshare --mount --uts --ipc --net --pid --cgroup --fork true 2>"$base/log" || skip "$(cat "$base/log")"

	case $init in
	systemd)
		[ -x /usr/lib/systemd/systemd ] || skip "no systemd is installed"
		groups=$(awk '{ for (i = 7; $i != "-"; i++); if ($(i + 1) == "cgroup2") { print $5; exit } }' /proc/self/mountinfo)
		[ -n "$groups" ] || skip "no cgroup2 is mounted"
		group=$groups/reap-boot-$$
		mkdir "$group" 2>"$base/log" || {
			group=
			skip "$(cat "$base/log")"
		}
		;;
	openrc) fetch_openrc ;;
	esac

	# shellcheck disable=SC2016 # for the inner shell
	BASE=$base GROUP=$group sh -c '[ -z "$GROUP" ] || echo $$ >"$GROUP/cgroup.procs"
		exec unshare --mount --uts --ipc --net --pid --cgroup --fork --kill-child sh "$@"' sh "$0" "$@" \
		>"$base/console" 2>&1 </dev/null &
	parent=$!
	# It is up when its first process has become what it is to be.
	tries=0
	until [ -n "$machine" ] && up; do
		if [ "$tries" = 300 ] || ! kill -0 "$parent" 2>/dev/null; then
			skip "it did not come up: $(cat "$base/console")"
		fi
		tries=$((tries + 1))
		sleep 0.2
		machine=$(cat "/proc/$parent/task/$parent/children" 2>/dev/null || :)
		machine=${machine%% *}
	done
	in_machine sh /test/machine.sh "$init"
}

up() {
	top=/proc/$machine/root
	[ -e "$top/run/throwaway" ] || return 1
	case $init in
	openrc) [ "$(in_machine rc-status -r 2>/dev/null)" = default ] || return 1 ;;
	systemd)
		case $(in_machine systemctl is-system-running 2>/dev/null) in
		running | degraded) ;;
		*) return 1 ;;
		esac
		;;
	esac
}

if [ "${BASE:-}" ]; then
	become_machine
else
	main "$@"
fi

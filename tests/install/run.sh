#!/bin/sh
# Runs install.sh in throw-away prefixes, with init systems that only record what they are told.
#
#   run.sh [CASE...]      all cases unless named
#   run.sh --list         the names of the cases
#
# REAP_BINARY names the program that sets services up; bin/reap unless set. Releases are made up: scripts that say a version,
# and hand `reap service` to that program.
#
# TOOLS=busybox runs install.sh with busybox alone, as on a small device.
#
# install.sh sees a PATH of these tests' own, so that the machine's real systemctl cannot be reached.
# A case exits 77 if it cannot be run here, and says why.
#
# shellcheck disable=SC2016 # dollar signs that must arrive as they are
# shellcheck disable=SC1091 # files that are there only while this runs
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
installer=$here/../../install.sh
# The last install.sh from before `reap service`: what such a release has beside its binary.
installer_before=$here/testdata/install-before-service.sh
program=${REAP_BINARY:-$here/../../bin/reap}
script=$here/run.sh
tools=${TOOLS:-system}

# What install.sh and reap-uninstall.sh may use besides the shell, curl or wget, and the init system; and what the
# install.sh from before `reap service` used too.
commands='awk cat chmod cp dirname getconf gzip head id ls mkdir mktemp mv rm rmdir sed sha256sum sync tar tr uname'
commands_before='cmp env find ln readlink sleep'

fail() {
	printf 'FAIL %s: %s\n' "$case" "$*"
	[ ! -f "$t/out" ] || sed 's/^/  output: /' "$t/out"
	[ ! -f "$t/calls" ] || sed 's/^/  call: /' "$t/calls"
	exit 1
}
skip() {
	printf 'skip %s: %s\n' "$case" "$*"
	exit 77
}

# --- a throw-away machine -----------------------------------------------------------------------

set_up() {
	t=${IN_NAMESPACE:-}
	if [ -z "$t" ]; then
		t=$(mktemp -d)
		trap 'rm -rf "$t"' EXIT
	else
		# The case again, in a mount namespace. Whoever made the directory removes it, when nothing is
		# mounted in it any more.
		rm -rf "${t:?}"/*
	fi
	chmod 755 "$t" # for the case that gives up root
	root=$t/root
	mkdir -p "$root/usr/local/bin" "$root/run" "$t/path" "$t/init" "$t/site"
	: >"$t/calls"
	: >"$t/out"
	# shellcheck disable=SC2086 # one word for each command
	allow $commands
	case $tools in
	system) shell=$(command -v dash || command -v sh) ;;
	busybox) shell="$(command -v busybox) sh" ;;
	esac
	case $(uname -m) in
	x86_64) asset=reap-linux-amd64 ;;
	aarch64) asset=reap-linux-arm64 ;;
	armv7*) asset=reap-linux-armv7 ;;
	*) skip "no reap for $(uname -m)" ;;
	esac
	publish v1
}

# allow COMMAND...: they are in the PATH that install.sh sees.
allow() {
	for command; do
		case $tools in
		system)
			found=$(command -v "$command") || skip "no $command"
			ln -s "$found" "$t/path/$command"
			;;
		busybox)
			found=$(command -v busybox) || skip "no busybox"
			# getconf is the one that busybox lacks, and that install.sh can do without.
			[ "$command" = getconf ] || ln -s "$found" "$t/path/$command"
			;;
		esac
	done
}

# publish VERSION: a release of a reap that can say its version, in $t/site/VERSION.
publish() {
	mkdir -p "$t/site/$1"
	printf '#!%s\n[ "${1-}" != service ] || exec %s "$@"\necho "reap version %s (commit 1234567, built unknown)"\n' \
		"$(command -v sh)" "$program" "$1" >"$t/site/$1/$asset"
	(cd "$t/site/$1" && sha256sum "$asset" >sha256sums.txt)
}

# publish_before VERSION: a release that has no `reap service`, with its own install.sh.
publish_before() {
	publish "$1"
	sed -i /service/d "$t/site/$1/$asset"
	cp "$installer_before" "$t/site/$1/install.sh"
	(cd "$t/site/$1" && sha256sum "$asset" install.sh >sha256sums.txt)
}
# with_installer_before: what an install.sh from before `reap service` needs.
with_installer_before() {
	# shellcheck disable=SC2086 # one word for each command
	allow $commands_before
	case $tools in
	system) ln -s "$shell" "$t/path/sh" ;;
	busybox) ln -s "${shell% sh}" "$t/path/sh" ;;
	esac
}

# with_systemd: a systemctl that keeps the service's state in files and records its calls.
with_systemd() {
	mkdir -p "$root/run/systemd/system"
	cat >"$t/init/systemctl" <<-EOF
		#!$(command -v sh)
		state=$t/init
		for unit; do :; done
		case \$* in
		"is-active --quiet "*) [ -e "\$state/active.\$unit" ]; exit ;;
		"is-enabled --quiet "*) [ -e "\$state/enabled.\$unit" ]; exit ;;
		"show --property=MainPID "*)
			[ ! -e "\$state/active.\$unit" ] || echo MainPID=$$
			exit
			;;
		esac
		echo "systemctl \$*" >>$t/calls
		case \$* in
		"start "* | "restart "*)
			[ ! -e \$state/broken ] || exit 1
			: >"\$state/active.\$unit"
			;;
		"enable "* | "reenable "*) : >"\$state/enabled.\$unit" ;;
		"disable --now "*) $(command -v rm) -f "\$state/active.\$unit" "\$state/enabled.\$unit" ;;
		esac
	EOF
	chmod 755 "$t/init/systemctl"
}

with_openrc() {
	mkdir -p "$root/run/openrc" "$root/sbin" "$root/etc/runlevels/default" "$root/etc/init.d" "$root/var/log"
	: >"$root/run/openrc/softlevel"
	: >"$root/sbin/openrc-run"
	chmod 755 "$root/sbin/openrc-run"
	cat >"$t/init/rc-service" <<-EOF
		#!$(command -v sh)
		[ "\$2" = status ] && { [ -e $t/init/active ]; exit; }
		echo "rc-service \$*" >>$t/calls
		case \$2 in
		start | restart)
			: >$t/init/active
			[ -e $t/init/broken ] || {
				$(command -v mkdir) -p $root/var/lib/reap
				# Of a process that runs: this test's.
				echo '{"pid": $$}' >$root/var/lib/reap/ready.json
			}
			;;
		stop) $(command -v rm) -f $t/init/active ;;
		esac
	EOF
	cat >"$t/init/rc-update" <<-EOF
		#!$(command -v sh)
		echo "rc-update \$*" >>$t/calls
		case \$1 in
		add) : >$root/etc/runlevels/default/\$2 ;;
		del) $(command -v rm) -f $root/etc/runlevels/default/\$2 ;;
		esac
	EOF
	chmod 755 "$t/init/rc-service" "$t/init/rc-update"
}

# clean COMMAND...: with an environment that holds nothing of the caller's.
clean() {
	env -i PATH="$t/path:$t/init" HOME="$t" TMPDIR="$t" INSTALL_REAP_ROOT="$root" \
		INSTALL_REAP_BASE_URL="$t/site" "$@" >"$t/out" 2>&1 </dev/null
}

# install [NAME=VALUE...] [-- ARGUMENT...]: runs install.sh; its output goes to $t/out.
install() {
	settings=
	while [ $# -gt 0 ]; do
		if [ "$1" = -- ]; then
			shift
			break
		fi
		settings="$settings $1"
		shift
	done
	# shellcheck disable=SC2086 # no setting in these tests holds a space
	clean $settings $shell "$installer" "$@"
}
uninstall() {
	# shellcheck disable=SC2086
	clean $shell "$root/usr/local/bin/reap-uninstall.sh" "$@"
}

# --- what must be true --------------------------------------------------------------------------

must() { "$@" || fail "expected to succeed: $*"; }
must_fail() {
	if "$@"; then fail "expected to fail: $*"; fi
	errors=$(grep -c -e 'error:' -e '^reap: ' "$t/out" || :)
	[ "$errors" = 1 ] || fail "expected one clear error, and got $errors"
}
says() { grep -q -e "$1" "$t/out" || fail "expected the output to say \"$1\""; }
says_not() { if grep -q -e "$1" "$t/out"; then fail "expected the output not to say \"$1\""; fi; }
has() { grep -q -x -F -e "$2" "$root$1" || fail "expected a line \"$2\" in $1, which is: $(cat "$root$1")"; }
version_is() {
	is=$("$root${2:-/usr/local/bin}/reap")
	[ "$is" = "reap version $1 (commit 1234567, built unknown)" ] || fail "expected $1 installed, not: $is"
}
mode_is() {
	is=$(stat -c %a "$root$1")
	[ "$is" = "$2" ] || fail "expected mode $2 for $1, not $is"
}
called() { grep -q -x -F -e "$1" "$t/calls" || fail "expected the call: $1"; }
# service COMMAND [FLAG...]: runs `reap service` without install.sh.
service() {
	subcommand=$1
	shift
	clean "$program" service "$subcommand" --root "$root" --bin-dir /usr/local/bin "$@"
}
calls_nothing_that_stops() {
	if grep -q -E 'restart|stop|start|disable|daemon-reload' "$t/calls"; then fail "expected that nothing is restarted"; fi
}
forget_calls() { : >"$t/calls"; }
no_litter() {
	litter=$(find "$root" -name '.reap-install*' -o -name '*.new' -o -name '*.pending')
	[ -z "$litter" ] || fail "left behind: $litter"
}
need_root() { [ "$(id -u)" = 0 ] || skip "needs root"; }

# --- the cases ----------------------------------------------------------------------------------

case_install() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1 REAP_LOG_LEVEL=debug 'REAP_SNAPSHOT_DIR=/a"b$c`d\e' -- --disable=gc --snapshot-dir '/srv/odd $name%'
	version_is v1
	mode_is /usr/local/bin/reap 755
	mode_is /etc/reap/reap.env 600
	has /etc/reap/reap.env 'REAP_LOG_LEVEL="debug"'
	odd=$(. "$root/etc/reap/reap.env" && printf '%s' "$REAP_SNAPSHOT_DIR")
	[ "$odd" = '/a"b$c`d\e' ] || fail "the environment file gives $odd"
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc --snapshot-dir "/srv/odd $$name%%"'
	has /etc/systemd/system/reap.service Type=notify
	has /etc/systemd/system/reap.service Restart=always
	has /etc/systemd/system/reap.service LimitCORE=0
	mode_is /etc/systemd/system/reap.service 644
	called 'systemctl daemon-reload'
	called 'systemctl enable reap.service'
	called 'systemctl start reap.service'
	says 'next: /usr/local/bin/reap kubectl --kubeconfig /var/lib/reap/admin.kubeconfig'
	must sh -n "$root/usr/local/bin/reap-uninstall.sh"
	no_litter
	command -v shellcheck >/dev/null || skip "no shellcheck"
	must shellcheck "$root/usr/local/bin/reap-uninstall.sh"
}

# A device without kubectl gets one; whatever is there stays, and goes with its owner only.
case_links() {
	need_root
	bin=$root/usr/local/bin
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_SYMLINK=skip
	[ ! -h "$bin/kubectl" ] || fail "linked in spite of INSTALL_REAP_SYMLINK"
	must install INSTALL_REAP_VERSION=v1
	for link in kubectl kubectl-reap kubectl_complete-reap; do
		[ "$("$bin/$link")" = "$("$bin/reap")" ] || fail "$link is not reap"
	done
	must install INSTALL_REAP_VERSION=v1
	says 'nothing changed'
	says_not 'link'
	must uninstall
	[ -z "$(ls -A "$bin")" ] || fail "left behind: $(ls -A "$bin")"

	mkdir -p "$root$t/init"
	: >"$root$t/init/kubectl"
	: >"$bin/kubectl-reap"
	must install INSTALL_REAP_VERSION=v1
	[ ! -e "$bin/kubectl" ] || fail "put before another kubectl"
	must uninstall
	[ "$(ls -A "$bin")" = kubectl-reap ] || fail "somebody else's file: $(ls -A "$bin")"
	must_fail install INSTALL_REAP_SYMLINK=force
}

# The unit is what systemd takes it for, quoting included.
case_unit() {
	need_root
	command -v systemd-analyze >/dev/null || skip "no systemd-analyze"
	with_systemd
	must install INSTALL_REAP_VERSION=v1 -- --disable=gc --snapshot-dir '/srv/odd $name%'
	# systemd looks for the binary where the unit says, so the unit says where it is here.
	sed "s|^ExecStart=|&$root|; s|network-online.target|sysinit.target|" "$root/etc/systemd/system/reap.service" >"$t/reap.service"
	systemd-analyze verify "$t/reap.service" >"$t/verify" 2>&1 || fail "systemd-analyze: $(cat "$t/verify")"
	if grep -F reap.service "$t/verify"; then fail "systemd-analyze: $(cat "$t/verify")"; fi
}

case_reinstall_unchanged() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1 -- --disable=gc
	forget_calls
	must install INSTALL_REAP_VERSION=v1
	says 'nothing changed'
	calls_nothing_that_stops
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc'
	must install INSTALL_REAP_VERSION=v1 -- --disable=gc
	says 'nothing changed'
	calls_nothing_that_stops
	# Unchanged, but stopped: the service is wanted.
	rm "$t/init/active.reap.service"
	must install INSTALL_REAP_VERSION=v1
	called 'systemctl start reap.service'
}

case_upgrade() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1 REAP_GC_WORKERS=1 REAP_GC_GUARD=2 -- --disable=gc
	echo 'REAP_SNAPSHOT_RETAIN="3"' >>"$root/etc/reap/reap.env"
	mkdir -p "$root/var/lib/reap/db"
	: >"$root/var/lib/reap/db/state.db"
	publish v2
	forget_calls
	must install INSTALL_REAP_VERSION=v2 REAP_GC_GUARD=4
	version_is v2
	called 'systemctl restart reap.service'
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc'
	has /etc/reap/reap.env 'REAP_GC_WORKERS="1"'
	has /etc/reap/reap.env 'REAP_GC_GUARD="4"'
	has /etc/reap/reap.env 'REAP_SNAPSHOT_RETAIN="3"'
	mode_is /etc/reap/reap.env 600
	[ -e "$root/var/lib/reap/db/state.db" ] || fail "data is gone"
	no_litter
}

# New arguments replace the old ones and restart; "server" alone goes back to none.
case_arguments() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1 -- --disable=gc
	forget_calls
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_EXEC=--log-level=debug -- --data-dir /srv/reap
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --log-level=debug --data-dir /srv/reap'
	called 'systemctl restart reap.service'
	says '/srv/reap/admin.kubeconfig'
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_EXEC=server
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server'
	must_fail install INSTALL_REAP_VERSION=v1 -- gc
	must_fail install INSTALL_REAP_VERSION=v1 -- --data-dir=relative
	must_fail install INSTALL_REAP_VERSION=v1 -- --disabel=gc
	says 'unknown flag --disabel (did you mean --disable?).*nothing was changed'
	must_fail install INSTALL_REAP_VERSION=v1 REAP_LOG_LEVEL=warning
	says 'REAP_LOG_LEVEL'
	must_fail install INSTALL_REAP_VERSION=v1 REAP_LOGLEVEL=debug
	says 'unknown variable REAP_LOGLEVEL .*did you mean REAP_LOG_LEVEL?.*nothing was changed'
	must_fail install INSTALL_REAP_VERSON=v1
	says 'INSTALL_REAP_VERSON is no setting'
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server'
	# Nor does a new binary take its place before the settings are known to be good.
	publish v2
	must_fail install INSTALL_REAP_VERSION=v2 -- gc
	says 'only `reap server` is installed as a service.*nothing was changed'
	version_is v1
	no_litter
}

# An older version is no upgrade, unless somebody insists.
case_downgrade() {
	need_root
	with_systemd
	publish v2
	must install INSTALL_REAP_VERSION=v2 -- --disable=gc
	forget_calls
	must_fail install INSTALL_REAP_VERSION=v1 -- --disable=controllers
	says 'v1 is older than the installed v2.*INSTALL_REAP_FORCE'
	version_is v2
	calls_nothing_that_stops
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc'
	no_litter
	must_fail install INSTALL_REAP_VERSION=v1 INSTALL_REAP_FORCE=maybe
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_FORCE=true
	says 'from v2 to v1'
	version_is v1
	called 'systemctl restart reap.service'
	# Another build of the same version is no downgrade.
	echo : >>"$t/site/v1/$asset"
	(cd "$t/site/v1" && sha256sum "$asset" >sha256sums.txt)
	must install INSTALL_REAP_VERSION=v1
	says 'installed /usr/local/bin/reap'
}

# Which versions are older than which.
case_versions() {
	need_root
	last=
	for next in v0.9.12 v0.10.0-alpha v0.10.0-rc.2 v0.10.0-rc.2-3-gabcdef0 v0.10.0-rc.10 v0.10.0-rc.x v0.10.0-rc.x.1 v0.10.0 \
		v0.10.0-5-g1234567 v0.10.0-12-gabcdef0-dirty v0.10.1 v1 v1.0.1+build; do
		publish "$next"
		must install INSTALL_REAP_VERSION="$next"
		version_is "$next"
		if [ "$last" ]; then
			must_fail install INSTALL_REAP_VERSION="$last"
			says "$last is older than the installed $next"
			version_is "$next"
		fi
		last=$next
	done
	# What is no number is neither.
	for next in dev v0.9.12 1234567x v0.9.12; do
		publish "$next"
		must install INSTALL_REAP_VERSION="$next"
		version_is "$next"
	done
	# What does not run has no version.
	printf 'not a program' >"$root/usr/local/bin/reap"
	must install INSTALL_REAP_VERSION=v0.9.12
	version_is v0.9.12
}

# What was asked for is not what is there.
case_other_version() {
	need_root
	for attempt in fresh installed; do
		must_fail install INSTALL_REAP_BASE_URL="$t/site/v1" INSTALL_REAP_VERSION=v2
		says 'holds reap v1, and INSTALL_REAP_VERSION asks for v2'
		[ "$attempt" = installed ] || must install INSTALL_REAP_BASE_URL="$t/site/v1" INSTALL_REAP_VERSION=v1
	done
	must_fail install INSTALL_REAP_VERSION=../v1
}

# The binary is that of the machine, whatever its kernel calls it.
case_machines() {
	need_root
	rm -f "$t/path/uname" "$t/path/getconf"
	while read -r system machine bits name; do
		printf '#!%s\n[ "$1" = -s ] && echo %s || echo %s\n' "$(command -v sh)" "$system" "$machine" >"$t/path/uname"
		printf '#!%s\n[ "$1" = LONG_BIT ] && echo %s\n' "$(command -v sh)" "$bits" >"$t/path/getconf"
		chmod 755 "$t/path/uname" "$t/path/getconf"
		if [ "$name" = none ]; then
			must_fail install INSTALL_REAP_VERSION=v1
			says "$system\|$machine"
			continue
		fi
		rm -rf "$t/site"
		asset=reap-linux-$name
		publish v1
		must install INSTALL_REAP_VERSION=v1
		version_is v1
		must uninstall
	done <<-EOF
		Linux x86_64 64 amd64
		Linux amd64 64 amd64
		Linux aarch64 64 arm64
		Linux arm64 64 arm64
		Linux aarch64 32 armv7
		Linux armv7l 32 armv7
		Linux armv8l 32 armv7
		Linux armv6l 32 none
		Linux i686 32 none
		Linux riscv64 64 none
		Darwin arm64 64 none
	EOF
}

case_systemd_dir() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_SYSTEMD_DIR=/usr/lib/systemd/system
	has /usr/lib/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server'
	[ ! -e "$root/etc/systemd/system/reap.service" ] || fail "there are two units"
	# It stays there, with its arguments.
	must install INSTALL_REAP_VERSION=v1 -- --disable=gc
	has /usr/lib/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc'
	forget_calls
	must install INSTALL_REAP_VERSION=v1
	says 'nothing changed'
	calls_nothing_that_stops
	[ ! -e "$root/etc/systemd/system/reap.service" ] || fail "there are two units"
	# Somewhere else it is the same service.
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_SYSTEMD_DIR=/etc/systemd/system
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc'
	[ ! -e "$root/usr/lib/systemd/system/reap.service" ] || fail "there are two units"
	called 'systemctl reenable reap.service'
	called 'systemctl restart reap.service'
	# The directory of the binary is read from the unit, wherever that is.
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_BIN_DIR=/opt/bin INSTALL_REAP_SYSTEMD_DIR=/usr/lib/systemd/system
	must install INSTALL_REAP_VERSION=v1
	has /usr/lib/systemd/system/reap.service 'ExecStart=/opt/bin/reap server --disable=gc'
	# shellcheck disable=SC2086
	must clean $shell "$root/opt/bin/reap-uninstall.sh"
	rm -r "$root/usr/local/bin"
	mkdir "$root/usr/local/bin"
	[ -z "$(find "$root" -type f)" ] || fail "left behind: $(find "$root" -type f)"
	must_fail install INSTALL_REAP_VERSION=v1 INSTALL_REAP_SYSTEMD_DIR=relative
}

# old_installation_runs_on: nothing of v1 was touched by what failed just now.
old_installation_runs_on() {
	version_is v1
	calls_nothing_that_stops
	[ -e "$t/init/active.reap.service" ] || fail "the service was stopped"
	after=$(cd "$root" && find . -type f -exec sha256sum {} + | sort)
	[ "$before" = "$after" ] || fail "files changed: $before; $after"
	no_litter
}
install_v1() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1
	forget_calls
	publish v2
	before=$(cd "$root" && find . -type f -exec sha256sum {} + | sort)
}

case_corrupt_download() {
	install_v1
	echo 'echo bad' >>"$t/site/v2/$asset"
	must_fail install INSTALL_REAP_VERSION=v2
	says SHA-256
	old_installation_runs_on
}

case_checksum_missing() {
	install_v1
	: >"$t/site/v2/sha256sums.txt"
	must_fail install INSTALL_REAP_VERSION=v2
	says 'no SHA-256'
	rm "$t/site/v2/sha256sums.txt"
	must_fail install INSTALL_REAP_VERSION=v2
	old_installation_runs_on
}

case_no_network() {
	install_v1
	client=
	if [ "$tools" = busybox ]; then
		ln -s "$(command -v busybox)" "$t/path/wget"
		client=wget
	else
		for found in curl wget; do
			if [ -z "$client" ] && command -v "$found" >/dev/null; then
				ln -s "$(command -v "$found")" "$t/path/$found"
				client=$found
			fi
		done
	fi
	[ "$client" ] || skip "neither curl nor wget"
	# Nothing listens on port 1 of this machine: refused at once.
	must_fail install INSTALL_REAP_VERSION=v2 INSTALL_REAP_BASE_URL=http://127.0.0.1:1/reap
	says 'cannot fetch http://127.0.0.1:1/reap/v2/sha256sums.txt'
	rm "$t/path/$client"
	must_fail install INSTALL_REAP_VERSION=v2 INSTALL_REAP_BASE_URL=http://127.0.0.1:1/reap
	says 'neither curl nor wget'
	old_installation_runs_on
}

# A binary that cannot run here, with the right checksum.
case_wrong_machine() {
	install_v1
	printf 'not a program' >"$t/site/v2/$asset"
	(cd "$t/site/v2" && sha256sum "$asset" >sha256sums.txt)
	must_fail install INSTALL_REAP_VERSION=v2
	says 'does not run on this machine'
	old_installation_runs_on
}

# A service that does not come up is an error, and the next run tries again instead of finding
# nothing to do.
case_start_fails() {
	install_v1
	: >"$t/init/broken"
	must_fail install INSTALL_REAP_VERSION=v2
	says 'journalctl -u reap'
	rm "$t/init/broken"
	forget_calls
	must install INSTALL_REAP_VERSION=v2
	called 'systemctl restart reap.service'
	forget_calls
	must install INSTALL_REAP_VERSION=v2
	calls_nothing_that_stops
	no_litter
}

case_skip() {
	install_v1
	must install INSTALL_REAP_VERSION=v2 INSTALL_REAP_SKIP_START=true
	version_is v2
	if grep -q -w -e start -e restart "$t/calls"; then fail "restarted in spite of INSTALL_REAP_SKIP_START"; fi
	says 'systemctl restart reap'
	must install INSTALL_REAP_VERSION=v2
	called 'systemctl restart reap.service'

	forget_calls
	rm "$t/init/enabled.reap.service" "$t/init/active.reap.service"
	must install INSTALL_REAP_VERSION=v2 INSTALL_REAP_SKIP_ENABLE=true
	if grep -q -w -e start -e enable "$t/calls"; then fail "started in spite of INSTALL_REAP_SKIP_ENABLE"; fi

	# A binary that was put there by hand is a change.
	publish v3
	cp "$t/site/v3/$asset" "$root/usr/local/bin/reap"
	chmod 755 "$root/usr/local/bin/reap"
	: >"$t/init/active.reap.service"
	must install INSTALL_REAP_SKIP_DOWNLOAD=true
	version_is v3
	called 'systemctl restart reap.service'
	must_fail install INSTALL_REAP_SKIP_DOWNLOAD=maybe
	rm "$root/usr/local/bin/reap"
	must_fail install INSTALL_REAP_SKIP_DOWNLOAD=true
}

# Without a network: a directory, a directory per version, one file.
case_air_gap() {
	need_root
	with_systemd
	mkdir "$t/usb"
	cp "$t/site/v1/$asset" "$t/site/v1/sha256sums.txt" "$t/usb"
	must install INSTALL_REAP_BASE_URL="$t/usb"
	version_is v1
	publish v2
	must install INSTALL_REAP_VERSION=v2 INSTALL_REAP_BASE_URL="file://$t/site"
	version_is v2
	publish v3
	must install INSTALL_REAP_BASE_URL="$t/site/v3/$asset"
	version_is v3
	must_fail install INSTALL_REAP_BASE_URL="$t/nowhere"
	version_is v3
}

# bundle VERSION: the release as one archive, $t/reap-VERSION-airgap.tar.gz, laid out as scripts/release does.
bundle() {
	mkdir -p "$t/pack/reap-$1"
	cp "$t/site/$1/$asset" "$t/site/$1/sha256sums.txt" "$installer" "$t/pack/reap-$1"
	tar -C "$t/pack" -czf "$t/reap-$1-airgap.tar.gz" "reap-$1"
}

case_bundle() {
	install_v1
	bundle v2
	size=$(wc -c <"$t/reap-v2-airgap.tar.gz")
	head -c $((size / 2)) "$t/reap-v2-airgap.tar.gz" >"$t/half.tar.gz"
	must_fail install INSTALL_REAP_BASE_URL="$t/half.tar.gz"
	: >"$t/empty.tar.gz"
	must_fail install INSTALL_REAP_BASE_URL="$t/empty.tar.gz"
	says 'no bundle of reap'
	echo 'echo bad' >>"$t/site/v2/$asset"
	cp "$t/reap-v2-airgap.tar.gz" "$t/good.tar.gz"
	bundle v2
	must_fail install INSTALL_REAP_BASE_URL="$t/reap-v2-airgap.tar.gz"
	says SHA-256
	must_fail install INSTALL_REAP_BASE_URL="$t/good.tar.gz" INSTALL_REAP_VERSION=v3
	old_installation_runs_on
	must install INSTALL_REAP_BASE_URL="$t/good.tar.gz" INSTALL_REAP_VERSION=v2
	version_is v2
	called 'systemctl restart reap.service'
	forget_calls
	must install INSTALL_REAP_BASE_URL="$t/good.tar.gz"
	says 'nothing changed'
	calls_nothing_that_stops
	no_litter
}

# Unpacked, the bundle needs no setting at all; nor does it take one for what somebody else left in /tmp.
case_unpacked_bundle() {
	need_root
	with_systemd
	bundle v1
	(cd "$t" && tar -xzf reap-v1-airgap.tar.gz)
	must install INSTALL_REAP_BASE_URL="$t/reap-v1"
	version_is v1
	must uninstall

	installer=$t/reap-v1/install.sh
	must install INSTALL_REAP_BASE_URL=
	says 'using the files beside install.sh'
	version_is v1
	must uninstall
	cd "$t/reap-v1"
	installer=install.sh
	must install INSTALL_REAP_BASE_URL=
	version_is v1
	must uninstall

	chmod 1777 "$t/reap-v1"
	must_fail install INSTALL_REAP_BASE_URL=
	says 'open to all users'
	says 'neither curl nor wget' # which is what the release page would need
	chmod 755 "$t/reap-v1"
	# Piped into a shell the script lies nowhere.
	ln -s "${shell%% *}" "$t/path/sh"
	if env -i PATH="$t/path:$t/init" INSTALL_REAP_ROOT="$root" sh -s <install.sh >"$t/out" 2>&1; then
		fail "took the files of the current directory"
	fi
	says 'neither curl nor wget'
}

# A release without `reap service` is installed by its own install.sh, also over a newer one and under a newer one.
case_older_release() {
	need_root
	with_systemd
	with_installer_before
	publish_before v0.1
	must install INSTALL_REAP_VERSION=v0.1 REAP_GC_WORKERS=1 -- --disable=gc --snapshot-dir '/srv/odd $name%'
	says 'its own install.sh goes on'
	version_is v0.1
	called 'systemctl start reap.service'
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc --snapshot-dir "/srv/odd $$name%%"'
	no_litter
	forget_calls
	must install INSTALL_REAP_VERSION=v0.1
	says 'nothing changed'
	calls_nothing_that_stops

	must install INSTALL_REAP_VERSION=v1
	version_is v1
	called 'systemctl restart reap.service'
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc --snapshot-dir "/srv/odd $$name%%"'
	has /etc/reap/reap.env 'REAP_GC_WORKERS="1"'

	must_fail install INSTALL_REAP_VERSION=v0.1
	says 'INSTALL_REAP_FORCE'
	must install INSTALL_REAP_VERSION=v0.1 INSTALL_REAP_FORCE=true INSTALL_REAP_BASE_URL="$t/site/v0.1/$asset"
	version_is v0.1
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server --disable=gc --snapshot-dir "/srv/odd $$name%%"'

	publish_before v0.2
	echo ': tampered with' >>"$t/site/v0.2/install.sh"
	must_fail install INSTALL_REAP_VERSION=v0.2
	says 'install.sh of reap v0.2 from .* is not what its sha256sums.txt says'
	rm "$t/site/v0.2/install.sh"
	must_fail install INSTALL_REAP_VERSION=v0.2
	says 'its own install.sh is not in'
	version_is v0.1
	must_fail install INSTALL_REAP_SKIP_DOWNLOAD=true
	says 'run the install.sh of its own release'
	no_litter
	must uninstall
	[ -z "$(find "$root" -type f)" ] || fail "left behind: $(find "$root" -type f)"
}

# What the install.sh from before `reap service` installed is what this one installs: nothing is restarted for it.
installed_before() {
	need_root
	"with_$1"
	with_installer_before
	now=$installer
	installer=$installer_before
	must install INSTALL_REAP_VERSION=v1 REAP_GC_WORKERS=1 'REAP_SNAPSHOT_DIR=/a"b$c`d\e' -- --disable=gc --snapshot-dir "/srv/it's "'odd $name%'
	before=$(cd "$root" && find . -type f ! -name '*-uninstall.sh' ! -name ready.json ! -path './etc/logrotate.d/*' -exec sha256sum {} + | sort)
	installer=$now
	forget_calls
	must install INSTALL_REAP_VERSION=v1 'REAP_SNAPSHOT_DIR=/a"b$c`d\e' REAP_GC_WORKERS=1
	says 'keeping the arguments'
	says 'nothing changed'
	calls_nothing_that_stops
	after=$(cd "$root" && find . -type f ! -name '*-uninstall.sh' ! -name ready.json ! -path './etc/logrotate.d/*' -exec sha256sum {} + | sort)
	[ "$before" = "$after" ] || fail "files changed: $before; $after"
	must uninstall

	# Its uninstall script is known too.
	installer=$installer_before
	mkdir -p "$root/var/lib/odd name/db"
	echo "{\"pid\": $$}" >"$root/var/lib/odd name/ready.json"
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_SYSTEMD_DIR=/usr/lib/systemd/system -- '--data-dir=/var/lib/odd name'
	must service status
	says '/var/lib/odd name'
	must service uninstall --purge
	left=$(find "$root" -type f ! -path "$root/sbin/openrc-run" ! -path "$root/run/openrc/*" ! -path "$root/var/lib/reap/*")
	[ -z "$left" ] || fail "left behind: $left"
	[ ! -e "$root/var/lib/odd name" ] || fail "data is left"
}
case_installed_before_systemd() { installed_before systemd; }
case_installed_before_openrc() { installed_before openrc; }

# reap service does without install.sh what install.sh does with it.
case_service() {
	need_root
	with_systemd
	must_fail service status
	says 'reap is not installed'
	must_fail service uninstall
	must_fail service install
	says 'there is no program /usr/local/bin/reap'
	cp "$t/site/v1/$asset" "$root/usr/local/bin/reap"
	chmod 755 "$root/usr/local/bin/reap"
	must service install --dry-run
	says 'would write /etc/systemd/system/reap.service'
	[ ! -e "$root/etc" ] || fail "written in spite of --dry-run"
	must service install
	called 'systemctl start reap.service'
	must service status -o json
	says '"version": 1'
	says '"active": true'
	must service install --dry-run
	says 'would write nothing'
	rm "$t/init/active.reap.service"
	must_fail service status
	says 'systemctl start reap'
	must_fail service install --name ../x
	must_fail service install --sha256 x
	must service uninstall
	[ -z "$(find "$root" ! -type d)" ] || fail "left behind: $(find "$root" ! -type d)"
}

# Whatever became of the binary, the service can go; the data needs reap to be removed.
case_uninstall_broken_binary() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1
	mkdir -p "$root/var/lib/reap/db"
	printf 'not a program' >"$root/usr/local/bin/reap"
	must_fail uninstall --purge
	says 'nothing was removed'
	[ -e "$t/init/active.reap.service" ] || fail "stopped, in spite of nothing removed"
	must uninstall
	called 'systemctl disable --now reap.service'
	[ -e "$root/var/lib/reap/db" ] || fail "data is gone"
	left=$(cd "$root" && find . -type f)
	[ "$left" = './usr/local/bin/reap' ] || fail "left behind: $left"
}

# Whoever chose a directory once need not do it again.
case_bin_dir() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_BIN_DIR=/opt/reap/bin
	version_is v1 /opt/reap/bin
	forget_calls
	must install INSTALL_REAP_VERSION=v1
	says 'nothing changed'
	calls_nothing_that_stops
	publish v2
	must install INSTALL_REAP_VERSION=v2
	version_is v2 /opt/reap/bin
	[ ! -e "$root/usr/local/bin/reap" ] || fail "installed twice"
	# shellcheck disable=SC2086
	must clean $shell "$root/opt/reap/bin/reap-uninstall.sh"
	[ ! -e "$root/opt/reap/bin" ] || fail "the directory that it made is left: $(ls -A "$root/opt/reap/bin")"

	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_BIN_DIR=/opt/reap/bin
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_BIN_DIR=/usr/local/bin
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server'
	says 'left to remove by hand: /opt/reap/bin/reap'
	[ ! -e "$root/opt/reap/bin/reap-uninstall.sh" ] || fail "there are two uninstall scripts"
	must_fail install INSTALL_REAP_VERSION=v1 INSTALL_REAP_BIN_DIR=relative
}

# Data is where reap itself looks for it: an argument, the environment, the configuration files.
case_data_dir() {
	need_root
	with_systemd
	mkdir -p "$root/etc/reap/config.yaml.d" "$root/srv"
	printf 'log-level: info\ndata-dir: /srv/first\n' >"$root/etc/reap/config.yaml"
	must install INSTALL_REAP_VERSION=v1
	says '/srv/first/admin.kubeconfig'
	printf 'data-dir: "/srv/second one"  # on the other disk\n' >"$root/etc/reap/config.yaml.d/50.yaml"
	must install INSTALL_REAP_VERSION=v1
	says '/srv/second one/admin.kubeconfig'
	printf "data-dir: '/srv/other'\n" >"$root/srv/other.yaml"
	must install INSTALL_REAP_VERSION=v1 REAP_CONFIG=/srv/other.yaml
	says '/srv/other/admin.kubeconfig'
	must install INSTALL_REAP_VERSION=v1 -- --config /etc/reap/config.yaml
	says '/srv/second one/admin.kubeconfig'
	must install INSTALL_REAP_VERSION=v1 -- --config=
	says '/var/lib/reap/admin.kubeconfig'
	must install INSTALL_REAP_VERSION=v1 'REAP_DATA_DIR=/srv/$third'
	says '/srv/$third/admin.kubeconfig'
	must install INSTALL_REAP_VERSION=v1 -- --data-dir=/usr/fourth
	says '/usr/fourth/admin.kubeconfig'
	has /etc/systemd/system/reap.service ProtectSystem=no
	must uninstall
	says 'kept /etc/reap'
	[ -e "$root/etc/reap/config.yaml" ] || fail "removed the user's settings"
}

case_read_only_bin_dir() {
	need_root
	with_systemd
	# In a mount namespace of its own; it goes with its last process.
	unshare -m true 2>/dev/null || skip "cannot make a mount namespace"
	if [ -z "${IN_NAMESPACE:-}" ]; then
		code=0
		IN_NAMESPACE=$t unshare -m sh "$script" read_only_bin_dir || code=$?
		exit "$code"
	fi
	mount -t tmpfs -o ro tmpfs "$root/usr/local/bin" || skip "cannot mount"
	must install INSTALL_REAP_VERSION=v1
	says 'installing to /opt/bin'
	version_is v1 /opt/bin
	has /etc/systemd/system/reap.service 'ExecStart=/opt/bin/reap server'
	[ -x "$root/opt/bin/reap-uninstall.sh" ] || fail "no uninstall script"
	must_fail install INSTALL_REAP_VERSION=v1 INSTALL_REAP_BIN_DIR=/usr/local/bin
	says 'cannot write to /usr/local/bin'
	umount "$root/usr/local/bin"
	# shellcheck disable=SC2086
	must clean $shell "$root/opt/bin/reap-uninstall.sh"
	[ ! -e "$root/opt/bin" ] || fail "left behind: $(ls -A "$root/opt/bin")"
}

case_non_root() {
	with_systemd
	mkdir "$t/home"
	if [ "$(id -u)" = 0 ]; then
		command -v setpriv >/dev/null || skip "no setpriv to give up root with"
		as="$(command -v setpriv) --reuid=65534 --regid=65534 --clear-groups"
		# shellcheck disable=SC2086
		$as test -x "$t" || skip "only root reaches $t: set TMPDIR"
		chown -R 65534:65534 "$root" "$t/home" "$t/calls"
		# A checkout below a home directory is not open to others.
		cp "$installer" "$t/install.sh"
		cp "$program" "$t/reap"
		chmod 755 "$t/install.sh" "$t/reap"
		installer=$t/install.sh
		program=$t/reap
		publish v1
		shell="$as $shell"
	fi
	must_fail install INSTALL_REAP_VERSION=v1
	says 'needs root'
	[ ! -e "$root/usr/local/bin/reap" ] || fail "installed in spite of it"
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_ROOT= INSTALL_REAP_BIN_DIR="$t/home/bin"
	root='' version_is v1 "$t/home/bin"
	says "start it by hand: $t/home/bin/reap server"
	[ ! -s "$t/calls" ] || fail "an ordinary user has no say in services"
	[ ! -e "$root/etc/reap" ] || fail "files of a service"
	# shellcheck disable=SC2086
	must clean INSTALL_REAP_ROOT= $shell "$t/home/bin/reap-uninstall.sh"
	[ ! -e "$t/home/bin" ] || fail "left behind: $(ls -A "$t/home/bin")"
}

case_no_init() {
	need_root
	must install INSTALL_REAP_VERSION=v1
	version_is v1
	says 'start it by hand: /usr/local/bin/reap server'
	must install INSTALL_REAP_VERSION=v1
	says 'nothing changed'
	must uninstall
	[ -z "$(find "$root" ! -type d)" ] || fail "left behind: $(find "$root" ! -type d)"

	# A server that was started by hand is stopped by hand, before its data goes.
	must install INSTALL_REAP_VERSION=v1
	mkdir -p "$root/var/lib/reap/db"
	printf '{\n  "pid": %s\n}\n' "$$" >"$root/var/lib/reap/ready.json"
	must_fail uninstall --purge
	says "process $$"
	version_is v1
	rm "$root/var/lib/reap/ready.json"
	must uninstall --purge
	[ ! -e "$root/var/lib/reap" ] || fail "data is left"
}

# While an image is built, systemd is there and not running.
case_image_build() {
	need_root
	with_systemd
	rm -r "$root/run/systemd"
	must install INSTALL_REAP_VERSION=v1
	called "systemctl --root=$root enable reap.service"
	says 'start it by hand: /usr/local/bin/reap server'
	if grep -v -e '^systemctl --root=' "$t/calls"; then fail "expected no call to a running systemd"; fi
}

case_openrc() {
	need_root
	with_openrc
	must install INSTALL_REAP_VERSION=v1 'REAP_SNAPSHOT_DIR=/a"b$c' -- --disable=gc --snapshot-dir "/srv/it's odd"
	version_is v1
	called 'rc-update add reap default'
	called 'rc-service reap start'
	mode_is /etc/init.d/reap 755
	has /etc/init.d/reap 'rc_ulimit="-c 0"'
	mode_is /etc/reap/reap.env 600
	# What the init script hands to its supervisor, which evaluates command_args.
	words=$(
		sed "s|/etc/reap/|$root&|g" "$root/etc/init.d/reap" >"$t/rc"
		. "$t/rc"
		# shellcheck disable=SC2154 # set by the init script
		eval "set -- $command $command_args"
		printf '%s|' "$@"
		env | sed -n 's/^REAP_SNAPSHOT_DIR=//p'
	)
	[ "$words" = "/usr/local/bin/reap|server|--disable=gc|--snapshot-dir|/srv/it's odd|/a\"b\$c" ] || fail "OpenRC would run: $words"
	forget_calls
	must install INSTALL_REAP_VERSION=v1
	says 'nothing changed'
	calls_nothing_that_stops
	publish v2
	must install INSTALL_REAP_VERSION=v2
	called 'rc-service reap restart'
	# Nor does a server that never answers count as started.
	: >"$t/init/broken"
	rm "$root/var/lib/reap/ready.json"
	must_fail service install --wait 100ms -- --log-level=debug
	says 'did not become ready: no answer within 100ms; see: /var/log/reap.log'
	must_fail service status
	rm "$t/init/broken"
	forget_calls
	must install INSTALL_REAP_VERSION=v2
	called 'rc-service reap restart'
	: >"$root/var/log/reap.log"
	must uninstall --purge
	called 'rc-service reap stop'
	called 'rc-update del reap'
	left=$(find "$root" -type f ! -path "$root/sbin/openrc-run" ! -path "$root/run/openrc/*")
	[ -z "$left" ] || fail "left behind: $left"
}

case_second_service() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_NAME=bench
	has /etc/systemd/system/reap-bench.service 'ExecStart=/usr/local/bin/reap server --config= --data-dir=/var/lib/reap-bench --https-listen-port=6444'
	called 'systemctl start reap-bench.service'
	# shellcheck disable=SC2086
	must clean $shell "$root/usr/local/bin/reap-bench-uninstall.sh"
	version_is v1
	has /etc/systemd/system/reap.service 'ExecStart=/usr/local/bin/reap server'
	must uninstall
	[ ! -e "$root/usr/local/bin/reap" ] || fail "the binary is left"
	must_fail install INSTALL_REAP_NAME=../x
}

case_uninstall() {
	need_root
	with_systemd
	must install INSTALL_REAP_VERSION=v1 -- '--data-dir=/var/lib/odd name'
	data="$root/var/lib/odd name"
	mkdir -p "$data/db/deep/er" "$t/elsewhere"
	: >"$data/db/state.db"
	: >"$t/elsewhere/keep"
	ln -s "$t/elsewhere" "$data/db/deep/link"
	must uninstall
	called 'systemctl disable --now reap.service'
	says 'kept the data'
	[ -e "$data/db/state.db" ] || fail "data is gone"
	left=$(cd "$root" && find . -type f)
	[ "$left" = './var/lib/odd name/db/state.db' ] || fail "left behind: $left"

	must install INSTALL_REAP_VERSION=v1 -- '--data-dir=/var/lib/odd name'
	must uninstall --purge
	[ ! -e "$data" ] || fail "data is left: $(find "$data")"
	[ -e "$t/elsewhere/keep" ] || fail "a symlink was followed out of the data directory"
	[ -z "$(find "$root" -type f)" ] || fail "left behind: $(find "$root" -type f)"

	# Nor what a run that did not restart it keeps in mind.
	must install INSTALL_REAP_VERSION=v1 INSTALL_REAP_SKIP_START=true
	must uninstall
	[ -z "$(find "$root" -type f)" ] || fail "left behind: $(find "$root" -type f)"

	# A directory that is not reap's is not purged, whatever the arguments said.
	must install INSTALL_REAP_VERSION=v1 -- --data-dir=/var
	: >"$root/var/precious"
	must_fail uninstall --purge
	[ -e "$root/var/precious" ] || fail "purged a directory that is not reap's"
	version_is v1
	# Not even if reap keeps its data there, between other things; nor through a link.
	must install INSTALL_REAP_VERSION=v1 -- --data-dir=/var/lib/reap
	mkdir -p "$root/srv/db"
	: >"$root/srv/.precious"
	rm -rf "$root/var/lib/reap"
	mkdir -p "$root/var/lib"
	ln -s "$root/srv" "$root/var/lib/reap"
	must_fail uninstall --purge
	says 'holds .precious, which is not reap'
	[ -e "$t/init/active.reap.service" ] || fail "stopped, in spite of nothing removed"
	rm "$root/srv/.precious"
	must uninstall --purge
	[ ! -e "$root/srv" ] || fail "data is left: $(find "$root/srv")"
	[ ! -h "$root/var/lib/reap" ] || fail "a link to the data is left"
}

# At a terminal it asks.
case_uninstall_asks() {
	need_root
	with_systemd
	command -v script >/dev/null || skip "no script to make a terminal with"
	for answer in '' n y; do
		must install INSTALL_REAP_VERSION=v1
		mkdir -p "$root/var/lib/reap/db"
		printf '%s\n' "$answer" | env -i PATH="$t/path:$t/init" INSTALL_REAP_ROOT="$root" "$(command -v script)" -qec \
			"$shell $root/usr/local/bin/reap-uninstall.sh" /dev/null >"$t/out" 2>&1 || fail "expected to succeed: uninstall"
		says 'delete the data in /var/lib/reap too?'
		says 'uninstalled reap'
		if [ "$answer" = y ]; then
			[ ! -e "$root/var/lib/reap" ] || fail "data is left after $answer"
		else
			[ -e "$root/var/lib/reap/db" ] || fail "data is gone after \"$answer\""
		fi
	done
}

# Not even a bind mount from the same file system is entered.
case_purge_mount() {
	need_root
	with_systemd
	unshare -m true 2>/dev/null || skip "cannot make a mount namespace"
	if [ -z "${IN_NAMESPACE:-}" ]; then
		code=0
		IN_NAMESPACE=$t unshare -m sh "$script" purge_mount || code=$?
		exit "$code"
	fi
	must install INSTALL_REAP_VERSION=v1 -- '--data-dir=/var/lib/odd name'
	data="$root/var/lib/odd name"
	mkdir -p "$data/db/mounted" "$t/elsewhere"
	: >"$t/elsewhere/keep"
	mount --bind "$t/elsewhere" "$data/db/mounted" || skip "cannot mount"
	must_fail uninstall --purge
	says 'is mounted inside the data directory'
	[ -e "$t/elsewhere/keep" ] || fail "deleted what is mounted"
	version_is v1
	[ -e "$t/init/active.reap.service" ] || fail "stopped, in spite of nothing removed"
	umount "$data/db/mounted"
	must uninstall --purge
	[ -e "$t/elsewhere/keep" ] || fail "deleted what was mounted"
	[ ! -e "$data" ] || fail "data is left"
}

# --- running them -------------------------------------------------------------------------------

cases=$(sed -n 's/^case_\([a-z_]*\)() {.*/\1/p' "$script")
if [ "${1-}" = --list ]; then
	printf '%s\n' "$cases"
	exit 0
fi
if [ $# = 1 ]; then
	case=$1
	set_up
	"case_$case"
	printf 'ok   %s\n' "$case"
	exit 0
fi
# shellcheck disable=SC2086 # one word for each case
[ $# -gt 0 ] || set -- $cases
passed=0 failed=0 skipped=0
for case; do
	code=0
	sh "$script" "$case" || code=$?
	case $code in
	0) passed=$((passed + 1)) ;;
	77) skipped=$((skipped + 1)) ;;
	*) failed=$((failed + 1)) ;;
	esac
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]

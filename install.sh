#!/bin/sh
# Installs reap as a service, upgrades it, or says that nothing changed: sh install.sh --help
# POSIX sh, busybox included.
set -eu
# Letters are those of ASCII, and a byte that is no character is one all the same.
LC_ALL=C
export LC_ALL
# Nothing written here is for others unless chmod says so.
umask 077

say() { printf '[reap] %s\n' "$*"; }
die() {
	printf '[reap] error: %s\n' "$*" >&2
	exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

usage() {
	cat <<'EOF'
Installs reap as a service, upgrades it, or says that nothing changed.

  sh install.sh [arguments for `reap server`]
  curl -fsSL .../install.sh | sh -s - --disable=gc

Without arguments an installed service keeps the ones it has.

Environment:
  INSTALL_REAP_VERSION        release to install, for example v0.1.0; the latest unless set
  INSTALL_REAP_FORCE          true: install an older version over a newer one
  INSTALL_REAP_BASE_URL       where releases are: a URL, below which each version has a directory, or for
                              machines without a network something local: a directory with the files
                              or with a directory of them for each version, a release's air-gap
                              bundle (reap-VERSION-airgap.tar.gz), or a binary with sha256sums.txt
                              beside it. Unless set, the files beside install.sh if they are there,
                              as in an unpacked bundle, and otherwise the project's release page
  INSTALL_REAP_BIN_DIR        directory of the binary; where it is already, or /usr/local/bin, or
                              /opt/bin where that is read-only
  INSTALL_REAP_EXEC           arguments for `reap server` as one string, put before the others;
                              "server" alone goes back to none
  INSTALL_REAP_NAME           name of a second service beside the first: reap-NAME, with a data directory
                              and a port of its own; it reads no configuration file unless --config
                              names one
  INSTALL_REAP_SYSTEMD_DIR    directory of the systemd unit, one that systemd reads; where it is already, or
                              /etc/systemd/system
  INSTALL_REAP_SYMLINK        skip: make no links to the binary; otherwise it is kubectl too, where there
                              is none, and its plugin kubectl-reap
  INSTALL_REAP_SKIP_DOWNLOAD  true: use the binary that is already in the directory
  INSTALL_REAP_SKIP_ENABLE    true: neither enable nor start the service
  INSTALL_REAP_SKIP_START     true: do not start or restart the service
  INSTALL_REAP_ROOT           put every file below this directory, for building images
  REAP_...                    settings of reap itself: kept in the service's environment file

A variable that is none of these is an error. A service that does not become ready with new settings goes
back to the ones before.

Versions are what `reap --version` says. v0.2.0 is newer than v0.2.0-rc.1, and v0.2.0-5-g1234567, five
commits after it, newer than v0.2.0. One that is no number, such as that of a build without a tag, is
neither newer nor older than any other: it is installed, and may be replaced.

The binary sets the service up: `reap service --help`. A release from before that command is installed by
its own install.sh, which has to lie beside its binary and be in its sha256sums.txt.

As an ordinary user, with INSTALL_REAP_BIN_DIR set, it installs the binary without a service.
A script reap-uninstall.sh beside the binary takes it all away again, with --purge the data too.
EOF
}

# A piped script that is cut short must not run half: everything is a function, called on the last line.

is_true() {
	value=
	eval "value=\${$1-}"
	case $value in
	true | 1 | yes) return 0 ;;
	'' | false | 0 | no) return 1 ;;
	*) die "$1 is \"$value\"; it takes true or false" ;;
	esac
}

sha256_of() {
	if have sha256sum; then
		sum=$(sha256sum <"$1")
	elif have shasum; then
		sum=$(shasum -a 256 <"$1")
	elif have openssl; then
		sum=$(openssl dgst -sha256 -r <"$1")
	else
		die "no program to verify SHA-256 with: install sha256sum, shasum or openssl"
	fi
	printf '%s' "${sum%% *}"
}

check_machine() {
	os=$(uname -s)
	[ "$os" = Linux ] || die "reap runs on Linux, and this is $os"
	machine=$(uname -m)
	case $machine in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	armv7* | armv8l) arch=armv7 ;;
	*) die "there is no reap for $machine: it is built for x86_64, aarch64 and armv7" ;;
	esac
	# A 64-bit kernel under a 32-bit system, as on many a Raspberry Pi.
	if [ "$arch" = arm64 ] && [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 32 ]; then
		arch=armv7
	fi
	asset=reap-linux-$arch
}

# readable NAME LENGTH: the value of the variable can be shown in one line.
readable() {
	value=
	eval "value=\${$1-}"
	[ ${#value} -le "$2" ] || die "$1 has ${#value} characters, and may have $2"
	case $value in
	*[[:cntrl:]]*) die "$1 holds a line break or another control character" ;;
	esac
}

# known are the settings of this script.
known='VERSION FORCE BASE_URL BIN_DIR EXEC NAME SYSTEMD_DIR SYMLINK SKIP_DOWNLOAD SKIP_ENABLE SKIP_START ROOT'

# check_names: no variable looks like a setting and is none.
check_names() {
	# Shells write export or declare -x before a name. A line of another variable's value may look like that: what is set counts.
	for name in $(export -p | sed -n 's/^export INSTALL_REAP_\([A-Za-z0-9_]*\).*/\1/p; s/^declare -x INSTALL_REAP_\([A-Za-z0-9_]*\).*/\1/p'); do
		case " $known " in
		*" $name "*) ;;
		*)
			value=
			eval "value=\${INSTALL_REAP_$name-}"
			[ -z "$value" ] || die "INSTALL_REAP_$name is no setting; after INSTALL_REAP_ there is one of: $known"
			;;
		esac
	done
}

# check_path NAME DEFAULT: a path that init systems can handle.
check_path() {
	path=
	eval "path=\${$1:-$2}"
	case $path in
	*[!A-Za-z0-9_./@+-]*) die "$1 is \"$path\": no spaces or special characters, please: init systems trip over them" ;;
	/*) ;;
	*) die "$1 is \"$path\", which is not an absolute path" ;;
	esac
}

# check_inside NAME: the path leads nowhere else than below the root.
check_inside() {
	eval "path=\${$1-}"
	case $path/ in
	*/../*) die "$1 is \"$path\": no .. in it, please" ;;
	esac
}

read_settings() {
	check_names
	for setting in VERSION NAME SYMLINK FORCE SKIP_DOWNLOAD SKIP_ENABLE SKIP_START; do
		readable "INSTALL_REAP_$setting" 100
	done
	for setting in BASE_URL BIN_DIR SYSTEMD_DIR ROOT; do
		readable "INSTALL_REAP_$setting" 1000
	done
	prefix=${INSTALL_REAP_ROOT:-}
	prefix=${prefix%/}
	version=${INSTALL_REAP_VERSION:-latest}
	case $version in
	[!A-Za-z0-9]* | *[!A-Za-z0-9._+-]*) die "INSTALL_REAP_VERSION is \"$version\", which no release is called" ;;
	esac
	base=${INSTALL_REAP_BASE_URL:-}
	[ "$base" = / ] || base=${base%/}
	service=reap
	if [ -n "${INSTALL_REAP_NAME:-}" ]; then
		case $INSTALL_REAP_NAME in
		*[!A-Za-z0-9_-]*) die "INSTALL_REAP_NAME may hold letters, digits, - and _ only" ;;
		reap) ;;
		reap-*) service=$INSTALL_REAP_NAME ;;
		*) service=reap-$INSTALL_REAP_NAME ;;
		esac
	fi
	systemd_dir=${INSTALL_REAP_SYSTEMD_DIR:-/etc/systemd/system}
	unit=$systemd_dir/$service.service
	rc_script=/etc/init.d/$service
	check_path INSTALL_REAP_BIN_DIR /
	check_path INSTALL_REAP_SYSTEMD_DIR /
	check_path INSTALL_REAP_ROOT /
	check_inside INSTALL_REAP_BIN_DIR
	check_inside INSTALL_REAP_SYSTEMD_DIR
	case ${INSTALL_REAP_SYMLINK:-} in
	'' | skip) ;;
	*) die "INSTALL_REAP_SYMLINK is \"$INSTALL_REAP_SYMLINK\"; it takes skip, or nothing" ;;
	esac
	force=false
	! is_true INSTALL_REAP_FORCE || force=true
	skip_download=false
	! is_true INSTALL_REAP_SKIP_DOWNLOAD || skip_download=true
	skip_start=false
	! is_true INSTALL_REAP_SKIP_START || skip_start=true
	skip_enable=false
	if is_true INSTALL_REAP_SKIP_ENABLE; then
		skip_enable=true
		skip_start=true
	fi
}

# usable DIR: DIR can be made and written to. Tried, not asked: root may write where nothing can be.
usable() {
	if [ ! -d "$1" ]; then
		made=$1
		made_first=$1
		while above=${made_first%/*} && [ -n "$above" ] && [ ! -d "$above" ]; do
			made_first=$above
		done
		(umask 022 && mkdir -p "$1") 2>/dev/null || :
	fi
	work=$(mktemp -d "$1/.reap-install.XXXXXX" 2>/dev/null) && return 0
	unmake
	return 1
}

# unmake removes the directories that usable made, as far as nothing is in them.
unmake() {
	while [ -n "$made" ]; do
		rmdir "$made" 2>/dev/null || :
		case $made in
		"$made_first") made= ;;
		*) made=${made%/*} ;;
		esac
	done
}

# Sets bin_dir, and work: a directory in it, since only within one file system is a move atomic,
# and since a device's /tmp may be too small for the binary.
choose_bin_dir() {
	old_bin_dir=
	if [ "$(id -u)" = 0 ]; then
		# The unit is where an earlier run was told to put it: systemd reads all of these.
		set -- "$prefix$unit" "$prefix$rc_script"
		for dir in /etc /run /usr/local/lib /usr/lib /lib; do
			set -- "$@" "$prefix$dir/systemd/system/$service.service"
		done
		old_bin_dir=$(sed -n 's|^ExecStart=\(/[^ ]*\)reap server.*|\1|p; s|^command=\(/.*\)reap$|\1|p' "$@" 2>/dev/null | head -n 1)
	elif [ -z "${INSTALL_REAP_BIN_DIR:-}" ]; then
		die "a service needs root: run this with sudo; or, for the binary alone, set INSTALL_REAP_BIN_DIR=\$HOME/.local/bin"
	fi
	bin_dir=${INSTALL_REAP_BIN_DIR:-${old_bin_dir:-/usr/local/bin}}
	[ "$bin_dir" = / ] || bin_dir=${bin_dir%/}
	if ! usable "$prefix$bin_dir"; then
		[ -z "${INSTALL_REAP_BIN_DIR:-}" ] || die "cannot write to $bin_dir (INSTALL_REAP_BIN_DIR)${prefix:+ below $prefix}"
		usable "$prefix/opt/bin" ||
			die "cannot write to $bin_dir, nor to /opt/bin${prefix:+, below $prefix (INSTALL_REAP_ROOT)}: set INSTALL_REAP_BIN_DIR"
		say "$bin_dir is read-only: installing to /opt/bin"
		bin_dir=/opt/bin
	fi
	binary=${bin_dir%/}/reap
}

# fetch SOURCE FILE: from a URL or a local path.
fetch() {
	case $1 in
	http://* | https://*)
		if have curl; then
			set -- "$@" curl -fsSL --globoff --connect-timeout 30 --retry 2 -o "$2" "$1"
		elif have wget; then
			# No -T: the wget of busybox 1.35 crashes with it.
			set -- "$@" wget -q -O "$2" "$1"
		else
			die "neither curl nor wget found: install one, or set INSTALL_REAP_BASE_URL to a local directory"
		fi
		;;
	*) set -- "$@" cp "$1" "$2" ;;
	esac
	source=$1
	shift 2
	why=$("$@" 2>&1) && return 0
	why=$(printf '%s' "$why" | tr '\n' ' ')
	die "cannot fetch $source${why:+ ($why)}; INSTALL_REAP_BASE_URL and INSTALL_REAP_VERSION say where releases are; nothing was changed"
}

# beside: the directory of this script, if a release lies in it.
beside() {
	case $0 in
	*.sh) ;;
	*) return 1 ;; # piped into a shell
	esac
	directory=$(CDPATH='' cd -P -- "$(dirname -- "$0")" 2>/dev/null && pwd) || return 1
	[ -f "$directory/$asset" ] && [ -f "$directory/sha256sums.txt" ] || return 1
	case $(ls -ld "$directory/") in
	# In /tmp anybody can put a binary, and its checksum, beside a script that root will run.
	????????w*)
		say "not using the files beside install.sh: $directory is open to all users" >&2
		return 1
		;;
	esac
	printf '%s' "$directory"
}

# Sets from: where the files of the wanted version are; and top, their directory in the archive if
# that is one.
locate() {
	archive=false
	if [ -z "$base" ]; then
		if base=$(beside); then
			say "using the files beside install.sh"
			from=$base
			return 0
		fi
		base=https://github.com/reap-dev/reap/releases/download
	fi
	case $base in
	file://*)
		base=${base#file://}
		base=${base:-/}
		;;
	esac
	case $base in
	http://* | https://*)
		case $version:$base in
		# The release page's own way to say it.
		latest:*/releases/download) from=${base%/download}/latest/download ;;
		*) from=$base/$version ;;
		esac
		return 0
		;;
	esac
	# A name that looks like an option, or to tar like that of another machine, is still one of a file.
	case $base in
	/*) ;;
	*) base=./$base ;;
	esac
	if [ ! -f "$base" ]; then
		if [ -f "$base/$version/$asset" ]; then
			from=$base/$version
		elif [ -f "$base/$asset" ]; then
			from=$base
		else
			die "no $asset in $base (INSTALL_REAP_BASE_URL), nor in its directory $version (INSTALL_REAP_VERSION); nothing was changed"
		fi
		return 0
	fi
	case $base in
	*.tar.gz | *.tgz)
		archive=true
		from=$base
		# Its first line is enough: a slow device takes its time over the rest.
		top=$(tar -tzf "$base" 2>/dev/null | head -n 1)
		[ -n "$top" ] || die "$base (INSTALL_REAP_BASE_URL) is no bundle of reap, or not whole; nothing was changed"
		case $top in
		*/*) top=${top%%/*}/ ;;
		*) top= ;;
		esac
		;;
	*)
		asset=${base##*/}
		from=${base%/*}
		;;
	esac
}

# get NAME FILE: a file of the release that locate found.
get() {
	if [ "$archive" = false ]; then
		fetch "$from/$1" "$2"
	# To standard output, so that no name in the archive can say where to write.
	elif ! tar -xzOf "$from" -- "$top$1" >"$2" 2>/dev/null; then
		die "cannot unpack $top$1 from $from; nothing was changed"
	fi
}

# version_of FILE: the version that a binary says it has; nothing if it does not run.
version_of() {
	[ -x "$1" ] || return 0
	"$1" --version 2>/dev/null | sed -n '1s/^[^ ]* version \([^ ]*\).*/\1/p'
}

# compare A B: older, same or newer, as A is to B; or unknown. As semver.org orders them, and
# between a tag and the next one by the commits that "git describe" counted.
compare() {
	awk -v a="$1" -v b="$2" '
		# Fills part: what is before the first -, what is after it, and the commits since the tag.
		function read(version, part) {
			sub(/^v/, "", version)
			sub(/\+.*/, "", version)
			sub(/-dirty$/, "", version)
			part["commits"] = 0
			if (match(version, /-[0-9]+-g[0-9a-f]+$/)) {
				part["commits"] = substr(version, RSTART + 1) + 0
				version = substr(version, 1, RSTART - 1)
			}
			part["pre"] = ""
			if (match(version, /-.*/)) {
				part["pre"] = substr(version, RSTART + 1)
				version = substr(version, 1, RSTART - 1)
			}
			part["numbers"] = version
			if (version !~ /^[0-9]+(\.[0-9]+)*$/) answer("unknown")
		}
		function answer(word) {
			print word
			exit
		}
		function order(x, y) {
			if (x < y) answer("older")
			if (x > y) answer("newer")
		}
		BEGIN {
			read(a, x)
			read(b, y)
			m = split(x["numbers"], p, ".")
			n = split(y["numbers"], q, ".")
			for (i = 1; i <= m || i <= n; i++) order(p[i] + 0, q[i] + 0)
			order(x["pre"] == "", y["pre"] == "") # a release candidate is older than its release
			m = split(x["pre"], p, ".")
			n = split(y["pre"], q, ".")
			for (i = 1; i <= m && i <= n; i++) {
				number = (p[i] ~ /^[0-9]+$/) + 2 * (q[i] ~ /^[0-9]+$/)
				if (number == 1) answer("older")
				if (number == 2) answer("newer")
				if (number == 3) order(p[i] + 0, q[i] + 0)
				if (number == 0) order(p[i] "", q[i] "")
			}
			order(m, n)
			order(x["commits"], y["commits"])
			answer("same")
		}'
}

# check_version FILE: that it is the version asked for, as far as both can be told.
check_version() {
	new_version=$(version_of "$1")
	case $version:$(compare "$new_version" "$version") in
	latest:* | *:same | *:unknown) ;;
	*) die "$from holds reap $new_version, and INSTALL_REAP_VERSION asks for $version; nothing was changed" ;;
	esac
}

# check_downgrade: the other way is an upgrade, and what cannot be told is the user's to know.
check_downgrade() {
	old_version=$(version_of "$prefix$binary")
	[ -n "$old_version" ] || return 0
	[ "$(compare "$new_version" "$old_version")" = older ] || return 0
	[ "$force" = true ] ||
		die "$new_version is older than the installed $old_version, whose data it may not understand: INSTALL_REAP_FORCE=true installs it all the same; nothing was changed"
	say "going back from $old_version to $new_version, as INSTALL_REAP_FORCE asks"
}

# listed NAME: its SHA-256 in the release's list.
listed() {
	awk -v name="$1" '{ sub(/\r$/, "") } $2 == name || $2 == "*" name { print $1 }' "$work/sums"
}

# Sets wanted, the SHA-256 of the binary to run, and leaves it, verified, in $work/reap; unless it is
# installed already: then binary_changed is false.
obtain_binary() {
	binary_changed=false
	if [ "$skip_download" = true ]; then
		[ -x "$prefix$binary" ] || die "INSTALL_REAP_SKIP_DOWNLOAD is set, and there is no $binary"
		wanted=$(sha256_of "$prefix$binary")
		return 0
	fi
	locate
	get sha256sums.txt "$work/sums"
	wanted=$(listed "$asset")
	case ${#wanted}$wanted in
	64*[!0-9a-f]*) wanted= ;;
	64*) ;;
	*) wanted= ;;
	esac
	[ -n "$wanted" ] || die "$from has no SHA-256 for $asset in its sha256sums.txt; nothing was changed"
	if [ -f "$prefix$binary" ] && [ "$(sha256_of "$prefix$binary")" = "$wanted" ]; then
		check_version "$prefix$binary"
		return 0
	fi
	case $from in
	http://* | https://*) say "downloading $from/$asset" ;;
	esac
	get "$asset" "$work/reap"
	got=$(sha256_of "$work/reap")
	[ "$got" = "$wanted" ] ||
		die "the SHA-256 of $asset from $from is $got, and should be $wanted; nothing was changed"
	chmod 755 "$work/reap"
	# The right bytes for another machine are still the wrong ones.
	"$work/reap" --version >"$work/version" 2>&1 ||
		die "$asset does not run on this machine ($machine): $(head -n 1 "$work/version"); nothing was changed"
	check_version "$work/reap"
	check_downgrade
	binary_changed=true
}

put_binary() {
	if [ "$binary_changed" = true ]; then
		# A device that loses its power now starts the old one or the new one, not half of it.
		! have sync || sync "$work/reap" 2>/dev/null || die "cannot write $binary; nothing was changed"
		mv -f "$work/reap" "$prefix$binary"
		say "installed $binary: $(head -n 1 "$work/version")"
	fi
}

# knows_services PROGRAM: it has the command `reap service`. Its help is read, since a program may take any word.
knows_services() {
	case $("$1" service install --help 2>/dev/null || :) in
	*'reap service install'*) return 0 ;;
	*) return 1 ;;
	esac
}

# set_up_service PROGRAM DRY_RUN "$@": everything but the binary is the program's to do, with the same settings.
set_up_service() {
	program=$1
	dry_run=$2
	shift 2
	set -f # INSTALL_REAP_EXEC is split into words; it is not a list of file names
	# shellcheck disable=SC2086
	set -- -- ${INSTALL_REAP_EXEC:-} "$@"
	set +f
	[ -z "${INSTALL_REAP_SYSTEMD_DIR:-}" ] || set -- --systemd-dir "$systemd_dir" "$@"
	[ "${INSTALL_REAP_SYMLINK:-}" != skip ] || set -- --skip-links "$@"
	[ "$skip_enable" = false ] || set -- --skip-enable "$@"
	[ "$skip_start" = false ] || set -- --skip-start "$@"
	[ "$made" != "$prefix$bin_dir" ] || set -- --bin-dir-made "$@"
	[ "$dry_run" = false ] || set -- --dry-run "$@"
	"$program" service install --name "$service" --root "$prefix" --bin-dir "$bin_dir" --sha256 "$wanted" "$@"
}

# hand_over PROGRAM "$@": a release from before `reap service` knows by its own install.sh how it becomes a service. That
# lies beside its binary, wherever the release is.
hand_over() {
	program=$1
	shift
	[ "$skip_download" = false ] ||
		die "$binary has no command \`reap service\`: run the install.sh of its own release; nothing was changed"
	older=$(version_of "$program")
	mkdir "$work/release"
	(get install.sh "$work/release/install.sh") 2>/dev/null ||
		die "reap $older has no command \`reap service\`, and its own install.sh is not in $from: put it there, with its line in sha256sums.txt, or run it instead of this one; nothing was changed"
	sum=$(listed install.sh)
	[ "$(sha256_of "$work/release/install.sh")" = "$sum" ] ||
		die "install.sh of reap $older from $from is not what its sha256sums.txt says; nothing was changed"
	if [ "$binary_changed" = true ]; then
		mv "$program" "$work/release/reap-linux-$arch"
	else
		cp "$program" "$work/release/reap-linux-$arch"
	fi
	printf '%s  reap-linux-%s\n' "$wanted" "$arch" >"$work/release/sha256sums.txt"
	say "reap $older has no command \`reap service\`: its own install.sh goes on"
	INSTALL_REAP_BASE_URL=$work/release sh "$work/release/install.sh" "$@"
}

cleanup() {
	code=$?
	[ -z "$work" ] || rm -rf "$work"
	# What it made goes only if it is empty: after a failure.
	unmake
	exit "$code"
}

main() {
	case ${1-} in
	-h | --help)
		usage
		exit 0
		;;
	esac
	work=
	made=
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM

	check_machine
	read_settings
	choose_bin_dir
	obtain_binary
	program=$prefix$binary
	[ "$binary_changed" = false ] || program=$work/reap
	if ! knows_services "$program"; then
		hand_over "$program" "$@"
		return 0
	fi
	# What is wrong with the settings is found before anything changes.
	[ "$binary_changed" = false ] || set_up_service "$program" true "$@" >/dev/null || exit 1
	put_binary
	set_up_service "$prefix$binary" false "$@" || exit 1
}

main "$@"

#!/bin/sh
# Installs reap as a service, upgrades it, or says that nothing changed: sh install.sh --help
# POSIX sh, busybox included.
set -eu
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
  INSTALL_REAP_NAME           name of a second service beside the first: reap-NAME
  INSTALL_REAP_SYSTEMD_DIR    directory of the systemd unit, one that systemd reads; /etc/systemd/system
  INSTALL_REAP_SYMLINK        skip: make no links to the binary; otherwise it is kubectl too, where there
                              is none, and its plugin kubectl-reap
  INSTALL_REAP_SKIP_DOWNLOAD  true: use the binary that is already in the directory
  INSTALL_REAP_SKIP_ENABLE    true: neither enable nor start the service
  INSTALL_REAP_SKIP_START     true: do not start or restart the service
  INSTALL_REAP_ROOT           put every file below this directory, for building images
  REAP_...                    settings of reap itself: kept in the service's environment file

Versions are what `reap --version` says. v0.2.0 is newer than v0.2.0-rc.1, and v0.2.0-5-g1234567, five
commits after it, newer than v0.2.0. One that is no number, such as that of a build without a tag, is
neither newer nor older than any other: it is installed, and may be replaced.

As an ordinary user, with INSTALL_REAP_BIN_DIR set, it installs the binary without a service.
A script reap-uninstall.sh beside the binary takes it all away again, with --purge the data too.
EOF
}

# A piped script that is cut short must not run half: everything is a function, called on the last line.

# quote WORD...: the words, quoted for a shell, on one line.
quote() {
	quoted=
	for word; do
		quoted="$quoted '$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'"
	done
	printf '%s' "${quoted# }"
}

# systemd_quote WORD...: the words for ExecStart, where % and $ have meanings of their own.
systemd_quote() {
	quoted=
	for word; do
		case $word in
		*[!A-Za-z0-9_./:=,@+-]* | '')
			word=\"$(printf '%s' "$word" | sed 's/[\\"]/\\&/g; s/[%$]/&&/g')\"
			;;
		esac
		quoted="$quoted $word"
	done
	printf '%s' "${quoted# }"
}

is_true() {
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

read_settings() {
	prefix=${INSTALL_REAP_ROOT:-}
	prefix=${prefix%/}
	version=${INSTALL_REAP_VERSION:-latest}
	case $version in
	*[!A-Za-z0-9._+-]*) die "INSTALL_REAP_VERSION is \"$version\", which no release is called" ;;
	esac
	base=${INSTALL_REAP_BASE_URL:-}
	base=${base%/}
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
	env_file=/etc/reap/$service.env
	for path in "${INSTALL_REAP_BIN_DIR:-/}" "$systemd_dir" "${prefix:-/}"; do
		case $path in
		*[!A-Za-z0-9_./@+-]*) die "no spaces or special characters in $path, please: init systems trip over them" ;;
		/*) ;;
		*) die "$path is not an absolute path" ;;
		esac
	done
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

# What starts services here: systemd, openrc, or nothing; and whether it is running, which it is
# not while an image is built.
find_init() {
	init=none
	running=false
	if [ "$(id -u)" != 0 ]; then
		[ -n "${INSTALL_REAP_BIN_DIR:-}" ] ||
			die "a service needs root: run this with sudo; or, for the binary alone, set INSTALL_REAP_BIN_DIR=\$HOME/.local/bin"
		return 0
	fi
	if have systemctl && [ -d "$prefix/run/systemd/system" ]; then
		init=systemd
		running=true
	elif [ -x "$prefix/sbin/openrc-run" ]; then
		init=openrc
		if have rc-service && [ -e "$prefix/run/openrc/softlevel" ]; then
			running=true
		fi
	elif have systemctl || [ -n "${INSTALL_REAP_SYSTEMD_DIR:-}" ]; then
		init=systemd
	fi
}

# installed_line EXPRESSION: what sed -n prints of the service's definition, if it is installed.
installed_line() {
	case $init in
	systemd) definition=$prefix$unit ;;
	openrc) definition=$prefix$rc_script ;;
	*) return 0 ;;
	esac
	[ ! -f "$definition" ] || sed -n "$1" "$definition"
}

# setting NAME: its value in the environment file, without the quotes.
setting() {
	[ -f "$work/env" ] || return 0
	sed -n '/^'"$1"'=/{ s/^[^=]*=//; s/^"\(.*\)"$/\1/; s/\\\(["\\$`]\)/\1/g; p; }' "$work/env" | sed -n '$p'
}

# Where reap keeps its data unless an argument or the environment says so: what the configuration
# files say, the last one first, or its own default.
default_data_dir() {
	for file in "$prefix$config" "$prefix$config.d"/*.yaml; do
		[ -z "$config" ] || [ ! -f "$file" ] || sed -n 's/^data-dir:[[:space:]]*//p' "$file"
	done | sed 's/[[:space:]]#.*//; s/[[:space:]]*$//; s/^\(["'\'']\)\(.*\)\1$/\2/' >"$work/data-dir"
	if [ -s "$work/data-dir" ]; then
		sed -n '$p' "$work/data-dir"
	elif [ "$(id -u)" = 0 ]; then
		echo /var/lib/reap
	else
		case ${XDG_DATA_HOME:-} in
		/*) echo "$XDG_DATA_HOME/reap" ;;
		*) echo "${HOME:-}/.local/share/reap" ;;
		esac
	fi
}

# read_arguments "$@": sets arguments (quoted for a shell), systemd_arguments and data_dir.
read_arguments() {
	if [ $# = 0 ] && [ -z "${INSTALL_REAP_EXEC:-}" ]; then
		eval "set -- $(installed_line 's/^# arguments: //p')"
		# Not printed: they may hold a password.
		[ $# = 0 ] || say "keeping the arguments of the installed service"
	else
		set -f # INSTALL_REAP_EXEC is split into words; it is not a list of file names
		# shellcheck disable=SC2086
		set -- ${INSTALL_REAP_EXEC:-} "$@"
		set +f
		[ "${1-}" != server ] || shift
	fi
	case ${1--} in
	-*) ;;
	*) die "only \`reap server\` is installed as a service: its arguments start with -, and \"$1\" does not" ;;
	esac

	data_dir=$(setting REAP_DATA_DIR)
	config=$(setting REAP_CONFIG)
	config=${config:-/etc/reap/config.yaml}
	previous=
	for argument; do
		case $argument in
		*"$newline"*) die "an argument with a line break cannot go into a service" ;;
		--data-dir=*) data_dir=${argument#--data-dir=} ;;
		--config=*) config=${argument#--config=} ;;
		--datastore-endpoint*)
			say "note: every local user can read the arguments of a service; REAP_DATASTORE_ENDPOINT keeps a password from them"
			;;
		esac
		case $previous in
		--data-dir) data_dir=$argument ;;
		--config) config=$argument ;;
		esac
		previous=$argument
	done
	if [ -z "$data_dir" ]; then
		if [ "$service" = reap ]; then
			data_dir=$(default_data_dir)
		else
			# Two services on one data directory would shut each other out.
			data_dir=/var/lib/$service
			set -- "--data-dir=$data_dir" "$@"
		fi
	fi
	case $init:$data_dir in
	none:* | *:/*) ;;
	*) die "a service has no current directory: --data-dir $data_dir must start with /" ;;
	esac
	arguments=$(quote "$@")
	systemd_arguments=$(systemd_quote "$@")
}

newline='
'

# usable DIR: DIR can be made and written to. Tried, not asked: root may write where nothing can be.
usable() {
	if [ ! -d "$1" ]; then
		(umask 022 && mkdir -p "$1") 2>/dev/null || return 1
		made=$1
	fi
	work=$(mktemp -d "$1/.reap-install.XXXXXX" 2>/dev/null)
}

# Sets bin_dir, and work: a directory in it, since only within one file system is a move atomic,
# and since a device's /tmp may be too small for the binary.
choose_bin_dir() {
	old_bin_dir=
	case $init in
	systemd) old_bin_dir=$(installed_line 's|^ExecStart=\(/[^ ]*\)/reap server.*|\1|p') ;;
	openrc) old_bin_dir=$(installed_line 's|^command=\(/.*\)/reap$|\1|p') ;;
	esac
	bin_dir=${INSTALL_REAP_BIN_DIR:-${old_bin_dir:-/usr/local/bin}}
	bin_dir=${bin_dir%/}
	if ! usable "$prefix$bin_dir"; then
		[ -z "${INSTALL_REAP_BIN_DIR:-}" ] || die "cannot write to $bin_dir"
		usable "$prefix/opt/bin" || die "cannot write to $bin_dir, nor to /opt/bin: set INSTALL_REAP_BIN_DIR"
		say "$bin_dir is read-only: installing to /opt/bin"
		bin_dir=/opt/bin
	fi
	binary=$bin_dir/reap
}

# fetch SOURCE FILE: from a URL or a local path.
fetch() {
	case $1 in
	http://* | https://*)
		if have curl; then
			set -- "$@" curl -fsSL --connect-timeout 30 --retry 2 -o "$2" "$1"
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
	die "cannot fetch $source${why:+ ($why)}; nothing was changed"
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
	base=${base#file://}
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
	if [ ! -f "$base" ]; then
		if [ -f "$base/$version/$asset" ]; then
			from=$base/$version
		elif [ -f "$base/$asset" ]; then
			from=$base
		else
			die "no $asset in $base (INSTALL_REAP_BASE_URL), nor in its directory $version; nothing was changed"
		fi
		return 0
	fi
	case $base in
	*.tar.gz | *.tgz)
		archive=true
		from=$base
		# Its first line is enough: a slow device takes its time over the rest.
		top=$(tar -tzf "$base" 2>/dev/null | head -n 1)
		[ -n "$top" ] || die "$base is no bundle of reap, or not whole; nothing was changed"
		case $top in
		*/*) top=${top%%/*}/ ;;
		*) top= ;;
		esac
		;;
	*)
		asset=${base##*/}
		case $base in
		*/*) from=${base%/*} ;;
		*) from=. ;;
		esac
		;;
	esac
}

# get NAME FILE: a file of the release that locate found.
get() {
	if [ "$archive" = false ]; then
		fetch "$from/$1" "$2"
	# To standard output, so that no name in the archive can say where to write.
	elif ! tar -xzOf "$from" "$top$1" >"$2" 2>/dev/null; then
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
	wanted=$(awk -v name="$asset" '{ sub(/\r$/, "") } $2 == name || $2 == "*" name { print $1 }' "$work/sums")
	case $wanted in
	*[!0-9a-f]* | '') die "$from has no SHA-256 for $asset in its sha256sums.txt; nothing was changed" ;;
	esac
	[ "${#wanted}" = 64 ] || die "$from has no SHA-256 for $asset in its sha256sums.txt; nothing was changed"
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

# changing: called before a change that a running service has to be restarted for. The mark outlives
# a run that was cut short or asked not to restart, so that the next one does; a boot clears it, and
# starts the service anew anyway.
changing() {
	changed=true
	[ "$running" = false ] || : >"$mark"
}

# put FILE MODE [quietly]: FILE takes standard input, whole or not at all. Quietly: nothing that runs
# is concerned.
put() {
	cat >"$work/put"
	chmod "$2" "$work/put"
	if [ -f "$prefix$1" ] && cmp -s "$work/put" "$prefix$1"; then
		chmod "$2" "$prefix$1"
		return 0
	fi
	[ "${3-}" = quietly ] || changing
	directory=$(dirname "$prefix$1")
	(umask 022 && mkdir -p "$directory")
	# Perhaps another file system than $work: copied beside its target first.
	if ! { cp -p "$work/put" "$prefix$1.new" && mv -f "$prefix$1.new" "$prefix$1"; }; then
		rm -f "$prefix$1.new"
		die "cannot write $1"
	fi
}

put_binary() {
	if [ "$binary_changed" = true ]; then
		# A device that loses its power now starts the old one or the new one, not half of it.
		! have sync || sync "$work/reap" 2>/dev/null || die "cannot write $binary; nothing was changed"
		changing
		mv -f "$work/reap" "$prefix$binary"
		say "installed $binary: $(head -n 1 "$work/version")"
	fi
}

# is_there COMMAND: where the binary will run there is such a command, in a directory of this PATH.
is_there() (
	set -f
	IFS=:
	for directory in $PATH "$bin_dir"; do
		[ ! -e "$prefix$directory/$1" ] || exit 0
	done
	exit 1
)

# The binary is what it is called.
put_links() {
	[ "${INSTALL_REAP_SYMLINK:-}" != skip ] || return 0
	for name in kubectl kubectl-reap kubectl_complete-reap; do
		if is_there "$name"; then
			continue
		elif ln -s reap "$prefix$bin_dir/$name" 2>/dev/null; then
			say "linked $bin_dir/$name to it"
		else
			say "could not link $bin_dir/$name to $binary: use \"reap kubectl\""
		fi
	done
}

# Writes $work/env, the environment file: what is in it stays; REAP_ variables given now replace
# their lines.
prepare_environment() {
	if [ -f "$prefix$env_file" ]; then
		cp "$prefix$env_file" "$work/env"
	else
		cat >"$work/env" <<-EOF
			# Settings of $service as REAP_... variables, for example REAP_LOG_LEVEL="debug".
			# Restart the service after a change. Readable by root alone: it may hold passwords.
		EOF
	fi
	for name in $(env | sed -n 's/^\(REAP_[A-Za-z0-9_]*\)=.*/\1/p'); do
		eval "value=\${$name-}"
		case $value in
		*"$newline"*) die "$name holds a line break, which an environment file cannot" ;;
		esac
		# Double quotes with these escapes are read alike by systemd and by a shell.
		value=$(printf '%s' "$value" | sed 's/[\\"$`]/\\&/g')
		sed "/^$name=/d" "$work/env" >"$work/env.rest"
		printf '%s="%s"\n' "$name" "$value" >>"$work/env.rest"
		mv -f "$work/env.rest" "$work/env"
	done
}

put_unit() {
	case $data_dir in
	/usr/* | /boot/* | /efi/*) protect_system=no ;;
	*) protect_system=yes ;;
	esac
	put "$unit" 644 <<-EOF
		# Written by install.sh, which writes it again on every run. Changes of your own go into a
		# drop-in: systemctl edit $service
		# arguments: $arguments
		# binary: $wanted
		[Unit]
		Description=reap, a Kubernetes API server with an ownership garbage collector
		Documentation=https://github.com/reap-dev/reap
		Wants=network-online.target
		After=network-online.target

		[Service]
		Type=notify
		EnvironmentFile=-$env_file
		ExecStart=$binary server${systemd_arguments:+ $systemd_arguments}
		Restart=always
		RestartSec=5s
		# A device's card may be slow, and a database large.
		TimeoutStartSec=300s
		TimeoutStopSec=30s
		LimitNOFILE=1048576
		# A core dump would hold keys and secrets.
		LimitCORE=0
		# Data, kubeconfig and audit log are where the arguments say, be it in /etc, /home or /tmp: those
		# stay open. The capabilities are for other users' files and for ports below 1024.
		CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_NET_BIND_SERVICE
		NoNewPrivileges=yes
		ProtectSystem=$protect_system
		ProtectHostname=yes
		ProtectKernelLogs=yes
		ProtectKernelModules=yes
		ProtectKernelTunables=yes
		ProtectControlGroups=yes
		PrivateDevices=yes
		RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
		RestrictNamespaces=yes
		RestrictRealtime=yes
		RestrictSUIDSGID=yes
		LockPersonality=yes

		[Install]
		WantedBy=multi-user.target
	EOF
}

put_rc_script() {
	put "$rc_script" 755 <<EOF
#!/sbin/openrc-run
# Written by install.sh, which writes it again on every run. Settings go into $env_file.
# arguments: $arguments
# binary: $wanted
name=$service
description="reap, a Kubernetes API server with an ownership garbage collector"
supervisor=supervise-daemon
command=$binary
command_args=$(quote "server $arguments")
pidfile=/run/$service.pid
output_log=/var/log/$service.log
error_log=/var/log/$service.log
# A core dump would hold keys and secrets.
rc_ulimit="-c 0"
respawn_delay=5
respawn_max=0
retry="TERM/30/KILL/5"
set -o allexport
[ ! -f $env_file ] || . $env_file
set +o allexport

depend() {
	want net
	after firewall
}
EOF
}

put_uninstall() {
	uninstall=$bin_dir/$service-uninstall.sh
	if [ "$made" = "$prefix$bin_dir" ]; then
		bin_dir_made=yes
	else
		bin_dir_made=$(sed -n 's/^bin_dir_made=//p' "$prefix$uninstall" 2>/dev/null || :)
	fi
	{
		cat <<-EOF
			#!/bin/sh
			# Removes $service, as install.sh installed it. Data stays unless asked for:
			#   $service-uninstall.sh [--purge]
			set -eu
			service=$service
			bin_dir=$bin_dir
			bin_dir_made=$bin_dir_made
			init=$init
			unit=$unit
			rc_script=$rc_script
			env_file=$env_file
			data_dir=$(quote "$data_dir")
		EOF
		cat <<'EOF'
prefix=${INSTALL_REAP_ROOT:-}
prefix=${prefix%/}

say() { printf '[reap] %s\n' "$*"; }
die() {
	printf '[reap] error: %s\n' "$*" >&2
	exit 1
}

purge=
case ${1-} in
--purge) purge=yes ;;
'') ;;
*) die "unknown argument $1; the only one is --purge" ;;
esac
[ "$init" = none ] || [ "$(id -u)" = 0 ] || die "removing a service needs root: run this with sudo"

# All that can be wrong with the data directory is found before anything is removed.
data=
if [ -d "$prefix$data_dir" ]; then
	data=$(cd -P -- "$prefix$data_dir" && pwd)
	if [ -z "$purge" ] && [ -t 0 ]; then
		printf '[reap] delete the data in %s too? [y/N] ' "$data_dir"
		read -r answer || answer=
		case $answer in
		y | Y | yes) purge=yes ;;
		esac
	fi
fi
if [ -n "$purge" ] && [ -n "$data" ]; then
	# Any other directory than the service's own may hold more than reap's data: /srv, or a home.
	if [ "$data" != "$prefix/var/lib/$service" ]; then
		for entry in "$data"/* "$data"/.[!.]* "$data"/..?*; do
			case ${entry##*/} in
			admin.kubeconfig | .admin.kubeconfig.* | db | kine.sock* | lock | pki | ready.json | ready.json.next) ;;
			*)
				# Neither: a pattern that nothing matched.
				if [ -e "$entry" ] || [ -h "$entry" ]; then
					die "$data_dir holds ${entry##*/}, which is not reap's: remove the data by hand; nothing was removed"
				fi
				;;
			esac
		done
	fi
	[ -r /proc/self/mountinfo ] || die "cannot tell what is mounted without /proc; nothing was removed"
	# A bind mount has its parent's device number, which is all that rm and find look at.
	mounted=$(DATA=$data awk '
		BEGIN { data = ENVIRON["DATA"]; gsub(/\\/, "\\134", data); gsub(/ /, "\\040", data); gsub(/\t/, "\\011", data) }
		index($5, data "/") == 1 { print $5; exit }' /proc/self/mountinfo)
	[ -z "$mounted" ] || die "$mounted is mounted inside the data directory: unmount it first; nothing was removed"
	# A service is stopped below; a server that somebody started is his to stop.
	if [ "$init" = none ] && [ -f "$data/ready.json" ]; then
		pid=$(sed -n 's/^.*"pid": *\([0-9][0-9]*\).*/\1/p' "$data/ready.json")
		[ -z "$pid" ] || [ ! -d "/proc/$pid" ] ||
			die "a server, process $pid, runs on $data_dir: stop it first; nothing was removed"
	fi
fi

case $init in
systemd)
	if command -v systemctl >/dev/null 2>&1; then
		if [ -d "$prefix/run/systemd/system" ]; then
			systemctl disable --now "$service.service" || :
			! systemctl is-active --quiet "$service.service" ||
				die "$service.service is still running; nothing was removed"
		else
			systemctl --root="${prefix:-/}" disable "$service.service" || :
		fi
	fi
	rm -f "$prefix$unit"
	if [ -d "$prefix/run/systemd/system" ] && command -v systemctl >/dev/null 2>&1; then
		systemctl daemon-reload
		systemctl reset-failed "$service.service" 2>/dev/null || :
	fi
	;;
openrc)
	if command -v rc-service >/dev/null 2>&1; then
		rc-service "$service" stop || :
		! rc-service "$service" status >/dev/null 2>&1 || die "$service is still running; nothing was removed"
		rc-update del "$service" || :
	fi
	rm -f "$prefix$rc_script" "$prefix/var/log/$service.log"
	;;
esac
if [ "$init" != none ]; then
	rm -f "$prefix$env_file" "$prefix/run/$service-install.pending"
	rmdir "$prefix/etc/reap" 2>/dev/null || :
	for kept in /etc/reap "$unit.d"; do
		[ ! -d "$prefix$kept" ] || say "kept $kept: there are settings in it that are not of $service's installation"
	done
fi

if [ -n "$purge" ] && [ -n "$data" ]; then
	find "$data" -xdev ! -type d -exec rm -f {} +
	find "$data" -xdev -depth ! -path "$data" -type d -exec rmdir {} \;
	# The directory itself may be a mount point, and stays then.
	rmdir "$data" 2>/dev/null || :
	[ ! -h "$prefix$data_dir" ] || rm -f "$prefix$data_dir"
	say "removed the data in $data_dir"
elif [ -n "$data" ]; then
	say "kept the data in $data_dir"
fi

# The binary is shared by all services installed from this directory.
rm -f "$prefix$bin_dir/$service-uninstall.sh"
others=
for other in "$prefix$bin_dir"/reap-uninstall.sh "$prefix$bin_dir"/reap-*-uninstall.sh; do
	[ ! -f "$other" ] || others=yes
done
if [ -n "$others" ]; then
	say "kept $bin_dir/reap: another service uses it"
else
	for name in kubectl kubectl-reap kubectl_complete-reap; do
		link=$prefix$bin_dir/$name
		if [ -h "$link" ] && [ "$(readlink "$link")" = reap ]; then
			rm -f "$link"
		fi
	done
	rm -f "$prefix$bin_dir/reap"
	[ -z "$bin_dir_made" ] || rmdir "$prefix$bin_dir" 2>/dev/null || :
fi
say "uninstalled $service"
EOF
	} >"$work/uninstall"
	put "$uninstall" 755 quietly <"$work/uninstall"
}

# A service that moved to another directory has no use for the uninstall script in the old one.
leave_old_bin_dir() {
	[ -n "$old_bin_dir" ] && [ "$old_bin_dir" != "$bin_dir" ] || return 0
	rm -f "$prefix$old_bin_dir/$service-uninstall.sh" 2>/dev/null || :
	say "moved from $old_bin_dir to $bin_dir; what is left to remove by hand: $old_bin_dir/reap, and links to it"
}

start_systemd() {
	if [ "$running" = false ]; then
		if [ "$skip_enable" = false ] && have systemctl; then
			systemctl --root="${prefix:-/}" enable "$service.service" >/dev/null 2>&1 ||
				die "systemctl could not enable $service.service"
			say "systemd is not running here: $service starts with the next boot"
			# In a container that has systemctl there is none.
			next="boot, or start it by hand: $binary server${arguments:+ with your arguments}"
		else
			say "$service.service was written and not enabled"
			next="systemctl enable --now $service"
		fi
		return 0
	fi
	[ "$changed" = false ] || systemctl daemon-reload
	if [ "$skip_enable" = false ] && ! systemctl is-enabled --quiet "$service.service"; then
		systemctl enable "$service.service" >/dev/null 2>&1 || die "systemctl could not enable $service.service"
		say "enabled $service.service: it starts with the machine"
	fi
	if systemctl is-active --quiet "$service.service"; then
		if [ "$changed" = false ]; then
			say "nothing changed: $service goes on running, and was not restarted"
			return 0
		fi
		action=restart
	else
		action=start
	fi
	if [ "$skip_start" = true ]; then
		say "no $action of $service.service, as asked"
		next="systemctl $action $service"
		return 0
	fi
	# Type=notify: this returns when the server is ready.
	say "$action of $service.service"
	systemctl "$action" "$service.service" ||
		die "$service.service did not become ready; see: journalctl -u $service"
	rm -f "$mark"
	say "$service is ready"
}

# The ready file is there exactly while the server is ready, unless one that was killed left it.
is_ready() {
	[ -f "$prefix$data_dir/ready.json" ] || return 1
	pid=$(sed -n 's/^.*"pid": *\([0-9][0-9]*\).*/\1/p' "$prefix$data_dir/ready.json")
	[ -n "$pid" ] && [ -d "/proc/$pid" ]
}

start_openrc() {
	if [ "$running" = false ]; then
		say "OpenRC is not running here; $service was written and not enabled"
		next="in the installed system, rc-update add $service default && rc-service $service start"
		return 0
	fi
	if [ "$skip_enable" = false ] && [ ! -e "$prefix/etc/runlevels/default/$service" ]; then
		rc-update add "$service" default >/dev/null || die "rc-update could not add $service"
		say "added $service to the runlevel default: it starts with the machine"
	fi
	if rc-service "$service" status >/dev/null 2>&1; then
		if [ "$changed" = false ]; then
			say "nothing changed: $service goes on running, and was not restarted"
			return 0
		fi
		action=restart
	else
		action=start
	fi
	if [ "$skip_start" = true ]; then
		say "no $action of $service, as asked"
		next="rc-service $service $action"
		return 0
	fi
	say "$action of $service"
	rc-service "$service" "$action" || die "$service did not start; see /var/log/$service.log"
	# OpenRC waits for a process, not for a server that answers.
	waited=0
	until is_ready; do
		[ "$waited" -lt 300 ] || die "$service did not become ready; see /var/log/$service.log"
		waited=$((waited + 1))
		sleep 1
	done
	rm -f "$mark"
	say "$service is ready"
}

cleanup() {
	code=$?
	[ -z "$work" ] || rm -rf "$work"
	# Goes only if it is empty: after a failure.
	[ -z "$made" ] || rmdir "$made" 2>/dev/null || :
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
	find_init
	choose_bin_dir
	[ "$init" = none ] || prepare_environment
	read_arguments "$@"
	obtain_binary

	changed=false
	next=
	mark=$prefix/run/$service-install.pending
	[ ! -e "$mark" ] || changed=true
	# From here on files change, in an order that leaves something that starts if it is cut short.
	put_binary
	put_links
	case $init in
	systemd)
		put "$env_file" 600 <"$work/env"
		put_unit
		;;
	openrc)
		put "$env_file" 600 <"$work/env"
		put_rc_script
		;;
	esac
	put_uninstall
	leave_old_bin_dir

	case $init in
	systemd) start_systemd ;;
	openrc) start_openrc ;;
	none)
		[ "$changed" = true ] || say "nothing changed"
		if [ "$(id -u)" = 0 ]; then
			say "no service: neither systemd nor OpenRC is here to run it"
		else
			say "no service: that would need root"
		fi
		say "remove reap with: $uninstall"
		say "next, start it by hand: $binary server${arguments:+, with your arguments}; it prints where its kubeconfig is"
		return 0
		;;
	esac
	say "settings: $env_file; remove with: $uninstall"
	say "next: ${next:+$next, then }$binary kubectl --kubeconfig $data_dir/admin.kubeconfig get namespaces"
}

main "$@"

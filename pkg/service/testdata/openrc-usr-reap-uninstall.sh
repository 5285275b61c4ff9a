#!/bin/sh
# Removes reap, as install.sh installed it. Data stays unless asked for:
#   reap-uninstall.sh [--purge]
# `reap service uninstall` does the work, and reads here what belongs to the installation.
# shellcheck disable=SC2034
set -eu
service=reap
bin_dir=/usr/local/bin
bin_dir_made=
binary=abababababababababababababababababababababababababababababababab
init=openrc
unit=/etc/systemd/system/reap.service
rc_script=/etc/init.d/reap
env_file=/etc/reap/reap.env
data_dir='/usr/fourth'
prefix=${INSTALL_REAP_ROOT:-}
prefix=${prefix%/}
program=$prefix$bin_dir/reap

say() { printf '[reap] %s\n' "$*"; }
die() {
	printf '[reap] error: %s\n' "$*" >&2
	exit 1
}

case ${1-} in
--purge | '') ;;
*) die "unknown argument $1; the only one is --purge" ;;
esac
case $("$program" service uninstall --help 2>/dev/null || :) in
*'reap service uninstall'*)
	exec "$program" service uninstall --name "$service" --bin-dir "$bin_dir" --root "$prefix" "$@"
	;;
esac

# The binary is gone, broken, or older than that command. The service can go without it; what may hold more than the
# service's own stays.
[ -z "${1-}" ] || die "without a working $program the data is not removed: leave --purge out, and remove $data_dir by hand; nothing was removed"
[ "$init" = none ] || [ "$(id -u)" = 0 ] || die "removing a service needs root: run this with sudo"
case $init in
systemd)
	systemctl disable --now "$service.service" || :
	! systemctl is-active --quiet "$service.service" || die "$service.service is still running; nothing was removed"
	rm -f "$prefix$unit"
	systemctl daemon-reload || :
	;;
openrc)
	rc-service "$service" stop || :
	! rc-service "$service" status >/dev/null 2>&1 || die "$service is still running; nothing was removed"
	rc-update del "$service" || :
	rm -f "$prefix$rc_script"
	;;
esac
[ "$init" = none ] || rm -f "$prefix$env_file" "$prefix/run/$service-install.pending"
rm -f "$prefix$bin_dir/$service-uninstall.sh"
say "uninstalled $service; what is left to remove by hand: $bin_dir/reap, links to it, and the data in $data_dir"

#!/bin/sh
# Runs in the machine that boot.sh made: the life of an installation, with the real binary and a real init.
#
#   machine.sh systemd|openrc|none
#
# /test holds two releases, v1 and v2, and v2's bundle.
#
# shellcheck disable=SC2016 # dollar signs that must arrive as they are
set -eu

init=$1
v1=v9.9.1
v2=v9.9.2
out=/tmp/out
data=/var/lib/reap

fail() {
	printf 'FAIL on %s: %s\n' "$init" "$*"
	sed 's/^/  output: /' "$out"
	case $init in
	systemd) journalctl --no-pager -u reap | tail -n 40 ;;
	openrc) tail -n 40 /var/log/reap.log ;;
	esac
	exit 1
}
# Its output goes to $out.
must() { "$@" >"$out" 2>&1 </dev/null || fail "expected to succeed: $*"; }
must_fail() {
	if "$@" >"$out" 2>&1 </dev/null; then fail "expected to fail: $*"; fi
}
says() { grep -q -e "$1" "$out" || fail "expected the output to say \"$1\""; }

# within SECONDS COMMAND...
within() {
	deadline=$(($(date +%s) + $1))
	shift
	until "$@" >"$out" 2>&1 </dev/null; do
		[ "$(date +%s)" -lt "$deadline" ] || fail "not in time: $*"
		sleep 0.2
	done
}

# Everything that could be left behind; not what the init system itself keeps, nor kubectl's cache.
listing() {
	find /etc /home /opt /root /run /srv /tmp /usr/local /var | sort >"$1.all"
	sed '/^\/root\/\.kube/d; /^\/run\/\(systemd\|log\|openrc\)/d; /^\/tmp\/\(out\|before\|after\)/d; /^\/var\/\(lib\/systemd\|log\/journal\)/d' "$1.all" >"$1"
	rm "$1.all"
}

pid() { sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$data/ready.json"; }
# another_than PID: a ready server, and not that process.
another_than() {
	[ -f "$data/ready.json" ] && [ -d "/proc/$(pid)" ] && [ "$(pid)" != "$1" ]
}
goes_on_as() {
	[ "$(pid)" = "$1" ] || fail "expected process $1 to go on"
	[ -d "/proc/$1" ] || fail "process $1 ended"
}

listing /tmp/before

# --- install ------------------------------------------------------------------------------------

# Files beside install.sh, arguments and settings with everything that quoting can get wrong.
mkdir -p /srv/odd
echo 'log-level: debug' >'/srv/odd/a "b" $c`d%e.yaml'
must env REAP_CONFIG='/srv/odd/a "b" $c`d%e.yaml' dash /test/v1/install.sh --write-kubeconfig='/etc/k $name%i "x".yaml'
cat "$out"
case $init in
none)
	says 'neither systemd nor OpenRC'
	/usr/local/bin/reap server >/tmp/out.server 2>&1 &
	within 120 test -f "$data/ready.json"
	;;
*)
	says 'reap is ready'
	[ "$(stat -c %a /etc/reap/reap.env)" = 600 ] || fail "the environment file is open to others"
	[ -f '/etc/k $name%i "x".yaml' ] || fail "the arguments arrived otherwise: $(ls /etc)"
	tr '\0' '\n' <"/proc/$(pid)/environ" | grep -q -x -F 'REAP_CONFIG=/srv/odd/a "b" $c`d%e.yaml' ||
		fail "the settings arrived otherwise"
	;;
esac
# Ready means ready: nothing is waited for here.
must reap kubectl get namespaces
says kube-system
must reap kubectl create configmap owner
reap kubectl create -f - >"$out" 2>&1 <<END || fail "cannot create the dependent"
apiVersion: v1
kind: ConfigMap
metadata:
  name: dependent
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: $(reap kubectl get configmap owner -o jsonpath='{.metadata.uid}')}
END
must reap kubectl delete configmap owner
must reap kubectl wait --for=delete configmap/dependent --timeout=30s
must reap kubectl create configmap kept
must reap status

if [ "$init" = none ]; then
	must_fail reap-uninstall.sh --purge
	says 'stop it first'
	kill "$(pid)"
	within 60 test ! -e "$data/ready.json"
	wait
else
	# --- again ----------------------------------------------------------------------------------

	first=$(pid)
	must dash /test/v1/install.sh
	says 'nothing changed'
	goes_on_as "$first"

	# --- it comes back --------------------------------------------------------------------------

	kill -KILL "$first"
	within 120 another_than "$first"
	second=$(pid)

	# --- upgrade, and what is none --------------------------------------------------------------

	mkdir /tmp/bad
	cp /test/v2/* /tmp/bad
	echo >>"$(echo /tmp/bad/reap-linux-*)"
	must_fail busybox sh /tmp/bad/install.sh
	says SHA-256
	rm -r /tmp/bad
	must_fail env INSTALL_REAP_BASE_URL=http://127.0.0.1:1 busybox sh /test/v2/install.sh
	says 'cannot fetch'
	goes_on_as "$second"

	rm '/etc/k $name%i "x".yaml'
	must env INSTALL_REAP_BASE_URL=/test/reap-$v2-airgap.tar.gz busybox sh /test/v1/install.sh
	cat "$out"
	another_than "$second" || fail "it was not restarted"
	third=$(pid)
	must reap --version
	says "$v2"
	must reap kubectl get configmap kept
	[ -f '/etc/k $name%i "x".yaml' ] || fail "the arguments are gone"
	must_fail dash /test/v1/install.sh
	says "$v1 is older than the installed $v2"
	goes_on_as "$third"

	# --- a mistake ------------------------------------------------------------------------------

	must_fail dash /test/v2/install.sh --no-such-flag
	says 'unknown flag --no-such-flag'
	must_fail env REAP_LOG_LEVEL=loud dash /test/v2/install.sh
	says REAP_LOG_LEVEL
	must_fail env REAP_LOGLEVEL=debug dash /test/v2/install.sh
	says 'did you mean REAP_LOG_LEVEL?'
	must_fail dash /test/v2/install.sh --datastore-endpoint=etcd
	says 'holds an SQLite database'
	must_fail dash /test/v2/install.sh --bind-address=203.0.113.1
	says 'nothing was changed'
	goes_on_as "$third"
	# A server that does not start for another reason: the service goes back to what it was.
	must_fail dash /test/v2/install.sh --write-kubeconfig=/proc/nowhere/k
	cat "$out"
	says 'its log says "reap: .*/proc/nowhere/k'
	says 'reap runs again with the arguments and the environment before'
	another_than "$third" || fail "it was not restarted"
	third=$(pid)
	must reap service status
	must dash /test/v2/install.sh
	says 'nothing changed'
	goes_on_as "$third"

	# --- a setting that is edited, and data elsewhere -------------------------------------------

	echo 'log-level: info' >'/srv/odd/a "b" $c`d%e.yaml'
	must reap service status
	says 'restart pending  yes: changed log-level'
	must dash /test/v2/install.sh
	another_than "$third" || fail "it was not restarted"
	third=$(pid)
	must reap service install -- --data-dir=/srv/data
	must reap kubectl get namespaces
	must_fail reap kubectl get configmap kept
	must reap healthcheck
	must reap service install -- --write-kubeconfig='/etc/k $name%i "x".yaml'
	third=$(pid)

	# --- a second service -----------------------------------------------------------------------

	must env REAP_LOG_LEVEL=debug reap service install --name bench
	must reap healthcheck --data-dir /var/lib/reap-bench
	must reap kubectl get configmap kept
	goes_on_as "$third"
	must reap service uninstall --name bench --purge
	rm -rf /srv/data
fi

# --- what systemd makes of the unit -------------------------------------------------------------

# shows PROPERTY VALUE
shows() {
	is=$(systemctl show -P "$1" reap)
	[ "$is" = "$2" ] || fail "expected $1 to be \"$2\", not \"$is\""
}
if [ "$init" = systemd ]; then
	must systemctl is-enabled reap
	shows ActiveState active
	shows Type notify
	shows MainPID "$third"
	for line in 'NoNewPrivs:	1' 'Seccomp:	2' 'CapEff:	000000000000040f'; do
		grep -q -x -F "$line" "/proc/$third/status" || fail "not hardened: $(cat "/proc/$third/status")"
	done
	if journalctl --no-pager -b | grep -F reap.service | grep -i -e unknown -e ignoring; then
		fail "systemd does not understand the unit"
	fi
	must systemctl restart reap
	shows NRestarts 0
	must systemctl stop reap
	shows Result success
	[ ! -e "$data/ready.json" ] || fail "stopped, and the ready file is there"
	must systemctl start reap
	must reap kubectl get configmap kept
fi

# --- uninstall ----------------------------------------------------------------------------------

mkdir -p /srv/elsewhere "$data/db/mounted"
echo precious >/srv/elsewhere/file
mount --bind /srv/elsewhere "$data/db/mounted"
must_fail reap-uninstall.sh --purge
says "$data/db/mounted is mounted"
[ -e /srv/elsewhere/file ] || fail "deleted what is mounted"
[ "$init" = none ] || must reap kubectl get configmap kept
umount "$data/db/mounted"
rm -r /srv/elsewhere

must reap-uninstall.sh --purge
cat "$out"
rm -rf /srv/odd '/etc/k $name%i "x".yaml' # which are the user's
case $init in
systemd)
	must_fail systemctl cat reap
	must_fail systemctl is-active reap
	;;
openrc) must_fail rc-service reap status ;;
esac
rm -f /tmp/out.server
no_server() { ! pidof reap; }
within 30 no_server
listing /tmp/after
diff /tmp/before /tmp/after >"$out" || fail "left behind"
printf 'ok   %s\n' "$init"

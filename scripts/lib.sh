# Set-up shared by the scripts here; sourced, not run. POSIX sh.
# shellcheck shell=sh
#
# The caller has set root (the top of the checkout) and changed into it.

# What one script, or another checkout, has compiled is used again by all: packages are compiled the same way, whatever the
# directory.
case " ${GOFLAGS-} " in
*" -trimpath -buildvcs=false "*) ;; # another script has called this one
*) GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath -buildvcs=false" ;;
esac
export GOFLAGS

say() { printf '%s\n' "$*" >&2; }
die() {
	say "${0##*/}: $*"
	exit 1
}

missing_packages=
not_installed= # what an optional install_missing went on without

# package NAME COMMAND...: remember Debian package NAME as missing unless COMMAND works.
package() {
	package_name=$1
	shift
	"$@" >/dev/null 2>&1 || missing_packages="$missing_packages $package_name"
}

have() { command -v "$1" >/dev/null; }

# A compiler may be there without the C library's headers, and then cannot build cgo.
have_libc_headers() {
	have gcc || return 1
	gcc -E -x c -o /dev/null - <<-'C'
		#include <stdlib.h>
	C
}

can_apt() { [ "$(id -u)" = 0 ] && have apt-get; }

# install_missing: as root on a Debian machine install what package() found missing; elsewhere say
# what to install and end. With "optional" as argument it only says so and goes on.
install_missing() {
	# shellcheck disable=SC2086 # the list is split on purpose
	set -- "${1:-required}" $missing_packages
	missing_packages=
	kind=$1
	shift
	[ $# -gt 0 ] || return 0
	if can_apt; then
		say "installing Debian packages: $*"
		export DEBIAN_FRONTEND=noninteractive
		# No standard input: a package's question would otherwise wait for ever. Output goes to
		# standard error, since standard output is for what the caller prints.
		if apt-get update -qq </dev/null >&2 &&
			apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2; then
			return 0
		fi
		[ "$kind" = optional ] || die "could not install: $*"
		not_installed="$not_installed $*"
		say "could not install: $*; what needs them is skipped"
	elif [ "$kind" = optional ]; then
		not_installed="$not_installed $*"
		say "not found, so what needs it is skipped: $* (Debian packages)"
	else
		die "not found: $* (Debian packages). Install with: sudo apt-get update && sudo apt-get install -y $*"
	fi
}

# version_ge A B: A >= B for dotted numbers. A release candidate counts as its release.
version_ge() {
	awk -v a="$1" -v b="$2" 'BEGIN {
		n = split(a, x, "."); m = split(b, y, ".")
		for (i = 1; i <= (n > m ? n : m); i++) {
			if (x[i] + 0 > y[i] + 0) exit 0
			if (x[i] + 0 < y[i] + 0) exit 1
		}
		exit 0
	}'
}

need_go() {
	if ! have go && [ -x /usr/local/go/bin/go ]; then
		PATH=/usr/local/go/bin:$PATH
		export PATH
	fi
	want_go=$(awk '$1 == "go" { print $2; exit }' go.mod)
	how="Install Go $want_go or newer from https://go.dev/dl/ into /usr/local/go, and put /usr/local/go/bin on PATH"
	have go || die "Go not found. $how"
	# With GOTOOLCHAIN=auto an older go fetches the pinned toolchain here; with GOTOOLCHAIN=local
	# it refuses, and that refusal is the answer.
	have_go=$(go env GOVERSION 2>/dev/null) || die "$(go version) is too old. $how"
	have_go=${have_go#go}
	version_ge "${have_go%%[!0-9.]*}" "$want_go" || die "Go $have_go is too old. $how"
}

# What every build needs. Certificates are for fetching modules.
need_build_tools() {
	package gcc have gcc
	package libc6-dev have_libc_headers
	package git have git
	if can_apt; then
		package ca-certificates test -s /etc/ssl/certs/ca-certificates.crt
	fi
	install_missing
	need_go
}

have_postgresql() {
	have postgres && have initdb && return
	for postgresql in /usr/lib/postgresql/*/bin/postgres; do
		[ -x "$postgresql" ] && return
	done
	return 1
}

# need_datastores: the database servers that tests run beside reap. REAP_TEST_DATASTORES is the directory of etcd.
# Debian's is old, so it is built from its module, with the program's versions of shared modules.
# PostgreSQL (postgres, initdb) and MariaDB (mariadbd, mariadb-install-db) are Debian's, which tests find themselves.
need_datastores() {
	package postgresql have_postgresql
	package mariadb-server-core test -x /usr/sbin/mariadbd # the server without a service that starts it
	package mariadb-client-core have my_print_defaults     # which mariadb-install-db calls
	install_missing optional
	REAP_TEST_DATASTORES=${root:?}/bin/datastores
	export REAP_TEST_DATASTORES
	say "building etcd and its tools"
	mkdir -p "$REAP_TEST_DATASTORES"
	(
		cd scripts/datastores || exit
		go build -o "$REAP_TEST_DATASTORES/etcd" go.etcd.io/etcd/server/v3
		go build -o "$REAP_TEST_DATASTORES/" go.etcd.io/etcd/etcdctl/v3 go.etcd.io/etcd/etcdutl/v3
	)
}

# build_tags [TAG...]: the tags of every build and test, and those given, for -tags. They leave out kustomize's loader
# of Go plugins, which nobody uses here: with it the linker keeps every symbol, which costs 40 MB.
build_tags() (
	IFS=,
	set -- kustomize_disable_go_plugin_support "$@"
	printf '%s' "$*"
)

# kubernetes_ldflags SUFFIX: linker flags that make Kubernetes' packages report the version that go.mod
# pins; without them they call themselves v0.0.0-master, which kubectl cannot parse.
kubernetes_ldflags() {
	kubernetes=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2; exit }' go.mod)
	[ -n "$kubernetes" ] || die "go.mod names no version of k8s.io/kubernetes"
	minor=${kubernetes#v*.}
	# Clients read the second one for the User-Agent.
	for version_pkg in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		printf '%s ' "-X $version_pkg.gitVersion=$kubernetes$1 -X $version_pkg.gitMajor=1 -X $version_pkg.gitMinor=${minor%%.*} -X $version_pkg.gitTreeState=clean -X $version_pkg.gitCommit= -X $version_pkg.buildDate=1970-01-01T00:00:00Z"
	done
}

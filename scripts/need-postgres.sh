#!/bin/sh
# The tests start a PostgreSQL server of their own. On Debian as root, install it; elsewhere, say what is missing:
# without it those tests fail to start a server.
set -eu

have_initdb() {
    command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

have_initdb && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "Installing PostgreSQL for the tests (once)"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # The tests start their own server: the package need not create and start one.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    apt-get install -y -qq --no-install-recommends postgresql >/dev/null
fi
have_initdb && exit 0
cat >&2 <<END
The tests need PostgreSQL's programs (initdb, pg_ctl); they start a server of their own.
  Debian, Ubuntu: sudo apt-get install postgresql
  Fedora:         sudo dnf install postgresql-server
  macOS:          brew install postgresql@16
END
exit 1

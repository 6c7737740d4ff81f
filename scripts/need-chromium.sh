#!/bin/sh
# The tests of the page look at it in a browser. On Debian as root, install it; elsewhere, say what is missing:
# without it those tests are skipped.
set -eu

have_chromium() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

have_chromium && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Chromium for the tests (once)"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
have_chromium && exit 0
cat >&2 <<END
The tests of the page need Chromium.
  Debian:         sudo apt-get install chromium
  Ubuntu, others: install Chromium or Google Chrome so that chromium or google-chrome is on the PATH
END
exit 1

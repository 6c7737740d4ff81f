#!/bin/sh
# See that Java 17 or newer is there; on Debian as root, install it; elsewhere, say what to install.
set -eu

java_major() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    # "17.0.15" -> 17, "1.8.0_402" -> 8
    "$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

major=$(java_major || true)
[ "${major:-0}" -ge 17 ] && exit 0

if [ "${major:-0}" -eq 0 ] && [ -z "${JAVA_HOME:-}" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Java (once)"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    for package in openjdk-17-jre-headless default-jre-headless; do
        if apt-get install -y -qq --no-install-recommends "$package" >/dev/null; then
            major=$(java_major || true)
            [ "${major:-0}" -ge 17 ] && exit 0
        fi
    done
fi

cat >&2 <<END
Java 17 or newer is needed; found: ${major:-none}${JAVA_HOME:+ (JAVA_HOME=$JAVA_HOME)}.
  Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless
  Fedora:         sudo dnf install java-21-openjdk-headless
  macOS:          brew install openjdk@17
If it is installed elsewhere, set JAVA_HOME to its folder.
END
exit 1

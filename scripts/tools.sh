#!/usr/bin/env bash
# Brings the tools that scripts/demo and scripts/test need, where the machine lets it; sourced, not run.
# Nothing here asks a question, and nothing is touched that is already there.

# have NAME...: whether every command is on the PATH.
have() {
    local name
    for name in "$@"; do
        command -v "$name" >/dev/null 2>&1 || return 1
    done
}

# say TEXT: a message for a person; data goes to stdout.
say() { printf '%s\n' "$*" >&2; }

# as_root COMMAND...: runs it as root without asking, or fails.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif have sudo && sudo -n true 2>/dev/null; then
        sudo -n env DEBIAN_FRONTEND="${DEBIAN_FRONTEND:-}" "$@"
    else
        return 1
    fi
}

# bring PACKAGE COMMAND...: installs Debian's PACKAGE unless every COMMAND is there. The package lists are
# fetched once, and only if something is missing.
APT_LISTS_FRESH=
bring() {
    local package=$1
    shift
    have "$@" && return 0
    if ! have apt-get; then
        say "missing: $*; this machine has no apt-get, so please install what Debian calls \`$package\`"
        return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    if [ -z "$APT_LISTS_FRESH" ]; then
        as_root apt-get update -qq </dev/null >/dev/null || say "the package lists could not be fetched; trying with the old ones"
        APT_LISTS_FRESH=1
    fi
    say "installing $package"
    as_root apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$package" </dev/null >/dev/null && have "$@" && return 0
    say "missing: $*; hint: \`apt-get install $package\` as root, then run this again"
    return 1
}

# bring_rust: the toolchain of rust-toolchain.toml, by rustup where that is what the machine has.
bring_rust() {
    if ! have cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then
        export PATH="$HOME/.cargo/bin:$PATH"
    fi
    if ! have cargo && have rustup-init; then
        say "running Rust's installer"
        rustup-init -y --no-modify-path --default-toolchain none </dev/null >&2 || return 1
        export PATH="$HOME/.cargo/bin:$PATH"
    fi
    if ! have cargo; then
        say "missing: cargo; hint: install Rust by its installer, rustup (https://rustup.rs), then run this again"
        return 1
    fi
    cargo --version >/dev/null 2>&1 && return 0
    if have rustup; then
        say "installing the toolchain of rust-toolchain.toml"
        # Without a name, newer installers take the file's toolchain; older ones do so when asked to show it.
        rustup toolchain install </dev/null >&2 || rustup show </dev/null >&2
    fi
    cargo --version >&2
}

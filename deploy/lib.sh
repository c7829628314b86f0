# Shared by the commands of this folder: finding tools, naming remedies. Sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
bin=$target/release

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# need COMMAND PACKAGE: as root, installs the Debian package that brings the command; else says how.
need() {
    if has "$1"; then return 0; fi
    if [ "$(id -u)" = 0 ] && has apt-get; then
        say "installing $2 (it brings $1)"
        { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2"; } >/dev/null ||
            die "cannot install $2: run 'apt-get install $2' and see why"
        has "$1" || die "$2 was installed but brought no $1"
    else
        die "$1 is missing: install the package $2 (as root: apt-get install $2) and start again"
    fi
}

# The Rust toolchain: from rustup's usual place too, if the shell's PATH does not have it yet.
need_cargo() {
    if ! has cargo && [ -x "$HOME/.cargo/bin/cargo" ]; then PATH=$HOME/.cargo/bin:$PATH; fi
    has cargo || die "cargo is missing: install Rust from https://rustup.rs, open a new shell, and start again"
    local wanted have
    wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
    have=$(cd "$root" && cargo --version | cut -d ' ' -f 2)
    [ "$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ] ||
        die "cargo $have is too old, $wanted is needed: run 'rustup update stable'"
}

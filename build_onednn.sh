#!/usr/bin/env bash
# Builds a CPU oneDNN from source into the place where onednn_py looks for it first.
#
# Written for bash 3.2, the one that macOS has. Until the tools are checked only builtins
# run, so that a machine without any gets the whole list of what it lacks.
set -euo pipefail

UPSTREAM=https://github.com/uxlfoundation/oneDNN.git
TAG=v3.13.1
COMMIT=5f93c2194d41d36dc55eb736ce00899b8946e7a3
MARK=onednn_py-build.txt

usage() {
    printf '%s\n' "\
usage: build_onednn.sh [options]

Builds oneDNN for the CPU and installs it where onednn_py finds it: convolution,
deconvolution and reorder with their gradients, on OpenMP. An interrupted build goes on
where it stopped; the library installed before stays in place until the new one works.

where the sources come from:
  --source upstream   git, at a pinned tag whose commit is checked (the default)
  --source debian     the source package of a Debian suite, through apt
  --source PATH       an unpacked source tree, or a tarball of one
  --tag TAG           another tag of upstream, together with --commit
  --commit SHA        the commit that the tag must stand for, all 40 digits
  --url URL           another git repository
  --suite NAME        the Debian suite (trixie)
  --mirror URL        the Debian mirror (the one that apt uses)
  --keyring FILE      Debian's keys, where they are not in the usual place

what is built, and where:
  --full              all primitives and the Graph API: several times as long
  --prefix DIR        install here; its content is replaced as a whole
  --build-dir DIR     keep the objects here
  --jobs N            compile N files at a time (one a CPU)
  --dry-run           print the commands, run none
  --help              print this

environment: PYTHON (python3) is asked for the prefix and shows the result; CC and CXX
name the compilers; XDG_CACHE_HOME holds sources and objects, XDG_DATA_HOME the library."
}

die() {
    printf 'build_onednn.sh: %s\n' "$1" >&2
    exit "${2:-1}"
}

usage_error() {
    die "$1; see build_onednn.sh --help" 2
}

# Prints a command so that a shell would take it back.
show() {
    printf '+'
    printf ' %q' "$@"
    printf '\n'
}

run() {
    show "$@"
    $dry_run || "$@"
}

absolute() {
    if [ -d "$1" ]; then
        (cd "$1" >/dev/null && pwd)
        return
    fi
    case $1 in
        /*) printf '%s\n' "${1%/}" ;;
        *) printf '%s\n' "$PWD/${1%/}" ;;
    esac
}

default_prefix() {
    # The package's own answer, where it can be asked.
    "$python" -c 'from onednn_py.backends.onednn.binding.search import built_prefix; print(built_prefix())' \
        2>/dev/null && return
    case $OSTYPE in
        darwin*) printf '%s\n' "$HOME/Library/Application Support/onednn_py/onednn" ;;
        *) printf '%s\n' "${XDG_DATA_HOME:-$HOME/.local/share}/onednn_py/onednn" ;;
    esac
}

parse_arguments() {
    source=upstream tag='' commit='' url=$UPSTREAM suite=trixie mirror=''
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    kind=minimal prefix='' build_dir='' jobs='' dry_run=false
    local name
    while [ $# -gt 0 ]; do
        case $1 in
            --*=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
        esac
        case $1 in
            --help | -h)
                usage
                exit
                ;;
            --full) kind=full ;;
            --dry-run) dry_run=true ;;
            --source | --tag | --commit | --url | --suite | --mirror | --keyring | \
                --prefix | --build-dir | --jobs)
                case ${2:-} in
                    '' | --*) usage_error "$1 needs a value" ;;
                esac
                name=${1#--}
                printf -v "${name//-/_}" %s "$2"
                shift
                ;;
            *) usage_error "unknown option $1" ;;
        esac
        shift
    done
    [ "${tag:+given}" = "${commit:+given}" ] ||
        usage_error "--tag and --commit go together: the commit shows what the tag stands for"
    tag=${tag:-$TAG} commit=${commit:-$COMMIT}
    [ -z "$prefix" ] || prefix=$(absolute "$prefix")
    [ -z "$build_dir" ] || build_dir=$(absolute "$build_dir")
    [[ $commit =~ ^[0-9a-f]{40}$ ]] || usage_error "--commit: expected 40 hexadecimal digits"
    [[ -z $jobs || $jobs =~ ^[1-9][0-9]*$ ]] || usage_error "--jobs: expected a number from 1"
    case $source in
        upstream | debian) source_kind=$source ;;
        *)
            source=$(absolute "$source") source_kind=tarball
            [ -e "$source" ] || usage_error "--source: expected upstream, debian, a folder or a \
tarball; $source does not exist"
            [ ! -d "$source" ] || source_kind=folder
            ;;
    esac
}

# Prints what this source needs and the machine lacks, a line each.
missing_tools() {
    found_one() {
        local name
        for name in "$@"; do
            if [ -n "$name" ] && command -v "$name" >/dev/null; then return; fi
        done
        return 1
    }
    found_one cmake || echo "  cmake: install the package cmake"
    found_one "${CC:-}" cc gcc clang || echo "  a C compiler: install gcc (macOS:" \
        "xcode-select --install), or set CC"
    found_one "${CXX:-}" c++ g++ clang++ || echo "  a C++ compiler: install g++ (Fedora:" \
        "gcc-c++; macOS: xcode-select --install), or set CXX"
    found_one ninja make || echo "  ninja or make: install ninja-build (macOS: ninja), or make"
    case $source_kind in
        upstream) found_one git || echo "  git: install the package git" ;;
        debian | tarball) found_one tar || echo "  tar: install the package tar" ;;
    esac
    case $source_kind:$source in
        debian:* | tarball:*.xz) found_one xz || echo "  xz: install xz-utils (elsewhere: xz)" ;;
    esac
    if [ "$source_kind" = debian ]; then
        found_one apt-get || echo "  apt-get: only Debian and its derivatives have it; use" \
            "another --source"
        [ -r "$keyring" ] || echo "  $keyring: install debian-archive-keyring"
    fi
}

check_tools() {
    local missing
    missing=$(missing_tools)
    [ -n "$missing" ] || return 0
    printf 'build_onednn.sh: missing:\n%s\n' "$missing" >&2
    $dry_run || exit 1
}

# Stops unless a revision is the pinned commit.
check_commit() {
    local repository=$1 revision=$2 found
    set -- git -C "$repository" rev-parse --verify "$revision"
    show "$@"
    if $dry_run; then return; fi
    found=$("$@")
    if [ "$found" != "$commit" ]; then
        rm -rf "$repository"
        die "$tag of $url is commit $found, expected $commit: the tag was moved, or --tag and \
--commit do not belong together"
    fi
}

get_upstream() {
    sources=$cache/source-$tag-${commit:0:12}
    local part=$sources.part
    if [ -d "$sources" ]; then return; fi
    run rm -rf "$part"
    run git init --quiet "$part"
    run git -C "$part" fetch --depth 1 "$url" "refs/tags/$tag:refs/tags/$tag"
    check_commit "$part" "refs/tags/$tag^{commit}"
    run git -C "$part" checkout --quiet --detach "$commit"
    run mv "$part" "$sources"
}

# Downloads the package's original sources with an apt configuration of its own: the
# suite need not be one that the machine installs from.
get_debian() {
    local folder=$cache/debian-$suite content name=onednn_VERSION.orig.tar.xz
    if [ -z "$mirror" ]; then
        # Debian-Security and others have the same origin and do not carry the package.
        set -- indextargets --format "\$(REPO_URI)" 'Origin: Debian' 'Label: Debian'
        show apt-get "$@"
        mirror=MIRROR
        $dry_run || mirror=$(apt-get "$@" | sed -n 1p)
        [ -n "$mirror" ] || die "apt knows no Debian mirror: run apt-get update, or name one \
with --mirror"
    fi
    run mkdir -p "$folder/lists/partial"
    content="Types: deb-src
URIs: $mirror
Suites: $suite
Components: main
Signed-By: $keyring"
    printf '+ write %q:\n%s\n' "$folder/debian.sources" "$content"
    $dry_run || printf '%s\n' "$content" >"$folder/debian.sources"
    # As root, apt would download as a user who may not enter this folder.
    set -- -o "Dir::Etc::SourceList=$folder/debian.sources" -o Dir::Etc::SourceParts=/dev/null \
        -o "Dir::State::Lists=$folder/lists" -o Dir::Cache::pkgcache= \
        -o Dir::Cache::srcpkgcache= -o "APT::Default-Release=$suite" -o APT::Sandbox::User=root
    run apt-get "$@" update
    # apt checks each file against the suite's signed index.
    set -- "$@" source --only-source onednn
    $dry_run || name=$(apt-get "$@" --print-uris |
        sed -n "s/^'.*' \([^ ]*\.orig\.tar\.[a-z0-9]*\) .*/\1/p")
    [ -n "$name" ] || die "suite $suite has no original sources of onednn"
    run env -C "$folder" apt-get "$@" --download-only
    source=$folder/$name
    get_tarball
}

get_tarball() {
    local name=${source##*/} checksum=none
    sources=$cache/source-${name%.tar*}
    [ ! -f "$source" ] || checksum=$(cksum <"$source")
    [ "$(cat "$sources.unpacked" 2>/dev/null)" != "$checksum" ] || return 0
    run rm -rf "$sources" "$sources.unpacked"
    run mkdir -p "$sources"
    # -m: with the tarball's times, make would take changed sources for old ones.
    run tar -x -m -f "$source" -C "$sources" --strip-components=1
    $dry_run || printf '%s\n' "$checksum" >"$sources.unpacked"
}

read_version() {
    version=VERSION
    [ "$source_kind" != upstream ] || version=${tag#v}
    if [ ! -d "$sources" ] && $dry_run; then return; fi
    [ -f "$sources/include/oneapi/dnnl/dnnl.h" ] || die "$sources is not a oneDNN source tree"
    version=$(sed -n 's/^ *set(PROJECT_VERSION "\([0-9.]*\)").*/\1/p' "$sources/CMakeLists.txt")
    case $version in
        3.*) ;;
        *) die "$sources is oneDNN ${version:-of unknown version}; onednn_py needs version 3" ;;
    esac
}

configure() {
    objects=${build_dir:-$cache/build-$version-$kind}
    local home='' primitives='CONVOLUTION;DECONVOLUTION;REORDER' graph=OFF
    if [ "$kind" = full ]; then
        primitives=ALL graph=ON
    fi
    if [ -f "$objects/CMakeCache.txt" ]; then
        home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$objects/CMakeCache.txt")
        [ -z "$home" ] || [ "$home" -ef "$sources" ] ||
            die "$objects holds objects of $home: remove it, or name another --build-dir"
        # cmake keeps the generator of an earlier run and refuses another one.
        set --
    elif command -v ninja >/dev/null; then
        set -- -G Ninja
    else
        set -- -G 'Unix Makefiles'
    fi
    run cmake -S "$sources" -B "$objects" "$@" --no-warn-unused-cli \
        -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="$prefix" \
        -DCMAKE_INSTALL_LIBDIR=lib \
        -DONEDNN_CPU_RUNTIME=OMP \
        -DONEDNN_GPU_RUNTIME=NONE \
        -DONEDNN_ENABLE_WORKLOAD=TRAINING \
        -DONEDNN_ENABLE_PRIMITIVE="$primitives" \
        -DONEDNN_BUILD_GRAPH="$graph" \
        -DONEDNN_ENABLE_GRAPH_DUMP="$graph" \
        -DONEDNN_BUILD_TESTS=OFF \
        -DONEDNN_BUILD_EXAMPLES=OFF \
        -DONEDNN_BUILD_DOC=OFF
    # Apple's compiler brings no OpenMP; oneDNN then builds for one thread and goes on.
    if grep -q '^DNNL_CPU_RUNTIME:[A-Z]*=SEQ' "$objects/CMakeCache.txt" 2>/dev/null; then
        echo "build_onednn.sh: no OpenMP found, the library will use one thread; macOS:" \
            "brew install libomp" >&2
    fi
}

library_in() {
    local name
    for name in libdnnl.so.3 libdnnl.3.dylib; do
        if [ -f "$1/lib/$name" ]; then
            printf '%s\n' "$1/lib/$name"
            return
        fi
    done
    return 1
}

# Puts a whole and working library in place of the one before, or leaves that one alone.
install_library() {
    local library
    run rm -rf "$staging"
    run cmake --install "$objects" --prefix "$staging"
    if ! $dry_run; then
        library=$(library_in "$staging") || die "the build has installed no library"
        printf 'oneDNN %s, %s, from %s\n' "$version" "$kind" "$sources" >"$staging/$MARK"
        if $importable; then
            ONEDNN_PY_LIBRARY=$library "$python" -c \
                'import sys, onednn_py; sys.exit(onednn_py.info()["error"])' ||
                die "the library that was built cannot be used; $prefix is unchanged"
        fi
    fi
    # Two renames: nothing may come between them.
    trap '' INT TERM HUP
    if [ -e "$prefix" ]; then
        run mv "$prefix" "$previous"
    fi
    if ! run mv "$staging" "$prefix"; then
        [ ! -e "$previous" ] || mv "$previous" "$prefix"
        die "cannot move the library to $prefix"
    fi
    trap - INT TERM HUP
    run rm -rf "$previous"
}

show_library() {
    local library
    if $dry_run; then
        show "$python" -m onednn_py info
        return
    fi
    library=$(library_in "$prefix")
    echo "installed $library; objects are kept in $objects"
    if [ "$prefix" != "$usual_prefix" ]; then
        echo "outside the usual place, so it is used with: export ONEDNN_PY_LIBRARY=$library"
        export ONEDNN_PY_LIBRARY=$library
    elif [ -n "${ONEDNN_PY_LIBRARY:-}" ]; then
        echo "ONEDNN_PY_LIBRARY is set to $ONEDNN_PY_LIBRARY and comes before it; without:"
        unset ONEDNN_PY_LIBRARY
    fi
    if $importable; then
        run "$python" -m onednn_py info
    else
        echo "$python cannot import onednn_py; once it can, python -m onednn_py info shows it"
    fi
}

# What an earlier run left if it was killed in the midst of its last steps.
recover() {
    if [ -e "$previous" ] && [ ! -e "$prefix" ]; then
        run mv "$previous" "$prefix"
    fi
    run rm -rf "$staging" "$previous"
}

main() {
    python=${PYTHON:-python3}
    parse_arguments "$@"
    check_tools
    usual_prefix=$(default_prefix)
    prefix=${prefix:-$usual_prefix}
    staging=$prefix.onednn_py-staging
    previous=$prefix.onednn_py-previous
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/onednn_py
    jobs=${jobs:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
    importable=true
    "$python" -c 'import onednn_py' 2>/dev/null || importable=false
    # oneDNN writes the commit of its sources into the library: not that of a repository
    # which happens to hold the cache folder.
    export GIT_CEILING_DIRECTORIES=$cache

    # The prefix is replaced as a whole, so it must be this script's own.
    if [ -e "$prefix" ] && [ ! -e "$prefix/$MARK" ] && [ -n "$(ls -A "$prefix")" ]; then
        die "$prefix has a content that this script has not installed, and would be replaced: \
move it, or choose another --prefix"
    fi
    recover
    run mkdir -p "$cache" "${prefix%/*}"
    case $source_kind in
        upstream) get_upstream ;;
        debian) get_debian ;;
        tarball) get_tarball ;;
        folder) sources=$source ;;
    esac
    read_version
    configure
    run cmake --build "$objects" --parallel "$jobs"
    trap 'rm -rf "$staging"' EXIT
    install_library
    trap - EXIT
    show_library
}

main "$@"
exit

#!/usr/bin/env bash
# Builds oneDNN for the CPU from source, in the folder that onednn_py searches first.
#
# Written for bash 3.2, the version of macOS. Only builtins run before the tools are checked, so
# that the list of missing tools is complete on any machine.
set -euo pipefail

UPSTREAM=https://github.com/uxlfoundation/oneDNN.git
TAG=v3.13.1
COMMIT=5f93c2194d41d36dc55eb736ce00899b8946e7a3
MARK=onednn_py-build.txt
COMPILERS=onednn_py-compilers.txt

usage() {
    printf '%s\n' "\
usage: build_onednn.sh [options]

Builds oneDNN for the CPU and installs it where onednn_py finds it: convolution and
deconvolution with their gradients, matmul and reorder, with OpenMP. An interrupted build is resumed
by the next run; a library installed earlier is replaced only after the new one works.

sources:
  --source upstream   git, at a pinned tag whose commit is checked (the default)
  --source debian     the source package of a Debian suite, through apt
  --source PATH       an unpacked source tree, or a tarball of one
  --tag TAG           another tag of upstream, together with --commit
  --commit SHA        the commit that the tag must point to, all 40 digits
  --url URL           another git repository
  --suite NAME        the Debian suite (trixie)
  --mirror URL        the Debian mirror (the one that apt uses)
  --keyring FILE      Debian's keys, where they are not in the usual place

build:
  --full              all primitives and the Graph API; takes several times as long
  --prefix DIR        install here; its content is replaced as a whole
  --build-dir DIR     keep the objects here
  --jobs N            compile N files at a time (default: the number of CPUs)
  --dry-run           print the commands, run none
  --help              print this

environment: PYTHON (python3) is asked for the prefix and shows the result; CC, CXX,
CFLAGS, CXXFLAGS and LDFLAGS are cmake's; XDG_CACHE_HOME holds sources and objects,
XDG_DATA_HOME the library."
}

die() {
    printf 'build_onednn.sh: %s\n' "$1" >&2
    exit "${2:-1}"
}

usage_error() {
    die "$1; see build_onednn.sh --help" 2
}

# Prints a command, quoted as a shell reads it.
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
    local path=$1
    while [ "$path" != "${path%/}" ]; do path=${path%/}; done
    case $path in
        /*) printf '%s\n' "$path" ;;
        *) printf '%s\n' "$PWD/$path" ;;
    esac
}

default_prefix() {
    # As the package defines it, if it can be imported.
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
    variant=minimal prefix='' build_dir='' jobs='' dry_run=false
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
            --full) variant=full ;;
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
        usage_error "--tag and --commit go together: the commit is what the tag must point to"
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

# Prints a line for each missing tool that the chosen source needs.
missing_tools() {
    found_any() {
        local name
        for name in "$@"; do
            if [ -n "$name" ] && command -v "$name" >/dev/null; then return; fi
        done
        return 1
    }
    found_any cmake || echo "  cmake: install the package cmake"
    found_any "${CC:-}" cc gcc clang || echo "  a C compiler: install gcc (macOS:" \
        "xcode-select --install), or set CC"
    found_any "${CXX:-}" c++ g++ clang++ || echo "  a C++ compiler: install g++ (Fedora:" \
        "gcc-c++; macOS: xcode-select --install), or set CXX"
    found_any ninja make || echo "  ninja or make: install ninja-build (macOS: ninja), or make"
    case $source_kind in
        upstream) found_any git || echo "  git: install the package git" ;;
        debian | tarball) found_any tar || echo "  tar: install the package tar" ;;
    esac
    case $source_kind:$source in
        debian:* | tarball:*.xz) found_any xz || echo "  xz: install xz-utils (elsewhere: xz)" ;;
    esac
    if [ "$source_kind" = debian ]; then
        found_any apt-get || echo "  apt-get: only Debian and its derivatives have it; use" \
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

# Exits unless a revision is the expected commit.
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

# Downloads the package's original sources with a separate apt configuration, so that the
# suite need not be among those that the machine uses.
get_debian() {
    local folder=$cache/debian-$suite content name=onednn_VERSION.orig.tar.xz
    if [ -z "$mirror" ]; then
        # Debian-Security and others have the same origin, but not the package.
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
    # As root, apt would download as another user, who may not enter this folder.
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
    # -m sets the current time: with the tarball's times, make would not rebuild changed sources.
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

# Prints the compilers and flags of the environment.
compilers() {
    printf 'CC=%q CXX=%q CFLAGS=%q CXXFLAGS=%q LDFLAGS=%q\n' "${CC:-}" "${CXX:-}" \
        "${CFLAGS:-}" "${CXXFLAGS:-}" "${LDFLAGS:-}"
}

configure() {
    objects=${build_dir:-$cache/build-$version-$variant}
    local home='' earlier='' primitives='CONVOLUTION;DECONVOLUTION;MATMUL;REORDER' graph=OFF
    if [ "$variant" = full ]; then
        primitives=ALL graph=ON
    fi
    if [ -f "$objects/CMakeCache.txt" ]; then
        home=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$objects/CMakeCache.txt")
        [ -z "$home" ] || [ "$home" -ef "$sources" ] ||
            die "$objects holds objects of $home: remove it, or name another --build-dir"
        # cmake reads the environment in the first run alone.
        earlier=$(cat "$objects/$COMPILERS" 2>/dev/null || compilers)
        [ "$earlier" = "$(compilers)" ] ||
            die "$objects holds objects of $earlier, not of $(compilers): remove it, or name \
another --build-dir"
        # cmake keeps the generator of an earlier run, and refuses another.
        set --
    elif command -v ninja >/dev/null; then
        set -- -G Ninja
    else
        set -- -G 'Unix Makefiles'
    fi
    run mkdir -p "$objects"
    $dry_run || compilers >"$objects/$COMPILERS"
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
    # Apple's compiler has no OpenMP; oneDNN then builds a sequential library without an error.
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

# Replaces the previous library if the new one is complete and works.
install_library() {
    local library
    run rm -rf "$staging"
    run cmake --install "$objects" --prefix "$staging"
    if ! $dry_run; then
        library=$(library_in "$staging") || die "the build has installed no library"
        printf 'oneDNN %s, %s, from %s\n' "$version" "$variant" "$sources" >"$staging/$MARK"
        if $importable; then
            ONEDNN_PY_BACKEND='' ONEDNN_PY_LIBRARY=$library "$python" -c \
                'import sys, onednn_py; sys.exit(onednn_py.info()["error"])' ||
                die "the library that was built cannot be used; $prefix is unchanged"
        fi
    fi
    # No signal may interrupt the script between the two renames.
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
    if [ "$prefix" != "$standard_prefix" ]; then
        printf 'outside the default prefix; to use it: export ONEDNN_PY_LIBRARY=%q\n' "$library"
        export ONEDNN_PY_LIBRARY=$library
    elif [ -n "${ONEDNN_PY_LIBRARY:-}" ]; then
        echo "ONEDNN_PY_LIBRARY is set to $ONEDNN_PY_LIBRARY and takes precedence; without it:"
        unset ONEDNN_PY_LIBRARY
    fi
    if $importable; then
        run "$python" -m onednn_py info
    else
        echo "$python cannot import onednn_py; once it can, python -m onednn_py info shows it"
    fi
}

# Restores the previous library if an earlier run was killed between its two renames.
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
    standard_prefix=$(default_prefix)
    prefix=${prefix:-$standard_prefix}
    staging=$prefix.onednn_py-staging
    previous=$prefix.onednn_py-previous
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/onednn_py
    jobs=${jobs:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
    importable=true
    "$python" -c 'import onednn_py' 2>/dev/null || importable=false
    # oneDNN's build writes its git commit into the library. Without this, it would take the
    # commit of a repository that contains the cache folder.
    export GIT_CEILING_DIRECTORIES=$cache

    # The prefix is replaced as a whole, so it must hold nothing but this script's library.
    if [ -e "$prefix" ] && [ ! -e "$prefix/$MARK" ] && [ -n "$(ls -A "$prefix")" ]; then
        die "$prefix would be replaced, but holds files that this script did not install: \
move them, or choose another --prefix"
    fi
    recover
    run mkdir -p "$cache" "${prefix%/*}/"
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

"""``build_onednn.sh`` with a fake cmake and apt: nothing is compiled."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import onednn_py
from onednn_py.backends.onednn.binding import search
from tests.support.build_machine import APT, BASH, SCRIPT, Machine
from tests.support.requirements import HAS_ONEDNN

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or BASH is None, reason="needs Linux and bash"),
    pytest.mark.skipif(not SCRIPT.is_file(), reason="not in a checkout"),
]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def built(machine: Machine) -> Machine:
    """Return a machine that has installed the library ``first`` from the folder oneDNN."""
    done = machine.build("--source", str(machine.sources()))
    assert done.returncode == 0, done.stderr
    assert machine.installed() == "first\n"
    assert machine.compiled() == ["1", "2", "3"]
    machine.library.write_text("second\n")
    return machine


def test_the_shell_and_its_linter_accept_it() -> None:
    subprocess.run([str(BASH), "-n", SCRIPT], check=True)
    assert os.access(SCRIPT, os.X_OK)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", SCRIPT], check=True)


def test_help_names_every_option(machine: Machine) -> None:
    done = machine.build("--help")
    assert done.returncode == 0
    assert "usage: build_onednn.sh" in done.stdout
    options = "source tag commit url suite mirror keyring full prefix build-dir jobs dry-run help"
    for option in options.split():
        assert f"  --{option} " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nothing"], "unknown option --nothing"),
        (["nothing"], "unknown option nothing"),
        (["--prefix"], "--prefix needs a value"),
        (["--prefix", "--full"], "--prefix needs a value"),
        (["--prefix="], "--prefix needs a value"),
        (["--jobs", "0"], "--jobs: expected a number"),
        (["--tag", "v3.9"], "--tag and --commit go together"),
        (["--commit", "0" * 40], "--tag and --commit go together"),
        (["--tag", "v3.9", "--commit", "5f93c21"], "expected 40 hexadecimal digits"),
        (["--source", "no/such/path"], "no/such/path does not exist"),
    ],
)
def test_wrong_usage_is_status_2(machine: Machine, arguments: list[str], message: str) -> None:
    done = machine.build(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "--help" in done.stderr


def test_a_dry_run_prints_and_runs_nothing(machine: Machine) -> None:
    before = set(machine.folder.rglob("*"))
    done = machine.build("--dry-run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("+ ") for line in lines)
    assert set(machine.folder.rglob("*")) == before
    assert machine.calls.read_text() == ""
    text = done.stdout
    assert "refs/tags/v3.13.1" in text
    assert "5f93c2194d41d36dc55eb736ce00899b8946e7a3" in text
    assert f"-B {machine.cache}/build-3.13.1-minimal -G Ninja" in text
    for option in (
        "PRIMITIVE=CONVOLUTION\\;DECONVOLUTION\\;MATMUL\\;REORDER",
        "WORKLOAD=TRAINING",
        "CPU_RUNTIME=OMP",
        "GPU_RUNTIME=NONE",
    ):
        assert option in text
    assert "ONEDNN_BUILD_GRAPH=OFF" in text
    assert lines[-1] == "+ /nowhere/python -m onednn_py info"


def test_a_dry_run_of_other_sources(machine: Machine) -> None:
    debian = machine.build("--dry-run", "--source", "debian", "--suite", "sid").stdout
    assert "URIs: MIRROR\nSuites: sid\n" in debian
    assert "source --only-source onednn --download-only" in debian
    folder = machine.sources("3.9.0")
    for given in (str(folder), "oneDNN/"):
        text = machine.build("--dry-run", "--full", "--jobs=5", f"--source={given}").stdout
        assert f"cmake -S {folder} -B {machine.cache}/build-3.9.0-full" in text
        assert "ONEDNN_ENABLE_PRIMITIVE=ALL -DONEDNN_BUILD_GRAPH=ON" in text
        assert "--parallel 5" in text
    tarball = machine.tarball("3.9.0", "oneDNN-3.9.tar.gz")
    text = machine.build("--dry-run", "--source", str(tarball)).stdout
    assert f"+ tar -x -m -f {tarball} -C {machine.cache}/source-oneDNN-3.9 " in text
    text = machine.build("--dry-run", "--prefix", "./here/", "--build-dir", "there").stdout
    assert "/here.onednn_py-staging" in text
    assert f"-B {machine.folder}/there " in text
    assert machine.calls.read_text() == ""


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], ["cmake", "a C compiler", "a C++ compiler", "ninja or make", "git"]),
        (["--source", "debian"], ["cmake", "ninja or make", "tar", "xz", "apt-get"]),
        (["--source", __file__], ["cmake", "a C++ compiler", "tar"]),
    ],
)
def test_all_missing_tools_are_named_at_once(
    machine: Machine, arguments: list[str], names: list[str]
) -> None:
    done = machine.build(*arguments, PATH="")
    assert done.returncode == 1
    for name in names:
        assert f"\n  {name}: " in done.stderr
    assert machine.calls.read_text() == ""


@pytest.mark.parametrize("data", ["", "elsewhere"])
def test_the_prefix_is_where_the_search_looks(
    machine: Machine, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(machine.folder / data) if data else ""
    monkeypatch.setenv("HOME", str(machine.folder))
    monkeypatch.setenv("XDG_DATA_HOME", folder)
    expected = f"-DCMAKE_INSTALL_PREFIX={search.built_prefix()} "
    for python in (sys.executable, "/nowhere/python"):
        done = machine.build("--dry-run", PYTHON=python, XDG_DATA_HOME=folder)
        assert expected in done.stdout
    assert search.LIBRARY_NAMES[0] in SCRIPT.read_text(encoding="utf-8")


def repository(machine: Machine) -> tuple[str, str]:
    """Make a repository with the tag v3.9, annotated; return its URL and the commit."""
    folder = machine.sources("3.9.0", "upstream")
    git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=n@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], check=True)
    subprocess.run([*git, "tag", "-a", "-m", "x", "v3.9"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return f"file://{folder}", head.stdout.strip()


def test_upstream_is_fetched_once_and_its_commit_checked(machine: Machine) -> None:
    url, commit = repository(machine)
    wrong = machine.build("--url", url, "--tag", "v3.9", "--commit", "5" * 40)
    assert wrong.returncode == 1
    assert f"v3.9 of {url} is commit {commit}, expected {'5' * 40}" in wrong.stderr
    assert machine.calls.read_text() == ""
    assert not list(machine.cache.glob("source-*"))
    done = machine.build("--url", url, "--tag", "v3.9", "--commit", commit)
    assert done.returncode == 0, done.stderr
    assert machine.installed() == "first\n"
    mark = (machine.prefix / "onednn_py-build.txt").read_text()
    assert mark == f"oneDNN 3.9.0, minimal, from {machine.cache}/source-v3.9-{commit[:12]}\n"
    again = machine.build("--url", "file:///nowhere", "--tag", "v3.9", "--commit", commit)
    assert again.returncode == 0, again.stderr


def test_a_tarball_is_unpacked_again_only_if_it_changed(machine: Machine) -> None:
    tarball = str(machine.tarball("3.9.0", "oneDNN.tar.gz"))
    unpacking = f"+ tar -x -m -f {tarball}"
    assert unpacking in machine.build("--source", tarball).stdout
    assert unpacking not in machine.build("--source", tarball).stdout
    machine.tarball("3.9.1", "oneDNN.tar.gz")
    assert unpacking in machine.build("--source", tarball).stdout
    assert (machine.prefix / "onednn_py-build.txt").read_text().startswith("oneDNN 3.9.1,")


def test_debian_sources_come_through_a_separate_apt_configuration(machine: Machine) -> None:
    machine.tool("apt-get", APT)
    keyring = machine.folder / "keys.gpg"
    keyring.touch()
    tarball = str(machine.tarball("3.9.0", "original.tar.xz"))
    done = machine.build("--source", "debian", "--keyring", str(keyring), TARBALL=tarball)
    assert done.returncode == 0, done.stderr
    assert machine.installed() == "first\n"
    folder = machine.cache / "debian-trixie"
    assert (folder / "debian.sources").read_text() == (
        "Types: deb-src\nURIs: http://mirror.test/debian/\nSuites: trixie\n"
        f"Components: main\nSigned-By: {keyring}\n"
    )
    calls = [line for line in machine.calls.read_text().splitlines() if "apt-get" in line]
    assert "Label: Debian" in calls[0]
    for call in calls[1:]:
        assert f"Dir::Etc::SourceList={folder}/debian.sources" in call
        assert "Dir::Etc::SourceParts=/dev/null" in call
        assert f"Dir::State::Lists={folder}/lists" in call


@pytest.mark.parametrize(
    ("version", "message"),
    [("2.6.3", "is oneDNN 2.6.3; onednn_py needs version 3"), ("", "of unknown version")],
)
def test_other_versions_are_refused(machine: Machine, version: str, message: str) -> None:
    done = machine.build("--source", str(machine.sources(version)))
    assert done.returncode == 1
    assert message in done.stderr


def test_a_folder_without_sources_is_refused(machine: Machine) -> None:
    done = machine.build("--source", str(machine.tools))
    assert done.returncode == 1
    assert "is not a oneDNN source tree" in done.stderr


def test_a_new_library_replaces_the_old(built: Machine) -> None:
    stale = built.prefix / "stale"
    stale.touch()
    assert built.build("--source", "oneDNN").returncode == 0
    assert built.installed() == "second\n"
    assert (built.prefix / "include").is_dir()
    assert not stale.exists()
    assert built.compiled() == []


@pytest.mark.parametrize("step", ["1", "install", "empty"])
def test_a_failure_leaves_the_old_library(built: Machine, step: str) -> None:
    shutil.rmtree(built.cache)
    done = built.build("--source", "oneDNN", FAIL=step)
    assert done.returncode == 1
    assert ("installed no library" if step == "empty" else f"{step} fails") in done.stderr
    assert built.installed() == "first\n"


def test_an_interrupted_build_is_resumed(machine: Machine) -> None:
    source = str(machine.sources())
    assert machine.build("--source", source, FAIL="3").returncode == 1
    assert machine.compiled() == ["1", "2"]
    assert not machine.prefix.exists()
    done = machine.build("--source", source)
    assert done.returncode == 0, done.stderr
    assert machine.compiled() == ["3"]
    # cmake keeps the generator of the first run and refuses another.
    assert " -G " not in done.stdout


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM], ids=["INT", "TERM"])
def test_a_stop_while_installing_leaves_the_old_library(
    built: Machine, stop: signal.Signals
) -> None:
    with built.started("--source", "oneDNN", PAUSE="install") as process:
        wait_for(built.calls.with_suffix(".paused").exists)
        os.killpg(process.pid, stop)
        process.communicate(timeout=10)
    assert process.returncode == -stop
    assert built.installed() == "first\n"
    assert built.build("--source", "oneDNN").returncode == 0
    assert built.installed() == "second\n"


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_library_set_aside_by_a_killed_run_is_restored(built: Machine) -> None:
    built.prefix.rename(f"{built.prefix}.onednn_py-previous")
    Path(f"{built.prefix}.onednn_py-staging").mkdir()
    assert built.build("--source", str(built.sources("2.0", "old"))).returncode == 1
    assert built.installed() == "first\n"


def test_a_prefix_with_other_content_is_refused(machine: Machine) -> None:
    other = machine.folder / "usr"
    (other / "lib").mkdir(parents=True)
    done = machine.build("--source", str(machine.sources()), "--prefix", str(other))
    assert done.returncode == 1
    assert "would be replaced" in done.stderr
    assert [path.name for path in other.iterdir()] == ["lib"]


def test_objects_of_other_sources_are_refused(built: Machine) -> None:
    done = built.build("--source", str(built.sources(name="other")))
    assert done.returncode == 1
    assert f"build-3.13.1-minimal holds objects of {built.folder}/oneDNN" in done.stderr
    assert "--build-dir" in done.stderr
    assert built.installed() == "first\n"


def test_a_library_that_does_not_open_is_not_installed(built: Machine) -> None:
    done = built.build("--source", "oneDNN", PYTHON=sys.executable)
    assert done.returncode == 1
    assert "the library that was built cannot be used" in done.stderr
    assert "cannot be opened" in done.stderr
    assert built.installed() == "first\n"


@pytest.mark.skipif(not HAS_ONEDNN, reason="no oneDNN library here")
@pytest.mark.parametrize("usual", [True, False])
def test_info_shows_the_result(machine: Machine, usual: bool) -> None:
    library = Path(onednn_py.info()["library"]).resolve()
    # The fake cmake installs this file alone, and the package needs no other to open it.
    (machine.folder / "library").unlink()
    (machine.folder / "library").symlink_to(library)
    prefix = machine.prefix if usual else machine.folder / "elsewhere"
    arguments = [] if usual else ["--prefix", str(prefix)]
    done = machine.build("--source", str(machine.sources()), *arguments, PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    path = f"{prefix}/lib/libdnnl.so.3"
    assert f"library    {path}" in done.stdout
    assert f"version    {onednn_py.info()['version']}" in done.stdout
    assert (f"export ONEDNN_PY_LIBRARY={path}" in done.stdout) != usual


def test_objects_of_other_compilers_are_refused(built: Machine) -> None:
    done = built.build("--source", "oneDNN", CC="other cc", CFLAGS="-O1")
    assert done.returncode == 1
    assert "holds objects of CC='' CXX=''" in done.stderr
    assert r"not of CC=other\ cc CXX='' CFLAGS=-O1" in done.stderr
    assert built.compiled() == []
    assert built.installed() == "first\n"


def test_objects_of_unknown_compilers_are_taken(built: Machine) -> None:
    (note,) = built.cache.glob("build-*/onednn_py-compilers.txt")
    note.unlink()
    assert built.build("--source", "oneDNN", CC="cc").returncode == 0
    assert note.is_file()


@pytest.mark.parametrize("ending", ["", "/", "//"])
def test_a_prefix_with_spaces_and_slashes(machine: Machine, ending: str) -> None:
    machine.sources()
    prefix = machine.folder / "a prefix"
    done = machine.build("--source", "oneDNN", "--prefix", f"{prefix}{ending}")
    assert done.returncode == 0, done.stderr
    assert (prefix / "lib" / "libdnnl.so.3").is_file()
    library = str(prefix / "lib" / "libdnnl.so.3").replace(" ", r"\ ")
    assert f"export ONEDNN_PY_LIBRARY={library}\n" in done.stdout

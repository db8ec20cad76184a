"""A home folder and fake build tools for ``build_onednn.sh``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.paths import ROOT

__all__ = ["APT", "BASH", "SCRIPT", "Machine"]

SCRIPT = ROOT / "build_onednn.sh"
BASH = shutil.which("bash")

# Compiles three objects, each once. FAIL names a step that fails, PAUSE a step that hangs. A
# builtin tells that it hangs: bash goes on after a SIGINT if a command of its own outlives it.
CMAKE = """#!/bin/bash
echo "cmake $*" >>"$CALLS"
step() {
    if [ "$PAUSE" = "$1" ]; then : >"$CALLS.paused"; exec sleep 60; fi
    if [ "$FAIL" = "$1" ]; then echo "$1 fails" >&2; exit 1; fi
}
case $1 in
    -S) mkdir -p "$4" && echo "CMAKE_HOME_DIRECTORY:INTERNAL=$2" >"$4/CMakeCache.txt" ;;
    --build)
        for object in 1 2 3; do
            [ -e "$2/$object.o" ] && continue
            step "$object"
            echo "compile $object" | tee -a "$CALLS" >"$2/$object.o"
        done ;;
    --install)
        mkdir -p "$4/lib" "$4/include"
        step install
        [ "$FAIL" = empty ] || cp "$LIBRARY" "$4/lib/libdnnl.so.3" ;;
esac
"""
APT = """#!/bin/bash
echo "apt-get $*" >>"$CALLS"
case "$*" in
    indextargets*) printf 'http://mirror.test/debian/\\nhttp://other.test/debian/\\n' ;;
    *--print-uris) echo "'http://mirror.test/x' onednn_3.9.tar.xz.asc 1 SHA256:0"
                   echo "'http://mirror.test/y' onednn_3.9+ds.orig.tar.xz 1 SHA256:0" ;;
    *--download-only) cp "$TARBALL" onednn_3.9+ds.orig.tar.xz ;;
esac
"""


class Machine:
    """A home folder, fake tools, and a record of the tools' calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "bin"
        self.cache = folder / "cache" / "onednn_py"
        self.prefix = folder / "data" / "onednn_py" / "onednn"
        self.library = folder / "library"
        self.library.write_text("first\n")
        self.calls = folder / "calls"
        self.calls.touch()
        self.tools.mkdir()
        self.tool("cmake", CMAKE)
        for name in ("cc", "c++", "ninja"):
            self.tool(name, "#!/bin/bash\nexit 1\n")
        self.environment = {
            "PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_DATA_HOME": str(folder / "data"),
            "PYTHON": "/nowhere/python",
            "CALLS": str(self.calls),
            "LIBRARY": str(self.library),
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }

    def tool(self, name: str, text: str) -> None:
        path = self.tools / name
        path.write_text(text)
        path.chmod(0o755)

    def sources(self, version: str = "3.13.1", name: str = "oneDNN") -> Path:
        folder = self.folder / name
        (folder / "include/oneapi/dnnl").mkdir(parents=True)
        (folder / "include/oneapi/dnnl/dnnl.h").touch()
        (folder / "CMakeLists.txt").write_text(f'set(PROJECT_VERSION "{version}")\n')
        return folder

    def tarball(self, version: str, name: str) -> Path:
        source = self.sources(version, f"for-{name}-{version}")
        path = self.folder / name
        subprocess.run(["tar", "-caf", path, "-C", source.parent, source.name], check=True)
        return path

    @contextmanager
    def started(self, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Start the script in a process group of its own, which is killed after the block."""
        with subprocess.Popen(
            [str(BASH), str(SCRIPT), *arguments],
            env={**self.environment, **environment},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Background processes of a shell inherit SIGINT as ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def build(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        with self.started(*arguments, **environment) as process:
            stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, stdout, stderr)

    def installed(self) -> str:
        """Return the content of the installed library; fail if temporary folders are left."""
        assert [path.name for path in self.prefix.parent.iterdir()] == ["onednn"]
        return (self.prefix / "lib" / "libdnnl.so.3").read_text()

    def compiled(self) -> list[str]:
        """Return the objects compiled since the last call of this method, in order."""
        lines = self.calls.read_text().splitlines()
        self.calls.write_text("")
        return [line.split()[1] for line in lines if line.startswith("compile")]

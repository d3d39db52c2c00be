"""An Open vSwitch of our own: database server and switch daemon as children of this process.

Only inside a private world. Which datapath: the kernel's where the module is there, else userspace.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType

from echelonflow.errors import InputError, RunError
from testbed import processes, world

DATAPATHS = ("auto", "kernel", "userspace")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
RUN_DIR = "openvswitch"
"""Name of its folder, in a run's: a memory file system is mounted there, in the private world alone."""
START_LIMIT_S = 30.0
END_LIMIT_S = 3.0
SWITCH_NICENESS = -10
"""Of the switch daemon, as its own start script has it: all packets pass through its one thread.

Not real-time priority: it halves the time to a decision, but a link then failed calibration by a fifth. That was with a single
connection, which may fail so without it too; with several it has not been tried again.
"""
_LOG_LEVELS = ("-vconsole:off", "-vsyslog:off", "-vfile:info")


def kernel_datapath_there() -> bool:
    """Whether the kernel has Open vSwitch's datapath; tries to load the module, as Open vSwitch itself would."""
    if Path("/sys/module/openvswitch").exists():
        return True
    if shutil.which("modprobe") is None:
        return False
    loaded = subprocess.run(["modprobe", "openvswitch"], capture_output=True, check=False)
    return loaded.returncode == 0 and Path("/sys/module/openvswitch").exists()


def version() -> str:
    """Version of the installed ovs-vswitchd, such as "3.1.0"; "unknown" where it does not say."""
    shown = subprocess.run(["ovs-vswitchd", "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\d+\.\d+(\.\d+)?", shown)
    return match[0] if match else "unknown"


class PrivateOpenVSwitch:
    """Open vSwitch with its run directory and database in a memory file system below `run_dir`, logs in `log_dir`.

    `tso`: whether packets cross the switch as super-segments (segmentation offload); None takes the
    measured default, on for both datapaths. While it is entered, OVS_RUNDIR in this process's environment leads
    ovs-vsctl and Mininet to it. Attributes: `datapath` ("kernel" or "userspace"), `tso`, `version`, `vswitchd_pid`.
    Raises InputError for a datapath that this machine does not have, RunError where a daemon does not start.
    """

    def __init__(self, run_dir: Path, log_dir: Path, datapath: str = "auto", tso: bool | None = None) -> None:
        if datapath not in DATAPATHS:
            raise InputError(f"unknown datapath {datapath!r}; known are {', '.join(DATAPATHS)}")
        if datapath == "kernel" and not kernel_datapath_there():
            raise InputError("this kernel has no Open vSwitch module; use the userspace datapath, or `auto`")
        if datapath == "auto":
            datapath = "kernel" if kernel_datapath_there() else "userspace"
        self.datapath = datapath
        self.tso = True if tso is None else tso
        self.version = version()
        self.run_dir = run_dir.resolve() / RUN_DIR
        self.log_dir = log_dir.resolve()
        self._stack = contextlib.ExitStack()
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def vswitchd_pid(self) -> int:
        return self._daemons["ovs-vswitchd"].pid

    def alive(self) -> bool:
        """Whether both daemons run."""
        return bool(self._daemons) and all(daemon.poll() is None for daemon in self._daemons.values())

    def vsctl(self, *arguments: str, wait: bool = True) -> str:
        """Output of ovs-vsctl; RunError where it fails or takes longer than ten seconds."""
        how = [f"--timeout={START_LIMIT_S:.0f}"] if wait else [f"--timeout={START_LIMIT_S:.0f}", "--no-wait"]
        done = subprocess.run(["ovs-vsctl", *how, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunError(f"ovs-vsctl {' '.join(arguments[:4])} ... failed: {done.stderr.strip()[-1000:]}")
        return done.stdout

    def __enter__(self) -> PrivateOpenVSwitch:
        world.require_inside()
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def _start(self) -> None:
        self._stack.callback(self._daemons.clear)
        self._make_run_dir()
        self._set_environment()
        database = self.run_dir / "conf.db"
        subprocess.run(["ovsdb-tool", "create", str(database), str(SCHEMA)], check=True, capture_output=True)
        self._start_daemon("ovsdb-server", str(database), f"--remote=punix:{self.run_dir}/db.sock")
        self._wait("ovsdb-server", self.run_dir / "db.sock")
        self.vsctl("init", wait=False)
        settings = [f"other_config:userspace-tso-enable={str(self.datapath == 'userspace' and self.tso).lower()}"]
        self.vsctl("set", "Open_vSwitch", ".", *settings, wait=False)
        self._start_daemon("ovs-vswitchd", f"unix:{self.run_dir}/db.sock")
        os.setpriority(os.PRIO_PROCESS, self.vswitchd_pid, SWITCH_NICENESS)
        self._wait("ovs-vswitchd", self.run_dir / f"ovs-vswitchd.{self.vswitchd_pid}.ctl")

    def _make_run_dir(self) -> None:
        self.run_dir.mkdir(
            parents=True, exist_ok=True
        )  # one of a world that was killed is empty: the mount went with it
        self._stack.callback(self.run_dir.rmdir)
        # In memory: sockets need no disk, and the database would wait for one at every change.
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(self.run_dir)], check=True)
        self._stack.callback(subprocess.run, ["umount", "--lazy", str(self.run_dir)], check=True)

    def _set_environment(self) -> None:
        before = os.environ.get("OVS_RUNDIR")
        os.environ["OVS_RUNDIR"] = str(self.run_dir)

        def restore() -> None:
            if before is None:
                os.environ.pop("OVS_RUNDIR", None)
            else:
                os.environ["OVS_RUNDIR"] = before

        self._stack.callback(restore)

    def _start_daemon(self, name: str, *arguments: str) -> None:
        log = self.log_dir / f"{name}.log"
        # It opens its log itself; what it says before that goes to the same place.
        with log.open("ab") as early:
            daemon = subprocess.Popen(
                [name, *arguments, f"--pidfile={self.run_dir}/{name}.pid", f"--log-file={log}", *_LOG_LEVELS],
                stdin=subprocess.DEVNULL,
                stdout=early,
                stderr=early,
            )
        self._daemons[name] = daemon
        self._stack.callback(processes.end, daemon, END_LIMIT_S)

    def _wait(self, name: str, socket_path: Path) -> None:
        deadline_s = time.monotonic() + START_LIMIT_S
        while not socket_path.exists():
            if self._daemons[name].poll() is not None or time.monotonic() > deadline_s:
                raise RunError(f"{name} did not start; see {self.log_dir / name}.log")
            time.sleep(0.005)
